//! What the operator is shown of the hardware devices: the state of their queue, and what a device shows of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_control::answers::DeviceAnswer;
use bursar_core::card::DeviceCard;
use bursar_core::ids::RequestId;
use bursar_domain::Request;
use bursar_domain::requests::PaymentAsk;
use bursar_submit::SubmissionId;
use bursar_x402::typed_data::{TokenDomain, struct_hash};

use crate::context::EngineContext;
use crate::core::View;
use crate::device::NotReady;
use crate::journal::Subject;
use crate::lanes::devices::{DeviceStatus, waiting};

/// The place of a request in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Two or three words.
    pub(super) label: String,
    /// What the operator does now, as a sentence.
    pub(super) state: String,
    pub(super) is_prompting: bool,
}

impl Place {
    fn new(label: &str, state: impl Into<String>) -> Self {
        Self { label: label.to_owned(), state: state.into(), is_prompting: false }
    }

    fn prompting(device: &str) -> Self {
        let state =
            format!("The {device} shows it: compare it with this, and sign or refuse it there.");
        Self { is_prompting: true, ..Self::new("confirm on device", state) }
    }

    /// Returns the place of the first of its device.
    fn first(not_ready: Option<&NotReady>) -> Self {
        match not_ready {
            Some(why) => Self::new(why.label(), why.sentence()),
            None => Self::new("next", "The wallet looks for the Ledger."),
        }
    }

    fn before(count: usize) -> Self {
        let (is, s) = if count == 1 { ("is", "") } else { ("are", "s") };
        let state = format!("{count} other request{s} {is} shown on the Ledger before it.");
        Self::new(&format!("{count} before it"), state)
    }
}

/// Returns the places of all requests that wait for a device.
pub(super) fn places(engine: &EngineContext, view: &View) -> BTreeMap<RequestId, Place> {
    let status = Arc::clone(&engine.device_status.borrow());
    let is_open = engine.vault.is_unlocked();
    let requests = view.state.waiting.values();
    requests.map(|request| (request.id, place(&status, is_open, view, request))).collect()
}

fn place(status: &DeviceStatus, is_open: bool, view: &View, request: &Request) -> Place {
    let prompting = status.prompting.as_ref();
    if let Some(shown) = prompting.filter(|one| one.subject == Subject::Request(request.id)) {
        return Place::prompting(&shown.device);
    }
    if let Some(stop) = stop(is_open, view, request) {
        return stop;
    }
    let older = waiting(view).into_iter().filter(|one| one.from == request.from);
    let older = older.take_while(|one| one.id != request.id).count();
    let transactions = status.transactions.iter().filter(|(_any, from)| *from == request.from);
    let before = older.saturating_add(transactions.count());
    match (before, status.not_ready.get(&request.from), prompting) {
        (0, None, Some(_other)) => Place::new("next", "The Ledger shows another request first."),
        (0, not_ready, _any) => Place::first(not_ready),
        (before, _any, _other) => Place::before(before),
    }
}

/// Returns why nothing is shown on a device.
fn stop(is_open: bool, view: &View, request: &Request) -> Option<Place> {
    if !is_open {
        return Some(Place::new("wallet locked", "The wallet is locked: open it."));
    }
    if view.untrusted.is_some() {
        let text = "The journal does not match the wallet: see `audit verify`.";
        return Some(Place::new("journal untrusted", text));
    }
    if view.state.frozen.is_some() {
        return Some(Place::new("frozen", "All agents are frozen: `thaw`, or deny the request."));
    }
    let agent = view.state.agents.get(&request.agent)?;
    agent.suspended.then(|| Place::new("suspended", "Its agent is suspended: resume it, or deny."))
}

/// Returns the state of the queue; `None` if it is empty and no device shows an old prompt.
pub(super) fn answer(engine: &EngineContext) -> Option<DeviceAnswer> {
    let view = engine.core.view();
    let moment = engine.core.now();
    let status = Arc::clone(&engine.device_status.borrow());
    let is_open = engine.vault.is_unlocked();
    let mut waiting: Vec<&Arc<Request>> = view.state.waiting_at(&moment).collect();
    waiting.sort_by_key(|request| request.seq);
    let count = waiting.len().saturating_add(status.transactions.len());
    let transaction = status.transactions.first();
    let place = match (&status.prompting, waiting.first(), transaction) {
        (Some(shown), ..) => Place::prompting(&shown.device),
        (None, Some(first), _any) => place(&status, is_open, &view, first),
        (None, None, Some((_subject, from))) => Place::first(status.not_ready.get(from)),
        (None, None, None) => {
            Place::first(Some(&NotReady::OwesAnswer { name: status.abandoned.clone()? }))
        }
    };
    let Place { label, state, is_prompting } = place;
    Some(DeviceAnswer { label, state, is_prompting, waiting: count })
}

/// Returns what the device of a send waits for, in lower case; `None` if the send is not in the queue.
pub(super) fn of_send(engine: &EngineContext, send: SubmissionId) -> Option<String> {
    let status = Arc::clone(&engine.device_status.borrow());
    let is_of = |subject: &Subject| matches!(subject, Subject::Attempt { submission, .. } if *submission == send);
    if let Some(shown) = status.prompting.as_ref().filter(|shown| is_of(&shown.subject)) {
        return Some(format!("compare it with the {}, and sign or refuse it there", shown.device));
    }
    let (_subject, from) = status.transactions.iter().find(|(subject, _from)| is_of(subject))?;
    Some(match status.not_ready.get(from) {
        Some(why) => format!("waits for the Ledger: {}", why.sentence()),
        None => "waits for the Ledger".to_owned(),
    })
}

/// Returns what a card shows of the device.
pub(super) fn card(request: &Request, place: &Place) -> Option<DeviceCard> {
    let payment = request.ask.payment()?;
    let token = payment.token_domain()?;
    Some(DeviceCard {
        state: place.state.clone(),
        is_prompting: place.is_prompting,
        shows: shows(request, payment, &token),
        note: note(payment),
    })
}

fn shows(request: &Request, payment: &PaymentAsk, token: &TokenDomain) -> Vec<(String, String)> {
    let mut rows = vec![
        ("name", token.name.clone()),
        ("version", token.version.clone()),
        ("chainId", token.chain.to_string()),
        ("verifyingContract", token.contract.to_checksum(None)),
        ("from", request.from.to_checksum(None)),
        ("to", payment.payee.to_checksum(None)),
        ("value", payment.amount.to_string()),
    ];
    if let Some(terms) = request.terms() {
        rows.extend([
            ("validAfter", terms.valid_after.to_string()),
            ("validBefore", terms.valid_before.to_string()),
            ("nonce", terms.nonce.to_string()),
        ]);
    }
    rows.push(("domain hash", token.separator().to_string()));
    if let Some(terms) = request.terms() {
        rows.push(("message hash", struct_hash(terms).to_string()));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Notes that the app knows the names of a few networks only.
fn note(payment: &PaymentAsk) -> Option<String> {
    let unnamed = payment.network().is_none_or(|network| !network.named_on_ledger);
    unnamed.then(|| {
        let chain = payment.chain;
        format!("The Ledger may show this network as the bare number {chain}, and its coin as ???.")
    })
}
