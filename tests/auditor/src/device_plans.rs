//! Trades with keys on a hardware device: each approval, permit, swap and revocation needs the press of a person.
//!
//! These trades are judged by what was allowed, recorded, displayed, pressed, read and included. The rules that predict
//! every answer to a trade with software keys do not apply.

mod answers;
mod chain;
mod content;
mod ends;
mod prompts;
mod volume;

use crate::basics::{Address, Atoms, Id, Transaction};
use crate::clocks::Instant;
use crate::device_trades::{DeviceTradeLimits, DeviceTradeObservation};
use crate::trading::{Included, OpenAllowance, Trade, TradeState};
use crate::{Auditor, Violation, violation};
use std::collections::{BTreeMap, BTreeSet};

/// What a step of a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Lets a contract take the input.
    Approve,
    /// Sets an earlier allowance to zero before the approval.
    Reset,
    Permit,
    Swap,
    /// Sets the allowance to zero after the end of the request.
    Revoke,
    /// Only uses up the nonce of a transaction that was signed too late.
    Empty,
}

impl Purpose {
    /// Returns whether the step executes the request. Only such steps are forbidden once it has ended.
    fn executes(self) -> bool {
        !matches!(self, Self::Revoke | Self::Empty)
    }
}

/// An agent that trades from a hardware address.
#[derive(Debug)]
struct Trader {
    /// Whether the agent signs its calls. A repeat of a signed call is always the same request.
    is_signed: bool,
    limits: DeviceTradeLimits,
    /// The observation at which its newest allowance began.
    renewed_at: u64,
}

/// A call of `POST /trade`.
#[derive(Debug)]
struct Call {
    agent: String,
    trade: Trade,
    /// The observation of the call.
    seq: u64,
    /// The newest request that the journal allowed for this call, and when.
    allowed: Option<(Id, Instant)>,
}

/// A request, by its id.
#[derive(Debug, Default)]
struct Plan {
    call: Option<u64>,
    /// The instant at which the policy or an operator allowed it.
    allowed: Option<Instant>,
    /// Whether its five minutes have surely passed, and the wallet has had time to notice.
    is_late: bool,
    /// Whether an operator ordered its approval, and whether one has denied it.
    approved: bool,
    denied: bool,
    ended: bool,
    closed: bool,
    /// The last answer, and its rank: 0 for pending, 1 for executing, 2 for rejected or failed, 3 for executed.
    answer: Option<(u8, TradeState)>,
    /// When the request was first seen in an answer, in milliseconds of the latest wall clock.
    first_ms: i64,
    /// The least output that an answer stated before the swap was recorded.
    least_out: Option<Atoms>,
}

/// A step that the journal holds.
#[derive(Debug)]
struct Step {
    request: Id,
    signer: Address,
    purpose: Purpose,
    /// `None` for a permit.
    tx: Option<Transaction>,
    /// The observation at which the journal had its signature.
    signed_at: Option<u64>,
    /// Whether the process ended after it read the signature, while it was allowed to use it.
    may_be_written: bool,
    /// Whether the transaction succeeded in a block; `None` if it is in no block.
    included: Option<bool>,
    /// What the transaction did in its newest block.
    effects: Option<Box<Included>>,
    is_final: bool,
}

/// All trades from hardware addresses.
#[derive(Debug, Default)]
pub(crate) struct DevicePlans {
    traders: BTreeMap<String, Trader>,
    calls: BTreeMap<u64, Call>,
    requests: BTreeMap<Id, Plan>,
    /// The steps by their digests.
    steps: BTreeMap<String, Step>,
    /// The digest of each transaction, by its hash.
    digests_by_hash: BTreeMap<String, String>,
    /// The nonces that other transactions took.
    taken_nonces: BTreeSet<(u64, Address, u64)>,
    /// The allowances that each address had first, and has now, by chain and address.
    first_allowances: BTreeMap<(u64, Address), Vec<OpenAllowance>>,
    open_allowances: BTreeMap<(u64, Address), Vec<OpenAllowance>>,
    /// Allowances that may stay, by chain, token and spender: a person refused or an operator denied the revocation, or
    /// it was reverted.
    kept_allowances: BTreeSet<(u64, Address, Address)>,
}

impl DevicePlans {
    pub(crate) fn add_trader(&mut self, agent: &str, is_signed: bool, limits: DeviceTradeLimits) {
        let trader = Trader { is_signed, limits, renewed_at: 0 };
        self.traders.insert(agent.to_owned(), trader);
    }

    /// Notes that the agent's next allowance has begun at the observation `seq`.
    pub(crate) fn note_renewal(&mut self, agent: &str, seq: u64) {
        if let Some(trader) = self.traders.get_mut(agent) {
            trader.renewed_at = seq;
        }
    }

