//! Executes the plans of allowed requests. For each address and network, one plan acts at a time, and a task takes its
//! next step. The core persists each step, so a task owns no state, and a restart continues from the journal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{B256, U256};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_domain::command::{PermitOrder, StepOrder};
use bursar_domain::outboxes::SendRecord;
use bursar_domain::plan::{Execution, ExecutionEnd, PlanStep, Quote, StepPurpose, outbox_key};
use bursar_domain::prompts::WaitEnd;
use bursar_domain::{Action, LaneAsk, Refusal, Request, lines};
use bursar_submit::{OutboxKey, Outcome};
use bursar_uniswap::Permit;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::devices::{PlanTurn, Turns};
use super::lending::{KnownVenues, Lending};
use super::rehearsal::{NextStep, PartKind};
use super::revocation;
use super::trading::Trading;
use crate::core;
use crate::core::handle::Handle;
use crate::journal::SigningOrder;
use crate::ports::{Ports, SignFault, Signer};

/// Pause after a step that could not be taken, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Counts the trades and loans that were executed since the engine started.
#[derive(Debug, Clone, Default)]
pub struct ExecutionCounter(Arc<AtomicU64>);

impl ExecutionCounter {
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The dependencies that all tasks share.
#[derive(Debug, Clone)]
pub struct Worker {
    pub ports: Ports,
    pub trading: Arc<Trading>,
    pub lending: Arc<Lending>,
    pub execution_counter: ExecutionCounter,
    pub core: Handle,
    pub signer: Arc<dyn Signer>,
    pub(crate) turns: Turns,
    pub tasks: TaskTracker,
    pub stopping: CancellationToken,
}

/// Executes plans until the engine stops.
pub async fn run(worker: Worker) {
    let mut views = worker.core.watch();
    let mut busy: BTreeMap<OutboxKey, JoinHandle<()>> = BTreeMap::new();
    // Bookings have their own tasks: they must not wait for a plan, which may wait long for its device.
    let mut booking: BTreeMap<OutboxKey, JoinHandle<()>> = BTreeMap::new();
    loop {
        busy.retain(|_line, task| !task.is_finished());
        booking.retain(|_line, task| !task.is_finished());
        let view = Arc::clone(&views.borrow_and_update());
        for (line, request) in lines::acting_plans(&view.state) {
            let waits = request.execution().is_some_and(|one| one.open_step().is_some());
            if waits || busy.contains_key(&line) {
                continue;
            }
            let (worker, request) = (worker.clone(), Arc::clone(request));
            let task = worker.tasks.clone().spawn(async move { worker.advance(&request).await });
            busy.insert(line, task);
        }
        let unbooked = view.state.outboxes.sends.values().filter(|one| one.unbooked_tx().is_some());
        for record in unbooked.clone() {
            let line = record.send.key();
            if let Entry::Vacant(idle) = booking.entry(line) {
                let (worker, record) = (worker.clone(), Arc::clone(record));
                let task = worker.tasks.clone().spawn(async move { worker.book(&record).await });
                idle.insert(task);
            }
        }
        let clock = &worker.ports.clock;
        let wake = clock.mono_ms().saturating_add(RETRY_MS);
        let idle = view.state.executing.is_empty() && unbooked.count() == 0;
        // cancel-safe: every branch only waits.
        tokio::select! {
            biased;
            () = worker.stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = clock.sleep_until(wake), if !idle => {}
        }
    }
}

/// The result of advancing a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepResult {
    /// A transaction was opened. Its outbox requests the signature.
    Opened,
    Done,
    NotPossible,
}

impl Worker {
    /// Takes the next step of a plan, or pauses if that is not possible now.
    async fn advance(&self, request: &Request) {
        let needs_turn = self.core.view().state.awaits_device_signature(request);
        let taken = if needs_turn && !self.has_nothing_left(request).await {
            self.take_turn(request).await
        } else {
            self.take_step(request, None).await
        };
        if taken == StepResult::NotPossible {
            self.pause().await;
        }
    }

    /// Takes the next step of a plan once its device is ready, so that the terms are fixed just before their prompt.
    async fn take_turn(&self, request: &Request) -> StepResult {
        // While another transaction is open, the step would wait for a nonce, and its time limit would pass.
        let key = outbox_key(request.ask.chain(), request.from);
        if !self.core.view().state.outboxes.get(&key).open.is_empty() {
            return StepResult::NotPossible;
        }
        let Some(turn) = self.turns.take(request.id, request.from).await else {
            return StepResult::NotPossible;
        };
        // The request may have ended during the search for its device.
        let view = self.core.view();
        let Some(request) = view.state.executing.get(&request.id) else { return StepResult::Done };
        let taken = self.take_step(request, Some(&turn)).await;
        if taken == StepResult::Opened {
            turn.keep();
        }
        taken
    }

