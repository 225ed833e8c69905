//! A world with a trading agent, and a chain whose answers the test chooses.
//!
//! The bench acts as the lane, which orders the steps of plans, and as the driver of the outboxes.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::networks;
use bursar_core::policy::Policy;
use bursar_domain::agents::Credential;
use bursar_domain::command::{Approval, PermitOrder, Requote, StepOrder};
use bursar_domain::plan::{Execution, ExecutionEnd, StepPurpose, Volume, outbox_key};
use bursar_domain::trades::{TradeAsk, TradeQuote};
use bursar_domain::{Action, Decision, Effect, LaneAsk, Refusal, Reply, Request, Status};
use bursar_submit::fees::FeeQuote;
use bursar_submit::{
    Action as OutboxAction, Call, Fees, FoundReceipt, Input, OutboxKey, Quote, SubmissionId,
};
use bursar_uniswap::Permit;

use crate::support::clock::{Clock, SECOND};
use crate::support::{OPERATOR, World, build};
pub(crate) use crate::trades::asks::{
    BASE, HELD_WEI, PLAN_COST, ROBINHOOD, in_v4, policy, quote, trade, trade_on, with_quote,
};

/// The gas limit of every call.
const GAS: u64 = 100_000;

/// Maximum price that a call offers for a unit of gas, in wei.
const GAS_PRICE_MAX: u128 = 1_000;

/// Returns the newest quote of a trade.
pub(crate) fn quote_of(execution: &Execution) -> &TradeQuote {
    execution.quote.trade().expect("the quote of a trade")
}

/// The fate of a transaction on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Succeeded,
    Reverted,
    Cancelled,
    Dropped,
    NonceTaken,
}

pub(crate) struct Bench {
    pub(crate) world: World,
    /// Number of mined transactions of each signer.
    mined: BTreeMap<OutboxKey, u64>,
    head: u64,
}

/// A placeholder call: the rules do not look at the call of a step.
fn call() -> Call {
    let data = Bytes::from_static(b"call");
    Call { to: Address::repeat_byte(0x55), value: U256::ZERO, data, gas_limit: GAS }
}

/// Returns the most gas that an open step may cost, in wei.
pub(crate) fn step_cost() -> U256 {
    U256::from(GAS) * U256::from(GAS_PRICE_MAX)
}

impl Bench {
    /// A bench at noon UTC on a winter's day.
    pub(crate) fn new() -> Self {
        Self::with_clock(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy())
    }

    pub(crate) fn with_clock(clock: Clock, policy: &Policy) -> Self {
        let mut world = build::world(clock, policy);
        build::register(&mut world, 1, Credential::Hmac { secret_hash: [8; 32] });
        world.must(build::commission(1, crate::support::policy_name().as_str(), "main"));
        build::register(&mut world, 2, Credential::Bearer { sha256: [1; 32] });
        world.must(build::commission(2, crate::support::policy_name().as_str(), "spare"));
        Self { world, mined: BTreeMap::new(), head: 100 }
    }

    /// A bench whose first agent trades from an address of a device.
    pub(crate) fn with_device() -> Self {
        let world = build::world_with_device(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy());
        Self { world, mined: BTreeMap::new(), head: 100 }
    }

    // Requests of agents.

