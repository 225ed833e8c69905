//! The externally visible facts of trades: the request, the market that the wallet reads, and the effects on the chain.

use crate::basics::{Address, Atoms, Id, Micros, Proof, Transaction};

/// The address that stands for the native coin.
pub const NATIVE: &str = "0x0000000000000000000000000000000000000000";

/// One `POST /trade` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradeAsk {
    /// The agent named in the body; it may not exist.
    pub agent: String,
    pub proof: Proof,
    /// The canonical JSON of the `trade` object; equal if and only if the content is equal.
    pub content: String,
    pub idempotency_key: Option<String>,
    pub trade: Trade,
}

/// The `trade` object of a call. It is well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trade {
    pub chain: u64,
    /// The token that is sold; [`NATIVE`] for the native coin.
    pub token_in: Address,
    /// The token that is bought; [`NATIVE`] for the native coin.
    pub token_out: Address,
    /// The amount to sell, in the smallest units of `token_in`.
    pub amount_in: Atoms,
    pub pool: Route,
    pub max_slippage_bps: Option<u32>,
    /// In Unix seconds.
    pub deadline_s: Option<u64>,
}

/// The pool that the agent named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Pool(Pool),
    /// The wallet selects the route.
    Best,
}

/// One pool of the exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    V3 {
        fee: u32,
    },
    V4 {
        /// The fee of the pool key. 8388608 marks a dynamic fee.
        fee: u32,
        tick_spacing: i32,
        /// The zero address for a pool without hooks.
        hooks: Address,
    },
}

/// One swap of a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    pub pool: Pool,
    pub token_out: Address,
}

/// The result object of a trade, as its agent reads it, from `POST /trade` and from `GET /trade/status/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TradeAnswer {
    /// `request_id`; `None` where the answer has none.
    pub id: Option<Id>,
    pub state: TradeState,
}

/// The `status` of a trade, with the fields that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TradeState {
    Executed {
        tx_hash: String,
        /// The output that arrived; `None` if the wallet does not know it.
        amount_out: Option<Atoms>,
        amount_out_quoted: Option<Atoms>,
    },
    Pending,
    Executing,
    /// Ended without a swap, because of the policy, the operator, an expiry or the price.
    Rejected {
        code: Option<String>,
        reason_code: Option<String>,
    },
    /// Ended by a failure of the chain or of a node.
    Failed {
        code: Option<String>,
    },
}

/// The part of a policy that trades are judged by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TradingPolicy {
    pub enabled: bool,
    pub daily: Micros,
    pub per_trade: Micros,
    pub auto_below: Micros,
    /// Minimum native balance after a trade, in wei.
    pub min_native: Atoms,
    pub max_slippage_bps: u32,
    pub max_impact_bps: u32,
    /// `--trade-tokens`: the tokens that may be traded without an approval, in addition to the known ones.
    pub tokens: Vec<Address>,
    /// `--trade-hooks`: the hooks whose pools may be used without an approval.
    pub hooks: Vec<Address>,
}

/// A node's answer to a quote of a whole amount along a route.
///
/// A quote of a dust amount is not a separate observation: `dust_ideal` holds its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    pub chain: u64,
    /// The block at which the node answered, and its time in Unix seconds.
    pub block: u64,
    pub block_s: u64,
    pub token_in: Address,
    pub amount_in: Atoms,
    pub hops: Vec<Hop>,
    /// `None` if there is no pool, not enough liquidity, a partial fill, or no answer.
    pub amount_out: Option<Atoms>,
    /// The output at the price of `slot0`, without fee and impact. `None` if the wallet could not read it.
    pub slot0_ideal: Option<Atoms>,
    /// The output at the rate of the dust quote, fee included. `None` if there is no dust quote that rounds well.
    pub dust_ideal: Option<Atoms>,
    /// The fee of all hops together in millionths, or `None` if a hook decides it or it is dynamic.
    pub fee_ppm: Option<u32>,
}

/// A value that a node reported about an address; `None` for a failed read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Balance {
        chain: u64,
        block: u64,
        owner: Address,
        /// [`NATIVE`] for the native coin.
        token: Address,
        amount: Option<Atoms>,
    },
    Allowance {
        chain: u64,
        block: u64,
        owner: Address,
        token: Address,
        spender: Address,
        /// Whether Permit2 reported it, rather than the token.
        permit2: bool,
        amount: Option<Atoms>,
    },
    /// The maximum cost of the cheapest transaction at the current gas price, in wei.
    GasCost { chain: u64, worst: Atoms },
    /// Another read of this chain failed, and the wallet may refuse a trade because of it.
    Failed { chain: u64 },
    /// A node cannot simulate several calls: if no other node rehearses the plan, it waits for the operator.
    NoSimulation { chain: u64 },
}

/// One reading of the native coin's price, in millionths of a dollar.
///
/// The wallet reads the price at the moment of the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriceRead {
    /// The price API answered this; `None` for a failure.
    Api { micros: Option<Micros> },
    /// The feed of this chain answered this, last updated at this Unix second; `None` for a failure.
    Feed { chain: u64, micros: Option<Micros>, updated_s: u64 },
}

/// The result of a node's simulation of a whole plan from our address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsed {
    pub chain: u64,
    pub from: Address,
    pub token_in: Address,
    pub token_out: Address,
    pub amount_in: Atoms,
    pub outcome: Rehearsal,
}

/// The result of a rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rehearsal {
    /// The balances in the simulation changed as the plan promises.
    Proved,
    Failed,
    /// The node cannot simulate.
    Unavailable,
}

/// The newest block that a node has shown to the wallet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub chain: u64,
    pub block: u64,
    /// Unix seconds.
    pub time_s: u64,
}

/// A transaction in a block that may still be replaced, with the effects that its receipt and traces show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Included {
    pub chain: u64,
    pub hash: String,
    pub block: u64,
    /// Unix seconds.
    pub block_s: u64,
    pub succeeded: bool,
    /// Every `Transfer` log.
    pub transfers: Vec<TransferLog>,
    /// The `Withdrawal` logs of the wrapped coin: the account that unwrapped, and the amount.
    pub unwrapped: Vec<(Address, Atoms)>,
    /// Native coins that the sender received in this transaction.
    pub native_received: Atoms,
    /// The output of the exchange's last pool, from the pool's own event.
    pub pool_out: Option<Atoms>,
    pub gas_paid: Atoms,
}

/// A `Transfer` log of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferLog {
    pub token: Address,
    pub from: Address,
    pub to: Address,
    pub amount: Atoms,
}

/// All allowances of an address that are above zero on the chain at this block.
///
/// The driver shows them after every block that holds a transaction of the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowances {
    pub chain: u64,
    pub block: u64,
    pub owner: Address,
    pub open: Vec<OpenAllowance>,
}

/// An allowance above zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenAllowance {
    pub token: Address,
    pub spender: Address,
    /// Whether the allowance is recorded in Permit2, rather than in the token.
    pub permit2: bool,
    pub amount: Atoms,
}

/// A Permit2 permit for one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    pub chain: u64,
    pub token: Address,
    pub amount: Atoms,
    /// Unix seconds.
    pub expiration_s: u64,
    pub nonce: u64,
    pub spender: Address,
    /// Unix seconds.
    pub deadline_s: u64,
}

/// The content behind a signed digest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SignedContent {
    /// A payment, or something that the driver cannot decode.
    #[default]
    Undecodable,
    Transaction(Box<Transaction>),
    Permit(Permit),
}