    /// Notes the plans whose time was over at this instant, before the clocks change.
    ///
    /// If the wall clock was set back, the wallet notices the end of a plan only at its next check of the clocks.
    pub(crate) fn note_late_plans(&mut self, now: &Instant) {
        for plan in self.requests.values_mut() {
            let passed = plan.allowed.and_then(|at| at.elapsed(now).1);
            plan.is_late |= passed.is_some_and(|ms| ms >= PLAN_MS);
        }
    }

    /// Notes that an operator has ordered the approval of a request, or has denied it.
    pub(crate) fn note_decision(&mut self, request: &str, approved: bool) {
        let plan = self.requests.entry(request.to_owned()).or_default();
        plan.approved |= approved;
        plan.denied |= !approved;
        if !approved && plan.ended {
            self.keep_allowance(request);
        }
    }

    /// Returns whether the journal holds this digest for a trade.
    pub(crate) fn holds(&self, digest: &str) -> bool {
        self.steps.contains_key(digest)
    }

    fn call_of(&self, request: &str) -> Option<&Call> {
        self.requests.get(request)?.call.and_then(|call| self.calls.get(&call))
    }

    fn trader_of(&self, request: &str) -> Option<&Trader> {
        self.traders.get(&self.call_of(request)?.agent)
    }

    fn steps_of(&self, request: &str, purpose: Purpose) -> impl Iterator<Item = (&String, &Step)> {
        self.steps
            .iter()
            .filter(move |(_digest, step)| step.request == request && step.purpose == purpose)
    }
}

impl Auditor {
    /// Judges an event of a trade from a hardware address.
    pub(crate) fn on_device_trade(
        &mut self,
        seen: &DeviceTradeObservation,
    ) -> Result<(), Violation> {
        match seen {
            DeviceTradeObservation::Called { call, agent, trade } => {
                let (agent, trade, seq) = (agent.clone(), trade.clone(), self.seq);
                let called = Call { agent, trade, seq, allowed: None };
                self.device_plans.calls.entry(*call).or_insert(called);
            }
            DeviceTradeObservation::Allowed { request, call, from } => {
                self.on_device_trade_allowed(request, *call, from)?;
            }
            DeviceTradeObservation::Recorded(step) => self.on_device_step(step)?,
            DeviceTradeObservation::Signed { digest } => self.on_device_step_signed(digest)?,
            DeviceTradeObservation::Ended { request } => {
                if let Some(plan) = self.device_plans.requests.get_mut(request) {
                    plan.ended = true;
                }
            }
            DeviceTradeObservation::Closed { request } => {
                if let Some(plan) = self.device_plans.requests.get_mut(request) {
                    (plan.ended, plan.closed) = (true, true);
                }
            }
            DeviceTradeObservation::Carried { hash, digest, signature } => {
                self.on_device_transaction(hash, digest, signature)?;
            }
            DeviceTradeObservation::Answered(answer) => self.on_device_trade_answer(answer)?,
        }
        Ok(())
    }

    /// Checks a request that the policy or an operator allowed: a call is executed as one request, within the limits.
    fn on_device_trade_allowed(
        &mut self,
        request: &str,
        call: u64,
        from: &str,
    ) -> Result<(), Violation> {
        let now = self.time.instant();
        if !self.devices.has(from) {
            let what = format!("{request} is executed from {from}, which is on no device");
            return Err(violation("T-35", what));
        }
        let plans = &mut self.device_plans;
        let plan = plans.requests.entry(request.to_owned()).or_default();
        // A process reads its journal again when it starts.
        if plan.allowed.is_some() {
            return Ok(());
        }
        (plan.allowed, plan.call) = (Some(now), Some(call));
        let Some(called) = plans.calls.get_mut(&call) else {
            return Err(violation("unrecorded", format!("{request} answers no call: {call}")));
        };
        let is_signed = plans.traders.get(&called.agent).is_none_or(|trader| trader.is_signed);
        let before = called.allowed.replace((request.to_owned(), now));
        if let Some((first, at)) = before
            && (is_signed || at.elapsed(&now).1.is_some_and(|ms| ms < REPEATED_MS))
        {
            let what = format!("call {call} is executed as {first} and as {request}");
            return Err(violation("I-b", what));
        }
        self.check_device_trade_limits(request)?;
        self.count("device trade: allowed");
        Ok(())
    }
}

/// How long a plan may ask for signatures that execute its request, in milliseconds (5 minutes).
const PLAN_MS: i64 = 300_000;
/// For how long a repeated call of a bearer agent with a key is surely the same request, in milliseconds (20 hours).
const REPEATED_MS: i64 = 72_000_000;
