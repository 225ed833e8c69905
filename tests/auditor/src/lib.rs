//! Judges the wallet from outside, by the specification alone.
//!
//! The auditor knows what was asked, answered, signed and sent. It never queries the wallet's state and shares no code
//! with it.
//!
//! # Examples
//!
//! ```
//! use bursar_auditor::observations::{Clocks, End, Observation, Order};
//! use bursar_auditor::{Auditor, Facts, NetworkFact, Violation};
//!
//! # fn main() -> Result<(), Violation> {
//! let stablecoin = "0xc000000000000000000000000000000000000001".to_owned();
//! let networks = vec![NetworkFact { chain: 8453, on: true, stablecoin, exchange: None }];
//! let mut auditor = Auditor::new(Facts { networks, signed_days: 30 });
//! auditor.observe(&Observation::Clocks(Clocks {
//!     wall_ms: 1_773_144_000_000,
//!     zone: "UTC".to_owned(),
//!     boot: 1,
//!     boot_ms: 50_000,
//!     block_ms: None,
//! }))?;
//! auditor.observe(&Observation::Ordered { ticket: 1, order: Order::CreateWallet })?;
//! auditor.observe(&Observation::OrderEnded { ticket: 1, end: End::Done })?;
//!
//! // A journal has one wallet, so the second order must be refused.
//! auditor.observe(&Observation::Ordered { ticket: 2, order: Order::CreateWallet })?;
//! let judged = auditor.observe(&Observation::OrderEnded { ticket: 2, end: End::Done });
//! assert!(judged.is_err_and(|violation| violation.rule == "orders"));
//! # Ok(())
//! # }
//! ```

mod agents;
mod answers;
mod approvals;
mod basics;
mod book;
mod calls;
mod chains;
mod clocks;
mod compare;
mod config;
mod decode;
mod device_plans;
mod device_trades;
mod devices;
mod domains;
mod expect;
mod foresee;
mod identity;
mod keccak;
mod lending;
mod lifecycle;
mod loan_decode;
mod loans;
mod market;
mod numbers;
pub mod observations;
mod order_ends;
mod orders;
mod plans;
mod policy;
mod repeats;
mod requests;
mod signatures;
mod trades;
mod trading;
mod transactions;
mod unattended;
mod wide;

use crate::book::Book;
use crate::clocks::{Instant, Time};
use crate::config::{Config, PossibleConfig};
use crate::expect::OpenCalls;
use crate::observations::{Address, Answer, Id, LendingFact, Observation};
use std::collections::{BTreeMap, BTreeSet};

/// A network that the wallet knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFact {
    pub chain: u64,
    /// Whether the network is enabled at the start.
    pub on: bool,
    pub stablecoin: Address,
    /// `None` where nothing can be traded.
    pub exchange: Option<ExchangeFact>,
}

/// The exchange of a network, and how the wallet must use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeFact {
    /// The router of v3 pools.
    pub v3_router: Address,
    /// The universal router, which trades v4 pools.
    pub universal_router: Address,
    pub permit2: Address,
    /// The wrapped native coin, with 18 decimals.
    pub wrapped: Address,
    /// Every token of which one unit counts as one dollar, with its decimals. The reference stablecoin is one of them.
    pub dollars: Vec<(Address, u8)>,
    /// The number of blocks after which a transaction is final, including its own block.
    pub confirmations: u64,
    /// The longest time from the newest block to the deadline of a swap, in seconds.
    pub deadline_s: u64,
    /// The greatest age at which a price of the feed counts, in seconds; `None` if the network has no feed.
    pub feed_max_age_s: Option<u64>,
}

/// What the auditor knows before the first observation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    pub networks: Vec<NetworkFact>,
    /// Days for which a signed request is remembered.
    pub signed_days: i64,
}

/// A violation of the specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

pub(crate) fn violation(rule: &'static str, what: String) -> Violation {
    Violation { rule, what }
}

/// The model of the wallet, including everything that is still uncertain.
#[derive(Debug)]
pub struct Auditor {
    pub(crate) time: Time,
    pub(crate) seq: u64,
    /// Every configuration that the wallet may have now.
    pub(crate) possible_configs: Vec<PossibleConfig>,
    pub(crate) book: Book,
    pub(crate) open: OpenCalls,
    /// Tickets that can no longer get an answer.
    pub(crate) dead_tickets: BTreeSet<observations::Ticket>,
    pub(crate) is_running: bool,
    pub(crate) disk_failed: Option<u64>,
    /// Whether the wallet doubts its journal.
    pub(crate) is_journal_doubted: bool,
    /// Requests that were being written when the disk failed: the next process may find them on disk.
    pub(crate) maybe_written_requests: Vec<(u64, requests::RequestRecord)>,
    pub(crate) maybe_configs: Vec<PossibleConfig>,
    pub(crate) digests: BTreeMap<String, Option<Id>>,
    pub(crate) nonces: BTreeMap<(Address, String), u64>,
    pub(crate) unbound_payments: BTreeMap<Id, (Address, String)>,
    pub(crate) unattended: unattended::Unattended,
    pub(crate) transfers: transactions::Transfers,
    pub(crate) trades: trades::Trades,
    pub(crate) loans: loans::Loans,
    pub(crate) devices: devices::Devices,
    pub(crate) device_plans: device_plans::DevicePlans,
    /// The lending parts of the policies in orders.
    pub(crate) lending_orders: BTreeMap<observations::Ticket, observations::LendingPolicy>,
    /// How many recorded refusals the wallet counts for each agent and clock minute: (least, most).
    pub(crate) refusals: BTreeMap<(String, i64), (u32, u32)>,
    /// The largest daily limit in force for each agent so far, in micro-dollars.
    pub(crate) largest_limit: BTreeMap<String, u64>,
    /// Number of `/sign` calls of each agent that got no answer.
    pub(crate) lost_asks: BTreeMap<String, u32>,
    pub(crate) reports: BTreeMap<(String, String), Answer>,
    /// The observation at which the latest call or approval that may have authorized a payment arrived.
    pub(crate) last_auth: u64,
    pub(crate) calm_since: Option<Instant>,
    pub(crate) rule_counts: BTreeMap<&'static str, u64>,
}