    #[track_caller]
    pub(crate) fn ask(&mut self, agent: usize, trade: TradeAsk) -> Result<RequestId, Refusal> {
        let identity = build::signed_identity(self.world.draw(), self.world.clock.utc);
        let ask = LaneAsk::Trade(Box::new(trade));
        let action = self.world.ask_action(&build::agent(agent), identity, ask);
        match self.world.run(action)?.reply {
            Reply::Request(id) => match self.status(id) {
                Status::Refused { refusal, .. } => Err(refusal.clone()),
                _allowed => Ok(id),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Requests a trade that the policy must allow.
    #[track_caller]
    pub(crate) fn starts(&mut self, agent: usize, trade: TradeAsk) -> RequestId {
        let id = self.ask(agent, trade).expect("the trade is not refused");
        assert!(matches!(self.status(id), Status::Executing(_)), "{:?}", self.status(id));
        id
    }

    /// Requests a trade that the policy must hold for the operator.
    #[track_caller]
    pub(crate) fn holds(&mut self, agent: usize, trade: TradeAsk) -> RequestId {
        let id = self.ask(agent, trade).expect("the trade is not refused");
        assert!(self.world.records[&id].is_held(), "{:?}", self.status(id));
        id
    }

    // Decisions of the operator.

    pub(crate) fn approve(
        &mut self,
        id: RequestId,
        quote: Result<TradeQuote, Refusal>,
    ) -> Result<Decision, Refusal> {
        let shown = self.world.card(id).map_or(String::new(), |card| card.digest);
        let nonce = self.world.draw_nonce();
        let quote = quote.map_or_else(Requote::Failed, |quote| Requote::Plan(quote.into()));
        self.world.run(Action::Approve(Box::new(Approval {
            id,
            card_digest: shown,
            nonce,
            by: OPERATOR,
            quote,
        })))
    }

    /// Approves a trade, which must then be executed.
    #[track_caller]
    pub(crate) fn approves(&mut self, id: RequestId, quote: TradeQuote) {
        self.approve(id, Ok(quote)).expect("the approval is not refused");
        assert!(matches!(self.status(id), Status::Executing(_)), "{:?}", self.status(id));
    }

    /// Approves a trade, which the policy must reject. Returns the code.
    #[track_caller]
    pub(crate) fn rejects(&mut self, id: RequestId, quote: Result<TradeQuote, Refusal>) -> Code {
        self.approve(id, quote).expect("the approval is not refused");
        match self.status(id) {
            Status::Refused { refusal, .. } => refusal.code,
            other => panic!("not rejected: {other:?}"),
        }
    }

    // Actions of the lane.

    /// Builds the order of a plan's next step, with the prices of the plan's newest quote.
    pub(crate) fn step(&self, id: RequestId, purpose: StepPurpose) -> StepOrder {
        let execution = self.execution(id);
        let revokes = purpose == StepPurpose::Revocation;
        StepOrder {
            id,
            index: execution.steps.len(),
            purpose,
            call: call(),
            gas_price_max: GAS_PRICE_MAX,
            until: (!revokes).then_some(execution.until.utc),
            quote: execution.quote.clone(),
        }
    }

    pub(crate) fn order(&mut self, order: StepOrder) -> Result<Decision, Refusal> {
        self.world.run(Action::OpenStep(Box::new(order)))
    }

    pub(crate) fn try_open(
        &mut self,
        id: RequestId,
        purpose: StepPurpose,
    ) -> Result<Decision, Refusal> {
        self.order(self.step(id, purpose))
    }

    /// Opens a step that the policy must allow.
    #[track_caller]
    pub(crate) fn opens(&mut self, id: RequestId, purpose: StepPurpose) {
        self.try_open(id, purpose).expect("the order is not refused");
        let open = self.execution(id).open_step();
        assert_eq!(open.map(|step| step.purpose), Some(purpose), "{:?}", self.execution(id).end);
    }

    /// Opens a step and drives it to an end.
    #[track_caller]
    pub(crate) fn open_and_finish(&mut self, id: RequestId, purpose: StepPurpose, fate: Fate) {
        self.opens(id, purpose);
        self.finish(id, fate);
    }

    /// Builds the order of a permit for a swap.
    ///
    /// The permit has the latest possible deadline. The order has the prices of the newest quote.
    pub(crate) fn permit(&self, id: RequestId) -> PermitOrder {
        let execution = self.execution(id);
        let record = self.record(id);
        let trade = record.trade().expect("a trade");
        let exchange = networks::by_chain(trade.chain).and_then(|network| network.exchange);
        let exchange = exchange.expect("an exchange");
        let deadline = quote_of(execution).block_time + exchange.deadline_seconds;
        let permit = Permit {
            token: trade.token_in.address.expect("a token"),
            amount: trade.amount_in.0,
            expiration: deadline,
            nonce: 3,
            spender: exchange.v4.router,
            signature_deadline: deadline,
        };
        let (index, quote) = (execution.steps.len(), quote_of(execution).clone());
        PermitOrder { id, index, permit, quote }
    }

    pub(crate) fn order_permit(&mut self, order: PermitOrder) -> Result<Decision, Refusal> {
        self.world.run(Action::OrderPermit(Box::new(order)))
    }

    /// Signs and records a permit, whether or not it is the newest.
    pub(crate) fn record_permit(
        &mut self,
        id: RequestId,
        permit: Permit,
    ) -> Result<Decision, Refusal> {
        let key = self.key(id);
        let exchange = networks::by_chain(key.chain).and_then(|network| network.exchange);
        let permit2 = exchange.expect("an exchange").permit2;
        let digest = permit.digest(key.chain, permit2).expect("a digest");
        let label = if key.signer == build::address("main") { "main" } else { "spare" };
        let signature = build::sign(label, digest);
        self.world.run(Action::PermitSigned { id, permit, signature })
    }

    pub(crate) fn end(&mut self, id: RequestId, end: ExecutionEnd) -> Result<Decision, Refusal> {
        self.end_with_fee(id, end, Some(U256::ZERO))
    }

    pub(crate) fn end_with_fee(
        &mut self,
        id: RequestId,
        end: ExecutionEnd,
        fee: Option<U256>,
    ) -> Result<Decision, Refusal> {
        let steps = self.execution(id).steps.len();
        self.world.run(Action::EndExecution { id, steps, end: Box::new(end), fee })
    }

    /// Ends a trade whose swap is final, as the lane does after it has read the receipt.
    #[track_caller]
    pub(crate) fn end_executed(&mut self, id: RequestId) {
        self.end_executed_with_fee(id, Some(U256::ZERO));
    }

    /// Like [`Self::executed`], with the fee of the trade's transactions in wei; `None` if the receipts do not show
    /// it.
    #[track_caller]
    pub(crate) fn end_executed_with_fee(&mut self, id: RequestId, fee: Option<U256>) {
        let hash =
            self.execution(id).main_step().and_then(|step| step.hash()).expect("a final swap");
        let received = Some(quote_of(self.execution(id)).out);
        self.end_with_fee(id, ExecutionEnd::Executed { hash, received, position: None }, fee)
            .expect("the end is not refused");
    }

    // Actions of the outboxes.

    pub(crate) fn key(&self, id: RequestId) -> OutboxKey {
        let request = &self.world.records[&id];
        outbox_key(request.ask.chain(), request.from)
    }

    pub(crate) fn submission(&self, id: RequestId) -> SubmissionId {
        self.execution(id).open_step().expect("an open step").submission
    }

    pub(crate) fn input(&mut self, key: OutboxKey, input: Input) -> Result<Decision, Refusal> {
        self.world.run(Action::Outbox { key, input: Box::new(input) })
    }

    /// Reports the price of gas to an outbox.
    #[track_caller]
    pub(crate) fn price(&mut self, key: OutboxKey) -> Decision {
        let fee = FeeQuote { fees: Fees::Dynamic { max_fee: 100, tip: 1 }, needed: 50 };
        let mined = self.mined.get(&key).copied().unwrap_or(0);
        let quote = Quote { fee, plain_gas: 21_000, pending: mined, mined };
        self.input(key, Input::Quoted(quote)).expect("a price is not refused")
    }

    /// Answers every request for a signature, even if the request is long obsolete.
    pub(crate) fn sign(&mut self, key: OutboxKey, decision: &Decision) {
        for (id, attempt, digest) in signatures(decision) {
            let label = if key.signer == build::address("main") { "main" } else { "spare" };
            let signature = build::sign(label, digest);
            self.input(key, Input::Signature { id, attempt, signature }).expect("a good signature");
        }
    }

    /// Reports a gas price for the open step, and returns the requests for its signature.
    #[track_caller]
    pub(crate) fn authorizes(&mut self, id: RequestId) -> Decision {
        let decision = self.price(self.key(id));
        let wanted = self.submission(id);
        assert!(signatures(&decision).iter().any(|(id, ..)| *id == wanted), "{decision:?}");
        decision
    }

    /// Reports a gas price for the open step, and signs it.
    #[track_caller]
    pub(crate) fn signs(&mut self, id: RequestId) {
        let key = self.key(id);
        let decision = self.authorizes(id);
        self.sign(key, &decision);
        assert!(self.is_signed(key, self.submission(id)));
    }

    /// Signs the open step after its signature is requested again.
    #[track_caller]
    pub(crate) fn signs_again(&mut self, id: RequestId) {
        let key = self.key(id);
        let asked = self.world.must(Action::ResumeOutbox(key));
        self.sign(key, &asked);
        assert!(self.is_signed(key, self.submission(id)));
    }

    pub(crate) fn is_signed(&self, key: OutboxKey, id: SubmissionId) -> bool {
        let outbox = self.world.state.outboxes.get(&key);
        outbox.open.get(&id).is_some_and(|one| one.is_signed())
    }

    /// Drives the open step to an end.
    #[track_caller]
    pub(crate) fn finish(&mut self, id: RequestId, fate: Fate) {
        let (key, submission) = (self.key(id), self.submission(id));
        if fate == Fate::Dropped {
            self.input(key, Input::Cancel { id: submission }).expect("nothing is signed");
        } else {
            if !self.is_signed(key, submission) {
                self.signs(id);
            }
            self.mine(key, submission, fate);
        }
        let outbox = self.world.state.outboxes.get(&key);
        assert!(!outbox.open.contains_key(&submission), "{fate:?}: {outbox:?}");
    }

    /// Mines a signed submission, and looks it up until its outcome is final.
    pub(crate) fn mine(&mut self, key: OutboxKey, id: SubmissionId, fate: Fate) {
        if fate == Fate::Cancelled {
            self.input(key, Input::Cancel { id }).expect("it is not mined");
            let empty = self.price(key);
            self.sign(key, &empty);
        }
        let outbox = self.world.state.outboxes.get(&key);
        let Some(one) = outbox.open.get(&id) else { return };
        let asked = one.attempts.iter().filter(|tried| tried.raw.is_some()).count();
        let (Some(nonce), Some((_at, _tried, raw))) = (one.nonce, one.newest()) else { return };
        let block = self.head + 1;
        let ok = fate != Fate::Reverted;
        let found = FoundReceipt { hash: raw.hash, block, block_hash: B256::repeat_byte(3), ok };
        let found = (fate != Fate::NonceTaken).then_some(found);
        let mined = self.mined.entry(key).or_default();
        *mined = (*mined).max(nonce + 1);
        let settled = *mined;
        for _look in 0..2 {
            self.head += 100;
            let head = self.head;
            let look = Input::LookedUp { id, asked, found, known: true, head, settled };
            self.input(key, look).expect("a look-up is not refused");
            if fate == Fate::NonceTaken {
                self.world.clock.pass(61 * SECOND);
            }
        }
    }

    // The recorded state.

    pub(crate) fn status(&self, id: RequestId) -> &Status {
        &self.world.records[&id].status
    }

    #[track_caller]
    pub(crate) fn execution(&self, id: RequestId) -> &Execution {
        self.world.records[&id].execution().expect("an allowed trade")
    }

    /// Returns the code with which a trade ended; `None` if it was executed or continues.
    #[track_caller]
    pub(crate) fn end_code(&self, id: RequestId) -> Option<Code> {
        match self.execution(id).end.as_ref()? {
            ExecutionEnd::Executed { .. } => None,
            ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. } => {
                Some(refusal.code)
            }
        }
    }

    pub(crate) fn volume(&self, id: RequestId) -> Volume {
        self.execution(id).volume
    }

    /// Returns whether the plan has left the state.
    pub(crate) fn is_closed(&self, id: RequestId) -> bool {
        let running = self.world.state.executing.contains_key(&id);
        let ended = matches!(self.status(id), Status::Ended(_));
        assert_ne!(running, ended, "{:?}", self.status(id));
        ended
    }

    /// Returns an agent's spent and reserved volume, in micro-dollars.
    pub(crate) fn volumes(&self, agent: usize) -> (u64, u64) {
        let agent = &self.world.state.agents[&build::agent(agent)];
        let spent = self.world.state.spent(agent, &self.world.now()).trade;
        (spent.0, agent.reserved.trade.0)
    }

    /// Returns the current record of a request.
    pub(crate) fn record(&self, id: RequestId) -> Request {
        self.world.records[&id].clone()
    }
}

/// Returns the signatures that a decision requests.
pub(crate) fn signatures(decision: &Decision) -> Vec<(SubmissionId, usize, B256)> {
    let wanted = decision.effects.iter().filter_map(|effect| match effect {
        Effect::Outbox(_key, OutboxAction::Sign { id, attempt, digest }) => {
            Some((*id, *attempt, *digest))
        }
        _other => None,
    });
    wanted.collect()
}
