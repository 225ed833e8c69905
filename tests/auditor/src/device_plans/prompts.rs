//! The prompts of a plan: each is for a step that is recorded and still wanted, and its signature counts only while the
//! agent may act.

use super::{DevicePlans, Purpose, Step};
use crate::market::is_wrap;
use crate::trading::{NATIVE, Trade};
use crate::{Auditor, ExchangeFact, Violation, violation};

impl DevicePlans {
    /// Returns whether a transaction with the nonce of this step was signed before.
    fn follows_signed(&self, step: &Step) -> bool {
        let slot = |step: &Step| {
            let tx = step.tx.as_ref()?;
            Some((tx.chain, tx.from.to_lowercase(), tx.nonce))
        };
        let mut calls = self.steps.values().filter(|other| other.purpose != Purpose::Empty);
        calls.any(|other| other.signed_at.is_some() && slot(other) == slot(step))
    }

    /// Returns another request that runs on the same network: a step of it is signed, and it has not ended.
    fn running_beside(&self, request: &str) -> Option<&str> {
        let chain = self.call_of(request)?.trade.chain;
        let runs = |step: &&Step| {
            step.signed_at.is_some()
                && step.request != request
                && self.requests.get(&step.request).is_some_and(|plan| !plan.ended)
                && self.call_of(&step.request).is_some_and(|call| call.trade.chain == chain)
        };
        self.steps.values().find(runs).map(|step| step.request.as_str())
    }

    /// Returns whether the chain lets the contract of a swap take the input, as far as blocks have shown.
    fn may_take_input(&self, step: &Step, trade: &Trade, ex: &ExchangeFact) -> bool {
        let Some(tx) = &step.tx else { return true };
        if trade.token_in == NATIVE || is_wrap(trade, &ex.wrapped) {
            return true;
        }
        let to_v3 = tx.to.eq_ignore_ascii_case(&ex.v3_router);
        let spender = if to_v3 { &ex.v3_router } else { &ex.permit2 };
        let open = self.open_allowances.get(&(tx.chain, step.signer.clone()));
        open.into_iter().flatten().any(|one| {
            !one.permit2
                && one.token == trade.token_in
                && one.spender == *spender
                && one.amount >= trade.amount_in
        })
    }

    /// Notes that the allowances which a request gave may stay.
    pub(super) fn keep_allowance(&mut self, request: &str) {
        let mut kept = Vec::new();
        for (_digest, step) in self.steps_of(request, Purpose::Approve) {
            kept.extend(step.allowance());
        }
        self.kept_allowances.extend(kept);
    }
}

impl Auditor {
    /// Checks that the device shows a step only while the rules still want it.
    pub(crate) fn check_device_step_prompt(
        &mut self,
        signer: &str,
        digest: &str,
    ) -> Result<(), Violation> {
        let plans = &self.device_plans;
        let Some(step) = plans.steps.get(digest).filter(|step| step.signer == signer) else {
            let what = format!("{signer} is asked for {digest}, which is not in the journal");
            return Err(violation("unrecorded", what));
        };
        let plan = plans.requests.get(&step.request);
        let Some((plan, call)) = plan.zip(plans.call_of(&step.request)) else {
            let what = format!("{signer} is asked for {step:?}, which no call requested");
            return Err(violation("unrecorded", what));
        };
        if let Some(rule) = self.forbidding_rule(Some(&call.agent)) {
            let what = format!("{signer} is asked for {step:?}, but {} may not act", call.agent);
            return Err(violation(rule, what));
        }
        if self.is_journal_doubted {
            let what = format!("{signer} is asked for {step:?} while the journal is untrusted");
            return Err(violation("I-f", what));
        }
        let has_end =
            plan.ended || plan.denied || plan.answer.as_ref().is_some_and(|(rank, _)| *rank > 1);
        let now = self.time.instant();
        let unwanted = match step.purpose {
            Purpose::Approve | Purpose::Reset | Purpose::Permit | Purpose::Swap => {
                has_end || plan.is_late
            }
            Purpose::Revoke => !plan.ended,
            Purpose::Empty => !plans.follows_signed(step),
        };
        if unwanted || plan.closed || step.signed_at.is_some() {
            let what = format!("{signer} is asked for {step:?} of {plan:?} at {now:?}");
            return Err(violation("late prompt", what));
        }
        self.check_device_step_order(step, &call.trade)?;
        self.count(match step.purpose {
            Purpose::Revoke => "device trade: asked for a revocation",
            Purpose::Empty => "device trade: asked for an empty transaction",
            _executes => "device trade: asked",
        });
        Ok(())
    }

