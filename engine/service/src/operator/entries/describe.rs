//! Describes journal entries for the activity list. Shows no secrets, and only the host of a URL.

use bursar_control::answers::ActivityRow;
use bursar_core::change::{self, Change};
use bursar_core::client::Client;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::limits::REPORT_TEXT_BYTES_MAX;
use bursar_core::money::Atoms;
use bursar_core::networks::{self, ChainId};
use bursar_core::payee_label::PayeeLabel;
use bursar_core::settings::keys::Key;
use bursar_core::status::EntryKind;
use bursar_core::text;
use bursar_domain::event::RequestDraft;
use bursar_domain::outboxes::Send;
use bursar_domain::payee::Payee;
use bursar_domain::plan::ExecutionEnd;
use bursar_domain::proofs::ProofEvent;
use bursar_domain::settlement::{Check, Settlement};
use bursar_domain::{Entry, Event, LaneAsk, Refusal, Request, State, plan_text};
use bursar_morpho::VenueId;

use super::{mandates, outboxes};
use crate::journal::{Reader, StoreError};

/// Completes rows with the requests and the current agent names that entries refer to by id.
pub(in crate::operator) struct EntryDescriber<'a> {
    pub(in crate::operator) state: &'a State,
    pub(in crate::operator) reader: &'a dyn Reader,
}

/// The subject of an entry.
enum EntrySubject<'a> {
    Wallet,
    Agent(&'a AgentId),
    /// A request that the entry contains.
    NewRequest(&'a RequestDraft),
    /// A request that an earlier entry created.
    Request(RequestId),
}

/// The kind, the subject and the detail of an entry.
type Description<'a> = (EntryKind, EntrySubject<'a>, Option<String>);

impl EntryDescriber<'_> {
    pub(in crate::operator) fn row(&self, entry: &Entry) -> Result<ActivityRow, StoreError> {
        let (kind, about, detail) = describe(&entry.event);
        let mut row = ActivityRow {
            seq: entry.seq,
            at: text::utc(entry.at),
            kind,
            request: None,
            agent_id: None,
            agent: None,
            amount: None,
            host: None,
            detail,
            changes: changes(&entry.event),
        };
        match about {
            EntrySubject::Wallet => {}
            EntrySubject::Agent(agent) => self.agent(&mut row, agent),
            EntrySubject::NewRequest(asked) => {
                self.request(&mut row, asked.id, &asked.agent, &asked.ask)
            }
            EntrySubject::Request(id) => {
                row.request = Some(id.to_string());
                if let Some(known) = self.reader.request(id)? {
                    self.request(&mut row, id, &known.agent, &known.ask);
                    row.detail = step(&entry.event, &known).or(row.detail);
                }
            }
        }
        Ok(row)
    }

    fn request(&self, row: &mut ActivityRow, id: RequestId, agent: &AgentId, ask: &LaneAsk) {
        row.kind = row.kind.in_lane(ask.lane());
        row.request = Some(id.to_string());
        row.amount = Some(ask.amount());
        row.host = ask.host();
        self.agent(row, agent);
    }

    fn agent(&self, row: &mut ActivityRow, agent: &AgentId) {
        row.agent_id = Some(agent.to_string());
        row.agent = self.state.agents.get(agent).map(|agent| agent.name.as_str().to_owned());
    }
}

