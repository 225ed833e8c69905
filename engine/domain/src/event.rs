//! The changes that the journal stores. Events use the past tense and are complete: `apply` reads only the state and
//! the entry.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use bursar_core::client::Client;
use bursar_core::edition::EditionName;
use bursar_core::ids::{AgentId, Name, RequestId, SeedId};
use bursar_core::lock_cause::LockCause;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::policy::Policy;
use bursar_core::settings::Setting;
use bursar_core::time::Utc;
use bursar_morpho::VenueId;
use bursar_submit::{OutboxKey, Outcome};
use bursar_uniswap::Permit;
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::agents::Credential;
use crate::allowance::WindowStart;
use crate::assets::ForeignAsset;
use crate::deadline::Deadline;
use crate::identity::Identity;
use crate::loans::LoanPlace;
use crate::mandates::MandateEvent;
use crate::outboxes::Send;
use crate::payee::Payee;
use crate::plan::{ExecutionEnd, Quote, StepPurpose};
use crate::prompts::WaitEnd;
use crate::proofs::ProofEvent;
use crate::refusal::Refusal;
use crate::requests::LaneAsk;
use crate::settlement::{Check, Settlement};
use crate::wallets::Backing;

/// An event with its position in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Starts at 1 and has no gaps.
    pub seq: u64,
    pub at: Utc,
    pub event: Event,
}

