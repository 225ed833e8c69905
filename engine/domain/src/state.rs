//! The live state: agents, policies, held requests and authorizations that can still be redeemed. Finished requests
//! are only in the journal's records. Sections are shared behind `Arc`, so publishing a view copies pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_core::card::ByLane;
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::policy::Policy;
use bursar_core::settings::Settings;
use bursar_core::status::AgentStatus;
use bursar_core::time::{LocalDay, Moment, Utc};
use bursar_submit::OutboxKey;
use serde::{Deserialize, Serialize};

use crate::agents::{Agent, PolicyRecord};
use crate::assess::trading::Commitments;
use crate::loans::Loans;
use crate::mandates::Mandates;
use crate::outboxes::Outboxes;
use crate::payee::Payee;
use crate::plan::Quote;
use crate::requests::{LaneAsk, Request};
use crate::settlement::Settlement;
use crate::unattended::UnattendedSpending;
use crate::wallets::{Backing, Wallet};

/// Number of lapsed authorizations that justify an entry while no other entry is written. An entry takes a few hundred
/// bytes on disk, an authorization a few thousand in memory.
const LAPSED_PER_ENTRY: usize = 16;

/// The live state of the wallet: the replay of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    /// The newest journal entry that this state contains.
    pub seq: u64,
    /// The latest time of any entry, which never moves back.
    pub clock: Utc,
    pub wallet: Option<Arc<Wallet>>,
    /// Keyed by [`Name::key`].
    pub policies: Arc<BTreeMap<String, Arc<PolicyRecord>>>,
    /// The serial number of the newest version of a policy.
    pub policy_serial: u64,
    pub agents: Arc<BTreeMap<AgentId, Arc<Agent>>>,
    /// Ids of deleted agents.
    ///
    /// They are never assigned again, because the history under an id belongs to its agent.
    pub retired: Arc<BTreeSet<AgentId>>,
    /// Networks that the operator enabled or disabled.
    ///
    /// All others keep the edition's default.
    pub networks: Arc<BTreeMap<ChainId, bool>>,
    /// The rules of the running program's edition, which a snapshot does not contain.
    #[serde(skip)]
    pub edition: Arc<EditionRules>,
    /// The edition that the journal names.
    pub journal_edition: EditionName,
    pub frozen: Option<Utc>,
    /// Number of wrong passwords since the last recorded unlock.
    ///
    /// An unlock with an untrusted journal is not recorded.
    pub passwords_refused: u32,
    /// The newest journal entry that the wallet file is known to name.
    ///
    /// A wallet file that names an older entry is an older copy.
    pub noted_entry: u64,
    /// When the journal was restored from a backup, or recovered from a wallet file.
    ///
    /// Requests signed before that moment are refused, because the journal may have lost their records.
    pub restored: Option<Utc>,
    pub settings: Arc<Settings>,
    /// Requests held for the operator.
    pub held: Arc<BTreeMap<RequestId, Arc<Request>>>,
    /// Allowed requests whose plan is not over.
    pub executing: Arc<BTreeMap<RequestId, Arc<Request>>>,
    /// Authorizations that can still be redeemed.
    pub authorized: BTreeMap<RequestId, Arc<Request>>,
    /// When each authorization lapses: see [`Request::lapses_at`].
    pub lapses: BTreeSet<(u64, RequestId)>,
    /// Settlements with a pending chain lookup.
    pub settling: Arc<BTreeMap<RequestId, Arc<Settlement>>>,
    /// Outboxes, their transactions, and the operator's sends.
    pub outboxes: Arc<Outboxes>,
    /// The amounts that our own transactions have lent, and the records of venues.
    pub loans: Arc<Loans>,
    /// Whether a person has opened the wallet, and the amount that agents spent while no person had.
    pub unattended: UnattendedSpending,
    /// Allowed payments that wait for a signature of their device.
    pub waiting: Arc<BTreeMap<RequestId, Arc<Request>>>,
    /// Ended requests whose terms a device may have signed, in their status before the end.
    ///
    /// Their value stays reserved until the terms lapse.
    pub unanswered: Arc<BTreeMap<RequestId, Arc<Request>>>,
    /// The operator's labels of payees.
    pub payee_names: Arc<BTreeMap<Payee, PayeeLabel>>,
    /// The mandates of the agents.
    pub mandates: Arc<Mandates>,
}