    /// Checks that no other plan of the network runs, and that a swap follows its approval.
    fn check_device_step_order(&self, step: &Step, trade: &Trade) -> Result<(), Violation> {
        let plans = &self.device_plans;
        if step.purpose.executes()
            && let Some(other) = plans.running_beside(&step.request)
        {
            return Err(violation("one plan", format!("{step:?} is shown while {other} runs")));
        }
        let exchange = self.trades.exchanges.get(&trade.chain);
        if step.purpose == Purpose::Swap
            && exchange.is_some_and(|ex| !plans.may_take_input(step, trade, ex))
        {
            let what = format!("{step:?} is shown, but its contract may not take the input");
            return Err(violation("plan order", what));
        }
        Ok(())
    }

    /// Notes the decision of a person about a step. A refused revocation leaves the allowance.
    pub(crate) fn on_device_step_pressed(&mut self, digest: &str, agreed: bool) {
        let plans = &mut self.device_plans;
        let Some(step) = plans.steps.get_mut(digest) else { return };
        step.may_be_written = false;
        let (request, purpose) = (step.request.clone(), step.purpose);
        if !agreed && purpose == Purpose::Revoke {
            plans.keep_allowance(&request);
        }
        self.count(match (purpose, agreed) {
            (Purpose::Revoke, false) => "device trade: revocation refused",
            (_any, true) => "device trade: pressed",
            (_any, false) => "device trade: refused",
        });
    }

    /// Checks a signature in the journal: a person pressed for it, the wallet read it, and the step was still wanted.
    pub(super) fn on_device_step_signed(&mut self, digest: &str) -> Result<(), Violation> {
        let plans = &self.device_plans;
        let Some(step) = plans.steps.get(digest) else {
            // Only steps of trades are on a device.
            return Ok(());
        };
        // A process reads its journal again when it starts.
        if step.signed_at.is_some() {
            return Ok(());
        }
        if !self.devices.is_pressed_and_read(digest) {
            let what = format!("{digest} has a signature that no person pressed for: {step:?}");
            return Err(violation("I-l", what));
        }
        let agent = plans.call_of(&step.request).map(|call| call.agent.as_str());
        if let Some(rule) = self.forbidding_rule(agent).filter(|_rule| !step.may_be_written) {
            let what = format!("{step:?} was signed, but {agent:?} may not act");
            return Err(violation(rule, what));
        }
        let plan = plans.requests.get(&step.request);
        let has_end = plan.is_none_or(|plan| plan.ended || plan.denied);
        if has_end && step.purpose.executes() {
            let what = format!("{step:?} was signed after the end of its request: {plan:?}");
            return Err(violation("late press", what));
        }
        let request = step.request.clone();
        let seq = self.seq;
        if let Some(step) = self.device_plans.steps.get_mut(digest) {
            step.signed_at = Some(seq);
        }
        self.count("device trade: signed");
        self.check_device_volume(&request)
    }

    /// Notes which signatures the process may have written before it ended.
    pub(crate) fn device_plans_process_ended(&mut self) {
        let may_be_written = |(digest, step): &(&String, &Step)| {
            let agent = self.device_plans.call_of(&step.request).map(|call| call.agent.as_str());
            step.signed_at.is_none()
                && self.devices.is_pressed_and_read(digest)
                && self.forbidding_rule(agent).is_none()
        };
        let written = self.device_plans.steps.iter().filter(may_be_written);
        let written: Vec<String> = written.map(|(digest, _step)| digest.clone()).collect();
        for digest in written {
            if let Some(step) = self.device_plans.steps.get_mut(&digest) {
                step.may_be_written = true;
            }
        }
    }
}