fn describe(event: &Event) -> Description<'_> {
    use EntrySubject::{Agent, NewRequest, Request, Wallet};
    match event {
        Event::WalletCreated { name, .. } => (EntryKind::WalletCreated, Wallet, some_text(name)),
        Event::SeedAdded { id, words } => {
            (EntryKind::SeedAdded, Wallet, Some(format!("{id}, {words} words")))
        }
        Event::AddressAdded(added) => {
            let address = added.address.to_checksum(None);
            (EntryKind::AddressAdded, Wallet, Some(format!("{}, {address}", added.label)))
        }
        Event::AddressRenamed { from, to } => {
            (EntryKind::AddressRenamed, Wallet, Some(format!("{from} to {to}")))
        }
        Event::AddressDeleted { label } => (EntryKind::AddressDeleted, Wallet, some_text(label)),
        Event::PolicySet { name, .. } => {
            (EntryKind::PolicySet, Wallet, Some(with_changes(name.to_string(), event)))
        }
        Event::PolicyDeleted { name } => (EntryKind::PolicyDeleted, Wallet, some_text(name)),
        // The name at registration: a deleted agent has no current name.
        Event::AgentRegistered { id, name, credential } => {
            let detail = format!("{name}, {}", credential.mode().text());
            (EntryKind::AgentRegistered, Agent(id), Some(detail))
        }
        Event::CredentialReplaced { agent, credential } => {
            (EntryKind::AgentCredentialReplaced, Agent(agent), some_text(credential.mode().text()))
        }
        Event::AgentCommissioned { agent, policy, label, .. } => {
            let now = format!("policy {policy}, address {label}");
            let detail =
                if changes(event).is_empty() { now } else { change::describe(&changes(event)) };
            (EntryKind::AgentCommissioned, Agent(agent), Some(detail))
        }
        Event::AgentSuspended { agent } => (EntryKind::AgentSuspended, Agent(agent), None),
        Event::AgentResumed { agent } => (EntryKind::AgentResumed, Agent(agent), None),
        Event::AgentDeleted { agent } => (EntryKind::AgentDeleted, Agent(agent), None),
        Event::AllowanceRenewed { agent, .. } => (EntryKind::AllowanceRenewed, Agent(agent), None),
        Event::NetworkSet { chain, enabled } => {
            (EntryKind::NetworkSet, Wallet, Some(network(*chain, *enabled).text()))
        }
        Event::Frozen => (EntryKind::Frozen, Wallet, None),
        Event::Thawed => (EntryKind::Thawed, Wallet, None),
        Event::JournalAccepted => (EntryKind::JournalAccepted, Wallet, None),
        Event::JournalRestored { .. } => (EntryKind::JournalRestored, Wallet, None),
        Event::AuthorizationsLapsed => (EntryKind::AuthorizationsLapsed, Wallet, None),
        Event::RestoreDated { .. } => (EntryKind::JournalRestoreDated, Wallet, None),
        Event::SettingChanged { .. } => {
            (EntryKind::SettingChanged, Wallet, Some(change::describe(&changes(event))))
        }
        Event::EngineStarted => (EntryKind::EngineStarted, Wallet, None),
        Event::WalletOpened { .. } => (EntryKind::WalletUnlocked, Wallet, None),
        Event::WalletOpenedUnattended { .. } => {
            (EntryKind::WalletUnlocked, Wallet, some_text("by the service, without a person"))
        }
        Event::UnattendedDayStarted { .. } => (EntryKind::UnattendedDayStarted, Wallet, None),
        Event::WalletDeleted => (EntryKind::WalletDeleted, Wallet, None),
        Event::WalletLocked { cause, .. } => {
            (EntryKind::WalletLocked, Wallet, some_text(cause.text()))
        }
        Event::PasswordChanged => (EntryKind::WalletPasswordChanged, Wallet, None),
        Event::PasswordRefused { times } => {
            let plural = if *times == 1 { "" } else { "s" };
            let detail = format!("{times} wrong password{plural} since the last unlock");
            (EntryKind::WalletPasswordRefused, Wallet, Some(detail))
        }
        Event::PaymentAuthorized { draft, .. } => {
            (EntryKind::PaymentAuthorized, NewRequest(draft), None)
        }
        Event::DeviceAwaited { draft, .. } => {
            (EntryKind::PaymentAwaitsDevice, NewRequest(draft), some_text("allowed by the policy"))
        }
        Event::DeviceAwaitApproved { id, by, .. } => {
            (EntryKind::PaymentAwaitsDevice, Request(*id), Some(format!("approved by {by}")))
        }
        Event::PaymentPrompted { id, .. } => (EntryKind::PaymentPrompted, Request(*id), None),
        Event::PromptFailed { id } => (EntryKind::PaymentPromptFailed, Request(*id), None),
        Event::SignedOnDevice { id, .. } => {
            (EntryKind::PaymentSigned, Request(*id), some_text("on its Ledger"))
        }
        Event::DeviceWaitEnded { id, end, .. } => {
            (EntryKind::PaymentNotSigned, Request(*id), some_text(end.sentence()))
        }
        Event::PaymentLapsed { id } => (EntryKind::PaymentLapsed, Request(*id), None),
        Event::RequestHeld { draft, reason, .. } => {
            (EntryKind::PaymentHeld, NewRequest(draft), some_text(reason.sentence()))
        }
        Event::RequestRefused { draft, refusal } => {
            (EntryKind::PaymentRefused, NewRequest(draft), Some(refusal_text(refusal)))
        }
        Event::PaymentApproved { id, by, .. } => {
            (EntryKind::PaymentApproved, Request(*id), Some(format!("by {by}")))
        }
        Event::RequestDenied { id, reason, by, .. } => {
            (EntryKind::PaymentDenied, Request(*id), Some(denial_text(by, reason.as_deref())))
        }
        Event::RequestExpired { id, .. } => (EntryKind::PaymentExpired, Request(*id), None),
        Event::RequestRejected { id, refusal } => {
            (EntryKind::PaymentRejected, Request(*id), Some(refusal_text(refusal)))
        }
        Event::ExecutionStarted { draft, .. } => (EntryKind::TradeStarted, NewRequest(draft), None),
        Event::ExecutionApproved { id, by, .. } => {
            (EntryKind::TradeApproved, Request(*id), Some(format!("by {by}")))
        }
        Event::StepOpened { id, purpose, .. } => {
            (EntryKind::TradeStepOpened, Request(*id), some_text(purpose.text()))
        }
        Event::PermitOrdered { id, .. } => (EntryKind::TradePermitOrdered, Request(*id), None),
        Event::PermitSigned { id, .. } => (EntryKind::TradePermitSigned, Request(*id), None),
        Event::StepEnded { id, outcome } => {
            (EntryKind::TradeStepEnded, Request(*id), some_text(outboxes::outcome_text(outcome)))
        }
        Event::ExecutionEnded { id, end } => {
            (EntryKind::TradeEnded, Request(*id), some_text(end_text(end)))
        }
        Event::EditionNamed { edition } => {
            (EntryKind::EditionNamed, Wallet, Some(edition.text().to_owned()))
        }
        Event::Mandate(event) => {
            let (kind, agent, detail) = mandates::describe(event);
            (kind, Agent(agent), Some(detail))
        }
        Event::Proof(ProofEvent::Anchored(anchor)) => {
            let detail = format!("entries 1 to {}, {} requests", anchor.through, anchor.requests);
            (EntryKind::JournalAnchored, Wallet, Some(detail))
        }
        Event::Proof(ProofEvent::Stated(statement)) => {
            (EntryKind::ReceiptStated, Request(statement.request), None)
        }
        Event::PayeeNamed { payee, label } => {
            (EntryKind::PayeeNamed, Wallet, Some(payee_text(payee, label.as_ref())))
        }
        Event::VenueTrusted { chain, venue, .. } => {
            about_venue(EntryKind::VenueTrusted, *chain, venue)
        }
        Event::VenueUntrusted { chain, venue } => {
            about_venue(EntryKind::VenueUntrusted, *chain, venue)
        }
        Event::WithdrawalBooked { received, .. } => {
            (EntryKind::LoanWithdrawalBooked, Wallet, Some(withdrawal_text(*received)))
        }
        Event::LoanWrittenOff { place, from, to } => {
            let venue = venue_text(place.chain, &place.venue);
            let detail = format!("{} of {from} USD in {venue}", from.left_after(*to));
            (EntryKind::LoanWrittenOff, Wallet, Some(detail))
        }
        Event::TradeFeeCounted { id, fee } => {
            (EntryKind::TradeFeeCounted, Request(*id), Some(format!("{fee} USD of gas")))
        }
        Event::PlanClosed { id } => (EntryKind::TradeClosed, Request(*id), None),
        Event::PaymentSigned { id, .. } => (EntryKind::PaymentSigned, Request(*id), None),
        Event::SendOrdered(send) => (EntryKind::SendOrdered, Wallet, some_text(send_text(send))),
        Event::Outbox { key, event } => {
            let (kind, detail) = outboxes::describe(key, event);
            (kind, Wallet, Some(detail))
        }
        Event::SettlementReported { settlement, .. } => {
            (EntryKind::SettlementReported, Request(settlement.id), Some(report_text(settlement)))
        }
        Event::SettlementChecked { id, found } => {
            (EntryKind::SettlementChecked, Request(*id), check_text(found))
        }
    }
}