    /// Returns whether a plan has ended without leaving an allowance, so that closing it needs no signature.
    async fn has_nothing_left(&self, request: &Request) -> bool {
        let Some(execution) = request.execution().filter(|plan| plan.end.is_some()) else {
            return false;
        };
        let left = revocation::allowance_left(&self.ports.chains, request, execution).await;
        matches!(left, Ok(None))
    }

    /// Takes the next step of a plan, if that is possible now.
    async fn take_step(&self, request: &Request, turn: Option<&PlanTurn>) -> StepResult {
        let Some(execution) = request.execution() else { return StepResult::NotPossible };
        let action = match self.next_action(request, execution).await {
            Ok(action) => action,
            Err(refusal) if is_temporary(&refusal) => None,
            // A plan that has ended only revokes its allowance, and the next try may succeed.
            Err(_refusal) if execution.end.is_some() => None,
            Err(refusal) => Some(end(request, execution, ExecutionEnd::Rejected(refusal))),
        };
        let executes = matches!(&action, Some(Action::EndExecution { end, .. })
            if matches!(**end, ExecutionEnd::Executed { .. }));
        // The plan has lost its turn, and the device may show another prompt by now.
        if turn.is_some_and(PlanTurn::is_lost) {
            return StepResult::NotPossible;
        }
        let permit = match &action {
            Some(Action::OrderPermit(order)) => Some(order.permit),
            _other => None,
        };
        let taken = match action {
            Some(action) => self.act(action).await,
            None => Err(Fault::new(Code::Busy)),
        };
        let taken = match (taken, permit) {
            (Ok(outcome), Some(permit)) => self.sign(request, permit, outcome.orders).await,
            (taken, _no_permit) => taken.map(|_outcome| ()),
        };
        if executes && taken.is_ok() {
            self.execution_counter.count();
        }
        match taken {
            Ok(()) if self.has_open_step(request.id) => StepResult::Opened,
            Ok(()) => StepResult::Done,
            Err(fault) => {
                tracing::debug!(request = %request.id.short(), code = %fault.code, "a plan pauses");
                StepResult::NotPossible
            }
        }
    }

    fn has_open_step(&self, id: RequestId) -> bool {
        let view = self.core.view();
        let execution = view.state.executing.get(&id).and_then(|request| request.execution());
        execution.is_some_and(|execution| execution.open_step().is_some())
    }

    /// Records the amount that a withdrawal of the operator brought back, or pauses if that is not possible now.
    async fn book(&self, record: &SendRecord) {
        let Some(hash) = record.unbooked_tx() else { return };
        let booked = match self.lending.withdrawn_amount(&record.send, hash).await {
            Ok(received) => {
                let id = record.send.id;
                self.core.act(Action::BookWithdrawal { id, received }).await.is_ok()
            }
            Err(_refusal) => false,
        };
        if !booked {
            self.pause().await;
        }
    }

