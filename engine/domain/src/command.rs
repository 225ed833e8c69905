//! What the outside wants, with everything that it would otherwise have to be asked for.

use alloy_primitives::B256;
use bursar_core::client::Client;
use bursar_core::ids::{AgentId, Name, RequestId, SeedId};
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_core::settings::Setting;
use bursar_core::time::Moment;
use bursar_submit::DeskKey;
use bursar_x402::signature::Signature65;

use crate::agents::Credential;
use crate::desks::Send;
use crate::event::AddressAdded;
use crate::idempotency::Prior;
use crate::identity::Identity;
use crate::requests::{PaymentAsk, Request};
use crate::settlement::{Check, News, Settlement, Stage};

/// One command, decided at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub moment: Moment,
    /// Whether the wallet is open now: what loosens needs it.
    pub unlocked: bool,
    /// Whether the journal fits the wallet; if not, nothing is approved automatically.
    pub trusted: bool,
    pub action: Action,
}

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
    /// Grant an allowance that a jump of the clock held back.
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
    /// For the record: the wallet was opened, and its file was told of this entry.
    NoteOpened {
        noted: Option<u64>,
    },
    /// For the record: another password opens the wallet from now on.
    NotePassword,
    /// For the record: a wrong password was given.
    NoteRefused,
    /// For the record: an engine begins its work.
    NoteStarted,
    /// For the record: this journal comes from a backup.
    NoteRestored,
    /// The wallet file is removed next. The password was given again.
    DeleteWallet {
        /// Its file is gone already, so no password can be asked for.
        lost: bool,
    },
    /// Takes the contents of a wallet file into a journal that knows no wallet.
    RecoverWallet(Box<RecoveredWallet>),
    Freeze,
    /// The password was given again.
    Thaw,
    AcceptJournal,
    Ask(Box<Ask>),
    Approve {
        id: RequestId,
        shown: String,
        nonce: [u8; 32],
        by: Client,
    },
    Deny {
        id: RequestId,
        reason: Option<String>,
        by: Client,
    },
    Signed {
        id: RequestId,
        signature: Signature65,
    },
    Report(Box<Report>),
    /// What the chain says of a settlement that waits for it.
    Checked {
        id: RequestId,
        /// The transaction that was looked for.
        tx_hash: B256,
        found: Check,
    },
    /// The operator moves money away.
    Send(Box<Send>),
    /// Something happened at a desk.
    Desk {
        key: DeskKey,
        input: Box<bursar_submit::Input>,
    },
    /// The engine was started or the wallet opened: what is open at this desk goes on.
    ResumeDesk(DeskKey),
    /// Time has passed: expire what is due, renew what is due.
    Tick,
    /// The wallet was opened or the agents thawed: what is authorized and unsigned may be signed now.
    Reissue,
}

/// An agent's authenticated report about one of its payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub agent: AgentId,
    pub identity: Identity,
    pub id: RequestId,
    pub news: News,
    /// Whether the settings want a settled payment to be looked up on the chain.
    pub look: bool,
    pub known: Known,
}

/// What the indexes know of a report; looked up by the core before it decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    pub request: Option<Request>,
    pub settlement: Option<Settlement>,
    /// The answer that this very report got before.
    pub answered: Option<Stage>,
}

/// An agent's authenticated ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub agent: AgentId,
    pub identity: Identity,
    pub payment: PaymentAsk,
    pub prior: Prior,
    /// The id and the EIP-3009 nonce, in case they are needed.
    pub id: RequestId,
    pub nonce: [u8; 32],
    pub bounds: AskBounds,
}

/// How many payments and requests an agent may have. `None` where the operator has switched the rate limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskBounds {
    /// Payments that may still be redeemed.
    pub open: Option<u32>,
    /// New requests in a day (UTC).
    pub today: Option<u32>,
}

/// What a wallet file holds, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredWallet {
    pub name: Name,
    pub wallet_id: [u8; 16],
    /// Each seed with the number of its words.
    pub seeds: Vec<(SeedId, u8)>,
    /// Agents in hmac mode, each with the check of its secret.
    pub agents: Vec<(AgentId, [u8; 32])>,
}
