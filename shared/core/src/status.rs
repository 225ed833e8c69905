//! Statuses and kinds in answers. Each value has one stable text, in `--json`, on the control socket and in filters.

use serde_with::{DeserializeFromStr, SerializeDisplay};
use strum::{Display, EnumIter, EnumString, IntoStaticStr};

use crate::card::Lane;

/// How far a request has come, including its settlement.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum RequestStatus {
    Pending,
    Executing,
    Signed,
    Submitted,
    Settled,
    Refuted,
    Verified,
    Executed,
    Failed,
    Refused,
    Denied,
    Expired,
    AwaitingDevice,
    NotSigned,
}

impl RequestStatus {
    /// Returns the meaning, and whether the amount counts against the agent's allowance.
    pub fn about(self) -> &'static str {
        match self {
            Self::Pending => "Waiting for the operator; its amount is reserved",
            Self::Executing => "Allowed, and not signed or final yet; counts as spent or reserved",
            Self::Signed => "Signed, which counts as spent whatever happens next",
            Self::Submitted => "The agent reported it as sent; counts as spent",
            Self::Settled => {
                "The agent reported it as settled, and the chain has not confirmed it; counts as spent"
            }
            Self::Refuted => {
                "The agent reported it as settled, and the chain contradicts the report; counts as spent"
            }
            Self::Verified => "Confirmed by the chain; counts as spent",
            Self::Executed => "A trade or loan whose transaction is final",
            Self::Failed => {
                "A payment that the agent reported as failed, which counts as spent because its signature exists; \
                 or a trade or loan that did not happen"
            }
            Self::Refused => "Refused by the policy; does not count",
            Self::Denied => "Denied by the operator; does not count",
            Self::Expired => "Not decided in time; does not count",
            Self::AwaitingDevice => "Allowed, and waits for its Ledger; its amount is reserved",
            Self::NotSigned => {
                "Allowed, but not signed on its Ledger; its amount is reserved while it may still be signed"
            }
        }
    }

    /// Returns the stable text.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The status of a request right after the operator decided it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum DecidedStatus {
    Signed,
    /// Approved; the signature follows.
    Executing,
    Denied,
    /// Approved; its hardware device must sign it.
    AwaitingDevice,
    /// Approved, and its transaction is final.
    Executed,
}

impl DecidedStatus {
    /// Returns the stable text.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// An agent's status, as the specification names it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum AgentStatus {
    Uncommissioned,
    Active,
    LimitReached,
    Suspended,
}

impl AgentStatus {
    /// Returns the specification's word.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// How far a send of the operator has come.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum SendStatus {
    /// Not signed yet.
    Waiting,
    Sent,
    /// In a block that is not final yet.
    Included,
    Done,
    /// The transaction reverted: no money moved, and gas was paid.
    Failed,
    Cancelled,
    /// Nothing was broadcast.
    Dropped,
    /// Another program's transaction used its nonce.
    Unknown,
}

