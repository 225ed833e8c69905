//! What the outside wants, with everything that it would otherwise have to be asked for.

use bursar_core::ids::{AgentId, Name, RequestId, SeedId};
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_core::time::Moment;
use bursar_x402::signature::Signature65;

use crate::agents::Credential;
use crate::event::AddressAdded;
use crate::idempotency::{Identity, Prior};
use crate::requests::PaymentAsk;

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
    SetNetwork {
        chain: ChainId,
        enabled: bool,
    },
    Freeze,
    /// The password was given again.
    Thaw,
    AcceptJournal,
    Ask(Box<Ask>),
    Approve {
        id: RequestId,
        shown: String,
        nonce: [u8; 32],
    },
    Deny {
        id: RequestId,
        reason: Option<String>,
    },
    Signed {
        id: RequestId,
        signature: Signature65,
    },
    /// Time has passed: expire what is due, renew what is due.
    Tick,
    /// The wallet was opened or the agents thawed: what is authorized and unsigned may be signed now.
    Reissue,
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
}
