//! Drives the auditor through trades whose keys are on a hardware device.
#![allow(dead_code, unreachable_pub, clippy::panic, clippy::unwrap_used)]

use super::trading::*;
use super::{AuditorDriver, BASE, encode};
use bursar_auditor::observations::*;

pub const DEVICE: &str = "0x1ed6e40000000000000000000000000000000001";
/// The request of most tests, and its call.
pub const ID: &str = "request";
pub const CALL: u64 = 1;

/// A person at a device, and an auditor that watches.
pub struct Person {
    pub trader: Trader,
    nonce: u64,
}

pub fn trade_observation(seen: DeviceTradeObservation) -> Observation {
    Observation::Device(DeviceObservation::Trade(seen))
}

fn signature(digest: &str) -> String {
    format!("0x{:0>130}", digest.trim_start_matches("0x"))
}

/// Returns the limits: daily volume 300, one trade 200, automatic below 100 dollars, slippage 3 %.
fn device_limits() -> DeviceLimits {
    let trades = DeviceTradeLimits {
        daily: 300_000_000,
        per_trade: 200_000_000,
        auto_below: 100_000_000,
        max_slippage_bps: 300,
    };
    DeviceLimits { daily: 100, per_request: 50, auto_below: 20, trades }
}

impl Person {
    pub fn new() -> Self {
        let mut person = Self { trader: Trader::new(limits()), nonce: 0 };
        person.device(DeviceObservation::Enrolled { address: DEVICE.into() });
        for (agent, is_signed) in [("HHH111", true), ("BBB111", false)] {
            let (agent, limits) = (agent.to_owned(), device_limits());
            person.device(DeviceObservation::Commissioned { agent, is_signed, limits });
        }
        person
    }

    pub fn driver(&mut self) -> &mut AuditorDriver {
        &mut self.trader.driver
    }

    pub fn device(&mut self, event: DeviceObservation) {
        self.trader.accepts(Observation::Device(event));
    }

    pub fn trade(&mut self, event: DeviceTradeObservation) {
        self.trader.accepts(trade_observation(event));
    }

    pub fn rejects(&mut self, rule: &str, event: DeviceTradeObservation) {
        self.trader.rejects(rule, trade_observation(event));
    }

    /// Makes a call, and shows a good quote.
    pub fn calls(&mut self, call: u64, agent: &str, trade: &Trade) {
        let (agent, trade) = (agent.to_owned(), trade.clone());
        self.trade(DeviceTradeObservation::Called { call, agent, trade: trade.clone() });
        let quoted = self.trader.quote(&trade, fair_output(trade.amount_in / DOLLAR));
        self.trader.market(&trade, quoted);
    }

    pub fn allowed(&self, request: &str, call: u64) -> DeviceTradeObservation {
        DeviceTradeObservation::Allowed { request: request.into(), call, from: DEVICE.into() }
    }

    /// Plays a signed call that the policy allows.
    pub fn starts(&mut self, trade: &Trade) {
        self.calls(CALL, "HHH111", trade);
        let allowed = self.allowed(ID, CALL);
        self.trade(allowed);
    }

    pub fn tx(&mut self, to: &str, data: String) -> Transaction {
        self.nonce += 1;
        let tx = self.trader.tx(to, 0, data);
        Transaction { from: DEVICE.into(), nonce: self.nonce, ..tx }
    }

    pub fn approval(&mut self, amount: u128) -> Transaction {
        self.tx(super::COIN, encode::approve(V3_ROUTER, amount))
    }

    /// Returns a swap with these terms: recipient, input, least output and seconds until the deadline.
    pub fn swap_to(&mut self, to: &str, amount: u128, least: u128, lasts_s: u64) -> Transaction {
        let deadline_s = self.trader.time_s() + lasts_s;
        let trade = buy(amount / DOLLAR);
        self.tx(V3_ROUTER, v3_call(&trade, to, amount, least, deadline_s))
    }

    pub fn swap(&mut self, trade: &Trade) -> Transaction {
        let least = floor_of(fair_output(trade.amount_in / DOLLAR), 50);
        self.swap_to(DEVICE, trade.amount_in, least, 180)
    }

    pub fn empty(&mut self, nonce: u64) -> Transaction {
        let tx = self.tx(DEVICE, String::new());
        Transaction { nonce, ..tx }
    }

    pub fn step(&self, request: &str, tx: &Transaction) -> DeviceTradeObservation {
        let content = SignedContent::Transaction(Box::new(tx.clone()));
        let (request, signer, digest) = (request.to_owned(), DEVICE.into(), digest_of(tx));
        DeviceTradeObservation::Recorded(Box::new(DeviceStep { request, signer, digest, content }))
    }

