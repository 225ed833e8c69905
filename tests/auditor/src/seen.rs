//! What somebody who stands outside the wallet can see of it: the machine's clocks, what agents and operators
//! say and hear, what the keys sign, what reaches a chain, and when the process dies. Plain values, in the
//! order in which they happen; whoever drives the wallet translates its wire into them.

/// Millionths of a dollar.
pub type Micros = u64;

/// Smallest units of a token.
pub type Atoms = u128;

/// A request's UUID, as the wallet writes it.
pub type Id = String;

/// An address in lower-case hex with `0x`.
pub type Address = String;

/// Names one call or one order, so that its end can be told apart from others that are open.
pub type Ticket = u64;

/// The machine's clocks, as the wallet would read them now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocks {
    /// The wall clock: milliseconds since 1970 in UTC. Anybody may set it.
    pub wall_ms: i64,
    /// The machine's time zone, by its IANA name. May change at any time.
    pub zone: String,
    /// Which boot of the machine this is.
    pub boot: u32,
    /// Milliseconds since that boot, suspension included. Nobody can set it.
    pub boot_ms: u64,
    /// What the newest block of every chain says, where chains answer; the wallet may or may not have looked.
    pub block_ms: Option<i64>,
}

/// One thing that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The clocks show this from now on.
    Clocks(Clocks),
    /// An agent's call came in.
    Called { ticket: Ticket, call: Call },
    /// It was answered. The answer left the process: it cannot be taken back.
    Answered { ticket: Ticket, answer: Answer },
    /// An operator's order came in.
    Ordered { ticket: Ticket, order: Order },
    /// It was carried out or refused.
    Obeyed { ticket: Ticket, end: End },
    /// A key of the wallet signed.
    Signed(Signed),
    /// Whoever holds the key refused to use it for this request, as a person at a device may.
    Declined { request: Id },
    /// A signed transaction reached a node.
    Broadcast(Transaction),
    /// A chain took a transaction in for good.
    Mined { chain: u64, hash: String, succeeded: bool },
    /// A chain moved the money of a signed payment, in this transaction.
    Redeemed { chain: u64, payer: Address, nonce: String, hash: String },
    /// The process ended without a word. What it was asked and has not answered it never will; what of it is
    /// on the disk nobody knows.
    Died,
    /// The process was stopped in good order, everything that was open is answered.
    Stopped,
    /// It runs again, on what was on the disk. The wallet is locked.
    Started,
    /// The disk stopped taking writes; reads go on. Until the next start nothing new is decided.
    DiskFailed,
    /// From now on nothing fails, time passes as it should, and every agent polls what it was promised.
    Calm,
    /// The end: whatever was asked must be over by now.
    Over,
}

/// What an agent calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `POST /sign`.
    Sign(Box<Ask>),
    /// `GET /sign/status/{id}`: no proof, the id is enough.
    Poll { id: Id },
    /// `POST /status`, an agent's reading of its own standing.
    Standing { agent: String, proof: Proof },
    /// `POST /callback`.
    Report(Report),
}

/// How an agent proves who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// `SIG:<timestamp>:<digest>`; `right` if key and message are the agent's own. Two calls are the same
    /// signed call exactly if `signature` is equal.
    Hmac { timestamp_s: i64, signature: String, right: bool },
    /// `AT_…`; `right` if it is the token that was issued to the agent last.
    Bearer { right: bool },
}

/// One `/sign`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// As the body names it; there may be no such agent.
    pub agent: String,
    pub proof: Proof,
    /// The text of `payment_required` or the canonical JSON of `x402_data`: equal exactly if they are the
    /// same content.
    pub content: String,
    pub idempotency_key: Option<String>,
    pub request_url: Option<String>,
    /// What the content offers, in its order. A well-formed content.
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
    /// The token asked for is the network's reference stablecoin, which has six decimals.
    pub reference: bool,
    pub asset: Address,
    pub amount: Atoms,
    pub payee: Address,
    pub max_timeout_s: Option<u64>,
    pub resource_url: Option<String>,
    pub domain: Domain,
}

