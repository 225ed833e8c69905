//! Fees, confirmations and timing of the networks.

/// How a network charges for gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeeModel {
    /// A base fee that is burned, and a tip that orders the transactions of a block.
    Eip1559,
    /// EIP-1559 transactions in order of arrival; the gas includes the cost of data (Arbitrum Nitro).
    Arbitrum,
    /// EIP-1559 plus a data fee that gas estimates do not include (OP stack).
    OpStack,
    /// Type 0 transactions at the node's gas price.
    Legacy,
    /// Type 0 transactions at a gas price of zero.
    Free,
}

/// Fees, confirmations and timing of transactions on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gas {
    pub model: FeeModel,
    /// Highest gas price that is ever offered, in wei, whatever a node reports.
    pub ceiling: u128,
    /// Lowest tip that is offered, in wei per unit of gas.
    pub tip: u128,
    /// Number of blocks, including a transaction's own, after which the transaction counts as settled.
    pub confirmations: u64,
    /// How long a transaction waits for a block before its gas price is raised.
    pub patience_ms: i64,
    /// Interval of polling the newest block while a transaction is pending.
    pub poll_ms: u64,
}

impl Gas {
    /// SKALE: prices are in prepaid credits, and blocks are final at once.
    pub(super) const SKALE: Self = Self {
        model: FeeModel::Legacy,
        ceiling: 1_000 * GWEI,
        tip: 0,
        confirmations: 1,
        patience_ms: 60_000,
        poll_ms: 1_000,
    };
    pub(super) const ORBIT: Self = Self {
        model: FeeModel::Arbitrum,
        ceiling: 100 * GWEI,
        tip: 0,
        confirmations: 10,
        patience_ms: 10_000,
        poll_ms: 250,
    };
    pub(super) const OP_STACK: Self = Self {
        model: FeeModel::OpStack,
        ceiling: 100 * GWEI,
        tip: 1_000_000,
        confirmations: 2,
        patience_ms: 12_000,
        poll_ms: 500,
    };
    pub(super) const ETHEREUM: Self = Self {
        model: FeeModel::Eip1559,
        ceiling: 500 * GWEI,
        tip: GWEI,
        confirmations: 6,
        patience_ms: 60_000,
        poll_ms: 3_000,
    };
}

const GWEI: u128 = 1_000_000_000;
