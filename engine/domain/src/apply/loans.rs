//! Records the measurements of venues and the amounts that count as lent.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Round, Usd};
use bursar_core::networks::ChainId;
use bursar_morpho::VenueId;
use bursar_morpho::worth::loss_max;

use crate::loans::LoanPlace;
use crate::plan::{ExecutionEnd, Quote};
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Removes the operator's trust in a venue.
pub(super) fn untrust(state: &mut State, chain: ChainId, venue: VenueId) {
    Arc::make_mut(&mut state.loans).confirm(chain, venue, None);
}

/// Records the measurement of a loan that was allowed or is being executed.
pub(super) fn record_quote(state: &mut State, ask: &LaneAsk, quote: &Quote) {
    if let (LaneAsk::Loan(loan), Quote::Loan(quote)) = (ask, quote) {
        let loans = Arc::make_mut(&mut state.loans);
        loans.note_quote(loan, quote);
        loans.note_use(loan);
    }
}

/// Reduces the amount lent by the assets that a withdrawal returned or that a purchase of shares did not take.
///
/// `end` comes from a node, so the reduction is bounded. A withdrawal frees at most the quoted assets. A purchase of
/// shares frees at most the part that a deposit may lose. Any other supply frees nothing.
pub(super) fn settle(state: &mut State, request: &Request, end: &ExecutionEnd) {
    let (LaneAsk::Loan(loan), ExecutionEnd::Executed { received: Some(moved), .. }) =
        (&request.ask, end)
    else {
        return;
    };
    let (Some(network), Some(execution)) = (request.ask.network(), request.execution()) else {
        return;
    };
    let Some(quote) = execution.quote.loan() else { return };
    let decimals = network.stablecoin.decimals;
    let back = if !loan.is_supply() {
        let back = (*moved).min(quote.assets).to_usd(decimals, Round::Down);
        back.unwrap_or(Usd(u64::MAX))
    } else if quote.buys_shares() {
        let taken = moved.to_usd(decimals, Round::Up).unwrap_or(Usd(u64::MAX));
        let most = loss_max(U256::from(execution.counted_value.0));
        execution.counted_value.left_after(taken).min(Usd(most.saturating_to()))
    } else {
        return;
    };
    subtract(state, loan.place(request.from), back);
}

/// Reduces the amount lent by the assets that an operator's withdrawal returned.
pub(super) fn book_withdrawal(state: &mut State, id: RequestId, received: Option<Atoms>) {
    let Some(send) = Arc::make_mut(&mut state.outboxes).book(id) else { return };
    let (Some(venue), Some(received)) = (send.withdrawn_from(), received) else { return };
    let place = LoanPlace { owner: send.from, chain: send.chain, venue };
    // A node reports `received`, so at most the signed amount is subtracted.
    let back = received
        .min(send.amount.atoms)
        .to_usd(send.amount.decimals, Round::Down)
        .unwrap_or(Usd(u64::MAX));
    subtract(state, place, back);
}

/// Subtracts an amount from the total that the journal counts as lent at a venue.
pub(super) fn subtract(state: &mut State, place: LoanPlace, usd: Usd) {
    Arc::make_mut(&mut state.loans).subtract_returned(place, usd, state.seq);
}
