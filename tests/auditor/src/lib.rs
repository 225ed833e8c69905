//! Judges the wallet from outside, by the specification alone.
//!
//! The auditor knows what was asked, answered, signed and sent. It never queries the wallet's state and shares no code
//! with it.

mod agents;
mod answers;
mod approvals;
mod book;
mod calls;
mod clocks;
mod config;
mod domains;
mod endings;
mod expect;
mod fits;
mod foresee;
mod identity;
mod life;
mod numbers;
mod orders;
mod policy;
mod repeats;
mod requests;
pub mod seen;
mod signatures;
mod transactions;

use crate::book::Book;
use crate::clocks::{Instant, Time};
use crate::config::{Config, World};
use crate::expect::Opens;
use crate::seen::{Address, Answer, Id, Seen};
use std::collections::{BTreeMap, BTreeSet};

/// A network that the wallet knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFact {
    pub chain: u64,
    /// Whether the network is enabled at the start.
    pub on: bool,
    pub stablecoin: Address,
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
    /// Every configuration that the wallet may have.
    pub(crate) worlds: Vec<World>,
    pub(crate) book: Book,
    pub(crate) open: Opens,
    /// Tickets that can no longer get an answer.
    pub(crate) dead: BTreeSet<seen::Ticket>,
    pub(crate) running: bool,
    pub(crate) disk_failed: Option<u64>,
    /// Requests that were being written when the disk failed: the next process may find them on disk.
    pub(crate) perhaps_written: Vec<(u64, requests::Rec)>,
    pub(crate) perhaps_set_up: Vec<World>,
    pub(crate) digests: BTreeMap<String, Option<Id>>,
    pub(crate) nonces: BTreeMap<(Address, String), u64>,
    pub(crate) unbound: BTreeMap<Id, (Address, String)>,
    pub(crate) transfers: transactions::Transfers,
    /// Recorded refusals of each agent by clock minute: (least, most) that the wallet counts in it.
    pub(crate) refusals: BTreeMap<(String, i64), (u32, u32)>,
    /// The largest daily limit in force for each agent so far, in micro-dollars.
    pub(crate) largest_limit: BTreeMap<String, u64>,
    /// Number of `/sign` calls of each agent that got no answer.
    pub(crate) lost_asks: BTreeMap<String, u32>,
    pub(crate) reports: BTreeMap<(String, String), Answer>,
    /// The event at which the latest call or approval arrived that may have authorized a payment.
    pub(crate) last_auth: u64,
    pub(crate) calm: Option<Instant>,
    pub(crate) reached: BTreeMap<&'static str, u64>,
}

impl Auditor {
    /// Creates a model of a wallet that does not exist yet.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let config = Config::new(&facts);
        Self {
            time: Time::new(facts.signed_days),
            seq: 0,
            worlds: vec![World { config, applied: BTreeMap::new() }],
            book: Book::default(),
            open: Opens::new(),
            dead: BTreeSet::new(),
            running: true,
            disk_failed: None,
            perhaps_written: Vec::new(),
            perhaps_set_up: Vec::new(),
            digests: BTreeMap::new(),
            nonces: BTreeMap::new(),
            unbound: BTreeMap::new(),
            transfers: transactions::Transfers::default(),
            refusals: BTreeMap::new(),
            largest_limit: BTreeMap::new(),
            lost_asks: BTreeMap::new(),
            reports: BTreeMap::new(),
            last_auth: 0,
            calm: None,
            reached: BTreeMap::new(),
        }
    }

    /// Returns how often each rule decided something.
    #[must_use]
    pub fn reached(&self) -> &BTreeMap<&'static str, u64> {
        &self.reached
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        let n = self.reached.entry(what).or_default();
        *n = n.saturating_add(1);
    }

    /// Judges one observation.
    ///
    /// # Errors
    /// The first violation: what was seen, what was expected, and the rule. The auditor must not be used after an
    /// error.
    pub fn see(&mut self, seen: &Seen) -> Result<(), Violation> {
        self.seq = self.seq.saturating_add(1);
        match seen {
            Seen::Clocks(to) => self.on_clocks(to),
            Seen::Called { ticket, call } => self.on_called(*ticket, call)?,
            Seen::Answered { ticket, answer } => self.on_answered(*ticket, answer)?,
            Seen::Ordered { ticket, order } => self.on_ordered(*ticket, order)?,
            Seen::Obeyed { ticket, end } => self.on_obeyed(*ticket, end)?,
            Seen::Signed(signed) => self.on_signed(signed)?,
            Seen::Declined { request } => {
                if let Some(rec) = self.book.find_mut(request) {
                    rec.declined = true;
                }
            }
            Seen::Broadcast(tx) => {
                self.transfers.broadcast(tx).map_err(|what| violation("transactions", what))?;
                self.count("broadcast");
            }
            Seen::Mined { chain, hash, .. } => {
                let ours = self.transfers.mined(*chain, hash);
                if ours.map_err(|what| violation("transactions", what))? {
                    self.count("mined");
                }
            }
            Seen::Redeemed { chain, payer, nonce, .. } => self.on_redeemed(*chain, payer, nonce)?,
            Seen::Died => self.on_died(),
            Seen::Stopped => self.on_stopped()?,
            Seen::Started => self.on_started(),
            Seen::DiskFailed => self.disk_failed = Some(self.seq),
            Seen::Calm => self.calm = Some(self.time.instant()),
            Seen::Over => self.on_over()?,
        }
        self.judge_all();
        self.watch_calm();
        Ok(())
    }
}