impl State {
    /// Creates the empty state of an edition.
    pub fn new(edition: Arc<EditionRules>) -> Self {
        Self { edition, ..Self::default() }
    }

    /// Returns the copy to publish.
    ///
    /// It lacks the authorizations, which only the core needs. Only pointers are copied, so the cost does not depend
    /// on the size of the state.
    pub fn copy_to_publish(&self) -> Self {
        Self {
            seq: self.seq,
            clock: self.clock,
            wallet: self.wallet.clone(),
            policies: Arc::clone(&self.policies),
            policy_serial: self.policy_serial,
            agents: Arc::clone(&self.agents),
            retired: Arc::clone(&self.retired),
            networks: Arc::clone(&self.networks),
            edition: Arc::clone(&self.edition),
            journal_edition: self.journal_edition,
            frozen: self.frozen,
            passwords_refused: self.passwords_refused,
            noted_entry: self.noted_entry,
            restored: self.restored,
            settings: Arc::clone(&self.settings),
            held: Arc::clone(&self.held),
            executing: Arc::clone(&self.executing),
            authorized: BTreeMap::new(),
            lapses: BTreeSet::new(),
            settling: Arc::clone(&self.settling),
            outboxes: Arc::clone(&self.outboxes),
            loans: Arc::clone(&self.loans),
            unattended: self.unattended.clone(),
            waiting: Arc::clone(&self.waiting),
            unanswered: Arc::clone(&self.unanswered),
            payee_names: Arc::clone(&self.payee_names),
            mandates: Arc::clone(&self.mandates),
        }
    }

    /// Returns whether the key of an address is in a hardware device.
    pub fn is_on_device(&self, address: Address) -> bool {
        let own = self.wallet.iter().flat_map(|wallet| wallet.addresses.values());
        let mut same = own.filter(|known| known.address == address);
        same.any(|known| matches!(known.backing, Backing::Device { .. }))
    }

    /// Returns the payments whose wait for a device is not over.
    pub fn waiting_at(&self, moment: &Moment) -> impl Iterator<Item = &Arc<Request>> {
        self.waiting.values().filter(|request| !request.is_wait_over(moment))
    }

    /// Returns the payments that reserve value for a device: they wait for it, or it may have signed their terms.
    pub fn reserved_for_device(&self) -> impl Iterator<Item = &Arc<Request>> {
        self.waiting.values().chain(self.unanswered.values())
    }

    /// Returns the ended payments whose terms a device may have signed, but that can no longer be redeemed.
    pub fn lapsed_at(&self, moment: &Moment) -> impl Iterator<Item = &Arc<Request>> {
        let journal_s = self.journal_second(moment);
        self.unanswered.values().filter(move |request| request.has_lapsed(moment, journal_s))
    }

    /// Returns the Unix second at which enough authorizations have lapsed to justify an entry.
    ///
    /// Every entry removes the lapsed authorizations from the state.
    pub fn burst_lapses_at(&self) -> Option<u64> {
        let last = self.lapses.iter().nth(LAPSED_PER_ENTRY.saturating_sub(1));
        last.map(|(lapses_at, _id)| *lapses_at)
    }

    /// Returns whether an ended payment can still be redeemed, because a device may have signed its terms.
    pub(crate) fn may_be_redeemed(&self, id: &RequestId, moment: &Moment) -> bool {
        let journal_s = self.journal_second(moment);
        self.unanswered.get(id).is_some_and(|request| !request.has_lapsed(moment, journal_s))
    }

    /// Returns the journal time of an entry that is written now, as a Unix second.
    fn journal_second(&self, moment: &Moment) -> u64 {
        u64::try_from(moment.utc.max(self.clock).seconds()).unwrap_or(0)
    }

    /// Returns whether a network is enabled, for payments and for sends.
    pub fn is_network_enabled(&self, chain: ChainId) -> bool {
        self.edition.knows(chain)
            && self.networks.get(&chain).copied().unwrap_or_else(|| self.edition.enables(chain))
    }

    /// Returns the policy with this name, ignoring case.
    pub fn policy(&self, name: &Name) -> Option<&Arc<PolicyRecord>> {
        self.policies.get(&name.key())
    }

    /// Returns the agent with this id or, failing that, this name.
    pub fn find_agent(&self, text: &Name) -> Option<&Arc<Agent>> {
        let by_code = text.as_str().parse().ok().and_then(|id: AgentId| self.agents.get(&id));
        by_code.or_else(|| self.agents.values().find(|agent| agent.name.key() == text.key()))
    }

