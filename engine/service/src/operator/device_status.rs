//! What the operator is shown of the hardware devices: the state of their queue, and what a device shows of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::U256;
use bursar_control::answers::DeviceAnswer;
use bursar_core::card::DeviceCard;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::{ChainId, NATIVE_DECIMALS, Network};
use bursar_domain::Request;
use bursar_domain::plan::{Execution, outbox_key};
use bursar_domain::requests::PaymentAsk;
use bursar_domain::state::State;
use bursar_submit::SubmissionId;
use bursar_uniswap::permit::domain as permit_domain;
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

/// Returns the places of all requests that wait for a device, and of plans that wait for it to take back an allowance.
pub(super) fn places(engine: &EngineContext, view: &View) -> BTreeMap<RequestId, Place> {
    let status = Arc::clone(&engine.device_status.borrow());
    let is_open = engine.vault.is_unlocked();
    let requests = view.state.waiting.values().chain(view.state.plans_at_device());
    requests.map(|request| (request.id, place(&status, is_open, view, request))).collect()
}

/// Returns the labels of all places.
pub(super) fn labels(engine: &EngineContext, view: &View) -> BTreeMap<RequestId, String> {
    places(engine, view).into_iter().map(|(id, place)| (id, place.label)).collect()
}

fn place(status: &DeviceStatus, is_open: bool, view: &View, request: &Request) -> Place {
    let prompting = status.prompting.as_ref();
    if let Some(shown) = prompting.filter(|one| belongs_to(&one.subject, request)) {
        return Place::prompting(&shown.device);
    }
    if let Some(stop) = stop(is_open, view, request) {
        return stop;
    }
    if request.execution().is_some() && !view.state.awaits_press(request) {
        return Place::new("sent", "Its last transaction is on the way to a block.");
    }
    match (before(status, view, request), status.not_ready.get(&request.from), prompting) {
        (0, None, Some(_other)) => Place::new("next", "The Ledger shows another request first."),
        (0, not_ready, _any) => Place::first(not_ready),
        (before, _any, _other) => Place::before(before),
    }
}

/// Returns whether a signature is for this request.
fn belongs_to(subject: &Subject, request: &Request) -> bool {
    match subject {
        Subject::Request(id) | Subject::Permit(id) => *id == request.id,
        Subject::Attempt { submission, .. } => {
            let step = request.execution().and_then(Execution::open_step);
            step.is_some_and(|step| step.submission == *submission)
        }
    }
}

/// Returns how many are shown before a request on the device of its address: transactions, then plans, then payments.
fn before(status: &DeviceStatus, view: &View, request: &Request) -> usize {
    let transactions = status.transactions.iter().filter(|(_any, from)| *from == request.from);
    let mut transactions = transactions.map(|(subject, _from)| belongs_to(subject, request));
    let count = transactions.clone().count();
    if let Some(own) = transactions.position(|is_own| is_own) {
        return own;
    }
    let plans = status.plans.iter().filter(|(_any, from)| *from == request.from);
    let plans = if request.execution().is_some() {
        plans.take_while(|(id, _from)| *id != request.id).count()
    } else {
        let older = waiting(view).into_iter().filter(|one| one.from == request.from);
        plans.count().saturating_add(older.take_while(|one| one.id != request.id).count())
    };
    count.saturating_add(plans)
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
    let plans = view.state.plans_at_device().filter(|request| view.state.awaits_press(request));
    let mut plans: Vec<&Arc<Request>> = plans.collect();
    plans.sort_by_key(|request| request.seq);
    let mut payments: Vec<&Arc<Request>> = view.state.waiting_at(&moment).collect();
    payments.sort_by_key(|request| request.seq);
    let mut sends = status
        .transactions
        .iter()
        .filter(|(subject, _from)| !plans.iter().any(|request| belongs_to(subject, request)));
    let requests = plans.len().saturating_add(payments.len());
    let count = requests.saturating_add(sends.clone().count());
    let first = plans.first().or(payments.first());
    let place = match (&status.prompting, first, sends.next()) {
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
pub(super) fn card(state: &State, request: &Request, place: &Place) -> Option<DeviceCard> {
    let chain = request.ask.chain();
    let rows = match request.ask.payment() {
        Some(payment) => shows(request, payment, &payment.token_domain()?),
        None => shows_of_plan(state, request).unwrap_or_default(),
    };
    let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value));
    Some(DeviceCard {
        state: place.state.clone(),
        is_prompting: place.is_prompting,
        shows: rows.collect(),
        note: note(request.ask.network(), chain),
    })
}

/// Returns what the device shows of the step that a plan takes now; `None` before its terms are fixed.
fn shows_of_plan(state: &State, request: &Request) -> Option<Vec<(&'static str, String)>> {
    let execution = request.execution()?;
    let network = request.ask.network()?;
    let Some(step) = execution.open_step() else {
        request.permit_digest()?;
        let permit = execution.permit.as_ref()?.permit;
        let permit2 = network.exchange?.permit2;
        return Some(vec![
            ("name", "Permit2".to_owned()),
            ("chainId", network.chain.to_string()),
            ("verifyingContract", permit2.to_checksum(None)),
            ("token", permit.token.to_checksum(None)),
            ("amount", permit.amount.to_string()),
            ("expiration", permit.expiration.to_string()),
            ("nonce", permit.nonce.to_string()),
            ("spender", permit.spender.to_checksum(None)),
            ("sigDeadline", permit.signature_deadline.to_string()),
            ("domain hash", permit_domain(network.chain, permit2).separator().to_string()),
            ("message hash", permit.struct_hash().ok()?.to_string()),
        ]);
    };
    let outbox = state.outboxes.get(&outbox_key(network.chain, request.from));
    let (attempt, tried) = outbox.open.get(&step.submission)?.unsigned_attempt()?;
    let unsigned = outbox.unsigned(step.submission, attempt)?;
    let most =
        U256::from(tried.fees.max_price()).checked_mul(U256::from(unsigned.call.gas_limit))?;
    let fees = TokenAmount { atoms: Atoms(most), decimals: NATIVE_DECIMALS };
    Some(vec![
        ("From", request.from.to_checksum(None)),
        ("To", unsigned.call.to.to_checksum(None)),
        ("Network", network.title.to_owned()),
        ("Max fees", format!("{fees} ETH")),
        ("Transaction hash", tried.digest.to_string()),
    ])
}

fn shows(
    request: &Request,
    payment: &PaymentAsk,
    token: &TokenDomain,
) -> Vec<(&'static str, String)> {
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
    rows
}

/// Notes that the app knows the names of a few networks only.
fn note(network: Option<&Network>, chain: ChainId) -> Option<String> {
    let unnamed = network.is_none_or(|network| !network.named_on_ledger);
    unnamed.then(|| {
        format!("The Ledger may show this network as the bare number {chain}, and its coin as ???.")
    })
}
