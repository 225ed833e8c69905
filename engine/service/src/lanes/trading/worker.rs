//! Executes the plans of allowed trades: one task for each address and network, which takes the next step of the
//! plan that acts. The core persists each step, so a task owns no state, and a restart continues from the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_chain::{chain_tasks, token};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Atoms;
use bursar_core::networks;
use bursar_core::time::Utc;
use bursar_domain::command::{PermitOrder, StepOrder};
use bursar_domain::plan::{Execution, ExecutionEnd, StepPurpose, outbox_key};
use bursar_domain::trades::{TradeAsk, Venue};
use bursar_domain::{Action, Refusal, Request, lines};
use bursar_submit::{OutboxKey, Outcome, fees};
use bursar_uniswap::{Flow, Permit, fill};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::effects::fill_log;
use super::lane::Trading;
use super::measured::Measured;
use super::plan::{PartKind, revocation};
use super::propose::spec_of;
use super::spec::Spec;
use crate::core;
use crate::core::handle::Handle;
use crate::journal::Slip;
use crate::ports::{SignFault, Signer};

/// Pause after a step that could not be taken, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The factor by which the gas price of a revocation may rise. A revocation has no time limit, so it must be mined also if
/// fees stay high.
const REVOCATION_FEES: u128 = 8;

/// What the tasks share.
#[derive(Debug, Clone)]
pub struct Worker {
    pub trading: Arc<Trading>,
    pub core: Handle,
    pub signer: Arc<dyn Signer>,
    pub tasks: TaskTracker,
    pub stopping: CancellationToken,
}

/// Executes plans until the engine stops.
pub async fn run(worker: Worker) {
    let mut views = worker.core.watch();
    let mut busy: BTreeMap<OutboxKey, JoinHandle<()>> = BTreeMap::new();
    loop {
        busy.retain(|_line, task| !task.is_finished());
        let view = Arc::clone(&views.borrow_and_update());
        for (line, request) in lines::acting(&view.state) {
            let waits = request.execution().is_some_and(|one| one.open_step().is_some());
            if waits || busy.contains_key(&line) {
                continue;
            }
            let (worker, request) = (worker.clone(), Arc::clone(request));
            let task = worker.tasks.clone().spawn(async move { worker.take_step(&request).await });
            busy.insert(line, task);
        }
        let clock = &worker.trading.ports.clock;
        let wake = clock.mono_ms().saturating_add(RETRY_MS);
        let idle = view.state.executing.is_empty();
        // cancel-safe: every branch only waits.
        tokio::select! {
            biased;
            () = worker.stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = clock.sleep_until(wake), if !idle => {}
        }
    }
}

