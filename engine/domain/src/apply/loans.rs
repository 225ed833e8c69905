//! Loans: what the journal knows of venues, and what it expects to be lent.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Round, Usd};
use bursar_morpho::worth::most_lost;

use crate::loans::LoanPlace;
use crate::plan::{ExecutionEnd, Quote};
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Notes a measurement of a loan that was allowed, or is being executed.
pub(super) fn note(state: &mut State, ask: &LaneAsk, quote: &Quote) {
    if let (LaneAsk::Loan(loan), Quote::Loan(quote)) = (ask, quote) {
        let loans = Arc::make_mut(&mut state.loans);
        loans.note_quote(loan, quote);
        loans.note_use(loan);
    }
}

/// Subtracts what a withdrawal brought back, and what a purchase of shares did not take.
///
/// A node reported it, so it frees no more than was signed for: of a withdrawal the amount, or what the shares were worth
/// in the rehearsal; of a purchase the part that a deposit may lose; of another supply nothing.
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
    let back = if !loan.supplies() {
        let back = (*moved).min(quote.assets).to_usd(decimals, Round::Down);
        back.unwrap_or(Usd(u64::MAX))
    } else if quote.buys_shares() {
        let taken = moved.to_usd(decimals, Round::Up).unwrap_or(Usd(u64::MAX));
        let most = most_lost(U256::from(execution.counted.0));
        execution.counted.left_after(taken).min(Usd(most.saturating_to()))
    } else {
        return;
    };
    subtract(state, loan.place(request.from), back);
}

/// Subtracts what a withdrawal of the operator brought back.
pub(super) fn book_withdrawal(state: &mut State, id: RequestId, received: Option<Atoms>) {
    let Some(send) = Arc::make_mut(&mut state.outboxes).book(id) else { return };
    let (Some(venue), Some(received)) = (send.withdrawn_from(), received) else { return };
    let place = LoanPlace { owner: send.from, chain: send.chain, venue };
    // At most the signed amount is subtracted, as for the withdrawals of agents.
    let back = received
        .min(send.amount.atoms)
        .to_usd(send.amount.decimals, Round::Down)
        .unwrap_or(Usd(u64::MAX));
    subtract(state, place, back);
}

/// Subtracts an amount from what the journal says is lent at a venue.
pub(super) fn subtract(state: &mut State, place: LoanPlace, usd: Usd) {
    Arc::make_mut(&mut state.loans).returned(place, usd, state.seq);
}
