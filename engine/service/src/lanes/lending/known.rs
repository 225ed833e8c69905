//! The journal's data that a measurement needs: which positions to read, and which venues the operator confirmed.

use alloy_primitives::Address;
use bursar_core::networks::{self, ChainId};
use bursar_core::policy::Policy;
use bursar_domain::loans::Confirmation;
use bursar_domain::{Request, State};
use bursar_morpho::VenueId;

/// The journal's data about an address's loans.
#[derive(Debug, Clone, Default)]
pub struct KnownVenues {
    /// The sequence number of the state's newest journal entry.
    pub(super) as_of_entry: u64,
    /// The networks on which the agent may lend.
    pub(super) chains: Vec<ChainId>,
    /// The venues that the address used on these networks.
    pub(super) used_venues: Vec<(ChainId, VenueId)>,
    /// The venues that the operator confirmed.
    pub(super) confirmations: Vec<(ChainId, VenueId, Confirmation)>,
}

impl KnownVenues {
    /// Collects from a state the data for an address whose agent has this policy.
    pub fn new(state: &State, policy: &Policy, owner: Address) -> Self {
        let lends = networks::NETWORKS.iter().filter(|network| network.lending.is_some());
        let chains: Vec<ChainId> = lends
            .map(|network| network.chain)
            .filter(|chain| state.is_network_enabled(*chain) && policy.networks.allows(*chain))
            .collect();
        let is_read = |chain| chains.contains(&chain);
        let used = state.loans.used_by(owner, is_read);
        let used = used.map(|(place, _lent)| (place.chain, place.venue)).collect();
        let confirmed = state
            .loans
            .venues
            .iter()
            .filter_map(|((chain, venue), record)| Some((*chain, *venue, record.confirmed?)));
        Self {
            as_of_entry: state.seq,
            used_venues: used,
            confirmations: confirmed.collect(),
            chains,
        }
    }

    /// Collects from a state the data for the operator's view of an address, regardless of policies.
    pub fn of_wallet(state: &State, owner: Address) -> Self {
        let used = state.loans.used_by(owner, |_any| true);
        let used = used.map(|(place, _lent)| (place.chain, place.venue)).collect();
        Self { as_of_entry: state.seq, used_venues: used, ..Self::default() }
    }

    /// Collects from a state the data for an operator's withdrawal, which does not depend on the exposure.
    pub(super) fn of_operator(state: &State) -> Self {
        Self { as_of_entry: state.seq, ..Self::default() }
    }

    /// Collects from the state the data for the plan of a request.
    ///
    /// If the request's agent no longer exists, the result allows no lending.
    pub fn of(state: &State, request: &Request) -> Self {
        let agent = state.agents.get(&request.agent);
        let policy = agent.and_then(|agent| state.policy_of(agent));
        policy.map_or_else(Self::default, |policy| Self::new(state, policy, request.from))
    }
}
