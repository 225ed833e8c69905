//! Planted bugs in device payments.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::{
    Action, Command, Decision, Entry, Event, Refusal, Reply, Request, State, Status,
};
use bursar_submit::Outcome;

use crate::faults::PlantedBug;
use crate::signer;

/// Changes the state or the command that the rules read.
pub(crate) fn change_input(plant: PlantedBug, state: &mut State, command: &mut Command) {
    match (plant, &mut command.action) {
        (PlantedBug::OtherTermsAgain, Action::Prompt { id, .. }) => forget_terms(state, id),
        (PlantedBug::PressedAgain, Action::Ask(ask)) => {
            let by_device = |first: &Request| state.is_on_device(first.from);
            let paid = |first: &Request| matches!(first.status, Status::Authorized { .. });
            ask.prior.newest.take_if(|first| by_device(first) && paid(first));
        }
        _other => {}
    }
}

/// Returns the decision that a planted bug makes instead of a refusal.
///
/// # Errors
/// Returns the refusal if the bug does not concern it.
pub(crate) fn decision_instead_of(
    plant: PlantedBug,
    command: &Command,
    refusal: Refusal,
) -> Result<Decision, Refusal> {
    let Action::SignedOnDevice { id, signature } = &command.action else { return Err(refusal) };
    if plant != PlantedBug::DeniedPressCounts || refusal.code != Code::RequestNotFound {
        return Err(refusal);
    }
    let event = Event::SignedOnDevice { id: *id, signature: *signature };
    Ok(Decision { events: vec![event], effects: Vec::new(), reply: Reply::Request(*id) })
}

/// Changes the decision of the rules.
pub(crate) fn change_output(
    plant: PlantedBug,
    state: &State,
    command: &Command,
    decision: &mut Decision,
) {
    change_plans(plant, state, command, &mut decision.events);
    if plant == PlantedBug::LapseForgotten {
        decision.events.retain(|event| !matches!(event, Event::PaymentLapsed { .. }));
    }
    if plant == PlantedBug::SignedBySoftware
        && let Some(Event::PaymentPrompted { id, terms }) = decision.events.last()
        && let Some(payment) = state.waiting.get(id).and_then(|request| request.ask.payment())
        && let Some(domain) = payment.token_domain()
    {
        let signature = signer::sign_by_key(terms.from, &domain.digest(terms));
        decision.events.push(Event::SignedOnDevice { id: *id, signature });
    }
}

/// Changes the events of plans whose steps a person signs.
fn change_plans(plant: PlantedBug, state: &State, command: &Command, events: &mut Vec<Event>) {
    match plant {
        PlantedBug::DeniedStillAsked if matches!(command.action, Action::Deny { .. }) => {
            events.retain(|event| matches!(event, Event::RequestDenied { .. }));
        }
        PlantedBug::SwapAskedAgain => {
            let dropped = events.iter().find_map(|event| dropped_swap(state, event));
            events.retain(|event| match event {
                Event::ExecutionEnded { id, .. } | Event::PlanClosed { id } => Some(*id) != dropped,
                _other => true,
            });
        }
        PlantedBug::AllowanceLeft => {
            let ended = events.iter().find_map(|event| match event {
                Event::ExecutionEnded { id, .. } => Some(*id),
                _other => None,
            });
            let is_on_device = |id: &RequestId| {
                state.executing.get(id).is_some_and(|one| state.is_on_device(one.from))
            };
            let closes = |event: &Event| matches!(event, Event::PlanClosed { .. });
            if let Some(id) = ended.filter(is_on_device)
                && !events.iter().any(closes)
            {
                events.push(Event::PlanClosed { id });
            }
        }
        _other => {}
    }
}

/// Returns the request of a device whose swap ends without a signature.
fn dropped_swap(state: &State, event: &Event) -> Option<RequestId> {
    let Event::StepEnded { id, outcome: Outcome::Dropped } = event else { return None };
    let request = state.executing.get(id).filter(|one| state.is_on_device(one.from))?;
    request.execution()?.open_step().filter(|step| step.purpose.is_main()).map(|_swap| *id)
}

/// Changes the state before an entry is applied.
pub(crate) fn change_before_entry(plant: PlantedBug, state: &mut State, entry: &Entry) {
    if let (PlantedBug::OtherTermsAgain, Event::PaymentPrompted { id, .. }) = (plant, &entry.event)
    {
        forget_terms(state, id);
    }
}

/// Forgets the last step of a plan if it is a swap that ended without a signature.
fn forget_swap(state: &mut State, id: &RequestId) {
    let Some(request) = Arc::make_mut(&mut state.executing).get_mut(id) else { return };
    if let Status::Executing(execution) = &mut Arc::make_mut(request).status {
        execution
            .steps
            .pop_if(|step| step.purpose.is_main() && step.outcome == Some(Outcome::Dropped));
    }
}

/// Changes the state after an entry was applied.
pub(crate) fn change_after_entry(plant: PlantedBug, state: &mut State, entry: &Entry) {
    if let (PlantedBug::SwapAskedAgain, Event::StepEnded { id, .. }) = (plant, &entry.event) {
        forget_swap(state, id);
    }
    if let (PlantedBug::UnreadFreed, Event::DeviceWaitEnded { id, .. }) = (plant, &entry.event) {
        bursar_domain::apply(
            state,
            &Entry { event: Event::PaymentLapsed { id: *id }, ..entry.clone() },
        );
    }
}

fn forget_terms(state: &mut State, id: &RequestId) {
    let Some(request) = Arc::make_mut(&mut state.waiting).get_mut(id) else { return };
    if let Status::AwaitingDevice(turn) = &mut Arc::make_mut(request).status {
        turn.prompt = None;
    }
}