    async fn pause(&self) {
        let clock = &self.ports.clock;
        let wake = clock.mono_ms().saturating_add(RETRY_MS);
        // cancel-safe: both branches only wait.
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => {}
            () = clock.sleep_until(wake) => {}
        }
    }

    /// Sends an action to the core, between two failpoints.
    async fn act(&self, action: Action) -> Result<core::Outcome, Fault> {
        let (before, after) = failpoints_of(&action);
        let failpoints = &self.ports.failpoints;
        failpoints.pass(before);
        let taken = self.core.act(action).await;
        if taken.is_ok() {
            failpoints.pass(after);
        }
        taken
    }

    /// Signs a permit. If the process restarts before the signature is recorded, the plan orders another permit.
    async fn sign(
        &self,
        request: &Request,
        permit: Permit,
        orders: Vec<SigningOrder>,
    ) -> Result<(), Fault> {
        let failpoints = &self.ports.failpoints;
        for order in orders {
            failpoints.pass("plan.permit_sign");
            let by_device = self.signer.asks_a_person(&order.slip);
            let signed = self.signer.sign(order.slip, order.terms).await;
            if by_device && matches!(signed, Err(SignFault::Refused(_))) {
                let refusal = WaitEnd::Refused.refusal();
                return self.reject(request, refusal).await;
            }
            let signature = signed.map_err(|refused| match refused {
                // The wallet was locked or frozen meanwhile: the plan ends, or continues when the wallet is open.
                SignFault::Stale => Fault::new(Code::Busy),
                SignFault::NoKey | SignFault::Refused(_) => {
                    tracing::warn!(request = %request.id.short(), %refused, "a permit was not signed");
                    Fault::new(Code::Busy)
                }
            })?;
            failpoints.pass("plan.permit_signed");
            self.core.act(Action::PermitSigned { id: request.id, permit, signature }).await?;
            failpoints.pass("plan.permit_recorded");
        }
        Ok(())
    }

    /// Ends a request whose permit a person refused.
    async fn reject(&self, request: &Request, refusal: Refusal) -> Result<(), Fault> {
        let view = self.core.view();
        let Some(now) = view.state.executing.get(&request.id) else { return Ok(()) };
        let Some(execution) = now.execution() else { return Ok(()) };
        self.act(end(now, execution, ExecutionEnd::Rejected(refusal))).await?;
        Ok(())
    }

    async fn next_action(
        &self,
        request: &Request,
        execution: &Execution,
    ) -> Result<Option<Action>, Refusal> {
        if execution.end.is_some() {
            return revocation::next_action(&self.ports.chains, request, execution).await.map(Some);
        }
        if let Some(main) = execution.main_step() {
            let Some(Outcome::Succeeded { hash, .. }) = main.outcome else { return Ok(None) };
            return self.end_executed(request, execution, hash).await.map(Some);
        }
        let key = outbox_key(request.ask.chain(), request.from);
        let outbox = self.core.view().state.outboxes.get(&key);
        let next = match &request.ask {
            LaneAsk::Trade(trade) => {
                let by_device = self.core.view().state.is_on_device(request.from);
                self.trading.next_step(request, trade, execution, &outbox, by_device).await?
            }
            LaneAsk::Loan(loan) => {
                let known = KnownVenues::of(&self.core.view().state, request);
                self.lending.next_step(request, loan, execution, &outbox, known).await?
            }
            LaneAsk::Payment(_) => None,
        };
        let Some(NextStep { part, gas_price_max: ceiling, until, quote }) = next else {
            return Ok(None);
        };
        let (id, index) = (request.id, execution.steps.len());
        Ok(match (part.kind, quote) {
            (PartKind::Permit(permit), Quote::Trade(quote)) => {
                let quote = *quote;
                Some(Action::OrderPermit(Box::new(PermitOrder { id, index, permit, quote })))
            }
            // Only trades use permits.
            (PartKind::Permit(_), Quote::Loan(_)) => None,
            (PartKind::Step(purpose), quote) => Some(Action::OpenStep(Box::new(StepOrder {
                id,
                index,
                purpose,
                call: part.call,
                gas_price_max: ceiling,
                until: Some(until),
                quote,
            }))),
        })
    }

    /// Reads the amounts that a final main transaction moved, and the total cost of the transactions of a trade.
    async fn end_executed(
        &self,
        request: &Request,
        execution: &Execution,
        hash: B256,
    ) -> Result<Action, Refusal> {
        let (received, position, fee) = match &request.ask {
            LaneAsk::Trade(trade) => {
                let before = execution.steps.iter().filter_map(PlanStep::hash);
                let before: Vec<B256> = before.filter(|one| *one != hash).collect();
                let filled =
                    self.trading.receipt_amounts(trade, request.from, hash, &before).await?;
                (filled.received, None, filled.fee)
            }
            LaneAsk::Loan(loan) => {
                let (received, position) =
                    self.lending.settled_amounts(loan, request.from, hash).await?;
                (received, position, None)
            }
            LaneAsk::Payment(_) => (None, None, None),
        };
        let executed = ExecutionEnd::Executed { hash, received, position };
        Ok(end_with_fee(request, execution, executed, fee))
    }
}

/// Returns the failpoints before and after an action of a plan.
fn failpoints_of(action: &Action) -> (&'static str, &'static str) {
    match action {
        Action::OrderPermit(_) => ("plan.permit_order", "plan.permit_ordered"),
        Action::OpenStep(order) => match order.purpose {
            StepPurpose::Allowance | StepPurpose::AllowanceReset => {
                ("plan.allowance_open", "plan.allowance_opened")
            }
            StepPurpose::Swap => ("plan.swap_open", "plan.swap_opened"),
            StepPurpose::Supply => ("plan.supply_open", "plan.supply_opened"),
            StepPurpose::Withdrawal => ("plan.withdrawal_open", "plan.withdrawal_opened"),
            StepPurpose::Revocation => ("plan.revocation_open", "plan.revocation_opened"),
        },
        Action::EndExecution { .. } => ("plan.end", "plan.ended"),
        _close => ("plan.close", "plan.closed"),
    }
}

fn end(request: &Request, execution: &Execution, end: ExecutionEnd) -> Action {
    end_with_fee(request, execution, end, None)
}

fn end_with_fee(
    request: &Request,
    execution: &Execution,
    end: ExecutionEnd,
    fee: Option<U256>,
) -> Action {
    let steps = execution.steps.len();
    Action::EndExecution { id: request.id, steps, end: Box::new(end), fee }
}

/// Returns whether a later try may succeed.
fn is_temporary(refusal: &Refusal) -> bool {
    refusal.code == Code::ChainUnavailable
}