/// Describes the step of a plan that an entry opened, like `1/2 token approval`.
fn step(event: &Event, request: &Request) -> Option<String> {
    let Event::StepOpened { purpose, quote, .. } = event else { return None };
    let steps = &request.execution()?.steps;
    let before = steps.iter().position(|step| step.purpose == *purpose)?;
    Some(plan_text::step_text(*purpose, before, quote))
}

fn end_text(end: &ExecutionEnd) -> String {
    match end {
        ExecutionEnd::Executed { hash, .. } => format!("executed, {hash}"),
        ExecutionEnd::Rejected(refusal) => refusal_text(refusal),
        ExecutionEnd::Failed { refusal, .. } => format!("failed: {}", refusal_text(refusal)),
    }
}

fn refusal_text(refusal: &Refusal) -> String {
    text::visible(&refusal.describe())
}

fn withdrawal_text(received: Option<Atoms>) -> String {
    match received {
        Some(atoms) => format!("{atoms} units came back"),
        None => "the receipt does not show what came back".to_owned(),
    }
}

/// Formats a venue with its network.
fn venue_text(chain: ChainId, venue: &VenueId) -> String {
    format!("{venue} on {}", network_text(chain))
}

/// Describes an entry about a venue.
fn about_venue(kind: EntryKind, chain: ChainId, venue: &VenueId) -> Description<'static> {
    (kind, EntrySubject::Wallet, Some(venue_text(chain, venue)))
}

