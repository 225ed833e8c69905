//! Everything that is open: who exists, what they may do, what waits and what may still be redeemed.
//! What is over lives in the journal's indexes. Sections are shared behind `Arc`, so that publishing a
//! view copies pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::money::Usd;
use bursar_core::networks::{ChainId, NETWORKS};
use bursar_core::policy::Policy;
use bursar_core::settings::Settings;
use bursar_core::time::{LocalDay, Moment, Utc};
use serde::{Deserialize, Serialize};

use crate::agents::{Agent, AgentStatus, PolicyRecord};
use crate::desks::Desks;
use crate::requests::Request;
use crate::settlement::Settlement;
use crate::wallets::Wallet;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// The newest entry of the journal that this state contains.
    pub seq: u64,
    /// The latest time an entry carries; only ever moves forward.
    pub clock: Utc,
    pub wallet: Option<Arc<Wallet>>,
    /// By the key of the name.
    pub policies: Arc<BTreeMap<String, Arc<PolicyRecord>>>,
    pub policy_versions: u64,
    pub agents: Arc<BTreeMap<AgentId, Arc<Agent>>>,
    /// Codes of agents that were deleted: their history is theirs, so nobody else gets them.
    pub retired: Arc<BTreeSet<AgentId>>,
    /// What the operator said of networks; the others stand as the edition has them.
    pub networks: Arc<BTreeMap<ChainId, bool>>,
    /// Networks that the edition has on.
    pub networks_on: Arc<BTreeSet<ChainId>>,
    pub frozen: Option<Utc>,
    /// Wrong passwords since the wallet was opened last.
    pub passwords_refused: u32,
    /// The newest entry that the wallet file is known to name: a file that names an older one is an older file.
    pub wallet_noted: u64,
    /// When the journal was restored from a backup: requests that were signed until then are refused, because it may
    /// have lost them.
    pub restored: Option<Utc>,
    pub settings: Arc<Settings>,
    /// Requests that wait for the operator.
    pub held: Arc<BTreeMap<RequestId, Arc<Request>>>,
    /// Authorizations that may still be redeemed.
    pub authorized: BTreeMap<RequestId, Arc<Request>>,
    /// When each of them ends, in seconds since 1970.
    pub lapses: BTreeSet<(u64, RequestId)>,
    /// Settlements that are to be looked up on the chain.
    pub settling: Arc<BTreeMap<RequestId, Arc<Settlement>>>,
    /// Transactions on their way.
    pub desks: Arc<Desks>,
}

impl State {
    /// The empty state of an edition.
    pub fn new(networks_on: impl IntoIterator<Item = ChainId>) -> Self {
        Self { networks_on: Arc::new(networks_on.into_iter().collect()), ..Self::default() }
    }

    /// The networks that the full edition has on.
    pub fn default_networks() -> impl Iterator<Item = ChainId> {
        NETWORKS.iter().filter(|row| row.on_by_default).map(|row| row.chain)
    }

    /// A copy of what is published: everything but the authorizations, which only the core needs. Copies
    /// pointers, whatever the sizes.
    pub fn published(&self) -> Self {
        Self {
            seq: self.seq,
            clock: self.clock,
            wallet: self.wallet.clone(),
            policies: Arc::clone(&self.policies),
            policy_versions: self.policy_versions,
            agents: Arc::clone(&self.agents),
            retired: Arc::clone(&self.retired),
            networks: Arc::clone(&self.networks),
            networks_on: Arc::clone(&self.networks_on),
            frozen: self.frozen,
            passwords_refused: self.passwords_refused,
            wallet_noted: self.wallet_noted,
            restored: self.restored,
            settings: Arc::clone(&self.settings),
            held: Arc::clone(&self.held),
            authorized: BTreeMap::new(),
            lapses: BTreeSet::new(),
            settling: Arc::clone(&self.settling),
            desks: Arc::clone(&self.desks),
        }
    }

    pub fn network_enabled(&self, chain: ChainId) -> bool {
        self.networks.get(&chain).copied().unwrap_or_else(|| self.networks_on.contains(&chain))
    }

    pub fn policy(&self, name: &Name) -> Option<&Arc<PolicyRecord>> {
        self.policies.get(&name.key())
    }

    /// By code or by name.
    pub fn find_agent(&self, text: &Name) -> Option<&Arc<Agent>> {
        let by_code = text.as_str().parse().ok().and_then(|id: AgentId| self.agents.get(&id));
        by_code.or_else(|| self.agents.values().find(|agent| agent.name.key() == text.key()))
    }

    pub fn policy_of(&self, agent: &Agent) -> Option<&Policy> {
        let commission = agent.commission.as_ref()?;
        self.policy(&commission.policy).map(|record| &record.policy)
    }

    /// What an agent has spent of the allowance in force.
    pub fn spent(&self, agent: &Agent, moment: &Moment) -> Usd {
        agent.commission.as_ref().map_or(Usd::ZERO, |c| c.payments.spent_at(moment))
    }

    /// When an agent's next allowance begins, as [`crate::allowance::WindowStart::renews_after`] has it; `None` also without a commission.
    pub fn renews_after(&self, agent: &Agent, moment: &Moment) -> Option<(Utc, LocalDay)> {
        agent.commission.as_ref()?.payments.start.renews_after(moment)
    }

    pub fn status(&self, agent: &Agent, moment: &Moment) -> AgentStatus {
        agent.status(self.policy_of(agent), self.spent(agent, moment))
    }
}
