//! Current prices for the approval of a trade, a loan, or a payment in a token outside our table.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_core::card::Card;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use bursar_domain::assets::has_moved;
use bursar_domain::command::Requote;
use bursar_domain::plan::{Quote, outbox_key};
use bursar_domain::{LaneAsk, PaymentAsk, Request, State};

use crate::context::EngineContext;
use crate::lanes::lending::KnownVenues;

/// Measures a request at the current prices.
///
/// # Errors
/// No node answers, or the price has moved since the operator saw it: the request stays held.
pub(super) async fn requote(
    engine: &EngineContext,
    state: &State,
    request: &Request,
    card: &Card,
) -> Result<Requote, Fault> {
    let quote = match &request.ask {
        LaneAsk::Payment(payment) => return reappraise(engine, payment, card).await,
        LaneAsk::Loan(loan) => {
            let outbox = state.outboxes.get(&outbox_key(loan.chain, request.from));
            let known = KnownVenues::of(state, request);
            engine.lending.requote(loan, request.from, &known).await.map(|measured| {
                let quote: Quote = measured.quote().clone().into();
                engine.lending.cache_measurement(request.id, outbox, measured);
                quote
            })
        }
        LaneAsk::Trade(trade) => {
            let outbox = state.outboxes.get(&outbox_key(trade.chain, request.from));
            let by_device = state.is_on_device(request.from);
            engine.trading.requote(trade, request.from, by_device).await.map(|measured| {
                let quote = measured.quote().clone().into();
                engine.trading.cache_measurement(request.id, outbox, measured);
                quote
            })
        }
    };
    match quote {
        Ok(quote) => Ok(Requote::Plan(quote)),
        Err(refusal) if refusal.code == Code::ChainUnavailable => Err(refusal.into()),
        Err(refusal) => Ok(Requote::Failed(refusal)),
    }
}

async fn reappraise(
    engine: &EngineContext,
    payment: &PaymentAsk,
    card: &Card,
) -> Result<Requote, Fault> {
    let Some(asset) = engine.trading.appraise(payment).await else {
        return Ok(Requote::Nothing);
    };
    // The payment had no price when it was assessed, so the approval holds only for the price on the card.
    if payment.is_unpriced() && is_another_price(card.usd, asset.usd()) {
        return Err(Fault::because(
            Code::PriceMoved,
            "The price moved by more than 1 % since you saw it: approve again.",
        ));
    }
    Ok(Requote::Asset(Box::new(asset)))
}

/// Returns the request as the operator sees it: a payment that had no price when it was held gets the current one.
///
/// # Errors
/// There is still no price, or the token cannot be paid: the request stays held.
pub(super) async fn with_price(
    engine: &EngineContext,
    request: &Arc<Request>,
) -> Result<Arc<Request>, Fault> {
    let payment = request.ask.payment().filter(|payment| payment.is_unpriced());
    let Some((payment, held)) = payment.and_then(|payment| Some((payment, payment.foreign()?)))
    else {
        return Ok(Arc::clone(request));
    };
    let asset = engine.trading.appraise(payment).await.unwrap_or_default();
    held.check_payable(&asset)?;
    let mut priced = (**request).clone();
    if let Some(payment) = priced.ask.payment_mut() {
        payment.set_asset(asset);
    }
    Ok(Arc::new(priced))
}

/// Returns whether a price differs by more than one percent from the one that the operator saw.
pub(super) fn is_another_price(seen: Usd, now: Usd) -> bool {
    has_moved(U256::from(seen.0), U256::from(now.0))
}
