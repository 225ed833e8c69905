//! The queue of the hardware devices, as the operator sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_control::answers::DeviceAnswer;
use bursar_core::ids::RequestId;
use bursar_domain::Request;
use bursar_submit::SubmissionId;

use crate::context::EngineContext;
use crate::core::View;
use crate::device::NotReady;
use crate::journal::Subject;
use crate::lanes::devices::{DeviceStatus, Waiter, waiting_payments};

/// The state of a request in the device queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueStatus {
    /// Two or three words.
    pub(super) label: String,
    /// The next action of the operator, as a sentence.
    pub(super) state: String,
    pub(super) is_prompting: bool,
}

impl QueueStatus {
    fn new(label: &str, state: impl Into<String>) -> Self {
        Self { label: label.to_owned(), state: state.into(), is_prompting: false }
    }

    fn prompting(device: &str) -> Self {
        let state =
            format!("The {device} shows it: compare it with this, and sign or refuse it there.");
        Self { is_prompting: true, ..Self::new("confirm on device", state) }
    }

    /// Returns the status of the first request in the queue of a device.
    fn first_in_queue(not_ready: Option<&NotReady>) -> Self {
        match not_ready {
            Some(why) => Self::new(why.label(), why.sentence()),
            None => Self::new("next", "The wallet looks for the Ledger."),
        }
    }

    fn behind(count: usize) -> Self {
        let (is, s) = if count == 1 { ("is", "") } else { ("are", "s") };
        let state = format!("{count} other request{s} {is} shown on the Ledger before it.");
        Self::new(&format!("{count} before it"), state)
    }
}

/// Returns the queue status of each request that waits for a device, including ended plans that revoke an allowance.
pub(super) fn queue_statuses(
    engine: &EngineContext,
    view: &View,
) -> BTreeMap<RequestId, QueueStatus> {
    let status = Arc::clone(&engine.device_status.borrow());
    let is_open = engine.vault.is_unlocked();
    let requests = view.state.waiting.values().chain(view.state.plans_at_device());
    requests.map(|request| (request.id, queue_status(&status, is_open, view, request))).collect()
}

/// Returns the label of each queue status.
pub(super) fn labels(engine: &EngineContext, view: &View) -> BTreeMap<RequestId, String> {
    queue_statuses(engine, view).into_iter().map(|(id, place)| (id, place.label)).collect()
}

fn queue_status(
    status: &DeviceStatus,
    is_open: bool,
    view: &View,
    request: &Request,
) -> QueueStatus {
    let prompting = status.prompting.as_ref();
    if let Some(shown) = prompting.filter(|one| one.subject.belongs_to(request)) {
        return QueueStatus::prompting(&shown.device);
    }
    if let Some(stop) = stop_reason(is_open, view, request) {
        return stop;
    }
    if request.execution().is_some() && !view.state.awaits_device_signature(request) {
        return QueueStatus::new("sent", "Its last transaction is on the way to a block.");
    }
    let why = status.not_shown_reason(request.from, waiter(status, request));
    match (prompts_before(status, view, request), why, prompting) {
        (0, None, Some(_other)) => {
            QueueStatus::new("next", "The Ledger shows another request first.")
        }
        (0, not_ready, _any) => QueueStatus::first_in_queue(not_ready),
        (before, _any, _other) => QueueStatus::behind(before),
    }
}

/// Returns the part of a request that waits for the device: the payment, the plan, or the plan's open transaction.
fn waiter(status: &DeviceStatus, request: &Request) -> Waiter {
    let is_own = |(subject, _from): &(Subject, _)| subject.belongs_to(request);
    match request.execution() {
        None => Waiter::Payment,
        Some(_plan) if status.transactions.iter().any(is_own) => Waiter::Transaction,
        Some(_plan) => Waiter::Plan,
    }
}

/// Returns how many prompts precede a request on the device of its address. Transactions come first, then plans, then
/// payments.
fn prompts_before(status: &DeviceStatus, view: &View, request: &Request) -> usize {
    // Mandates come last.
    let transactions = status
        .transactions
        .iter()
        .filter(|(subject, from)| *from == request.from && !subject.is_statement());
    let mut transactions = transactions.map(|(subject, _from)| subject.belongs_to(request));
    let count = transactions.clone().count();
    if let Some(own) = transactions.position(|is_own| is_own) {
        return own;
    }
    let plans = status.plans.iter().filter(|(_any, from)| *from == request.from);
    let plans = if request.execution().is_some() {
        plans.take_while(|(id, _from)| *id != request.id).count()
    } else {
        let older = waiting_payments(view).into_iter().filter(|one| one.from == request.from);
        plans.count().saturating_add(older.take_while(|one| one.id != request.id).count())
    };
    count.saturating_add(plans)
}

