//! The world's knowledge of loans: requests and answers, the transactions in blocks, and the values of shares.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};

use crate::evm::VenueName;

/// The number of shares whose value is noted after each block. It is large, so that rounding does not matter.
pub(crate) const PRICED_SHARES: u128 = 1_000_000_000_000_000_000_000_000;

/// An entry about loans on the tape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoanObservation {
    /// An agent asked to supply or to withdraw.
    Asked { ticket: u64, agent: String, wish: LoanWish },
    /// The answer to the call or poll with this ticket.
    Answered { ticket: u64, answer: LoanAnswer },
    /// An agent listed the venues of a network.
    Listed { agent: String, chain: u64, own: Vec<(String, Option<u128>)> },
    /// A block holds a supply or a withdrawal of one of our addresses.
    Moved(LoanMove),
    /// The value of [`PRICED_SHARES`] in each venue after a block.
    Prices { chain: u64, block: u64, worth: Vec<(VenueName, U256)> },
}

/// The loan that an agent asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoanWish {
    pub(crate) chain: u64,
    pub(crate) venue: VenueName,
    pub(crate) supplies: bool,
}

/// An answer of `/position` or of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoanAnswer {
    pub(crate) http: u16,
    pub(crate) id: Option<String>,
    /// `executed`, `pending`, `executing`, `rejected`, `failed` or `error`.
    pub(crate) status: String,
    pub(crate) code: Option<String>,
    /// The reason why the loan was rejected or failed, as one of our own codes.
    pub(crate) reason: Option<String>,
    pub(crate) hash: Option<String>,
    pub(crate) moved: Option<u128>,
    pub(crate) position: Option<u128>,
}

impl LoanAnswer {
    /// Returns the most specific code.
    pub(crate) fn code(&self) -> Option<&str> {
        self.reason.as_deref().or(self.code.as_deref())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.status == "pending" || self.status == "executing"
    }
}

/// A supply or a withdrawal in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoanMove {
    pub(crate) chain: u64,
    pub(crate) block: u64,
    /// Unix seconds.
    pub(crate) block_s: u64,
    pub(crate) hash: String,
    pub(crate) owner: Address,
    pub(crate) venue: VenueName,
    pub(crate) supplies: bool,
    pub(crate) succeeded: bool,
    /// The assets moved, by the venue's own event; zero if the transaction failed.
    pub(crate) assets: U256,
    pub(crate) shares: U256,
    /// The stablecoins that the owner received and paid, by their transfers.
    pub(crate) received: U256,
    pub(crate) paid: U256,
    /// Whether the call data name the owner and no other account.
    pub(crate) is_own: bool,
    /// The value of the owner's position after the block. `left` is its number of shares.
    pub(crate) position: U256,
    pub(crate) left: U256,
}

/// The journal's record of a signature for a loan, at the time when the step was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoanOrder {
    pub(crate) request: String,
    pub(crate) agent: String,
    pub(crate) chain: u64,
    pub(crate) owner: Address,
    pub(crate) venue: String,
    pub(crate) supplies: bool,
    /// Whether the whole position is withdrawn.
    pub(crate) is_all: bool,
    /// Whether the transaction is the supply or withdrawal itself.
    pub(crate) is_main: bool,
    /// Whether this is the first signature for the step.
    pub(crate) is_first: bool,
    /// The time at which the step was recorded, in milliseconds.
    pub(crate) at_ms: i64,
    /// The value that counts against the ceiling, in millionths of a dollar.
    pub(crate) counted_micros: u64,
    /// The address's other supplies that were allowed, and the value of each that counts against the ceiling.
    pub(crate) others: Vec<(String, u64)>,
    /// The policy in force: this field and the next ones, up to `curated_only`.
    pub(crate) max_deposit: u64,
    pub(crate) max_total: u64,
    pub(crate) max_share_bps: Option<u32>,
    pub(crate) curated_only: bool,
    /// The networks whose positions count.
    pub(crate) networks: Vec<u64>,
}

/// Everything that the world remembers about loans.
#[derive(Debug, Default)]
pub(crate) struct LoanBook {
    pub(crate) wishes: BTreeMap<u64, LoanWish>,
    /// The loan that each known request asks for.
    pub(crate) by_id: BTreeMap<String, LoanWish>,
    /// The last answer to each request.
    pub(crate) answers: BTreeMap<String, LoanAnswer>,
    pub(crate) last_answer: Option<LoanAnswer>,
    /// The supplies and withdrawals in blocks, in order.
    pub(crate) moves: Vec<LoanMove>,
    /// The value of [`PRICED_SHARES`] by chain and block.
    pub(crate) prices: BTreeMap<(u64, u64), Vec<(VenueName, U256)>>,
    /// The hash of each request's transaction that takes effect.
    pub(crate) main_transactions: BTreeMap<String, String>,
    /// The highest ceiling in force when a supply of the address was ordered, by address.
    pub(crate) ceilings: BTreeMap<Address, u128>,
    /// Whether nodes have lied about positions, or were behind.
    pub(crate) nodes_lied: bool,
}

impl LoanBook {
    /// Returns the amount that an address supplied to a venue less the amount that it withdrew, by its transactions in
    /// blocks.
    pub(crate) fn principal(&self, chain: u64, owner: Address, venue: VenueName) -> U256 {
        let own = self.moves.iter().filter(|one| {
            (one.chain, one.owner, one.venue) == (chain, owner, venue) && one.succeeded
        });
        own.fold(U256::ZERO, |sum, one| {
            if one.supplies { sum + one.assets } else { sum.saturating_sub(one.assets) }
        })
    }

    /// Removes a transaction that a reorganization undid.
    pub(crate) fn forget(&mut self, hash: &str) {
        self.moves.retain(|one| one.hash != hash);
        self.main_transactions.retain(|_request, known| known != hash);
    }
}
