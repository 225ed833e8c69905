//! The steps of a running trade.

use alloy_primitives::{Address, B256, U256};
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_core::networks;
use bursar_core::time::Utc;
use bursar_domain::plan::{Execution, StepPurpose};
use bursar_domain::prompts::WaitEnd;
use bursar_domain::trades::{TradeAsk, TradeQuote, Venue};
use bursar_domain::{Refusal, Request};
use bursar_submit::Outbox;
use bursar_uniswap::{Flow, fill};

use super::effects::fill_log;
use super::lane::Trading;
use super::measured::Measured;
use super::permit::PERSON_TIME_MIN_S;
use super::propose::spec_of;
use super::spec::Spec;
use crate::lanes::batch::chain_unavailable;
use crate::lanes::rehearsal::{NextStep, PartKind};

impl Trading {
    /// Measures a running trade again and returns the next step of its plan; `None` if it has none.
    ///
    /// # Errors
    /// Why the trade cannot continue, or `CHAIN_UNAVAILABLE`.
    pub(in crate::lanes) async fn next_step(
        &self,
        request: &Request,
        trade: &TradeAsk,
        execution: &Execution,
        outbox: &Outbox,
        by_device: bool,
    ) -> Result<Option<NextStep>, Refusal> {
        let measured = self.measure_next(request, trade, execution, outbox, by_device).await?;
        let Measured { quote, plan, deadline, .. } = measured;
        let Some(part) = plan.parts.into_iter().next() else { return Ok(None) };
        let is_swap = part.kind == PartKind::Step(StepPurpose::Swap);
        let until = match (by_device, is_swap) {
            (true, _any) => {
                let ends = person_deadline(&quote, deadline).min(execution.until.utc);
                let left_s = ends.since_ms(self.ports.clock.utc()).div_euclid(1_000);
                if u64::try_from(left_s).unwrap_or(0) < PERSON_TIME_MIN_S {
                    return Err(WaitEnd::TooLate.refusal());
                }
                if is_swap { ends } else { execution.until.utc }
            }
            (false, true) => self.swap_until(trade, execution),
            (false, false) => execution.until.utc,
        };
        Ok(Some(NextStep { part, gas_price_max: plan.gas_price_max, until, quote: quote.into() }))
    }

    /// Returns the time, by our clock, until which a swap may be broadcast. It approximates the swap's deadline on
    /// the chain.
    fn swap_until(&self, trade: &TradeAsk, execution: &Execution) -> Utc {
        let exchange = networks::by_chain(trade.chain).and_then(|network| network.exchange);
        let seconds = exchange.map_or(0, |exchange| exchange.deadline_seconds);
        let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(0);
        execution.until.utc.min(self.ports.clock.utc().plus_ms(ms))
    }

    /// Returns the amounts that the receipts of the swap and of the transactions before it show.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(in crate::lanes) async fn receipt_amounts(
        &self,
        trade: &TradeAsk,
        owner: Address,
        swap: B256,
        before: &[B256],
    ) -> Result<ReceiptAmounts, Refusal> {
        let (network, exchange) = exchange_of(trade)?;
        let chain = self.chain(network)?;
        let read = async |hash| chain.receipt(hash).await.map_err(|_fault| chain_unavailable());
        let receipt = read(swap).await?.ok_or_else(chain_unavailable)?;
        let mut fee = receipt.fee();
        for hash in before {
            // If the node no longer has this receipt, the total fee is unknown.
            let more = read(*hash).await?.and_then(|receipt| receipt.fee());
            fee = fee.zip(more).and_then(|(sum, more)| sum.checked_add(more));
        }
        let logs: Vec<fill::Log> = receipt.logs.into_iter().map(fill_log).collect();
        let spec = spec_of(trade, owner, network, exchange);
        Ok(ReceiptAmounts { received: fill_of(&spec, &logs).map(Atoms), fee })
    }
}

/// The amounts of an executed trade according to its receipts; each is `None` if the receipts do not show it.
pub(in crate::lanes) struct ReceiptAmounts {
    pub(in crate::lanes) received: Option<Atoms>,
    /// The total cost of the plan's transactions, in wei.
    pub(in crate::lanes) fee: Option<U256>,
}

/// Converts the deadline of a measured swap to our clock. The agent's deadline or the expiry of the router's right may
/// have made it earlier than usual.
fn person_deadline(quote: &TradeQuote, deadline: u64) -> Utc {
    let seconds = deadline.saturating_sub(quote.block_time);
    quote.at.plus_ms(i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(0))
}

/// Returns the token that a trade's plan approves and the contract that may take it; `None` if no approval is needed.
pub(in crate::lanes) fn approved_token_and_spender(
    trade: &TradeAsk,
    owner: Address,
) -> Option<(Address, Address)> {
    let (network, exchange) = exchange_of(trade).ok()?;
    trade.token_in.address.zip(spec_of(trade, owner, network, exchange).spender())
}

fn exchange_of(
    trade: &TradeAsk,
) -> Result<(&'static networks::Network, &'static networks::Exchange), Refusal> {
    let network = networks::by_chain(trade.chain);
    let exchange = network.and_then(|network| network.exchange);
    network.zip(exchange).ok_or_else(|| Refusal::new(Code::NoPool))
}

/// Returns the output that the events of a receipt show.
fn fill_of(spec: &Spec<'_>, logs: &[fill::Log]) -> Option<U256> {
    let owner = spec.owner;
    let wrapped = |holder| Flow::Wrapped { wrapped_native: spec.exchange.wrapped_native, holder };
    match (spec.venue, spec.token_out.address) {
        // Wrapping is one to one: the amount that was spent has arrived.
        (Venue::Wrap, _) => fill::net_spent(&wrapped(owner), logs),
        (Venue::Unwrap, _) => fill::net_received(&wrapped(owner), logs),
        (_pool, Some(token)) => fill::net_received(&Flow::Token { token, owner }, logs),
        (Venue::V3 { .. } | Venue::V3Path { .. }, None) => {
            fill::net_received(&wrapped(spec.exchange.v3.router), logs)
        }
        (Venue::V4 { .. }, None) => fill::net_received(&spec.pool_output()?, logs),
    }
}
