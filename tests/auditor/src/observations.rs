//! The observations: everything about the wallet that is visible from outside.
//!
//! An observation is a plain value: a change of the clocks, a call of an agent, an order of an operator, a use of a
//! key, an effect on a chain, or the death of the process. The driver of the wallet translates its protocols into
//! observations and passes them in the order in which they occur.

pub use crate::basics::{Address, Atoms, Id, Micros, Proof, Ticket, Transaction};
pub use crate::device_trades::{
    DeviceStep, DeviceTradeAnswer, DeviceTradeLimits, DeviceTradeObservation,
};
pub use crate::devices::{DeviceAsk, DeviceLimits, DeviceObservation, DeviceTerms};
pub use crate::lending::{
    ExposureReading, LendingFact, LendingPolicy, Loan, LoanAction, LoanAmount, LoanAnswer, LoanAsk,
    LoanRehearsed, LoanState, OperatorWithdrawal, PositionReading, TruePositions,
    VenueConfirmation, VenueFacts, VenueKind, VenueReading, WriteOff,
};
pub use crate::trading::{
    Allowances, Head, Hop, Included, NATIVE, OpenAllowance, Permit, Pool, PriceRead, Quoted, Read,
    Rehearsal, Rehearsed, Route, SignedContent, Trade, TradeAnswer, TradeAsk, TradeState,
    TradingPolicy, TransferLog,
};

/// The machine's clocks, as the wallet would read them at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock in milliseconds since 1970, UTC. Any process may set it.
    pub wall_ms: i64,
    /// The machine's time zone, by its IANA name. It may change at any time.
    pub zone: String,
    /// Number of the machine's boot.
    pub boot: u32,
    /// Milliseconds since that boot, including suspension. No process can set it.
    pub boot_ms: u64,
    /// The time of the newest block of every chain; `None` if no chain answers.
    ///
    /// It is unknown whether the wallet has read it.
    pub block_ms: Option<i64>,
}

/// One observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The clocks show these values from now on.
    Clocks(Clocks),
    /// An agent's call arrived.
    Called { ticket: Ticket, call: Call },
    /// The call was answered. The answer has left the process and cannot be taken back.
    Answered { ticket: Ticket, answer: Answer },
    /// An operator's order arrived.
    Ordered { ticket: Ticket, order: Order },
    /// The order was executed or refused.
    OrderEnded { ticket: Ticket, end: End },
    /// A key of the wallet signed.
    Signed(Signed),
    /// The key holder refused to sign for this request, as a person at a hardware device may.
    Declined { request: Id },
    /// A signed transaction reached a node.
    Broadcast(Transaction),
    /// A block holds a transaction of the wallet. A reorganization may still undo it.
    Included(Box<Included>),
    /// A reorganization removed the block that held this transaction.
    Unmined { chain: u64, hash: String },
    /// A chain included a transaction permanently: it has the network's confirmations.
    Mined { chain: u64, hash: String, succeeded: bool },
    /// A transaction that this wallet did not sign took this nonce permanently.
    NonceTaken { chain: u64, from: Address, nonce: u64 },
    /// The allowances of an address, shown after each block with a transaction of that address.
    Allowances(Allowances),
    /// A node answered a quote.
    Quoted(Box<Quoted>),
    /// A node reported a balance, an allowance or a cost.
    Read(Read),
    /// A source reported the price of the native coin.
    PriceRead(PriceRead),
    /// A node simulated a plan.
    Rehearsed(Rehearsed),
    /// A node reported its newest block.
    Head(Head),
    /// The lending part of the policy that the order with this ticket will create or edit.
    ///
    /// It precedes the `Ordered` with this ticket. Without it, a new policy has the default, and an edit changes
    /// nothing here.
    LendingOrdered { ticket: Ticket, lending: LendingPolicy },
    /// A node answered a question about a venue.
    VenueRead(Box<VenueReading>),
    /// A node answered a question about the positions of an address.
    ExposureRead(Box<ExposureReading>),
    /// A node simulated a loan.
    LoanRehearsed(Box<LoanRehearsed>),
    /// The true positions of an address on the chain at this block.
    Deployed(Box<TruePositions>),
    /// A signed payment was redeemed on a chain, in this transaction.
    Redeemed { chain: u64, payer: Address, nonce: String, hash: String },
    /// An event of a payment whose key is on a hardware device.
    Device(DeviceObservation),
    /// The process died. Its open calls and orders get no answer, and how much of them is on disk is unknown.
    Died,
    /// The process stopped in an orderly way, after it had answered every open call and order.
    Stopped,
    /// The process runs again, with the state from the disk. The wallet is locked.
    Started,
    /// The wallet found its journal older or newer than the wallet file, or an operator accepted it again.
    ///
    /// While `doubted` is true, nothing is executed without an approval.
    JournalDoubted { doubted: bool },
    /// The disk stopped accepting writes, while reads still work. Until the next start, the wallet decides nothing new.
    DiskFailed,
    /// From now on nothing fails, time passes regularly, and every agent polls its requests.
    Calm,
    /// The run has ended: every request must be finished.
    Over,
}