impl SendStatus {
    /// Returns the stable text.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The decision of a policy about a request.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
#[strum(serialize_all = "snake_case")]
pub enum PolicyVerdict {
    /// Signs at once.
    Act,
    /// Waits for the operator.
    Hold,
    Refuse,
}

impl PolicyVerdict {
    /// Returns the stable text.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The kind of a journal entry, as `activity` and `watch` show it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Display,
    EnumIter,
    EnumString,
    IntoStaticStr,
    SerializeDisplay,
    DeserializeFromStr,
)]
pub enum EntryKind {
    #[strum(serialize = "wallet.created")]
    WalletCreated,
    #[strum(serialize = "wallet.unlocked")]
    WalletUnlocked,
    #[strum(serialize = "unattended.day_started")]
    UnattendedDayStarted,
    #[strum(serialize = "wallet.deleted")]
    WalletDeleted,
    #[strum(serialize = "wallet.locked")]
    WalletLocked,
    #[strum(serialize = "wallet.password_changed")]
    WalletPasswordChanged,
    #[strum(serialize = "wallet.password_refused")]
    WalletPasswordRefused,
    #[strum(serialize = "seed.added")]
    SeedAdded,
    #[strum(serialize = "address.added")]
    AddressAdded,
    #[strum(serialize = "address.renamed")]
    AddressRenamed,
    #[strum(serialize = "address.deleted")]
    AddressDeleted,
    #[strum(serialize = "policy.set")]
    PolicySet,
    #[strum(serialize = "policy.deleted")]
    PolicyDeleted,
    #[strum(serialize = "agent.registered")]
    AgentRegistered,
    #[strum(serialize = "agent.credential_replaced")]
    AgentCredentialReplaced,
    #[strum(serialize = "agent.commissioned")]
    AgentCommissioned,
    #[strum(serialize = "agent.suspended")]
    AgentSuspended,
    #[strum(serialize = "agent.resumed")]
    AgentResumed,
    #[strum(serialize = "agent.deleted")]
    AgentDeleted,
    #[strum(serialize = "allowance.renewed")]
    AllowanceRenewed,
    #[strum(serialize = "network.set")]
    NetworkSet,
    #[strum(serialize = "journal.accepted")]
    JournalAccepted,
    #[strum(serialize = "journal.edition_named")]
    EditionNamed,
    #[strum(serialize = "journal.restored")]
    JournalRestored,
    #[strum(serialize = "journal.restore_dated")]
    JournalRestoreDated,
    #[strum(serialize = "journal.authorizations_lapsed")]
    AuthorizationsLapsed,
    #[strum(serialize = "setting.changed")]
    SettingChanged,
    #[strum(serialize = "engine.started")]
    EngineStarted,
    #[strum(serialize = "frozen")]
    Frozen,
    #[strum(serialize = "thawed")]
    Thawed,
    #[strum(serialize = "payment.authorized")]
    PaymentAuthorized,
    #[strum(serialize = "payment.held")]
    PaymentHeld,
    #[strum(serialize = "payment.refused")]
    PaymentRefused,
    #[strum(serialize = "payment.approved")]
    PaymentApproved,
    #[strum(serialize = "payment.denied")]
    PaymentDenied,
    #[strum(serialize = "payment.expired")]
    PaymentExpired,
    #[strum(serialize = "payment.rejected")]
    PaymentRejected,
    #[strum(serialize = "payment.awaits_device")]
    PaymentAwaitsDevice,
    #[strum(serialize = "payment.prompted")]
    PaymentPrompted,
    #[strum(serialize = "payment.prompt_failed")]
    PaymentPromptFailed,
    #[strum(serialize = "payment.not_signed")]
    PaymentNotSigned,
    #[strum(serialize = "payment.lapsed")]
    PaymentLapsed,
    #[strum(serialize = "payment.signed")]
    PaymentSigned,
    #[strum(serialize = "trade.started")]
    TradeStarted,
    #[strum(serialize = "trade.held")]
    TradeHeld,
    #[strum(serialize = "trade.refused")]
    TradeRefused,
    #[strum(serialize = "trade.approved")]
    TradeApproved,
    #[strum(serialize = "trade.denied")]
    TradeDenied,
    #[strum(serialize = "trade.expired")]
    TradeExpired,
    #[strum(serialize = "trade.rejected")]
    TradeRejected,
    #[strum(serialize = "trade.step_opened")]
    TradeStepOpened,
    #[strum(serialize = "trade.permit_ordered")]
    TradePermitOrdered,
    #[strum(serialize = "trade.permit_signed")]
    TradePermitSigned,
    #[strum(serialize = "trade.step_ended")]
    TradeStepEnded,
    #[strum(serialize = "trade.ended")]
    TradeEnded,
    #[strum(serialize = "trade.closed")]
    TradeClosed,
    #[strum(serialize = "trade.fee_counted")]
    TradeFeeCounted,
    #[strum(serialize = "loan.started")]
    LoanStarted,
    #[strum(serialize = "loan.held")]
    LoanHeld,
    #[strum(serialize = "loan.refused")]
    LoanRefused,
    #[strum(serialize = "loan.approved")]
    LoanApproved,
    #[strum(serialize = "loan.denied")]
    LoanDenied,
    #[strum(serialize = "loan.expired")]
    LoanExpired,
    #[strum(serialize = "loan.rejected")]
    LoanRejected,
    #[strum(serialize = "loan.step_opened")]
    LoanStepOpened,
    #[strum(serialize = "loan.step_ended")]
    LoanStepEnded,
    #[strum(serialize = "loan.ended")]
    LoanEnded,
    #[strum(serialize = "loan.closed")]
    LoanClosed,
    #[strum(serialize = "loan.withdrawal_booked")]
    LoanWithdrawalBooked,
    #[strum(serialize = "loan.written_off")]
    LoanWrittenOff,
    #[strum(serialize = "mandate.issued")]
    MandateIssued,
    #[strum(serialize = "mandate.signed")]
    MandateSigned,
    #[strum(serialize = "mandate.ended")]
    MandateEnded,
    #[strum(serialize = "mandate.upload_begun")]
    MandateUploadBegun,
    #[strum(serialize = "mandate.upload_ended")]
    MandateUploadEnded,
    #[strum(serialize = "journal.anchored")]
    JournalAnchored,
    #[strum(serialize = "receipt.stated")]
    ReceiptStated,
    #[strum(serialize = "payee.named")]
    PayeeNamed,
    #[strum(serialize = "venue.trusted")]
    VenueTrusted,
    #[strum(serialize = "venue.untrusted")]
    VenueUntrusted,
    #[strum(serialize = "send.ordered")]
    SendOrdered,
    #[strum(serialize = "settlement.reported")]
    SettlementReported,
    #[strum(serialize = "settlement.checked")]
    SettlementChecked,
    #[strum(serialize = "tx.filler")]
    TxFiller,
    #[strum(serialize = "tx.opened")]
    TxOpened,
    #[strum(serialize = "tx.nonce")]
    TxNonce,
    #[strum(serialize = "tx.authorized")]
    TxAuthorized,
    #[strum(serialize = "tx.signed")]
    TxSigned,
    #[strum(serialize = "tx.declined")]
    TxDeclined,
    #[strum(serialize = "tx.cancel_wanted")]
    TxCancelWanted,
    #[strum(serialize = "tx.included")]
    TxIncluded,
    #[strum(serialize = "tx.missed")]
    TxMissed,
    #[strum(serialize = "tx.bounded")]
    TxBounded,
    #[strum(serialize = "tx.waits_again")]
    TxWaitsAgain,
    #[strum(serialize = "tx.trouble")]
    TxTrouble,
    #[strum(serialize = "tx.finished")]
    TxFinished,
}

