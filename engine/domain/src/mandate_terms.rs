//! What a mandate states about an agent now, and how a signed one differs from that.

use alloy_primitives::Address;
use bursar_core::codes::Code;
use bursar_core::ids::Name;
use bursar_core::money::Usd;
use bursar_core::networks::{self, ChainId};
use bursar_mandate::{LIMIT_MAX, Limits};

use crate::agents::{Agent, PolicyRecord};
use crate::mandates::SignedMandate;
use crate::refusal::Refusal;
use crate::state::State;

/// The part of a mandate's terms that follows from the agent's policy and address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentTerms {
    pub policy: Name,
    pub serial: u64,
    pub limits: Limits,
    pub networks: Vec<ChainId>,
    pub wallet: Address,
}

impl PresentTerms {
    /// Returns what a mandate for this agent states now.
    ///
    /// A disabled network is not listed. A policy without payments has limits of zero.
    ///
    /// # Errors
    /// `AGENT_NOT_COMMISSIONED` without a policy and an address; `BAD_INPUT` if no network is left, or if a limit is
    /// larger than a mandate can state.
    pub fn of(state: &State, agent: &Agent) -> Result<Self, Refusal> {
        let (record, wallet) =
            assignment(state, agent).ok_or(Refusal::new(Code::AgentNotCommissioned))?;
        let networks = allowed_networks(state, record);
        if networks.is_empty() {
            return Err(Refusal::because(
                Code::BadInput,
                "Its policy allows no network that is enabled: enable one, or change the policy.",
            ));
        }
        let limits = limits(record, &networks);
        if [limits.daily, limits.per_request, limits.auto_below].iter().any(|one| one.0 > LIMIT_MAX)
        {
            return Err(Refusal::because(
                Code::BadInput,
                "A mandate states at most 1000000000 USD: lower the limits of its policy.",
            ));
        }
        Ok(Self { policy: record.name.clone(), serial: record.serial, limits, networks, wallet })
    }
}

/// Returns why the terms of a signed mandate no longer hold for its agent; empty if they do.
///
/// The first four sentences are the original wallet's.
pub fn stale_reasons(state: &State, signed: &SignedMandate) -> Vec<&'static str> {
    let issued = &signed.issued;
    let terms = &issued.draft.terms;
    let Some(agent) = state.agents.get(&terms.agent) else { return vec!["Agent was deleted"] };
    let Some((record, wallet)) = assignment(state, agent) else {
        return vec!["Agent has no policy"];
    };
    let networks = allowed_networks(state, record);
    let now = limits(record, &networks);
    let same_policy = record.name.key() == issued.policy.key();
    let mut reasons = Vec::new();
    let mut note = |differs: bool, reason| {
        if differs {
            reasons.push(reason);
        }
    };
    note(!same_policy, "Agent was assigned a different policy");
    note(now.daily != terms.limits.daily, "Daily limit changed");
    note(now.per_request != terms.limits.per_request, "Per-request maximum changed");
    note(now.auto_below != terms.limits.auto_below, "Auto-approve threshold changed");
    note(networks != terms.networks, "Allowed networks changed");
    note(wallet != terms.wallet, "Paying address changed");
    note(agent.credential != issued.credential, "Agent credentials changed");
    // The id of the policy's version is a signed term, even if the limits are the same.
    if reasons.is_empty() && record.serial != issued.serial {
        reasons.push("Policy changed");
    }
    reasons
}

/// Returns the agent's policy and paying address.
fn assignment<'a>(state: &'a State, agent: &Agent) -> Option<(&'a PolicyRecord, Address)> {
    let given = agent.commission.as_ref()?;
    let record = state.policy(&given.policy)?;
    let address = state.wallet.as_ref()?.address(&given.label)?;
    Some((record, address.address))
}

/// Returns the enabled networks that a policy allows, in ascending order.
fn allowed_networks(state: &State, record: &PolicyRecord) -> Vec<ChainId> {
    let known = state.edition.networks.keys().copied();
    let allowed = known
        .filter(|chain| state.is_network_enabled(*chain) && record.policy.networks.allows(*chain));
    allowed.collect()
}

/// Returns the limits of a policy. The currency is the symbol that all networks share, else `USD`.
fn limits(record: &PolicyRecord, networks: &[ChainId]) -> Limits {
    let mut symbols = networks.iter().filter_map(|chain| networks::by_chain(*chain));
    let first = symbols.next().map(|row| row.stablecoin.symbol);
    let shared = first.filter(|first| symbols.all(|row| row.stablecoin.symbol == *first));
    let payments = &record.policy.payments;
    let stated = |limit: Usd| if payments.enabled { limit } else { Usd::ZERO };
    Limits {
        currency: shared.unwrap_or("USD").to_owned(),
        daily: stated(payments.daily),
        per_request: stated(payments.per_request),
        auto_below: stated(payments.auto_below),
    }
}
