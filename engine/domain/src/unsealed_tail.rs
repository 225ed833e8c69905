//! Which entries may follow the last seal of the journal. Seals are made while the wallet is unlocked. Later entries
//! were written while it was locked, and must be changes that a locked wallet allows. Any process that can write the
//! file could have appended them, so the rule judges the change, not the kind of event.

use bursar_submit::{Event as OutboxEvent, OutboxKey};
use bursar_x402::signature::{Signature65, recover};

use crate::event::{Entry, Event};
use crate::prompts::WaitEnd;
use crate::requests::{Request, Status};
use crate::settlement::Check;
use crate::state::State;

/// Returns whether `entry` may follow `before` without the key that makes seals.
pub fn may_follow_a_seal(before: &State, entry: &Entry) -> bool {
    match &entry.event {
        Event::WalletCreated { .. } => before.wallet.is_none(),
        // The recorded previous policy must match the state, or the entry would show the operator a different change.
        Event::PolicySet { name, policy, before: recorded, .. } => {
            before.policy(name).is_some_and(|record| {
                !policy.loosens(&record.policy) && recorded.as_deref() == Some(&record.policy)
            })
        }
        // An engine starts with a locked wallet, and its start can only tighten a limit.
        Event::EngineStarted
        | Event::PolicyDeleted { .. }
        | Event::AgentSuspended { .. }
        | Event::Frozen
        | Event::NetworkSet { enabled: false, .. } => true,
        // An agent with undecided requests must stay: without their agent they could not be decided.
        Event::AgentDeleted { agent } => {
            let mut waits = before.held.values().chain(before.waiting.values());
            waits.all(|request| request.agent != *agent)
        }
        Event::VenueUntrusted { chain, venue } => {
            before.loans.venue(*chain, *venue).is_some_and(|record| record.confirmed.is_some())
        }
        Event::SettingChanged { from, to } => {
            !to.loosens(&before.settings) && *from == to.current_value(&before.settings)
        }
        // With an unlocked wallet the entry gets a seal.
        Event::PasswordRefused { times } => {
            *times == before.passwords_refused.saturating_add(1)
        }
        // The agent must have reported the settlement while the wallet was unlocked.
        Event::SettlementChecked { id, found } => {
            let ends = !matches!(found, Check::Pending { .. } | Check::Off);
            ends && before.settling.contains_key(id)
        }
        Event::RequestDenied { id, .. } => {
            before.held.contains_key(id) || before.waiting.contains_key(id)
        }
        Event::RequestExpired { id, .. } => before.held.contains_key(id),
        // The value of terms that the device may have signed stays reserved.
        Event::DeviceWaitEnded { id, end: WaitEnd::TooLate, .. } => before.waiting.contains_key(id),
        Event::PaymentSigned { id, signature } => {
            before.authorized.get(id).is_some_and(|request| is_signed_by_payer(request, signature))
        }
        Event::Outbox { key, event } => may_happen_while_locked(before, key, event),
        // Only the first entry of a journal names its edition.
        Event::EditionNamed { .. } => before.seq == 0,
        // A locked wallet cannot spend, so its allowances renew at the next unlock.
        Event::AllowanceRenewed { .. }
        | Event::SeedAdded { .. }
        | Event::SendOrdered(_)
        | Event::AddressAdded(_)
        | Event::AgentRegistered { .. }
        | Event::CredentialReplaced { .. }
        | Event::AgentCommissioned { .. }
        | Event::AgentResumed { .. }
        | Event::NetworkSet { enabled: true, .. }
        | Event::Thawed
        | Event::WalletOpened { .. }
        | Event::WalletOpenedUnattended { .. }
        | Event::UnattendedDayStarted { .. }
        | Event::WalletDeleted
        | Event::WalletLocked { .. }
        | Event::PasswordChanged
        | Event::JournalAccepted
        | Event::JournalRestored { .. }
        | Event::RestoreDated { .. }
        // Labels show the operator where money is and where it goes, so a forged label could mislead.
        | Event::AddressRenamed { .. }
        | Event::AddressDeleted { .. }
        | Event::PayeeNamed { .. }
        | Event::SettlementReported { .. }
        // A locked wallet opens no transaction and ends no submission, so it changes no plan.
        | Event::ExecutionStarted { .. }
        | Event::ExecutionApproved { .. }
        | Event::StepOpened { .. }
        | Event::PermitOrdered { .. }
        | Event::PermitSigned { .. }
        | Event::StepEnded { .. }
        | Event::ExecutionEnded { .. }
        | Event::TradeFeeCounted { .. }
        | Event::PlanClosed { .. }
        | Event::VenueTrusted { .. }
        | Event::WithdrawalBooked { .. }
        | Event::LoanWrittenOff { .. }
        | Event::PaymentAuthorized { .. }
        | Event::RequestHeld { .. }
        | Event::RequestRefused { .. }
        | Event::PaymentApproved { .. }
        | Event::RequestRejected { .. }
        // A locked wallet prompts no device and reads no answer from one.
        | Event::DeviceAwaited { .. }
        | Event::DeviceAwaitApproved { .. }
        | Event::PaymentPrompted { .. }
        | Event::SignedOnDevice { .. }
        | Event::PromptFailed { .. }
        | Event::DeviceWaitEnded { end: WaitEnd::Refused, .. }
        | Event::PaymentLapsed { .. }
        | Event::AuthorizationsLapsed
        // A forged mandate would be signed, or a true one would no longer be shown.
        | Event::Mandate(_)
        | Event::Proof(_) => false,
    }
}

/// Returns whether an unsigned payment was signed by its payer.
fn is_signed_by_payer(request: &Request, signature: &Signature65) -> bool {
    let unsigned = matches!(request.status, Status::Authorized { signature: None, .. });
    let signer = request.digest().and_then(|digest| recover(digest, signature).ok());
    unsigned && signer == Some(request.from)
}

/// Returns whether an outbox event may be recorded without the sealing key.
///
/// A locked wallet broadcasts the transactions that it signed before and observes their state on the chain. It permits
/// no signature and ends no submission: a forged end in the file could make the operator pay a second time. The next
/// probe with an unlocked wallet records the end.
pub(crate) fn may_happen_while_locked(state: &State, key: &OutboxKey, event: &OutboxEvent) -> bool {
    let outbox = state.outboxes.get(key);
    let Some(one) = outbox.open.get(&event.submission()) else { return false };
    match event {
        OutboxEvent::Signed { id, attempt, signature, raw } => {
            let Some(tried) = one.attempts.get(*attempt) else { return false };
            let by_signer = recover(tried.digest, signature) == Ok(key.signer);
            let same = outbox.unsigned(*id, *attempt).map(|of| of.signed(signature));
            by_signer && tried.raw.is_none() && same.as_ref() == Some(raw)
        }
        OutboxEvent::Included { .. }
        | OutboxEvent::Missed { .. }
        | OutboxEvent::BackToPending { .. }
        | OutboxEvent::Troubled { .. } => one.is_signed(),
        OutboxEvent::Finished { .. }
        | OutboxEvent::Opened { .. }
        | OutboxEvent::Reserved { .. }
        | OutboxEvent::Authorized { .. }
        | OutboxEvent::Declined { .. }
        | OutboxEvent::CancelWanted { .. }
        | OutboxEvent::CeilingLowered { .. } => false,
    }
}