impl Observation {
    /// Returns whether this is a node's answer about loans. It changes no clock, order or state of a request.
    pub(crate) fn is_of_loans(&self) -> bool {
        matches!(self, Self::VenueRead(_) | Self::ExposureRead(_) | Self::LoanRehearsed(_))
    }

    /// Returns whether this is an answer of a node or of a price source.
    pub(crate) fn is_answer_of_node(&self) -> bool {
        let of_trades = matches!(self, Self::Quoted(_) | Self::Read(_) | Self::Rehearsed(_));
        of_trades || matches!(self, Self::PriceRead(_)) || self.is_of_loans()
    }
}

/// A call of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `POST /sign`.
    Sign(Box<Ask>),
    /// `GET /sign/status/{id}`. It needs no proof: the id is enough.
    Poll { id: Id },
    /// `POST /status`: an agent reads its own standing.
    Standing { agent: String, proof: Proof },
    /// `POST /callback`.
    Report(Report),
    /// `POST /trade`.
    Trade(Box<TradeAsk>),
    /// `GET /trade/status/{id}`. It needs no proof: the id is enough.
    PollTrade { id: Id },
    /// `POST /position`.
    Loan(Box<LoanAsk>),
    /// `GET /position/status/{id}`. It needs no proof: the id is enough.
    PollLoan { id: Id },
}

/// One `/sign` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The agent named in the body; it may not exist.
    pub agent: String,
    pub proof: Proof,
    /// The text of `payment_required`, or the canonical JSON of `x402_data`; equal if and only if the content is equal.
    pub content: String,
    pub idempotency_key: Option<String>,
    pub request_url: Option<String>,
    /// The offers in the order of the content. The content is well-formed.
    pub offers: Vec<Offer>,
}

/// One way to pay that a seller offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// x402 protocol version of the whole content: 1 or 2.
    pub version: u8,
    pub scheme: String,
    /// `extra.assetTransferMethod`.
    pub transfer_method: Option<String>,
    pub chain: u64,
    /// Whether the token is the network's reference stablecoin, which has six decimals.
    pub reference: bool,
    pub asset: Address,
    pub amount: Atoms,
    pub payee: Address,
    pub max_timeout_s: Option<u64>,
    pub resource_url: Option<String>,
    pub domain: Domain,
}

/// How the EIP-712 domain in an offer's `extra` relates to the wallet's own table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// The offer states no domain, or the same one as the wallet's table.
    Agrees,
    /// The offer states another domain, and the token on the chain confirms the wallet's table.
    ConfirmedByChain,
    /// The offer states another domain, and no source confirms the wallet's table.
    Contradicts,
}

/// One `/callback` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub agent: String,
    pub proof: Proof,
    pub id: Id,
    pub event: Event,
    pub tx_hash: Option<String>,
}

/// The event that an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Submitted,
    Settled,
    Failed,
}

/// An answer to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The signed payment.
    Header { id: Id, payment: Payment },
    /// 200 `ALREADY_SIGNED`: the payment was signed, and its header has expired.
    AlreadySigned { id: Id },
    /// 202 `pending`: the request waits for the operator.
    Pending { id: Id },
    /// 202 `executing`: the request is authorized, but not signed yet.
    Executing { id: Id },
    /// `status: rejected`, to a poll or to a repeated call. The operator's denial has no code.
    Rejected { id: Id, code: Option<String> },
    /// An error. `id` names the record of the refusal, `previous` the payment that was already made.
    Refused { http: u16, code: String, id: Option<Id>, previous: Option<Id> },
    /// The agent's own standing.
    Standing(Standing),
    /// A report was accepted. `stage` of the payment: `submitted`, `failed`, `settled` or `verified`.
    Reported { stage: String },
    /// The result object of a trade.
    Trade(TradeAnswer),
    /// The result object of a loan.
    Loan(LoanAnswer),
}