/// What an offer's `extra` says of the token's EIP-712 domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Nothing, or what the wallet's own table says.
    Agrees,
    /// Something else, and the token on the chain says that the wallet's table is right.
    Refuted,
    /// Something else, and nobody confirms the wallet's table.
    Contradicts,
}

/// One `/callback`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub agent: String,
    pub proof: Proof,
    pub id: Id,
    pub event: Event,
    pub tx_hash: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Submitted,
    Settled,
    Failed,
}

/// What an agent hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The signed payment.
    Header { id: Id, payment: Payment },
    /// 200 `ALREADY_SIGNED`: it was signed, and its header is worthless by now.
    AlreadySigned { id: Id },
    /// 202 `pending`: it waits for the operator.
    Pending { id: Id },
    /// 202 `executing`: it was let through, and its signature is not there yet.
    Executing { id: Id },
    /// `status: rejected`: by a poll or by a repeated call. The operator's denial has no code.
    Rejected { id: Id, code: Option<String> },
    /// An error. `id` is that of the record that was made of the refusal, `previous` that of the payment which
    /// was made already.
    Refused { http: u16, code: String, id: Option<Id>, previous: Option<Id> },
    /// The agent's own standing.
    Standing(Standing),
    /// A report was taken; how far the payment has come: `submitted`, `failed`, `settled`, `verified`.
    Reported { stage: String },
}

/// What a payment header says, read by whoever received it.
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
    /// Who signed these terms under the token's domain, recovered by the receiver; the payer, or it is no
    /// payment. Absent where signatures are made up to save time.
    pub signer: Option<Address>,
}

/// An agent's reading of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// `active`, `limit_reached`, `suspended`, `uncommissioned`.
    pub status: String,
    pub daily: Micros,
    pub per_request: Micros,
    pub auto_below: Micros,
    /// Spent of the allowance in force.
    pub spent: Micros,
    /// Held back by requests that wait.
    pub reserved: Micros,
}

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    CreateWallet,
    /// With this password; `right` if it is the wallet's.
    OpenWallet {
        right: bool,
    },
    LockWallet,
    Freeze,
    /// Needs the password again.
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
    /// The whole policy as it is to be.
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
    /// A bearer agent gets a new token; the old one ends at once.
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
    /// Grants an allowance that a jump of the clock held back.
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
    /// Lists what waits, with the digest of each card.
    List,
    /// `card`: the digest of the card that this operator was shown, at whatever time; without it the order
    /// takes the card as it is now.
    Approve {
        id: Id,
        card: Option<String>,
    },
    Deny {
        id: Id,
    },
    /// Moves money away by a transaction of its own.
    Send(Box<Send>),
}

/// Money that the operator moves: native coins, or the reference stablecoin.
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
    /// What waits.
    Waiting(Vec<Listed>),
    /// The request that was decided, as it stands: `signed`, `executing`, `denied`, `expired`, `rejected`.
    Decided {
        status: String,
    },
    /// The id of what was sent.
    Sent {
        id: Id,
    },
    Refused {
        code: String,
    },
}

/// A request that waits, as an operator sees it in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub id: Id,
    /// The digest of its card.
    pub card: String,
    pub agent: String,
    pub amount: Atoms,
    pub asset: Address,
}

/// The part of a policy that payments are judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub payments: bool,
    pub daily: Micros,
    pub per_request: Micros,
    pub auto_below: Micros,
    /// Without it, every network that the operator has on.
    pub networks: Option<Vec<u64>>,
    pub allowed_domains: Vec<String>,
    pub blocked_domains: Vec<String>,
}

/// A use of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub signer: Address,
    /// What was signed: the hash that went into the signature.
    pub digest: String,
    /// The request whose payment it is; none for a transaction.
    pub request: Option<Id>,
}

/// A transaction as a node reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub chain: u64,
    pub from: Address,
    pub nonce: u64,
    pub to: Address,
    pub value: Atoms,
    pub data: String,
    pub hash: String,
}