/// Formats a payee with its new name.
fn payee_text(payee: &Payee, label: Option<&PayeeLabel>) -> String {
    let name = label.map(|label| text::quoted(label.as_str(), usize::MAX));
    let name = name.unwrap_or_else(|| "no name".to_owned());
    format!("{name} for {} on {}", payee.address.to_checksum(None), network_text(payee.chain))
}

fn network_text(chain: ChainId) -> String {
    let network = networks::by_chain(chain);
    network.map_or_else(|| chain.to_string(), |known| known.title.to_owned())
}

fn send_text(send: &Send) -> String {
    let to = send.to.to_checksum(None);
    format!("{} from {} to {to}, by {}", send.amount_text(), send.label, send.by)
}

fn denial_text(by: &Client, reason: Option<&str>) -> String {
    // The operator wrote the reason, so it is not quoted like an agent's text.
    let reason = reason.map(|reason| format!(": {}", text::visible(reason)));
    format!("by {by}{}", reason.unwrap_or_default())
}

fn some_text(text: impl ToString) -> Option<String> {
    Some(text.to_string())
}

/// Returns the changes that the entry itself contains; earlier values are not looked up in the journal.
fn changes(event: &Event) -> Vec<Change> {
    match event {
        Event::PolicySet { policy, before: Some(before), .. } => policy.changes(before),
        Event::SettingChanged { from, to } => vec![to.change(from)],
        Event::NetworkSet { chain, enabled } => vec![network(*chain, *enabled)],
        Event::AgentCommissioned { policy, label, before: Some(before), .. } => {
            let names = [("policy", &before.policy, policy), ("label", &before.label, label)];
            let differ = names.iter().filter(|(_field, from, to)| from != to);
            differ.map(|(field, from, to)| name_change(field, from, to)).collect()
        }
        _of_one_value => Vec::new(),
    }
}