impl Worker {
    /// Takes the next step of a plan, or pauses if that is not possible now.
    async fn take_step(&self, request: &Request) {
        let (Some(trade), Some(execution)) = (request.trade(), request.execution()) else { return };
        let action = match self.next_action(request, trade, execution).await {
            Ok(action) => action,
            Err(refusal) if is_temporary(&refusal) => None,
            // After the end only a revocation is left, and the next try may succeed.
            Err(_refusal) if execution.end.is_some() => None,
            Err(refusal) => Some(end(request, execution, ExecutionEnd::Rejected(refusal))),
        };
        let executes = matches!(&action, Some(Action::EndExecution { end, .. })
            if matches!(**end, ExecutionEnd::Executed { .. }));
        let permit = match &action {
            Some(Action::OrderPermit(order)) => Some(order.permit),
            _other => None,
        };
        let taken = match action {
            Some(action) => self.act(action).await,
            None => Err(Fault::new(Code::Busy)),
        };
        let taken = match (taken, permit) {
            (Ok(outcome), Some(permit)) => self.sign(request, permit, outcome.slips).await,
            (taken, _no_permit) => taken.map(|_outcome| ()),
        };
        if executes && taken.is_ok() {
            self.trading.count_executed();
        }
        if let Err(fault) = taken {
            tracing::debug!(request = %request.id.short(), code = %fault.code, "a plan pauses");
            let clock = &self.trading.ports.clock;
            let wake = clock.mono_ms().saturating_add(RETRY_MS);
            // cancel-safe: both branches only wait.
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => {}
                () = clock.sleep_until(wake) => {}
            }
        }
    }

    /// Takes an action, between two failpoints.
    async fn act(&self, action: Action) -> Result<core::Outcome, Fault> {
        let (before, after) = failpoints_of(&action);
        let failpoints = &self.trading.ports.failpoints;
        failpoints.pass(before);
        let taken = self.core.act(action).await;
        if taken.is_ok() {
            failpoints.pass(after);
        }
        taken
    }

    /// Signs a permit. A restart before the signature is recorded orders another one.
    async fn sign(&self, request: &Request, permit: Permit, slips: Vec<Slip>) -> Result<(), Fault> {
        let failpoints = &self.trading.ports.failpoints;
        for slip in slips {
            failpoints.pass("plan.permit_sign");
            let signed = self.signer.sign(slip).await;
            let signature = signed.map_err(|refused| match refused {
                // Locked or frozen meanwhile: the plan ends, or continues when the wallet is open.
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

    async fn next_action(
        &self,
        request: &Request,
        trade: &TradeAsk,
        execution: &Execution,
    ) -> Result<Option<Action>, Refusal> {
        if execution.end.is_some() {
            return self.revoke(request, trade, execution).await;
        }
        if let Some(swap) = execution.main_step() {
            let Some(Outcome::Succeeded { hash, .. }) = swap.outcome else { return Ok(None) };
            let received = self.received(trade, request.from, hash).await?;
            let executed = ExecutionEnd::Executed { hash, received };
            return Ok(Some(end(request, execution, executed)));
        }
        let outbox = self.core.view().state.outboxes.get(&outbox_key(trade.chain, request.from));
        let measured = self.trading.measure_next(request, trade, execution, &outbox).await?;
        let Measured { quote, plan, .. } = measured;
        let Some(next) = plan.parts.into_iter().next() else { return Ok(None) };
        let (id, index) = (request.id, execution.steps.len());
        Ok(Some(match next.kind {
            PartKind::Permit(permit) => {
                Action::OrderPermit(Box::new(PermitOrder { id, index, permit, quote }))
            }
            PartKind::Step(purpose) => Action::OpenStep(Box::new(StepOrder {
                id,
                index,
                purpose,
                call: next.call,
                ceiling: plan.ceiling,
                until: Some(self.broadcast_until(trade, execution, purpose)),
                quote: quote.into(),
            })),
        }))
    }

    /// Returns until when a step may be broadcast, by our clock. A swap ends with its deadline on the chain.
    fn broadcast_until(
        &self,
        trade: &TradeAsk,
        execution: &Execution,
        purpose: StepPurpose,
    ) -> Utc {
        let plan = execution.until.utc;
        if purpose != StepPurpose::Swap {
            return plan;
        }
        let exchange = networks::by_chain(trade.chain).and_then(|network| network.exchange);
        let seconds = exchange.map_or(0, |exchange| exchange.deadline_seconds);
        let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(0);
        plan.min(self.trading.ports.clock.utc().plus_ms(ms))
    }

    /// Returns what the receipt of the swap shows; `None` inside if it does not show it.
    async fn received(
        &self,
        trade: &TradeAsk,
        owner: Address,
        hash: alloy_primitives::B256,
    ) -> Result<Option<Atoms>, Refusal> {
        let (network, exchange) = exchange_of(trade)?;
        let chain = self.trading.chain(network)?;
        let receipt = chain.receipt(hash).await.map_err(|_fault| unavailable())?;
        let receipt = receipt.ok_or_else(unavailable)?;
        let logs: Vec<fill::Log> = receipt.logs.into_iter().map(fill_log).collect();
        let spec = spec_of(trade, owner, network, exchange);
        Ok(fill_of(&spec, &logs).map(Atoms))
    }

    /// Revokes the allowance that an ended trade leaves, or closes its plan if there is none.
    async fn revoke(
        &self,
        request: &Request,
        trade: &TradeAsk,
        execution: &Execution,
    ) -> Result<Option<Action>, Refusal> {
        let (network, exchange) = exchange_of(trade)?;
        let spec = spec_of(trade, request.from, network, exchange);
        let close = Action::ClosePlan { id: request.id };
        let (Some(token), Some(spender)) = (trade.token_in.address, spec.spender()) else {
            return Ok(Some(close));
        };
        let chain = self.trading.chain(network)?;
        let question = token::allowance(request.from, spender);
        let answer = chain.call(token, question, BlockTag::Latest).await;
        let left = answer.map_err(|_fault| unavailable())?;
        if U256::try_from_be_slice(&left) == Some(U256::ZERO) {
            return Ok(Some(close));
        }
        let Some(mut call) = revocation(&spec) else { return Ok(Some(close)) };
        match chain.estimate_gas(request.from, call.clone()).await {
            Ok(gas) => call.gas_limit = gas.saturating_add(gas / 2),
            // The step shows the revert, and the plan ends.
            Err(ChainFault::Reverted { .. }) => {}
            Err(_fault) => return Err(unavailable()),
        }
        let quote = chain_tasks::quote(&*chain, request.from, &network.gas).await;
        let quote = quote.map_err(|_fault| unavailable())?;
        let offer = fees::within(&quote.fee, network.gas.ceiling).ok_or_else(unavailable)?;
        Ok(Some(Action::OpenStep(Box::new(StepOrder {
            id: request.id,
            index: execution.steps.len(),
            purpose: StepPurpose::Revocation,
            call,
            ceiling: offer.max_price().saturating_mul(REVOCATION_FEES).min(network.gas.ceiling),
            until: None,
            quote: execution.quote.clone(),
        }))))
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
            StepPurpose::Revocation => ("plan.revocation_open", "plan.revocation_opened"),
        },
        Action::EndExecution { .. } => ("plan.trade_end", "plan.trade_ended"),
        _close => ("plan.close", "plan.closed"),
    }
}

fn end(request: &Request, execution: &Execution, end: ExecutionEnd) -> Action {
    Action::EndExecution { id: request.id, steps: execution.steps.len(), end: Box::new(end) }
}

fn exchange_of(
    trade: &TradeAsk,
) -> Result<(&'static networks::Network, &'static networks::Exchange), Refusal> {
    let network = networks::by_chain(trade.chain);
    let exchange = network.and_then(|network| network.exchange);
    network.zip(exchange).ok_or_else(|| Refusal::new(Code::NoPool))
}

fn unavailable() -> Refusal {
    Refusal::new(Code::ChainUnavailable)
}

/// Returns whether a later try may succeed.
fn is_temporary(refusal: &Refusal) -> bool {
    refusal.code == Code::ChainUnavailable
}

/// Returns the output that the events of a receipt show.
fn fill_of(spec: &Spec<'_>, logs: &[fill::Log]) -> Option<U256> {
    let owner = spec.owner;
    let wrapped = |holder| Flow::Wrapped { wrapped_native: spec.exchange.wrapped_native, holder };
    match (spec.venue, spec.token_out.address) {
        // One to one: what was wrapped has arrived.
        (Venue::Wrap, _) => fill::spent(&wrapped(owner), logs),
        (Venue::Unwrap, _) => fill::received(&wrapped(owner), logs),
        (_pool, Some(token)) => fill::received(&Flow::Token { token, owner }, logs),
        (Venue::V3 { .. } | Venue::V3Path { .. }, None) => {
            fill::received(&wrapped(spec.exchange.v3.router), logs)
        }
        (Venue::V4 { .. }, None) => fill::received(&spec.pool_output()?, logs),
    }
}
