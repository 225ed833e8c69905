//! The content of a step: the right contract, the exact amount, our own address, and the floor.

use super::{Plan, Purpose, Step};
use crate::basics::Transaction;
use crate::decode::{Decoded, decode};
use crate::device_trades::DeviceStep;
use crate::market::is_wrap;
use crate::plans::slots::is_cancellation;
use crate::trades::{Content, PERSON_PERMIT_S, check_permit};
use crate::trading::{SignedContent, Trade};
use crate::{Auditor, ExchangeFact, Violation, violation, wide};

/// The basis points of a whole.
const WHOLE_BPS: u128 = 10_000;

/// The facts with which a step is compared.
struct Case<'a> {
    step: &'a DeviceStep,
    plan: &'a Plan,
    trade: &'a Trade,
    exchange: &'a ExchangeFact,
    /// The observation of the call.
    from: u64,
    newest_s: u64,
}

impl Auditor {
    /// Judges a step that the journal holds now.
    pub(super) fn on_device_step(&mut self, step: &DeviceStep) -> Result<(), Violation> {
        if !self.devices.has(&step.signer) {
            let what = format!("{} is on no device: {step:?}", step.signer);
            return Err(violation("T-35", what));
        }
        let known = self.device_plans.steps.get(&step.digest);
        // A process reads its journal again when it starts.
        if known.is_some_and(|known| known.request == step.request) {
            return Ok(());
        }
        let purpose = self.purpose_of(step)?;
        if let Some(known) = self.device_plans.steps.get_mut(&step.digest) {
            // A reset or revocation that was never signed frees its nonce, and that of the next plan may have the same
            // bytes.
            if !matches!(purpose, Purpose::Reset | Purpose::Revoke) {
                let what = format!("{} belongs to {} too: {step:?}", step.digest, known.request);
                return Err(violation("I-b", what));
            }
            (known.request, known.purpose) = (step.request.clone(), purpose);
            return Ok(());
        }
        let other = self.device_plans.steps_of(&step.request, Purpose::Swap).next();
        if let Some((other, _swap)) = other.filter(|_any| purpose == Purpose::Swap) {
            let what = format!("{} has the swap {other} and now {step:?}", step.request);
            return Err(violation("I-b", what));
        }
        let tx = match &step.content {
            SignedContent::Transaction(tx) => Some((**tx).clone()),
            SignedContent::Permit(_) | SignedContent::Undecodable => None,
        };
        let (request, signer) = (step.request.clone(), step.signer.to_lowercase());
        let known = Step {
            request,
            signer,
            purpose,
            tx,
            signed_at: None,
            may_be_written: false,
            included: None,
            effects: None,
            is_final: false,
        };
        self.device_plans.steps.insert(step.digest.clone(), known);
        self.count(match purpose {
            Purpose::Approve => "device trade: approval",
            Purpose::Reset => "device trade: reset",
            Purpose::Permit => "device trade: permit",
            Purpose::Swap => "device trade: swap",
            Purpose::Revoke => "device trade: revocation",
            Purpose::Empty => "device trade: empty",
        });
        Ok(())
    }

    /// Checks the content of a step, and returns what it does.
    fn purpose_of(&self, step: &DeviceStep) -> Result<Purpose, Violation> {
        let plans = &self.device_plans;
        let known = plans.requests.get(&step.request).zip(plans.call_of(&step.request));
        let Some((plan, call)) = known else {
            let what = format!("the journal has a step of a request that is not allowed: {step:?}");
            return Err(violation("unrecorded", what));
        };
        let chain = call.trade.chain;
        let Some(exchange) = self.trades.exchanges.get(&chain) else {
            return Err(violation("call data", format!("{step:?}: nothing can be traded there")));
        };
        let newest_s = self.trades.market.newest_time_s(chain).unwrap_or(0);
        let case = Case { step, plan, trade: &call.trade, exchange, from: call.seq, newest_s };
        match &step.content {
            SignedContent::Permit(permit) => {
                let latest_s = newest_s.saturating_add(PERSON_PERMIT_S);
                check_permit(case.trade, exchange, latest_s, permit)
                    .map_err(|(rule, what)| case.broken(rule, &what))?;
                Ok(Purpose::Permit)
            }
            SignedContent::Transaction(tx) if is_cancellation(tx) => Ok(Purpose::Empty),
            SignedContent::Transaction(tx) => self.purpose_of_call(&case, tx),
            SignedContent::Undecodable => Err(case.broken("call data", "its content is unknown")),
        }
    }

    fn purpose_of_call(&self, case: &Case<'_>, tx: &Transaction) -> Result<Purpose, Violation> {
        if tx.chain != case.trade.chain || !tx.from.eq_ignore_ascii_case(&case.step.signer) {
            return Err(case.broken("call data", "another network or address"));
        }
        let Some(decoded) = decode(&tx.data) else {
            return Err(case.broken("call data", "it cannot be decoded"));
        };
        let Decoded::Approve { spender, amount } = &decoded else {
            return self.check_swap(case, tx, &decoded).map(|()| Purpose::Swap);
        };
        let spenders = [&case.exchange.v3_router, &case.exchange.permit2];
        let exact = *amount == 0 || *amount == case.trade.amount_in;
        let token = tx.to.eq_ignore_ascii_case(&case.trade.token_in);
        if !exact || !token || tx.value != 0 || !spenders.contains(&spender) {
            let what = format!("it lets {spender} take {amount} of {}", tx.to);
            return Err(case.broken("allowance", &what));
        }
        Ok(match (*amount, case.plan.ended) {
            (0, true) => Purpose::Revoke,
            (0, false) => Purpose::Reset,
            _given => Purpose::Approve,
        })
    }

    /// Checks that a swap moves the asked amount to the address itself, within the floor of the answer and of the
    /// quotes.
    fn check_swap(
        &self,
        case: &Case<'_>,
        tx: &Transaction,
        decoded: &Decoded,
    ) -> Result<(), Violation> {
        let Case { trade, exchange, newest_s, .. } = *case;
        let content = Content { trade, tx, exchange, newest_s, by_person: true };
        let minimum = content.check(decoded).map_err(|(rule, what)| case.broken(rule, &what))?;
        if case.plan.least_out.is_some_and(|stated| minimum < stated) {
            let what = format!("it accepts {minimum}; the answer: {:?}", case.plan.least_out);
            return Err(case.broken("floor", &what));
        }
        if is_wrap(trade, &exchange.wrapped) {
            return Ok(());
        }
        let quotes = || self.trades.market.quotes_of(trade, exchange, case.from);
        let outs: Vec<u128> = quotes().filter_map(|(_seq, quoted)| quoted.amount_out).collect();
        let trader = self.device_plans.trader_of(&case.step.request);
        let bps = trader.map_or(0, |trader| trader.limits.max_slippage_bps);
        let kept = WHOLE_BPS.saturating_sub(u128::from(bps));
        let least = outs.iter().min().map(|out| wide::floor(*out, kept, WHOLE_BPS));
        let most = outs.iter().max();
        if least.is_none_or(|least| minimum < least) || most.is_none_or(|most| minimum > *most) {
            let what = format!("it accepts {minimum}; the quotes allow {least:?} to {most:?}");
            return Err(case.broken("floor", &what));
        }
        Ok(())
    }
}

impl Case<'_> {
    fn broken(&self, rule: &'static str, what: &str) -> Violation {
        let (step, trade) = (self.step, self.trade);
        violation(rule, format!("{what}: {step:?} of {trade:?}, {:?}", self.plan))
    }
}