fn network(chain: ChainId, enabled: bool) -> Change {
    let known = networks::by_chain(chain);
    let word = |on: bool| if on { "enabled" } else { "disabled" }.to_owned();
    Change {
        field: Key::NetworkEnabled(chain).to_string(),
        name: known.map_or_else(|| chain.to_string(), |known| known.title.to_owned()),
        from: word(!enabled),
        to: word(enabled),
        unit: String::new(),
        loosens: enabled,
    }
}

/// Returns the change of an agent's policy or address. It counts as loosening, because the entry does not show
/// whether the new policy or address allows more.
fn name_change(field: &str, from: &Name, to: &Name) -> Change {
    let (from, to) = (from.as_str().to_owned(), to.as_str().to_owned());
    let name = if field == "label" { "address" } else { field };
    let (field, name) = (field.to_owned(), name.to_owned());
    Change { field, name, from, to, unit: String::new(), loosens: true }
}

fn with_changes(what: String, event: &Event) -> String {
    match changes(event) {
        none if none.is_empty() => what,
        some => format!("{what}: {}", change::describe(&some)),
    }
}

/// Describes the settlement that the agent reported.
fn report_text(settlement: &Settlement) -> String {
    let mut report = settlement.stage.text().to_owned();
    if let Some(hash) = settlement.tx_hash {
        report.push_str(&format!(", tx {hash}"));
    }
    if let Some(error) = &settlement.error {
        report.push_str(&format!(": {}", text::quoted(error, REPORT_TEXT_BYTES_MAX)));
    }
    report
}

/// Describes the result of our own chain lookup, or returns `None` if lookups are off.
fn check_text(found: &Check) -> Option<String> {
    let word = match found {
        Check::Off => return None,
        Check::Verified { .. } => "confirmed by the chain",
        Check::Pending { .. } => "being checked",
        Check::Reverted { .. } => "failed",
        Check::Mismatch { .. } | Check::NotFound => "refuted",
        Check::Unavailable => "not checked",
    };
    Some(match (found.detail(), found.block()) {
        (Some(detail), _) => format!("{word}: {detail}"),
        (None, Some(block)) => format!("{word} in block {block}"),
        (None, None) => word.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::settings::Setting;

    #[test]
    fn chain_results_and_accepted_journals_are_described() {
        let id = RequestId::from_bytes([1; 16]);
        for (found, detail) in [
            (Check::Off, None),
            (Check::Verified { block: 7 }, Some("confirmed by the chain in block 7")),
            (
                Check::Reverted { block: 7 },
                Some("failed: the chain reports that this transaction reverted"),
            ),
            (
                Check::Mismatch { block: 7 },
                Some("refuted: this transaction does not contain this payment"),
            ),
            (Check::NotFound, Some("refuted: the chain does not know this transaction")),
            (Check::Unavailable, Some("not checked: the lookup on the chain failed")),
        ] {
            let event = Event::SettlementChecked { id, found };
            let (kind, about, text) = describe(&event);
            assert_eq!((kind, text.as_deref()), (EntryKind::SettlementChecked, detail));
            assert!(matches!(about, EntrySubject::Request(about) if about == id));
        }
        assert_eq!(describe(&Event::JournalAccepted).0, EntryKind::JournalAccepted);
        assert_eq!(describe(&Event::EngineStarted).0, EntryKind::EngineStarted);
        let (from, to) = (Setting::AllowLan(false), Setting::AllowLan(true));
        let lan = Event::SettingChanged { from, to };
        assert_eq!(describe(&lan).2.as_deref(), Some("server open to the network off -> on"));
    }
}
