//! What has happened, as the journal keeps it. Past tense, complete: `apply` needs nothing else.

use alloy_primitives::Address;
use bursar_core::card::HoldReason;
use bursar_core::client::Client;
use bursar_core::ids::{AgentId, Name, RequestId, SeedId};
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_core::settings::Setting;
use bursar_core::time::Utc;
use bursar_submit::DeskKey;
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::agents::Credential;
use crate::allowance::WindowStart;
use crate::desks::Send;
use crate::identity::Identity;
use crate::refusal::Refusal;
use crate::requests::{Deadline, PaymentAsk};
use crate::settlement::{Check, Settlement};
use crate::wallets::Backing;

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 1 without gaps.
    pub seq: u64,
    pub at: Utc,
    pub event: Event,
}

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
        version: u64,
        policy: Box<Policy>,
        /// As it was, where there was one: whoever reads this entry alone sees what it changed.
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
    /// `start` is given where the agent had no allowance yet.
    AgentCommissioned {
        agent: AgentId,
        policy: Name,
        label: Name,
        start: Option<WindowStart>,
        /// What it worked with until then.
        before: Option<Given>,
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
    /// The operator accepted a journal that did not fit the wallet at unlock.
    JournalAccepted,
    PaymentAuthorized {
        asked: Box<Asked>,
        terms: Authorization,
    },
    PaymentHeld {
        asked: Box<Asked>,
        reason: HoldReason,
        deadline: Deadline,
    },
    PaymentRefused {
        asked: Box<Asked>,
        refusal: Refusal,
    },
    PaymentApproved {
        id: RequestId,
        terms: Authorization,
        by: Client,
    },
    /// `told_until`: a bearer agent that asks the same hears of this ending until then.
    PaymentDenied {
        id: RequestId,
        reason: Option<String>,
        by: Client,
        told_until: Deadline,
    },
    PaymentExpired {
        id: RequestId,
        told_until: Deadline,
    },
    /// Approved, but refused by the policy in force at that moment.
    PaymentRejected {
        id: RequestId,
        refusal: Refusal,
    },
    SettingChanged {
        from: Setting,
        to: Setting,
    },
    /// An agent reported what became of its payment: the settlement as it stands since.
    SettlementReported {
        settlement: Box<Settlement>,
        identity: Identity,
    },
    /// Our own look at the chain ended.
    SettlementChecked {
        id: RequestId,
        found: Check,
    },
    /// For the record: the authorization was signed. Nothing waits for it to be on disk.
    PaymentSigned {
        id: RequestId,
        signature: Signature65,
    },
    /// The operator moves money away. What puts it on the chain follows as events of a desk.
    SendOrdered(Box<Send>),
    /// Something happened to a transaction.
    Desk {
        key: DeskKey,
        event: bursar_submit::Event,
    },
    /// Its records stay.
    AgentDeleted {
        agent: AgentId,
    },
    /// The agents that pay from it go on.
    AddressRenamed {
        from: Name,
        to: Name,
    },
    AddressDeleted {
        label: Name,
    },
    /// The right password was given, and the journal fits the wallet.
    WalletOpened {
        /// The entry that the wallet file was told of at this unlock; `None` where the file could not be written.
        noted: Option<u64>,
    },
    /// The files of the wallet are removed after this. Its agents are suspended.
    WalletDeleted,
    WalletLocked {
        cause: LockCause,
        /// The entry that the wallet file was told of before.
        noted: Option<u64>,
    },
    /// Nobody may have opened it with the old one since.
    PasswordChanged,
    /// Somebody gave a wrong password, for this many times since the wallet was opened last.
    PasswordRefused {
        times: u32,
    },
    /// The entries before this one come from a backup: what came after them is lost.
    JournalRestored {
        /// The allowance that counts as spent.
        start: WindowStart,
    },
    /// An engine that serves agents began its work. The entries before it tell how the one before ended: one
    /// that was stopped has locked its wallet.
    EngineStarted,
    /// The clock showed a later time when the journal was restored. Only requests that were signed until `at` are
    /// refused.
    RestoreDated {
        at: Utc,
    },
}

/// Why the wallet was locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCause {
    Operator,
    /// The engine stopped.
    Stop,
    /// Nobody used the wallet for as long as the setting `lock.idle` allows.
    Idle,
    /// The machine had slept.
    Sleep,
}

impl LockCause {
    pub fn text(self) -> &'static str {
        match self {
            LockCause::Operator => "by the operator",
            LockCause::Stop => "the engine stopped",
            LockCause::Idle => "by itself: it was not used",
            LockCause::Sleep => "by itself: the machine had slept",
        }
    }
}

/// The names of what an agent works with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub policy: Name,
    pub label: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressAdded {
    pub label: Name,
    pub description: String,
    pub index: u32,
    pub backing: Backing,
    pub path: String,
    pub address: Address,
}

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub id: RequestId,
    pub agent: AgentId,
    pub label: Name,
    pub from: Address,
    pub identity: Identity,
    pub ask: PaymentAsk,
}
