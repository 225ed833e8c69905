//! A world with lending agents, and a chain whose answers the test chooses.
//!
//! The bench acts as the lane, which orders the steps of plans, and as the driver of the outboxes.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_core::policy::{AllowedNetworks, Policy};
use bursar_domain::agents::Credential;
use bursar_domain::assess::lending::total_lent;
use bursar_domain::command::{Approval, Requote, StepOrder, VenueTrust};
use bursar_domain::loan_context::{operations, reserved};
use bursar_domain::loans::{LoanAsk, LoanPlace, LoanQuote};
use bursar_domain::plan::{Execution, ExecutionEnd, Quote, StepPurpose, Volume, outbox_key};
use bursar_domain::{Action, Decision, Effect, LaneAsk, Refusal, Reply, Request, Status};
use bursar_morpho::VenueId;
use bursar_submit::fees::FeeQuote;
use bursar_submit::{
    Action as OutboxAction, Call, Fees, FoundReceipt, Input, OutboxKey, Quote as GasQuote,
    SubmissionId,
};

pub(crate) use crate::loans::asks::policy;
use crate::loans::asks::{CURATOR, OWNER, nothing_lent};
use crate::support::clock::{Clock, SECOND};
use crate::support::{OPERATOR, World, build};

/// The gas limit of every call, and the highest price that a call offers for a unit of gas, in wei.
const GAS: u64 = 100_000;
const GAS_PRICE_MAX: u128 = 1_000;

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

pub(crate) fn loan(loan: LoanAsk) -> LaneAsk {
    LaneAsk::Loan(Box::new(loan))
}

fn label(key: OutboxKey) -> &'static str {
    if key.signer == build::address("main") { "main" } else { "spare" }
}

impl Bench {
    /// A bench at noon UTC on a winter's day.
    pub(crate) fn new() -> Self {
        Self::with_policy(&policy())
    }

    pub(crate) fn with_policy(policy: &Policy) -> Self {
        let clock = Clock::at("2026-01-15T12:00:00Z", "UTC");
        let mut world = build::world(clock, policy);
        build::register(&mut world, 1, Credential::Hmac { secret_hash: [8; 32] });
        world.must(build::commission(1, crate::support::policy_name().as_str(), "main"));
        build::register(&mut world, 2, Credential::Bearer { sha256: [1; 32] });
        world.must(build::commission(2, crate::support::policy_name().as_str(), "spare"));
        Self { world, mined: BTreeMap::new(), head: 100 }
    }

    // Requests of agents.

    #[track_caller]
    pub(crate) fn ask_lane(&mut self, agent: usize, ask: LaneAsk) -> Result<RequestId, Refusal> {
        self.ask_refused(agent, ask, None)
    }