impl Auditor {
    /// Creates a model for a wallet that does not exist yet.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let config = Config::new(&facts);
        Self {
            time: Time::new(facts.signed_days),
            seq: 0,
            possible_configs: vec![PossibleConfig { config, applied_orders: BTreeMap::new() }],
            book: Book::default(),
            open: OpenCalls::new(),
            dead_tickets: BTreeSet::new(),
            is_running: true,
            disk_failed: None,
            is_journal_doubted: false,
            maybe_written_requests: Vec::new(),
            maybe_configs: Vec::new(),
            digests: BTreeMap::new(),
            nonces: BTreeMap::new(),
            unbound_payments: BTreeMap::new(),
            transfers: transactions::Transfers::default(),
            trades: trades::Trades::new(&facts),
            loans: loans::Loans::default(),
            devices: devices::Devices::default(),
            device_plans: device_plans::DevicePlans::default(),
            unattended: unattended::Unattended::default(),
            lending_orders: BTreeMap::new(),
            refusals: BTreeMap::new(),
            largest_limit: BTreeMap::new(),
            lost_asks: BTreeMap::new(),
            reports: BTreeMap::new(),
            last_auth: 0,
            calm_since: None,
            rule_counts: BTreeMap::new(),
        }
    }

    /// Adds the lending facts of the networks. Without them, no loan may be accepted.
    #[must_use]
    pub fn with_lending(mut self, facts: &[LendingFact]) -> Self {
        self.loans = loans::Loans::new(facts);
        self
    }

    /// Returns how many decisions each rule made.
    #[must_use]
    pub fn rule_counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.rule_counts
    }

    pub(crate) fn count(&mut self, name: &'static str) {
        let n = self.rule_counts.entry(name).or_default();
        *n = n.saturating_add(1);
    }

    /// Judges one observation.
    ///
    /// # Errors
    /// The first violation: what was seen, what was expected, and the rule. The auditor must not be used after an
    /// error.
    pub fn observe(&mut self, observation: &Observation) -> Result<(), Violation> {
        self.seq = self.seq.saturating_add(1);
        match observation {
            Observation::Clocks(to) => self.on_clocks(to),
            Observation::Called { ticket, call } => self.on_called(*ticket, call)?,
            Observation::Answered { ticket, answer } => self.check_answered(*ticket, answer)?,
            Observation::Ordered { ticket, order } => self.on_ordered(*ticket, order)?,
            Observation::OrderEnded { ticket, end } => self.on_order_ended(*ticket, end)?,
            Observation::Signed(signed) => self.on_signed(signed)?,
            Observation::Declined { request } => {
                if let Some(rec) = self.book.find_mut(request) {
                    rec.declined = true;
                }
            }
            Observation::Broadcast(_)
            | Observation::Included(_)
            | Observation::Unmined { .. }
            | Observation::Mined { .. }
            | Observation::NonceTaken { .. }
            | Observation::Allowances(_) => self.on_transaction(observation)?,
            Observation::Redeemed { chain, payer, nonce, .. } => {
                self.on_redeemed(*chain, payer, nonce)?
            }
            Observation::Quoted(quoted) => self.trades.market.add_quote(self.seq, quoted),
            Observation::Read(read) => self.trades.market.add_read(self.seq, read),
            Observation::PriceRead(price) => {
                self.trades.price_read(self.seq, self.time.instant(), price);
            }
            Observation::Rehearsed(rehearsed) => {
                self.trades.market.add_rehearsal(self.seq, rehearsed);
            }
            Observation::Head(head) => self.trades.market.add_head(self.seq, *head),
            Observation::LendingOrdered { ticket, lending } => {
                self.lending_orders.insert(*ticket, lending.clone());
            }
            Observation::VenueRead(read) => self.loans.readings.add_venue(self.seq, read),
            Observation::ExposureRead(read) => self.loans.readings.add_exposure(self.seq, read),
            Observation::LoanRehearsed(one) => self.loans.readings.add_rehearsal(self.seq, one),
            Observation::Deployed(truth) => self.on_deployed(truth)?,
            Observation::Device(seen) => return self.on_device(seen),
            Observation::Died => self.on_died(),
            Observation::Stopped => self.on_stopped()?,
            Observation::Started => self.on_started(),
            Observation::JournalDoubted { doubted } => self.is_journal_doubted = *doubted,
            Observation::DiskFailed => self.disk_failed = Some(self.seq),
            Observation::Calm => self.calm_since = Some(self.time.instant()),
            Observation::Over => self.on_over()?,
        }
        if observation.is_of_loans() {
            // Neither clocks nor orders nor requests have changed.
            return Ok(());
        }
        self.judge_open_again();
        if !observation.is_answer_of_node() {
            self.watch_loans();
        }
        self.watch_trades();
        self.watch_calm();
        Ok(())
    }
}
