//! Commands from outside, with all the input that their decision needs.

use alloy_primitives::{Address, B256, U256};
use bursar_core::client::Client;
use bursar_core::ids::{AgentId, Name, RequestId, SeedId};
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::policy::Policy;
use bursar_core::settings::Setting;
use bursar_core::time::{Moment, Utc};
use bursar_morpho::VenueId;
use bursar_submit::{Call, OutboxKey};
use bursar_uniswap::Permit;
use bursar_x402::signature::Signature65;

use crate::agents::Credential;
use crate::assets::ForeignAsset;
use crate::event::AddressAdded;
use crate::idempotency::Prior;
use crate::identity::Identity;
use crate::loans::LoanPlace;
use crate::mandates::MandateAction;
use crate::outboxes::Send;
use crate::payee::Payee;
use crate::plan::{ExecutionEnd, Quote, StepPurpose};
use crate::proofs::ProofAction;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::settlement::{Check, ReportContent, Settlement, Stage};
use crate::trades::TradeQuote;

/// One command, decided at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub moment: Moment,
    /// Whether the wallet is unlocked now.
    ///
    /// Commands that loosen a rule require an unlocked wallet.
    pub unlocked: bool,
    /// Whether the journal matches the wallet; if not, nothing is approved automatically.
    pub trusted: bool,
    pub action: Action,
}

/// The kinds of commands, each with its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    CreateWallet {
        name: Name,
        wallet_id: [u8; 16],
    },
    AddSeed {
        id: SeedId,
        words: u8,
    },
    AddAddress(Box<AddressAdded>),
    CreatePolicy {
        name: Name,
        policy: Box<Policy>,
    },
    EditPolicy {
        name: Name,
        policy: Box<Policy>,
    },
    DeletePolicy {
        name: Name,
    },
    RegisterAgent {
        id: AgentId,
        name: Name,
        credential: Credential,
    },
    ReplaceCredential {
        agent: AgentId,
        credential: Credential,
    },
    Commission {
        agent: AgentId,
        policy: Name,
        label: Name,
    },
    Suspend {
        agent: AgentId,
    },
    Resume {
        agent: AgentId,
    },
    /// Renews an allowance that is due, even if a clock holds it back.
    Renew {
        agent: AgentId,
    },
    DeleteAgent {
        agent: AgentId,
    },
    RenameAddress {
        from: Name,
        to: Name,
    },
    DeleteAddress {
        label: Name,
    },
    SetNetwork {
        chain: ChainId,
        enabled: bool,
    },
    Set(Setting),
    /// Records an unlock. `noted` is the entry that the unlock wrote into the wallet file, if the write succeeded.
    RecordUnlock {
        /// Whether a person entered the password.
        attended: bool,
        noted_entry: Option<u64>,
    },
    /// Records a password change.
    RecordPasswordChange,
    /// Records a wrong password.
    RecordWrongPassword,
    /// Records the edition of a new journal.
    NameEdition,
    /// Records an engine start.
    RecordStart,
    /// Records that this journal was restored from a backup.
    RecordRestore,
    /// Records the deletion of the wallet, whose file is removed next. The password was entered again, unless `lost`.
    DeleteWallet {
        /// Whether the wallet file is already gone, so that no password can be checked.
        is_file_gone: bool,
    },
    /// Imports the contents of a wallet file into a journal without a wallet.
    RecoverWallet(Box<RecoveredWallet>),
    Freeze,
    /// Ends a freeze. The operator has entered the password again.
    Thaw,
    AcceptJournal,
    Ask(Box<Ask>),
    /// Looks for the answer of an earlier request, before anything is measured for a new one.
    Recall(Box<Recall>),
    Approve(Box<Approval>),
    Deny {
        id: RequestId,
        reason: Option<String>,
        by: Client,
    },
    Signed {
        id: RequestId,
        signature: Signature65,
    },
    /// Fixes the terms of a payment whose device is ready, or repeats the terms of an earlier prompt.
    Prompt {
        id: RequestId,
        /// Random EIP-3009 nonce for new terms; ignored if earlier terms are repeated.
        nonce: [u8; 32],
    },
    /// The device did not accept the prompt.
    FailPrompt {
        id: RequestId,
    },
    /// A person refused the prompt on the device.
    RefusedOnDevice {
        id: RequestId,
    },
    /// The device signed the terms of its prompt.
    SignedOnDevice {
        id: RequestId,
        signature: Signature65,
    },
    Report(Box<Report>),
    /// The result of a pending settlement's chain lookup.
    Checked {
        id: RequestId,
        /// The transaction that was looked up.
        tx_hash: B256,
        found: Check,
    },
    /// Opens the next transaction of a plan.
    OpenStep(Box<StepOrder>),
    /// Allows the signature of a permit for the swap of a plan.
    OrderPermit(Box<PermitOrder>),
    /// Records the signature of a plan's permit.
    PermitSigned {
        id: RequestId,
        permit: Permit,
        signature: Signature65,
    },
    /// Ends the request of a plan: the lane cannot continue the plan, or its main transaction is final.
    EndExecution {
        id: RequestId,
        /// Number of steps in the caller's view of the plan.
        steps: usize,
        end: Box<ExecutionEnd>,
        /// Total cost of the transactions of an executed trade, in wei; `None` if their receipts do not show it.
        fee: Option<U256>,
    },
    /// Closes the plan of an ended request: the lane found that no token allowance is left.
    ClosePlan {
        id: RequestId,
    },
    /// Records the operator's trust in a venue with its present curator and owner.
    TrustVenue(Box<VenueTrust>),
    UntrustVenue {
        chain: ChainId,
        venue: VenueId,
    },
    /// Records the operator's label of a payee, or removes it.
    NamePayee {
        payee: Payee,
        label: Option<PayeeLabel>,
    },
    /// Records the amount that an operator's withdrawal returned, by its receipt.
    BookWithdrawal {
        id: RequestId,
        /// `None` if the receipt does not show the amount.
        received: Option<Atoms>,
    },
    /// Writes off a loss: the operator accepts that only `to` is left, as the chain shows.
    WriteOff {
        place: LoanPlace,
        to: Usd,
    },
    /// The operator sends money from an address of the wallet.
    Send(Box<Send>),
    /// An input for an outbox.
    Outbox {
        key: OutboxKey,
        input: Box<bursar_submit::Input>,
    },
    /// The engine started or the wallet was unlocked: resume the open submissions of this outbox.
    ResumeOutbox(OutboxKey),
    Mandate(MandateAction),
    /// A step of a proof of a receipt.
    Proof(ProofAction),
    /// Time has passed: expire the holds and renew the allowances that are due.
    Tick,
    /// The wallet was unlocked or the agents thawed: sign authorized requests that are still unsigned.
    Reissue,
}