/// One recorded change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    WalletCreated {
        name: Name,
        wallet_id: [u8; 16],
    },
    SeedAdded {
        id: SeedId,
        words: u8,
    },
    AddressAdded(Box<AddressAdded>),
    PolicySet {
        name: Name,
        /// Unique among all versions of all policies.
        serial: u64,
        policy: Box<Policy>,
        /// The earlier version of the policy, if there was one, so that this entry alone shows the change.
        before: Option<Box<Policy>>,
    },
    PolicyDeleted {
        name: Name,
    },
    AgentRegistered {
        id: AgentId,
        name: Name,
        credential: Credential,
    },
    CredentialReplaced {
        agent: AgentId,
        credential: Credential,
    },
    /// `start` is set if the agent had no allowance yet.
    AgentCommissioned {
        agent: AgentId,
        policy: Name,
        label: Name,
        start: Option<WindowStart>,
        /// The policy and address that the agent used until then.
        before: Option<Assignment>,
    },
    AgentSuspended {
        agent: AgentId,
    },
    AgentResumed {
        agent: AgentId,
    },
    AllowanceRenewed {
        agent: AgentId,
        start: WindowStart,
    },
    NetworkSet {
        chain: ChainId,
        enabled: bool,
    },
    Frozen,
    Thawed,
    /// The operator accepted the journal as it is, usually because it did not match the wallet at unlock.
    JournalAccepted,
    PaymentAuthorized {
        draft: Box<RequestDraft>,
        terms: Authorization,
    },
    RequestHeld {
        draft: Box<RequestDraft>,
        reason: HoldReason,
        deadline: Deadline,
    },
    RequestRefused {
        draft: Box<RequestDraft>,
        refusal: Refusal,
    },
    PaymentApproved {
        id: RequestId,
        terms: Authorization,
        by: Client,
        /// The approved measurement of a token outside our table. It replaces the measurement of the request.
        asset: Option<Box<ForeignAsset>>,
    },
    /// Until `repeatable_until`, an identical request of a bearer agent gets this result.
    RequestDenied {
        id: RequestId,
        reason: Option<String>,
        by: Client,
        repeatable_until: Deadline,
    },
    RequestExpired {
        id: RequestId,
        repeatable_until: Deadline,
    },
    /// The operator approved the request, but a rule refused it at that moment: a limit, a suspension, a network.
    RequestRejected {
        id: RequestId,
        refusal: Refusal,
    },
    /// The policy allowed a request that a plan executes.
    ///
    /// After `until`, only revocations and empty transactions of the plan are signed.
    ExecutionStarted {
        draft: Box<RequestDraft>,
        until: Deadline,
    },
    /// The operator approved a request that a plan executes, with the measurement `quote`.
    ExecutionApproved {
        id: RequestId,
        by: Client,
        until: Deadline,
        quote: Quote,
        /// The least output that a trade accepts; zero for a loan.
        floor: Atoms,
        /// The value that counts against the limit of the lane.
        counted_value: Usd,
    },
    /// A transaction of a plan was opened. An outbox event in the same commit contains its call.
    StepOpened {
        id: RequestId,
        purpose: StepPurpose,
        quote: Quote,
    },
    /// A permit for the swap of a plan may be signed.
    PermitOrdered {
        id: RequestId,
        permit: Permit,
    },
    PermitSigned {
        id: RequestId,
        signature: Signature65,
    },
    /// The transaction of a plan's newest step ended.
    StepEnded {
        id: RequestId,
        outcome: Outcome,
    },
    ExecutionEnded {
        id: RequestId,
        end: ExecutionEnd,
    },
    /// The plan of an ended request has nothing left to do.
    PlanClosed {
        id: RequestId,
    },
    /// The operator trusts a venue while it names these accounts.
    VenueTrusted {
        chain: ChainId,
        venue: VenueId,
        curator: Option<Address>,
        owner: Option<Address>,
    },
    VenueUntrusted {
        chain: ChainId,
        venue: VenueId,
    },
    /// A withdrawal that the operator sent is final. `received` is the amount that its receipt shows.
    WithdrawalBooked {
        id: RequestId,
        received: Option<Atoms>,
    },
    /// The operator wrote off a loss: the journal expected `from` in the venue and now expects `to`.
    LoanWrittenOff {
        place: LoanPlace,
        from: Usd,
        to: Usd,
    },
    SettingChanged {
        from: Setting,
        to: Setting,
    },
    /// An agent reported on its payment. `settlement` is the settlement after the report.
    SettlementReported {
        settlement: Box<Settlement>,
        identity: Identity,
    },
    /// The chain lookup of a settlement ended.
    SettlementChecked {
        id: RequestId,
        found: Check,
    },
    /// The signature of an authorization. The agent gets its answer without waiting until this entry is on disk.
    PaymentSigned {
        id: RequestId,
        signature: Signature65,
    },
    /// The operator sends money from the wallet. The outbox events that send its transaction follow.
    SendOrdered(Box<Send>),
    /// A submission of an outbox changed.
    Outbox {
        key: OutboxKey,
        event: bursar_submit::Event,
    },
    /// The agent was deleted; its records remain.
    AgentDeleted {
        agent: AgentId,
    },
    /// An address was relabelled. Agents that pay from it continue under the new label.
    AddressRenamed {
        from: Name,
        to: Name,
    },
    AddressDeleted {
        label: Name,
    },
    /// The correct password was entered, and the journal matches the wallet.
    WalletOpened {
        /// The entry that this unlock wrote into the wallet file; `None` if the file could not be written.
        noted_entry: Option<u64>,
    },
    /// The wallet was deleted. Earlier entries suspended all agents. The wallet's files are removed after this entry.
    WalletDeleted,
    WalletLocked {
        cause: LockCause,
        /// The entry that was noted in the wallet file just before; `None` if the file could not be written.
        noted_entry: Option<u64>,
    },
    /// The password changed: the old one no longer opens the wallet.
    PasswordChanged,
    /// A wrong password was entered. `times` counts since the last recorded unlock.
    PasswordRefused {
        times: u32,
    },
    /// The journal was restored from a backup, or the wallet was recovered from its file. Everything that the backup
    /// or the file does not contain is lost.
    JournalRestored {
        /// The start of the allowance that counts as spent.
        start: WindowStart,
    },
    /// An engine that serves agents started.
    ///
    /// The entries before it show how the previous engine ended: a regular stop with an open wallet records a lock.
    EngineStarted,
    /// Corrects the time of a restore that was recorded while the clock was ahead. Only requests signed until `at`
    /// are refused.
    RestoreDated {
        at: Utc,
    },
    /// The wallet was opened at a start by a password that no person entered, and the journal matches the wallet.
    WalletOpenedUnattended {
        /// As in [`Event::WalletOpened`].
        noted_entry: Option<u64>,
    },
    /// A day of the limit `unattended.daily` began.
    UnattendedDayStarted {
        start: WindowStart,
    },
    /// The policy allowed a payment from an address of a device. It waits until the device is ready.
    DeviceAwaited {
        draft: Box<RequestDraft>,
        until: Deadline,
    },
    /// The operator approved a payment from an address of a device. It waits until the device is ready.
    DeviceAwaitApproved {
        id: RequestId,
        by: Client,
        until: Deadline,
        /// As in [`Event::PaymentApproved`].
        asset: Option<Box<ForeignAsset>>,
    },
    /// The device receives these terms for signing. A later prompt of the same request has the same terms.
    PaymentPrompted {
        id: RequestId,
        terms: Authorization,
    },
    /// The device signed the terms of its prompt. The payment is authorized and signed.
    SignedOnDevice {
        id: RequestId,
        signature: Signature65,
    },
    /// The device did not accept the prompt, so it signed nothing.
    PromptFailed {
        id: RequestId,
    },
    /// The wait for the device ended without a signature.
    ///
    /// Until `repeatable_until`, an identical request of a bearer agent gets this result.
    DeviceWaitEnded {
        id: RequestId,
        end: WaitEnd,
        repeatable_until: Deadline,
    },
    /// The terms of an ended request, which a device may have signed, can no longer be redeemed.
    PaymentLapsed {
        id: RequestId,
    },
    /// The fee of a trade's transactions, which counts in the daily volume. The trade's end follows in the same
    /// commit.
    TradeFeeCounted {
        id: RequestId,
        fee: Usd,
    },
    /// Removes authorizations that can no longer be redeemed from the state, as every entry does.
    ///
    /// Written only when no other entry is due.
    AuthorizationsLapsed,
    /// The operator gave a payee a label, or removed it.
    PayeeNamed {
        payee: Payee,
        label: Option<PayeeLabel>,
    },
    /// The edition whose programs may use the journal. Only the first entry; a journal without it is the full
    /// edition's.
    EditionNamed {
        edition: EditionName,
    },
    /// The mandate of an agent changed.
    Mandate(MandateEvent),
    /// A step of a proof of a receipt.
    Proof(ProofEvent),
}

impl Event {
    /// Returns the request that the event creates.
    pub fn draft(&self) -> Option<&RequestDraft> {
        let (Self::PaymentAuthorized { draft: asked, .. }
        | Self::RequestHeld { draft: asked, .. }
        | Self::RequestRefused { draft: asked, .. }
        | Self::ExecutionStarted { draft: asked, .. }
        | Self::DeviceAwaited { draft: asked, .. }) = self
        else {
            return None;
        };
        Some(asked)
    }
}

/// The names of an agent's policy and paying address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub policy: Name,
    pub label: Name,
}

/// A new paying address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressAdded {
    pub label: Name,
    pub description: String,
    pub index: u32,
    pub backing: Backing,
    pub path: String,
    pub address: Address,
}

/// A request as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestDraft {
    pub id: RequestId,
    pub agent: AgentId,
    pub label: Name,
    pub from: Address,
    pub identity: Identity,
    pub ask: LaneAsk,
}