    /// Makes a request. With `refused`, the lane has refused it before.
    #[track_caller]
    pub(crate) fn ask_refused(
        &mut self,
        agent: usize,
        ask: LaneAsk,
        refused: Option<Refusal>,
    ) -> Result<RequestId, Refusal> {
        let identity = build::signed_identity(self.world.draw(), self.world.clock.utc);
        let mut action = self.world.ask_action(&build::agent(agent), identity, ask);
        if let Action::Ask(ask) = &mut action {
            ask.lane_refusal = refused;
        }
        match self.world.run(action)?.reply {
            Reply::Request(id) => match self.status(id) {
                Status::Refused { refusal, .. } => Err(refusal.clone()),
                _allowed => Ok(id),
            },
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, agent: usize, asked: LoanAsk) -> Result<RequestId, Refusal> {
        self.ask_lane(agent, loan(asked))
    }

    /// Requests a loan that the policy must allow.
    #[track_caller]
    pub(crate) fn starts(&mut self, agent: usize, loan: LoanAsk) -> RequestId {
        let id = self.ask(agent, loan).expect("the loan is not refused");
        assert!(matches!(self.status(id), Status::Executing(_)), "{:?}", self.status(id));
        id
    }

    /// Requests a loan that the policy must hold for the operator.
    #[track_caller]
    pub(crate) fn holds(&mut self, agent: usize, loan: LoanAsk) -> RequestId {
        let id = self.ask(agent, loan).expect("the loan is not refused");
        assert!(self.world.records[&id].is_held(), "{:?}", self.status(id));
        id
    }

    /// Requests a loan that the policy must refuse. Returns the code.
    #[track_caller]
    pub(crate) fn refuses(&mut self, agent: usize, loan: LoanAsk) -> Code {
        match self.ask(agent, loan) {
            Err(refusal) => refusal.code,
            Ok(id) => panic!("not refused: {:?}", self.status(id)),
        }
    }

    pub(crate) fn hold_reason(&self, id: RequestId) -> Option<HoldReason> {
        match self.status(id) {
            Status::Held { reason, .. } => Some(*reason),
            _decided => None,
        }
    }

    // Decisions of the operator.

    pub(crate) fn approve(
        &mut self,
        id: RequestId,
        quote: Result<Quote, Refusal>,
    ) -> Result<Decision, Refusal> {
        let shown = self.world.card(id).map_or(String::new(), |card| card.digest);
        let nonce = self.world.draw_nonce();
        let quote = quote.map_or_else(Requote::Failed, Requote::Plan);
        self.world.run(Action::Approve(Box::new(Approval {
            id,
            card_digest: shown,
            nonce,
            by: OPERATOR,
            quote,
        })))
    }

    /// Approves a loan, which must then be executed.
    #[track_caller]
    pub(crate) fn approves(&mut self, id: RequestId, quote: LoanQuote) {
        self.approve(id, Ok(quote.into())).expect("the approval is not refused");
        assert!(matches!(self.status(id), Status::Executing(_)), "{:?}", self.status(id));
    }

    /// Approves a loan, which the policy must reject. Returns the code.
    #[track_caller]
    pub(crate) fn rejects(&mut self, id: RequestId, quote: LoanQuote) -> Code {
        self.approve(id, Ok(quote.into())).expect("the approval is not refused");
        match self.status(id) {
            Status::Refused { refusal, .. } => refusal.code,
            other => panic!("not rejected: {other:?}"),
        }
    }

    pub(crate) fn trust(&self, chain: ChainId, venue: VenueId) -> Action {
        let (curator, owner) = (Some(CURATOR), Some(OWNER));
        Action::TrustVenue(Box::new(VenueTrust { chain, venue, curator, owner }))
    }

    pub(crate) fn write_off(&mut self, place: LoanPlace, to: u64) -> Result<Decision, Refusal> {
        self.world.run(Action::WriteOff { place, to: Usd(to) })
    }

    // Actions of the lane.

    /// Builds the order of a plan's next step, with the plan's newest quote.
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

    /// Orders a step with another quote.
    pub(crate) fn try_open_by(
        &mut self,
        id: RequestId,
        purpose: StepPurpose,
        quote: LoanQuote,
    ) -> Result<Decision, Refusal> {
        self.order(StepOrder { quote: quote.into(), ..self.step(id, purpose) })
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

    pub(crate) fn end(&mut self, id: RequestId, end: ExecutionEnd) -> Result<Decision, Refusal> {
        let steps = self.execution(id).steps.len();
        self.world.run(Action::EndExecution { id, steps, end: Box::new(end), fee: None })
    }

    /// Ends a loan whose main transaction is final, as the lane does after it has read the receipt.
    #[track_caller]
    pub(crate) fn end_executed(&mut self, id: RequestId, received: Option<u64>) {
        let hash = self.execution(id).main_step().and_then(|step| step.hash());
        let hash = hash.expect("a final main transaction");
        let received = received.map(|received| Atoms(U256::from(received)));
        self.end(id, ExecutionEnd::Executed { hash, received, position: None })
            .expect("the end is not refused");
    }

    /// Executes a supply of an agent completely. The receipt shows that it took its whole size.
    #[track_caller]
    pub(crate) fn lends(&mut self, agent: usize, loan: LoanAsk) -> RequestId {
        let micros = u64::try_from(loan.amount().0).expect("a small amount");
        let id = self.starts(agent, loan);
        self.open_and_finish(id, StepPurpose::Supply, Fate::Succeeded);
        self.end_executed(id, Some(micros));
        assert!(self.is_closed(id));
        id
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
        let quote = GasQuote { fee, plain_gas: 21_000, pending: mined, mined };
        self.input(key, Input::Quoted(quote)).expect("a price is not refused")
    }

    /// Answers every request for a signature, even if the request is long obsolete.
    pub(crate) fn sign(&mut self, key: OutboxKey, decision: &Decision) {
        for (id, attempt, digest) in signatures(decision) {
            let signature = build::sign(label(key), digest);
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
        self.world.records[&id].execution().expect("an allowed request")
    }

    /// Returns the code with which a request ended; `None` if it was executed or continues.
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

    /// Returns the value that the pending supplies of an address reserve, in micro-dollars.
    pub(crate) fn reserved(&self, label: &str) -> u64 {
        let (owner, all) = (build::address(label), AllowedNetworks::AllEnabled);
        reserved(&self.world.state, &self.world.now(), owner, &all, None).0
    }

    /// Returns the amount that the journal expects at a place, in micro-dollars.
    pub(crate) fn lent(&self, place: &LoanPlace) -> u64 {
        self.world.state.loans.lent.get(place).map_or(0, |lent| lent.net.0)
    }

    /// Returns the amount that counts as lent by an address if a node reports no position.
    pub(crate) fn deployed(&self, label: &str) -> u64 {
        let owner = build::address(label);
        total_lent(&self.world.state.loans, owner, &AllowedNetworks::AllEnabled, &nothing_lent())
            .expect("a sum")
            .0
    }

    /// Returns an agent's number of operations today.
    pub(crate) fn operations(&self, agent: usize) -> u32 {
        let state = &self.world.state;
        operations(state, &self.world.now(), &state.agents[&build::agent(agent)], None)
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