/// The content of a payment header as its receiver reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payment {
    pub version: u8,
    pub chain: u64,
    pub asset: Address,
    pub payer: Address,
    pub payee: Address,
    pub amount: Atoms,
    pub valid_after_s: u64,
    pub valid_before_s: u64,
    pub nonce: String,
    pub signature: String,
    /// The signer of these terms under the token's domain, as the receiver recovers it. It must be the payer.
    ///
    /// `None` where signatures are fake to save time.
    pub signer: Option<Address>,
}

/// An agent's limits, and how much of them is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `active`, `limit_reached`, `suspended`, `uncommissioned`.
    pub status: String,
    pub daily: Micros,
    pub per_request: Micros,
    pub auto_below: Micros,
    /// The amount spent from the current allowance.
    pub spent: Micros,
    /// The amount that held requests reserve.
    pub reserved: Micros,
}

/// An order of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    CreateWallet,
    /// `right`: whether the password is the wallet's.
    OpenWallet {
        right: bool,
    },
    /// Opens the wallet with the password given at the start, so no person enters it.
    OpenUnattended,
    /// The setting `unattended.daily`.
    UnattendedDaily {
        limit: Option<Micros>,
    },
    LockWallet,
    Freeze,
    /// Needs the wallet's password, as `OpenWallet` does.
    Thaw {
        right: bool,
    },
    AddAddress {
        label: String,
    },
    RenameAddress {
        label: String,
        to: String,
    },
    DeleteAddress {
        label: String,
    },
    CreatePolicy {
        name: String,
        policy: Policy,
    },
    /// `policy`: the whole policy as it is after the edit.
    EditPolicy {
        name: String,
        policy: Policy,
    },
    DeletePolicy {
        name: String,
    },
    RegisterAgent {
        name: String,
        bearer: bool,
    },
    /// Gives a bearer agent a new token. The old token stops working at once.
    ReplaceToken {
        agent: String,
    },
    Commission {
        agent: String,
        policy: String,
        label: String,
    },
    Suspend {
        agent: String,
    },
    Resume {
        agent: String,
    },
    /// Grants a renewal that the wallet delayed because of a jump of the clock.
    Renew {
        agent: String,
    },
    DeleteAgent {
        agent: String,
    },
    SwitchNetwork {
        chain: u64,
        on: bool,
    },
    /// The setting `payments.max_validity`.
    MaxValidity {
        seconds: u64,
    },
    /// Lists the held requests, with the digest of each card.
    List,
    /// Approves a payment, a trade or a loan.
    ///
    /// `card`: the digest of the card that this operator saw, at any time. Without it, the order applies to the current
    /// card.
    Approve {
        id: Id,
        card: Option<String>,
    },
    Deny {
        id: Id,
    },
    /// Sends money in a separate transaction.
    Send(Box<Send>),
    /// `venue trust`.
    TrustVenue(Box<VenueConfirmation>),
    /// `venue untrust`.
    UntrustVenue {
        chain: u64,
        venue: Address,
    },
    /// `position write-off`.
    WriteOff(Box<WriteOff>),
    /// `position withdraw`. It ends with `Sent`.
    WithdrawPosition(Box<OperatorWithdrawal>),
}

/// A transfer by the operator: native coins, or the reference stablecoin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Send {
    pub label: String,
    pub chain: u64,
    pub to: Address,
    pub amount: Atoms,
    pub native: bool,
}

/// How an order ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    /// The code that was issued to the new agent.
    Registered {
        agent: String,
    },
    Added {
        address: Address,
    },
    /// The held requests.
    Held(Vec<Listed>),
    /// The state of the decided request: `signed`, `executed`, `executing`, `denied`, `expired`, `rejected`.
    Decided {
        status: String,
    },
    /// The id of the operator's transfer or withdrawal.
    Sent {
        id: Id,
    },
    Refused {
        code: String,
    },
}

/// A held request, as an operator sees it in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: Id,
    /// The digest of the request's card.
    pub card: String,
    pub agent: String,
    pub amount: Atoms,
    pub asset: Address,
    /// Whether the request is a trade or a loan. For these only `id`, `card` and `agent` are meaningful.
    pub trade: bool,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub payments: bool,
    pub daily: Micros,
    pub per_request: Micros,
    pub auto_below: Micros,
    /// The allowed networks; `None` for every network that the operator has enabled.
    pub networks: Option<Vec<u64>>,
    pub allowed_domains: Vec<String>,
    pub blocked_domains: Vec<String>,
    pub trading: TradingPolicy,
}

/// A use of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub signer: Address,
    /// The digest that was signed.
    pub digest: String,
    /// The request of the payment; `None` for a transaction. For a step of a trade or loan it may be set or not.
    pub request: Option<Id>,
    /// The content behind the digest. The driver must provide it for every step of a trade or loan.
    pub content: SignedContent,
}
