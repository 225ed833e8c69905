//! The journal's records of payments and trades whose key is on the device, as observations.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256};
use bursar_auditor::observations::{
    DeviceObservation, DeviceStep, DeviceTerms, DeviceTradeObservation, Observation, SignedContent,
};
use bursar_domain::{Entry, Event, LaneAsk, Request, State};
use bursar_submit::Event as OutboxEvent;

use crate::contents;
use crate::evm::notes::text;
use crate::tape::Tape;

/// The input of each trade ends with the number of its call, in this many units.
pub(crate) const CALLS_MAX: u64 = 1_000;

/// The journal's records of devices that the auditor has not been shown, by the number of their entry.
#[derive(Debug, Default)]
pub(crate) struct DeviceRecords {
    /// False in a world without a device.
    is_watched: bool,
    /// Those applied since the last commit, or since the process began to read the journal.
    applied: BTreeMap<u64, DeviceObservation>,
    /// Those of the last process that may be on disk, although no commit reported it.
    unconfirmed: BTreeMap<u64, DeviceObservation>,
}

impl DeviceRecords {
    /// From now on, keeps and shows the records.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
    }

    /// Adds the record that an entry gives. `state` is the state after it.
    pub(crate) fn add(&mut self, state: &State, entry: &Entry) {
        if self.is_watched {
            let record = of_entry(state, entry);
            self.applied.extend(record.map(|record| (entry.seq, record)));
        }
    }

    /// Shows the auditor the records of a commit.
    pub(crate) fn commit(&mut self, tape: &Tape) {
        for record in std::mem::take(&mut self.applied).into_values() {
            tape.write_audited(Observation::Device(record));
        }
    }

    /// Notes that a process begins to read the journal.
    pub(crate) fn start(&mut self) {
        self.unconfirmed = std::mem::take(&mut self.applied);
    }

    /// Shows the auditor the records that the last process wrote and those that the new one has read.
    ///
    /// `head` is the number of the last entry on disk. A process does not read the entries that its snapshot covers.
    pub(crate) fn end_start(&mut self, head: u64, tape: &Tape) {
        let mut on_disk = std::mem::take(&mut self.unconfirmed);
        on_disk.retain(|seq, _record| *seq <= head);
        on_disk.append(&mut self.applied);
        self.applied = on_disk;
        self.commit(tape);
    }
}

fn hex_of(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Returns the observation that an entry of the journal gives. `state` is the state after it.
fn of_entry(state: &State, entry: &Entry) -> Option<DeviceObservation> {
    match &entry.event {
        Event::PaymentPrompted { id, .. } => state
            .waiting
            .get(id)
            .and_then(|request| terms(request))
            .map(DeviceObservation::Recorded),
        Event::SignedOnDevice { id, signature } => Some(DeviceObservation::Signed {
            request: id.to_string(),
            signature: hex_of(&signature.to_bytes()),
        }),
        Event::AllowanceRenewed { agent, start } => {
            Some(DeviceObservation::Renewed { agent: agent.to_string(), start_ms: start.utc.0 })
        }
        _other => of_trade(state, &entry.event).map(DeviceObservation::Trade),
    }
}

/// Returns the observation about a trade that an event gives.
fn of_trade(state: &State, event: &Event) -> Option<DeviceTradeObservation> {
    match event {
        Event::ExecutionStarted { draft, .. } => {
            allowed(state, draft.id.to_string(), draft.from, &draft.ask)
        }
        Event::ExecutionApproved { id, .. } => {
            let request = state.executing.get(id)?;
            allowed(state, id.to_string(), request.from, &request.ask)
        }
        Event::PermitOrdered { id, .. } => {
            let request = state.executing.get(id)?;
            let (digest, content) = contents::permit(request)?;
            recorded(state, request, request.from, digest, content)
        }
        Event::PermitSigned { id, .. } => {
            let (digest, _content) = contents::permit(state.executing.get(id)?)?;
            Some(DeviceTradeObservation::Signed { digest: hex_of(digest.as_slice()) })
        }
        Event::Outbox { key, event: OutboxEvent::Authorized { id, .. } } => {
            let (digest, content) = contents::transaction(state, key, *id)?;
            recorded(state, contents::owner(state, *id)?, key.signer, digest, content)
        }
        Event::Outbox { key, event: OutboxEvent::Signed { id, attempt, .. } } => {
            let outbox = state.outboxes.get(key);
            let digest = outbox.open.get(id)?.attempts.get(*attempt)?.digest;
            Some(DeviceTradeObservation::Signed { digest: hex_of(digest.as_slice()) })
        }
        Event::ExecutionEnded { id, .. } => {
            Some(DeviceTradeObservation::Ended { request: id.to_string() })
        }
        Event::PlanClosed { id } => {
            Some(DeviceTradeObservation::Closed { request: id.to_string() })
        }
        _other => None,
    }
}

fn allowed(
    state: &State,
    request: String,
    from: Address,
    ask: &LaneAsk,
) -> Option<DeviceTradeObservation> {
    let LaneAsk::Trade(trade) = ask else { return None };
    let call = u64::try_from(trade.amount_in.0 % alloy_primitives::U256::from(CALLS_MAX)).ok()?;
    let from_device = state.is_on_device(from);
    from_device.then(|| DeviceTradeObservation::Allowed { request, call, from: text(from) })
}

fn recorded(
    state: &State,
    request: &Request,
    signer: Address,
    digest: B256,
    content: SignedContent,
) -> Option<DeviceTradeObservation> {
    let digest = hex_of(digest.as_slice());
    let (request, is_on_device) = (request.id.to_string(), state.is_on_device(signer));
    let step = DeviceStep { request, signer: text(signer), digest, content };
    is_on_device.then(|| DeviceTradeObservation::Recorded(Box::new(step)))
}

fn terms(request: &Request) -> Option<DeviceTerms> {
    let (terms, digest) = (request.terms()?, request.digest()?);
    let url = request.ask.payment()?.resource_url.as_deref()?;
    Some(DeviceTerms {
        request: request.id.to_string(),
        call: url.rsplit('/').next()?.parse().ok()?,
        agent: request.agent.to_string(),
        payer: format!("{:#x}", terms.from),
        digest: hex_of(digest.as_slice()),
        nonce: hex_of(terms.nonce.as_slice()),
        amount: terms.value.try_into().ok()?,
        micros: request.ask.usd().0,
        valid_before_s: terms.valid_before,
    })
}
