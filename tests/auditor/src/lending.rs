//! What is visible of a loan from outside: the request, what the nodes answered about venues and positions, and what
//! the chains did.
//!
//! Amounts are in the smallest units of the network's reference stablecoin, which has six decimals and counts one dollar
//! a unit: they are millionths of a dollar too. A venue is a vault's address or a market's id, in lower-case hex with
//! `0x`.
//!
//! A loan is supplied to, or withdrawn from, a venue. Its transactions are observed like those of a trade: `Signed` with
//! its content, `Broadcast`, `Included`, `Unmined`, `Mined`, `NonceTaken`, and `Allowances`. The stablecoin's `Transfer`
//! logs in `Included` are the money that moved.

use crate::basics::{Address, Atoms, Id, Micros, Proof};
use crate::trading::Rehearsal;

/// The lending of a network, and which venues its operators trust. Known before the first observation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LendingFact {
    pub chain: u64,
    /// The singleton of all markets: target of their calls, and spender of their allowances.
    pub singleton: Address,
    /// The only interest model that a market may have.
    pub interest_model: Address,
    pub trusted_curators: Vec<Address>,
    pub trusted_owners: Vec<Address>,
    /// Vaults of the wallet's own list: they are trusted whoever owns them, under a trusted curator.
    pub pinned: Vec<Address>,
    /// Blocks after which a transaction is final, its own included.
    pub confirmations: u64,
}

/// The kind of a venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VenueKind {
    /// Vault V2 or MetaMorpho.
    Vault,
    /// A market of the singleton, named by its id of 32 bytes.
    Market,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoanAction {
    Supply,
    Withdraw,
}

/// How much a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoanAmount {
    Assets(Atoms),
    /// `denomination: shares`, in the smallest units of the venue's shares. Only of a withdrawal.
    Shares(Atoms),
    /// `withdraw_all`.
    All,
}

/// The `position` object of a call. It is well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    pub chain: u64,
    pub action: LoanAction,
    pub venue: Address,
    pub kind: VenueKind,
    pub amount: LoanAmount,
    /// In Unix seconds.
    pub deadline_s: Option<u64>,
}

/// One `POST /position` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoanAsk {
    /// The agent named in the body; it may not exist.
    pub agent: String,
    pub proof: Proof,
    /// The canonical JSON of the `position` object: equal exactly if the content is the same.
    pub content: String,
    pub idempotency_key: Option<String>,
    pub loan: Loan,
}

/// The result object of a loan, from `POST /position` and from `GET /position/status/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoanAnswer {
    /// `request_id`; `None` where it is absent or empty.
    pub id: Option<Id>,
    pub state: LoanState,
}

/// The `status` of a loan, with the fields that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoanState {
    Executed {
        tx_hash: String,
        /// The stablecoins that left or reached the address.
        assets_moved: Option<Atoms>,
        /// The value of the position afterwards.
        position_after: Option<Atoms>,
    },
    Pending,
    Executing,
    Rejected {
        code: Option<String>,
        reason_code: Option<String>,
        retryable: bool,
    },
    Failed {
        code: Option<String>,
        retryable: bool,
    },
}

/// The part of a policy that loans are judged by. The default is that of a policy without lending options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LendingPolicy {
    pub enabled: bool,
    pub max_deposit: Micros,
    /// The ceiling of everything deployed by the paying address, over all networks that the policy allows.
    pub max_total: Micros,
    /// `--lending-percent`, in basis points of liquid and deployed stablecoins together.
    pub max_percent_bps: Option<u32>,
    pub auto_below: Micros,
    pub ops_per_day: u32,
    /// Whether only curated venues are permitted.
    pub restricted: bool,
}

impl Default for LendingPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            max_deposit: 100_000_000,
            max_total: 500_000_000,
            max_percent_bps: None,
            auto_below: 0,
            ops_per_day: 20,
            restricted: true,
        }
    }
}

/// What a node answered about a venue. The wallet reads it for every supply.
///
/// Show one whenever the wallet has read a venue. For a market show the vaults of `endorsed_by` as readings too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueReading {
    pub chain: u64,
    pub venue: Address,
    pub kind: VenueKind,
    pub block: u64,
    /// `None` if any part of it could not be read.
    pub facts: Option<VenueFacts>,
}

/// The content of a [`VenueReading`], as the node answered it: a node may answer wrongly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueFacts {
    /// The token that it lends.
    pub asset: Address,
    /// Whether the official factory of its kind made the vault. True for every market of the singleton.
    pub official: bool,
    /// The zero address for a market.
    pub curator: Address,
    /// The zero address for a market.
    pub owner: Address,
    /// Whether official factories made all its adapters. True for a market, and for a MetaMorpho.
    pub adapters_official: bool,
    /// The interest model of a market.
    pub interest_model: Option<Address>,
    /// The vaults in which the market has a cap above zero.
    pub endorsed_by: Vec<Address>,
    /// Whether all gates let the paying address receive and send shares and assets.
    pub gates_open: bool,
    /// What can be withdrawn now.
    pub free_liquidity: Atoms,
    /// The assets that 10^24 smallest units of shares are worth; `None` if the wallet did not ask.
    pub share_price: Option<Atoms>,
    pub virtual_shares: Atoms,
}

/// What a node answered about the positions of an address on one network. The wallet reads it before every supply.
///
/// Show one for every network that the wallet read, also if it has no positions there, and one for every position that
/// it read after a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposureReading {
    pub chain: u64,
    pub owner: Address,
    pub block: u64,
    /// `None` if the network could not be read.
    pub positions: Option<Vec<PositionReading>>,
}

/// One venue in an [`ExposureReading`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionReading {
    pub venue: Address,
    /// What the shares are worth; `None` if it could not be read.
    pub value: Option<Atoms>,
    /// The shares; `None` if they could not be read.
    pub shares: Option<Atoms>,
}

/// The true positions of an address on one network at a block: every official venue that it has shares of.
///
/// The driver takes them from the chain itself and shows them after every block that holds a transaction of the address,
/// after that block's `Included`, and whenever a position appears in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruePositions {
    pub chain: u64,
    pub owner: Address,
    pub block: u64,
    /// Venue, value and shares.
    pub positions: Vec<(Address, Atoms, Atoms)>,
}

/// A node simulated a loan from our address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoanRehearsed {
    pub chain: u64,
    pub from: Address,
    pub venue: Address,
    pub action: LoanAction,
    pub amount: LoanAmount,
    pub outcome: Rehearsal,
    /// The assets that moved in the simulation.
    pub assets: Option<Atoms>,
    /// For a supply, the assets that the new shares redeem for.
    pub redeems_for: Option<Atoms>,
}

/// `venue trust`: the operator confirms a venue with the curator and the owner that it was shown with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueConfirmed {
    pub chain: u64,
    pub venue: Address,
    pub curator: Address,
    pub owner: Address,
}

/// `position write-off`: the operator books the loss of a position, so that only the chain's value counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOff {
    pub label: String,
    pub chain: u64,
    pub venue: Address,
}

/// `position withdraw`: the operator withdraws from an address, without an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorWithdrawal {
    pub label: String,
    pub chain: u64,
    pub venue: Address,
    pub kind: VenueKind,
    pub amount: LoanAmount,
}