impl EntryKind {
    /// Returns the lane's counterpart of this kind (`TradeHeld` for `PaymentHeld`), or this kind if it has none.
    #[must_use]
    pub fn in_lane(self, lane: Lane) -> Self {
        match (lane, self) {
            (Lane::Trade, Self::PaymentHeld) => Self::TradeHeld,
            (Lane::Trade, Self::PaymentRefused) => Self::TradeRefused,
            (Lane::Trade, Self::PaymentDenied) => Self::TradeDenied,
            (Lane::Trade, Self::PaymentExpired) => Self::TradeExpired,
            (Lane::Trade, Self::PaymentRejected) => Self::TradeRejected,
            (Lane::Loan, Self::PaymentHeld) => Self::LoanHeld,
            (Lane::Loan, Self::PaymentRefused) => Self::LoanRefused,
            (Lane::Loan, Self::PaymentDenied) => Self::LoanDenied,
            (Lane::Loan, Self::PaymentExpired) => Self::LoanExpired,
            (Lane::Loan, Self::PaymentRejected) => Self::LoanRejected,
            (Lane::Loan, Self::TradeStarted) => Self::LoanStarted,
            (Lane::Loan, Self::TradeApproved) => Self::LoanApproved,
            (Lane::Loan, Self::TradeStepOpened) => Self::LoanStepOpened,
            (Lane::Loan, Self::TradeStepEnded) => Self::LoanStepEnded,
            (Lane::Loan, Self::TradeEnded) => Self::LoanEnded,
            (Lane::Loan, Self::TradeClosed) => Self::LoanClosed,
            (Lane::Payment | Lane::Trade | Lane::Loan, kind) => kind,
        }
    }

    /// Returns the stable text, such as `payment.held`.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests;