/// A venue that the operator trusts, and the accounts that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VenueTrust {
    pub chain: ChainId,
    pub venue: VenueId,
    /// `None` for a market.
    pub curator: Option<Address>,
    pub owner: Option<Address>,
}

/// Asks whether an authenticated agent's request repeats an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    pub agent: AgentId,
    pub identity: Identity,
    /// The earlier requests in the indexes, which the core looks up.
    pub prior: Prior,
}

/// The operator's approval of a held request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: RequestId,
    /// The digest of the card that the operator saw.
    pub card_digest: String,
    /// Random EIP-3009 nonce; only the approval of a payment uses it.
    pub nonce: [u8; 32],
    pub by: Client,
    pub quote: Requote,
}

/// The measurement that was repeated for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requote {
    /// Nothing was measured, as for a payment in a reference stablecoin.
    Nothing,
    /// The quote of a request that a plan executes.
    Plan(Quote),
    /// The measurement of a payment's token that is outside our table.
    Asset(Box<ForeignAsset>),
    /// The measurement failed.
    Failed(Refusal),
}

impl Requote {
    /// Returns the measurement of a plan.
    pub fn plan(&self) -> Option<&Quote> {
        match self {
            Self::Plan(quote) => Some(quote),
            Self::Nothing | Self::Asset(_) | Self::Failed(_) => None,
        }
    }
}

/// The next transaction of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOrder {
    pub id: RequestId,
    /// The number of steps before this one.
    ///
    /// If the plan has another number of steps, the caller's view is outdated and nothing is opened.
    pub index: usize,
    pub purpose: StepPurpose,
    pub call: Call,
    /// Maximum price to offer for a unit of gas, in wei.
    pub gas_price_max: u128,
    /// The call is only broadcast before this moment.
    pub until: Option<Utc>,
    /// The measurement for which the call was built.
    pub quote: Quote,
}

/// The permit that lets the swap of a plan take its input token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermitOrder {
    pub id: RequestId,
    /// The number of steps before the swap.
    ///
    /// If the plan has another number of steps, the caller's view is outdated and nothing is ordered.
    pub index: usize,
    pub permit: Permit,
    /// The prices at which the swap is planned.
    pub quote: TradeQuote,
}

/// An agent's authenticated report about one of its payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub agent: AgentId,
    pub identity: Identity,
    pub id: RequestId,
    pub content: ReportContent,
    /// Whether the agent signed the report.
    ///
    /// Without a proof the id alone, a secret of the agent, allows it.
    pub is_proven: bool,
    /// Whether the settings require a chain lookup of a settled payment.
    pub check_chain: bool,
    pub context: ReportContext,
}

/// The records in the indexes that concern a report.
///
/// The core reads them before it decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportContext {
    pub request: Option<Request>,
    pub settlement: Option<Settlement>,
    /// The reply to an earlier, identical report.
    pub earlier_reply: Option<Stage>,
}

/// An agent's authenticated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub agent: AgentId,
    pub identity: Identity,
    pub ask: LaneAsk,
    /// The lane's refusal, if it could not measure the request.
    ///
    /// The refusal is recorded, so a repeat of the request gets it too.
    pub lane_refusal: Option<Refusal>,
    pub prior: Prior,
    /// Random id and EIP-3009 nonce, which only a new request uses.
    pub id: RequestId,
    pub nonce: [u8; 32],
    pub bounds: AskBounds,
}

/// Bounds on an agent's payments and requests.
///
/// A bound is `None` if the operator has disabled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskBounds {
    /// Maximum number of payments that may be redeemable at once.
    pub open_payments_max: Option<u32>,
    /// Maximum number of new requests in a day (UTC).
    pub requests_a_day_max: Option<u32>,
}

/// The contents of a wallet file, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredWallet {
    pub name: Name,
    pub wallet_id: [u8; 16],
    /// Each seed with its number of words.
    pub seeds: Vec<(SeedId, u8)>,
    /// Agents in HMAC mode, each with the hash that identifies its secret.
    pub agents: Vec<(AgentId, [u8; 32])>,
}
