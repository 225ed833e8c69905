//! The answers about trades of hardware addresses: they never step back, and agree with the chain.

use super::{Plan, Purpose, Step};
use crate::basics::Id;
use crate::device_trades::DeviceTradeAnswer;
use crate::observations::Answer;
use crate::trades::arrived;
use crate::trading::TradeState;
use crate::{Auditor, Violation, violation};

/// How long the wallet remembers an ended request, in milliseconds (30 days).
const REQUEST_KNOWN_MS: i64 = 30 * 86_400_000;

fn rank_of(state: &TradeState) -> u8 {
    match state {
        TradeState::Pending => 0,
        TradeState::Executing => 1,
        TradeState::Rejected { .. } | TradeState::Failed { .. } => 2,
        TradeState::Executed { .. } => 3,
    }
}

/// Returns whether two ends are the same. Only an executed trade names its transaction.
fn is_same_end(first: &TradeState, next: &TradeState) -> bool {
    match (first, next) {
        (TradeState::Executed { tx_hash: a, .. }, TradeState::Executed { tx_hash: b, .. }) => {
            a == b
        }
        (first, next) => std::mem::discriminant(first) == std::mem::discriminant(next),
    }
}

impl Plan {
    /// Returns why this answer may not follow the answers so far.
    fn contradicts(&self, rank: u8, state: &TradeState) -> bool {
        self.answer.as_ref().is_some_and(|(before, last)| {
            let ended = *before > 1;
            rank < *before || ended && !is_same_end(last, state)
        })
    }
}

impl Auditor {
    pub(super) fn on_device_trade_answer(
        &mut self,
        given: &DeviceTradeAnswer,
    ) -> Result<(), Violation> {
        let now_ms = self.time.latest_ms;
        let trade = match (&given.answer, &given.polled) {
            (Answer::Trade(trade), _any) => trade,
            (Answer::Refused { code, .. }, Some(id)) if code == "REQUEST_NOT_FOUND" => {
                let plan = self.device_plans.requests.entry(id.clone()).or_default();
                if plan.first_ms != 0 && now_ms.saturating_sub(plan.first_ms) < REQUEST_KNOWN_MS {
                    return Err(violation("I-p", format!("{id} is forgotten: {plan:?}")));
                }
                return Ok(());
            }
            _refused => return Ok(()),
        };
        let (Some(id), state) = (&trade.id, &trade.state) else { return Ok(()) };
        if given.polled.as_ref().is_some_and(|polled| polled != id) {
            return Err(violation("I-p", format!("a poll was answered as {id}: {given:?}")));
        }
        self.link_device_trade(id, given)?;
        let rank = rank_of(state);
        self.check_device_trade_end(id, state)?;
        let has_swap = self.device_plans.steps_of(id, Purpose::Swap).next().is_some();
        let plan = self.device_plans.requests.entry(id.clone()).or_default();
        if plan.first_ms == 0 {
            plan.first_ms = now_ms;
        }
        if plan.contradicts(rank, state) {
            let what = format!("{id} was answered {given:?} after {plan:?}");
            return Err(violation("I-p", what));
        }
        if given.settled && rank < 2 {
            return Err(violation("I-n", format!("{id} is not finished: {given:?}, {plan:?}")));
        }
        if !has_swap && rank < 2 && plan.least_out.is_none() {
            plan.least_out = given.least_out;
        }
        plan.answer = Some((rank, state.clone()));
        self.count(match state {
            TradeState::Pending => "device trade: waits",
            TradeState::Executing => "device trade: executing",
            TradeState::Rejected { .. } => "device trade: rejected",
            TradeState::Failed { .. } => "device trade: failed",
            TradeState::Executed { .. } => "device trade: executed",
        });
        Ok(())
    }

    /// Notes which call a request answers.
    fn link_device_trade(&mut self, id: &Id, given: &DeviceTradeAnswer) -> Result<(), Violation> {
        let Some(call) = given.call else { return Ok(()) };
        let plan = self.device_plans.requests.entry(id.clone()).or_default();
        if plan.call.is_some_and(|first| first != call) {
            let what = format!("call {call} was answered as {id}: {plan:?}");
            return Err(violation("I-p", what));
        }
        plan.call = Some(call);
        Ok(())
    }

    /// Checks that the end of a trade agrees with the chain.
    fn check_device_trade_end(&self, id: &str, state: &TradeState) -> Result<(), Violation> {
        let plans = &self.device_plans;
        let mut swaps = plans.steps_of(id, Purpose::Swap);
        match state {
            TradeState::Pending | TradeState::Executing => Ok(()),
            TradeState::Rejected { .. } | TradeState::Failed { .. } => {
                match swaps.find(|(_digest, step)| step.included == Some(true)) {
                    None => Ok(()),
                    Some((_digest, swap)) => {
                        let what = format!("{id} ended as {state:?}, but it has swapped: {swap:?}");
                        Err(violation("executed", what))
                    }
                }
            }
            TradeState::Executed { tx_hash, amount_out, .. } => {
                let digest = plans.digests_by_hash.get(tx_hash);
                let swap = swaps.find(|(own, _step)| Some(*own) == digest);
                let swap = swap.map(|(_digest, step)| step);
                if !swap.is_some_and(|step| step.included == Some(true) && step.is_final) {
                    let what = format!("{id} is executed by {tx_hash}, which is {swap:?}");
                    return Err(violation("executed", what));
                }
                self.check_device_fill(id, swap, *amount_out)
            }
        }
    }

    /// Checks that the reported output is the amount that arrived.
    fn check_device_fill(
        &self,
        id: &str,
        swap: Option<&Step>,
        amount_out: Option<u128>,
    ) -> Result<(), Violation> {
        let effects = swap.and_then(|step| Some((step, step.effects.as_ref()?)));
        let trade = self.device_plans.call_of(id).map(|call| &call.trade);
        let exchange = trade.and_then(|trade| self.trades.exchanges.get(&trade.chain));
        let (Some(told), Some((step, effects)), Some(trade), Some(exchange)) =
            (amount_out, effects, trade, exchange)
        else {
            return Ok(());
        };
        let right = arrived(trade, effects, exchange, &step.signer);
        if right.contains(&told) {
            return Ok(());
        }
        let what = format!("the fill of {id} is reported as {told}; what arrived is {right:?}");
        Err(violation("fill", what))
    }
}