    /// Returns the policy that applies to an agent.
    pub fn policy_of(&self, agent: &Agent) -> Option<&Policy> {
        let commission = agent.commission.as_ref()?;
        self.policy(&commission.policy).map(|record| &record.policy)
    }

    /// Returns the amount that an agent has spent of the allowance in force, by lane.
    pub fn spent(&self, agent: &Agent, moment: &Moment) -> ByLane<Usd> {
        let commission = agent.commission.as_ref();
        commission.map_or(ByLane::default(), |given| given.window.spent_at(moment))
    }

    /// Returns the earliest start of an agent's next allowance: see [`crate::allowance::WindowStart::renews_after`].
    ///
    /// `None` if the allowance does not renew, or if the agent has no commission.
    pub fn renews_after(&self, agent: &Agent, moment: &Moment) -> Option<(Utc, LocalDay)> {
        agent.commission.as_ref()?.window.start.renews_after(moment)
    }

    /// Returns the reason why [`State::renews_after`] cannot give the time of an agent's renewal.
    pub fn renewal_doubt(&self, agent: &Agent) -> &'static str {
        match agent.commission {
            None => "the agent has no policy, so it has no allowance",
            Some(_) => {
                "the clock is in doubt, so today's allowance is held back until the operator grants it (agent renew)"
            }
        }
    }

    /// Returns the amounts that may still leave an address.
    ///
    /// The sum contains open transactions (native coin), open sends (tokens), payments that may be redeemed, and
    /// running plans. With `before`, only plans that started before that journal entry count. On overflow, an amount
    /// is `U256::MAX`.
    pub fn commitments(
        &self,
        from: Address,
        chain: ChainId,
        token: Option<Address>,
        moment: &Moment,
        before: Option<u64>,
    ) -> Commitments {
        let now = self.journal_second(moment);
        let key = OutboxKey { chain, signer: from };
        let in_flight = |token| self.outboxes.in_flight(&key, token).unwrap_or(U256::MAX);
        // Lapsed payments leave the state only with the next entry.
        let signed = self.authorized.values().filter(|request| {
            request.from == from && request.lapses_at().is_some_and(|lapses_at| lapses_at > now)
        });
        let by_device = self.reserved_for_device().filter(|request| request.from == from);
        let payments = signed.chain(by_device).filter_map(|request| request.ask.payment());
        let payments =
            payments.filter(|payment| payment.chain == chain && Some(payment.asset) == token);
        let token_in =
            payments.fold(in_flight(token), |sum, payment| sum.saturating_add(payment.amount.0));
        let mut promised = Commitments { native: in_flight(None), token_in };
        let running = self
            .executing
            .values()
            .filter(|request| request.from == from && request.ask.chain() == chain);
        let running = running.filter_map(|one| Some((&one.ask, one.execution()?)));
        let counts = |started| before.is_none_or(|before| started < before);
        for (ask, execution) in running.filter(|(_, one)| counts(one.started)) {
            let awaits_main = execution.end.is_none() && execution.main_step().is_none();
            let takes_input = execution.end.is_none()
                && execution.main_step().is_none_or(|step| step.outcome.is_none());
            if takes_input && token.is_some() && ask.token_in() == token {
                let amount = match (ask, &execution.quote) {
                    (LaneAsk::Trade(trade), _) => trade.amount_in.0,
                    (LaneAsk::Loan(loan), Quote::Loan(quote)) => loan.max_amount(quote).0,
                    (LaneAsk::Payment(_) | LaneAsk::Loan(_), _) => U256::ZERO,
                };
                promised.token_in = promised.token_in.saturating_add(amount);
            }
            // The outbox already counts the cost of a main transaction that is open.
            if awaits_main {
                let value = match ask {
                    LaneAsk::Trade(trade) if trade.token_in.address.is_none() => trade.amount_in.0,
                    LaneAsk::Payment(_) | LaneAsk::Trade(_) | LaneAsk::Loan(_) => U256::ZERO,
                };
                let cost = execution.quote.plan_cost().saturating_add(value);
                promised.native = promised.native.saturating_add(cost);
            }
        }
        promised
    }

    /// Returns an agent's status at a moment.
    pub fn status(&self, agent: &Agent, moment: &Moment) -> AgentStatus {
        agent.status(self.policy_of(agent), self.spent(agent, moment).payment)
    }
}