/// Returns the reason why no device may show this request now; `None` if a device may show it.
fn stop_reason(is_open: bool, view: &View, request: &Request) -> Option<QueueStatus> {
    if !is_open {
        return Some(QueueStatus::new("wallet locked", "The wallet is locked: open it."));
    }
    if view.untrusted_reason.is_some() {
        let text = "The journal does not match the wallet: see `audit verify`.";
        return Some(QueueStatus::new("journal untrusted", text));
    }
    if view.state.frozen.is_some() {
        return Some(QueueStatus::new(
            "frozen",
            "All agents are frozen: `thaw`, or deny the request.",
        ));
    }
    let agent = view.state.agents.get(&request.agent)?;
    agent
        .suspended
        .then(|| QueueStatus::new("suspended", "Its agent is suspended: resume it, or deny."))
}

/// Returns the addresses of the device emulators; `None` if the devices are real.
pub(super) fn emulator(engine: &EngineContext) -> Option<String> {
    engine.ports.devices.as_ref().and_then(|devices| devices.emulated_at())
}

/// Returns the state of the queue; `None` if it is empty and no device shows an old prompt.
pub(super) fn answer(engine: &EngineContext) -> Option<DeviceAnswer> {
    let view = engine.core.view();
    let moment = engine.core.now();
    let status = Arc::clone(&engine.device_status.borrow());
    let is_open = engine.vault.is_unlocked();
    let plans =
        view.state.plans_at_device().filter(|request| view.state.awaits_device_signature(request));
    let mut plans: Vec<&Arc<Request>> = plans.collect();
    plans.sort_by_key(|request| request.seq);
    let mut payments: Vec<&Arc<Request>> = view.state.waiting_at(&moment).collect();
    payments.sort_by_key(|request| request.seq);
    let mut sends = status
        .transactions
        .iter()
        .filter(|(subject, _from)| !plans.iter().any(|request| subject.belongs_to(request)));
    let requests = plans.len().saturating_add(payments.len());
    let count = requests.saturating_add(sends.clone().count());
    let first = plans.first().or(payments.first());
    let place_of = |(_subject, from): &(Subject, _)| {
        (*from, QueueStatus::first_in_queue(status.not_shown_reason(*from, Waiter::Transaction)))
    };
    let of_mandate = sends.clone().find(|(subject, _from)| subject.is_statement()).map(place_of);
    let of_send = sends.find(|(subject, _from)| !subject.is_statement()).map(place_of);
    let place = match (&status.prompting, first, of_send) {
        (Some(shown), ..) => QueueStatus::prompting(&shown.device),
        // A send goes before the requests of its address.
        (None, Some(first), Some((from, send))) if first.from == from => send,
        (None, Some(first), _other) => queue_status(&status, is_open, &view, first),
        (None, None, Some((_from, send))) => send,
        (None, None, None) if let Some((_from, mandate)) = of_mandate => mandate,
        (None, None, None) => QueueStatus::first_in_queue(Some(&NotReady::OwesAnswer {
            name: status.abandoned_device.clone()?,
        })),
    };
    let QueueStatus { label, state, is_prompting } = place;
    let may_retry = status.switch_off.values().any(|why| why.missing_switch().is_some());
    Some(DeviceAnswer { label, state, is_prompting, may_retry, waiting: count })
}

/// Returns what the device of a send waits for, in lower case; `None` if the send is not in the queue.
pub(super) fn send_wait_text(engine: &EngineContext, send: SubmissionId) -> Option<String> {
    let status = Arc::clone(&engine.device_status.borrow());
    let is_of = |subject: &Subject| matches!(subject, Subject::Attempt { submission, .. } if *submission == send);
    if let Some(shown) = status.prompting.as_ref().filter(|shown| is_of(&shown.subject)) {
        return Some(format!("compare it with the {}, and sign or refuse it there", shown.device));
    }
    let (_subject, from) = status.transactions.iter().find(|(subject, _from)| is_of(subject))?;
    let mut of_address = status.transactions.iter().filter(|(_subject, of)| of == from);
    let before = of_address.position(|(subject, _from)| is_of(subject)).unwrap_or(0);
    Some(match (before, status.not_shown_reason(*from, Waiter::Transaction)) {
        (0, Some(why)) => format!("waits for the Ledger: {}", why.sentence()),
        (0, None) => "waits for the Ledger".to_owned(),
        (before, _any) => format!("waits for the Ledger: {}", QueueStatus::behind(before).state),
    })
}

/// Returns the state of a send that waits for another transaction of its address on the device.
///
/// Only one transaction of an address at a time gets a nonce.
pub(super) fn later_send_text() -> String {
    format!("waits for the Ledger: {}", QueueStatus::behind(1).state)
}

/// Whether a person refused a send on its device.
pub(super) fn was_refused(engine: &EngineContext, send: SubmissionId) -> bool {
    engine
        .device_status
        .borrow()
        .refused_attempts
        .iter()
        .any(|(refused, _attempt)| *refused == send)
}

/// Whether a person refused this attempt of a send on its device.
pub(super) fn was_attempt_refused(engine: &EngineContext, of: (SubmissionId, usize)) -> bool {
    engine.device_status.borrow().refused_attempts.contains(&of)
}
