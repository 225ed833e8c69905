//! The entries that a receipt rests on.

use bursar_core::ids::RequestId;

use crate::event::Event;

/// Returns the request whose receipt rests on an event.
///
/// Signatures are left out: a reader of a proof must not be able to redeem a payment. A later version may add only
/// variants that did not exist before, because anchors commit to this choice.
pub fn receipt_of(event: &Event) -> Option<RequestId> {
    match event {
        Event::PaymentAuthorized { draft, .. }
        | Event::RequestHeld { draft, .. }
        | Event::RequestRefused { draft, .. }
        | Event::ExecutionStarted { draft, .. }
        | Event::DeviceAwaited { draft, .. } => Some(draft.id),
        Event::PaymentApproved { id, .. }
        | Event::RequestDenied { id, .. }
        | Event::RequestExpired { id, .. }
        | Event::RequestRejected { id, .. }
        | Event::ExecutionApproved { id, .. }
        | Event::StepOpened { id, .. }
        | Event::StepEnded { id, .. }
        | Event::ExecutionEnded { id, .. }
        | Event::PlanClosed { id }
        | Event::SettlementChecked { id, .. }
        | Event::DeviceAwaitApproved { id, .. }
        | Event::PaymentPrompted { id, .. }
        | Event::SignedOnDevice { id, .. }
        | Event::PromptFailed { id }
        | Event::DeviceWaitEnded { id, .. } => Some(*id),
        Event::SettlementReported { settlement, .. } => Some(settlement.id),
        Event::PaymentSigned { .. }
        | Event::PermitOrdered { .. }
        | Event::PermitSigned { .. }
        | Event::PaymentLapsed { .. }
        | Event::TradeFeeCounted { .. }
        | Event::WalletCreated { .. }
        | Event::SeedAdded { .. }
        | Event::AddressAdded(_)
        | Event::AddressRenamed { .. }
        | Event::AddressDeleted { .. }
        | Event::WalletOpened { .. }
        | Event::WalletOpenedUnattended { .. }
        | Event::WalletLocked { .. }
        | Event::WalletDeleted
        | Event::PasswordChanged
        | Event::PasswordRefused { .. }
        | Event::PolicySet { .. }
        | Event::PolicyDeleted { .. }
        | Event::AgentRegistered { .. }
        | Event::CredentialReplaced { .. }
        | Event::AgentCommissioned { .. }
        | Event::AgentSuspended { .. }
        | Event::AgentResumed { .. }
        | Event::AgentDeleted { .. }
        | Event::AllowanceRenewed { .. }
        | Event::NetworkSet { .. }
        | Event::Frozen
        | Event::Thawed
        | Event::JournalAccepted
        | Event::JournalRestored { .. }
        | Event::RestoreDated { .. }
        | Event::VenueTrusted { .. }
        | Event::VenueUntrusted { .. }
        | Event::WithdrawalBooked { .. }
        | Event::LoanWrittenOff { .. }
        | Event::SettingChanged { .. }
        | Event::SendOrdered(_)
        | Event::Outbox { .. }
        | Event::EngineStarted
        | Event::UnattendedDayStarted { .. }
        | Event::AuthorizationsLapsed
        | Event::PayeeNamed { .. }
        | Event::EditionNamed { .. }
        | Event::Mandate(_)
        | Event::Proof(_) => None,
    }
}