    pub fn records(&mut self, tx: &Transaction) {
        let step = self.step(ID, tx);
        self.trade(step);
    }

    pub fn derives(&mut self) {
        self.device(DeviceObservation::Derived { address: DEVICE.into() });
    }

    /// Records a step, and shows it on the device.
    pub fn asks(&mut self, tx: &Transaction) {
        self.records(tx);
        self.derives();
        self.device(prompted(tx));
    }

    /// Records a step. The auditor must reject its prompt.
    pub fn ask_rejected(&mut self, rule: &str, tx: &Transaction) {
        self.records(tx);
        self.derives();
        self.trader.rejects(rule, Observation::Device(prompted(tx)));
    }

    pub fn presses(&mut self, tx: &Transaction) {
        let digest = digest_of(tx);
        let signature = Some(signature(&digest));
        self.device(DeviceObservation::Pressed { signer: DEVICE.into(), digest, signature });
    }

    pub fn refuses(&mut self, tx: &Transaction) {
        let (signer, digest) = (DEVICE.into(), digest_of(tx));
        self.device(DeviceObservation::Pressed { signer, digest, signature: None });
    }

    pub fn reads(&mut self, tx: &Transaction) {
        self.device(DeviceObservation::AnswerRead { digest: digest_of(tx) });
    }

    /// Plays a step from its record to its signature in the journal.
    pub fn signs(&mut self, tx: &Transaction) {
        self.asks(tx);
        self.presses(tx);
        self.reads(tx);
        self.trade(DeviceTradeObservation::Signed { digest: digest_of(tx) });
    }

    /// Plays a broadcast.
    pub fn sends(&mut self, tx: &Transaction) {
        self.trade(carried(tx));
        self.trader.accepts(Observation::Broadcast(tx.clone()));
    }

    /// Plays a step from its record to its final block.
    pub fn executes(&mut self, tx: &Transaction) {
        self.signs(tx);
        self.sends(tx);
        self.trader.includes(tx, true, vec![]);
        self.is_final(tx, true);
    }

    pub fn is_final(&mut self, tx: &Transaction, succeeded: bool) {
        let (chain, hash) = (BASE, tx.hash.clone());
        self.trader.accepts(Observation::Mined { chain, hash, succeeded });
    }

    pub fn ends(&mut self) {
        self.trade(DeviceTradeObservation::Ended { request: ID.into() });
    }

    pub fn closes(&mut self) {
        self.trade(DeviceTradeObservation::Closed { request: ID.into() });
    }

    pub fn answers(&mut self, state: TradeState) {
        self.trade(answer(state));
    }

    pub fn denies(&mut self) {
        self.device(DeviceObservation::Decided { request: ID.into(), approved: false });
    }

    pub fn has_allowance(&mut self, amount: u128) {
        let (chain, owner, block) = (BASE, DEVICE.into(), self.trader.block);
        let (token, spender) = (super::COIN.into(), V3_ROUTER.into());
        let open = OpenAllowance { token, spender, permit2: false, amount };
        let open = if amount == 0 { vec![] } else { vec![open] };
        self.trader.accepts(Observation::Allowances(Allowances { chain, block, owner, open }));
    }

    pub fn is_calm(&mut self) {
        self.trader.accepts(Observation::Calm);
    }
}

pub fn digest_of(tx: &Transaction) -> String {
    format!("0xdd{}", tx.hash.trim_start_matches("0xhash"))
}

pub fn prompted(tx: &Transaction) -> DeviceObservation {
    DeviceObservation::Prompted { signer: DEVICE.into(), digest: digest_of(tx) }
}

pub fn carried(tx: &Transaction) -> DeviceTradeObservation {
    let digest = digest_of(tx);
    let signature = signature(&digest);
    DeviceTradeObservation::Carried { hash: tx.hash.clone(), digest, signature }
}

/// Returns the answer to a poll of the request.
pub fn answer(state: TradeState) -> DeviceTradeObservation {
    let id = Some(ID.to_owned());
    let answer = Answer::Trade(TradeAnswer { id: id.clone(), state });
    let given =
        DeviceTradeAnswer { call: None, polled: id, answer, least_out: None, settled: false };
    DeviceTradeObservation::Answered(Box::new(given))
}

pub fn rejected_on_device() -> TradeState {
    TradeState::Rejected { code: None, reason_code: Some("LEDGER_REJECTED".into()) }
}
