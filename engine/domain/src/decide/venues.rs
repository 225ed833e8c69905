//! The operator's decisions about venues and losses.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_morpho::VenueId;

use crate::command::{Command, VenueTrust};
use crate::decision::{Decision, require_sealed, require_unlocked};
use crate::event::Event;
use crate::loans::LoanPlace;
use crate::outboxes::SendRecord;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

/// Records that the operator trusts a venue as it is now. This loosens a rule, so the wallet must be unlocked.
pub(super) fn trust(
    state: &State,
    command: &Command,
    given: &VenueTrust,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let VenueTrust { chain, venue, curator, owner } = *given;
    let record = state.loans.venue(chain, venue).and_then(|record| record.confirmed);
    let same = record.is_some_and(|known| known.curator == curator && known.owner == owner);
    let event = Event::VenueTrusted { chain, venue, curator, owner };
    Ok(Decision::done(if same { Vec::new() } else { vec![event] }))
}

/// Withdraws the operator's trust in a venue.
///
/// # Errors
/// `NOTHING_FOUND` if the operator did not trust it.
pub(super) fn untrust(state: &State, chain: ChainId, venue: VenueId) -> Result<Decision, Refusal> {
    let known = state.loans.venue(chain, venue).is_some_and(|record| record.confirmed.is_some());
    if !known {
        let message = "You have not confirmed this venue: see `venues`.";
        return Err(Refusal::because(Code::NothingFound, message));
    }
    Ok(Decision::done(vec![Event::VenueUntrusted { chain, venue }]))
}

/// Books the amount that a withdrawal of the operator returned, once.
///
/// # Errors
/// The wallet is locked or its journal untrusted: no seal would cover the entry.
pub(super) fn book(
    state: &State,
    command: &Command,
    id: RequestId,
    received: Option<Atoms>,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let is_due = state.outboxes.sends.get(&id).is_some_and(|record| record.unbooked_tx().is_some());
    let event = Event::WithdrawalBooked { id, received };
    Ok(Decision::done(if is_due { vec![event] } else { Vec::new() }))
}

/// Writes off a loss: the journal now expects no more than `to` in the venue.
///
/// This loosens a rule, so the wallet must be unlocked.
///
/// # Errors
/// `NOTHING_FOUND` if the journal expects no more than `to` already. `BUSY` while a loan at this place is in flight,
/// because its receipt would count the same change again.
pub(super) fn write_off(
    state: &State,
    command: &Command,
    place: &LoanPlace,
    to: Usd,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let is_here = |request: &Request| {
        let loan =
            request.loan().filter(|_any| request.execution().is_some_and(|one| one.end.is_none()));
        loan.is_some_and(|loan| loan.place(request.from) == *place)
    };
    // A withdrawal of the operator is also in flight until it is booked.
    let is_sent = |record: &SendRecord| {
        let send = &record.send;
        let due = record.ended.is_none() || record.unbooked_tx().is_some();
        let here = send.withdrawn_from().map(|venue| LoanPlace {
            owner: send.from,
            chain: send.chain,
            venue,
        });
        due && here == Some(*place)
    };
    if state.executing.values().any(|request| is_here(request))
        || state.outboxes.sends.values().any(|record| is_sent(record))
    {
        let message = "A loan at this venue is being executed: wait for its end.";
        return Err(Refusal::because(Code::Busy, message));
    }
    let from = state.loans.lent.get(place).map_or(Usd::ZERO, |lent| lent.net);
    if from <= to {
        let message = "There is no loss in this position: see `positions`.";
        return Err(Refusal::because(Code::NothingFound, message));
    }
    Ok(Decision::done(vec![Event::LoanWrittenOff { place: *place, from, to }]))
}
