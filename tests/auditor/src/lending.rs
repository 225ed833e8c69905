//! The externally visible facts of loans: the request, the nodes' answers about venues and positions, and the effects
//! on the chains.
//!
//! Amounts are in the smallest units of the network's reference stablecoin. It has six decimals, and one unit counts as
//! one dollar, so amounts are also millionths of a dollar. A venue is a vault's address or a market's id, in lower-case
//! hex with `0x`.
//!
//! A loan is supplied to, or withdrawn from, a venue. Its transactions are observed like those of a trade: `Signed`
//! with its content, `Broadcast`, `Included`, `Unmined`, `Mined`, `NonceTaken`, and `Allowances`. The stablecoin's
//! `Transfer` logs in `Included` show the money that moved.

use crate::basics::{Address, Atoms, Id, Micros, Proof};
use crate::trading::Rehearsal;

/// The lending facts of a network, with its trusted venues.
///
/// They are known before the first observation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LendingFact {
    pub chain: u64,
    /// The singleton of all markets: target of their calls, and spender of their allowances.
    pub singleton: Address,
    /// The only interest model that a market may have.
    pub interest_model: Address,
    pub trusted_curators: Vec<Address>,
    pub trusted_owners: Vec<Address>,
    /// Vaults in the wallet's own list. With a trusted curator they are trusted, whatever their owner.
    pub pinned: Vec<Address>,
    /// The number of blocks after which a transaction is final, including its own block.
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

/// The amount that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoanAmount {
    Assets(Atoms),
    /// `denomination: shares`, in the smallest units of the venue's shares. Only a withdrawal can use it.
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
    /// The canonical JSON of the `position` object; equal if and only if the content is equal.
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
        /// The stablecoins that left or reached the paying address.
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

/// The part of a policy that loans are judged by.
///
/// The default is a policy without lending options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LendingPolicy {
    pub enabled: bool,
    pub max_deposit: Micros,
    /// The ceiling of all stablecoins that the paying address deploys, over all networks that the policy allows.
    pub max_total: Micros,
    /// `--lending-percent`, in basis points of the sum of liquid and deployed stablecoins.
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

/// The answer of a node about a venue.
///
/// The wallet reads venues for every supply. The driver shows one answer for each venue that the wallet reads; for a
/// market it also shows the vaults of `endorsed_by`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueReading {
    pub chain: u64,
    pub venue: Address,
    pub kind: VenueKind,
    pub block: u64,
    /// `None` if a part of the facts could not be read.
    pub facts: Option<VenueFacts>,
}

/// The content of a [`VenueReading`] as the node answered it; the answer may be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueFacts {
    /// The token that the venue lends.
    pub asset: Address,
    /// Whether the official factory made the vault. Always true for a market of the singleton.
    pub official: bool,
    /// The zero address for a market.
    pub curator: Address,
    /// The zero address for a market.
    pub owner: Address,
    /// Whether official factories made all adapters of the vault. Always true for a market or a MetaMorpho vault.
    pub adapters_official: bool,
    /// The interest model of a market.
    pub interest_model: Option<Address>,
    /// The vaults that set a cap above zero for the market.
    pub endorsed_by: Vec<Address>,
    /// Whether all gates let the paying address receive and send shares and assets.
    pub gates_open: bool,
    /// The assets that can be withdrawn now.
    pub free_liquidity: Atoms,
    /// The assets that 10^24 smallest units of shares are worth; `None` if the wallet did not ask.
    pub share_price: Option<Atoms>,
    pub virtual_shares: Atoms,
}

/// The answer of a node about the positions of an address on one network.
///
/// The wallet reads positions before every supply. The driver shows one answer for every network that the wallet read,
/// even if the address has no positions there, and one for every position that the wallet read after a transaction.
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
    /// The value of the shares; `None` if it could not be read.
    pub value: Option<Atoms>,
    /// The shares; `None` if they could not be read.
    pub shares: Option<Atoms>,
}

/// The true positions of an address on one network at a block.
///
/// They are all official venues in which the address has shares. The driver takes them from the chain itself. It shows
/// them after every block with a transaction of the address, following the block's `Included`, and whenever a position
/// appears in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruePositions {
    pub chain: u64,
    pub owner: Address,
    pub block: u64,
    /// Venue, value and shares.
    pub positions: Vec<(Address, Atoms, Atoms)>,
}

/// The result of a node's simulation of a loan from our address.
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
    /// For a supply, the assets for which the new shares can be redeemed.
    pub redeems_for: Option<Atoms>,
}

/// `venue trust`: the operator confirms a venue with the curator and the owner that it was shown with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenueConfirmation {
    pub chain: u64,
    pub venue: Address,
    pub curator: Address,
    pub owner: Address,
}

/// `position write-off`: the operator books the loss of a position, after which only the chain's value counts.
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
