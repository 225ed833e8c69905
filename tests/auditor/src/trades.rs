//! The rules for trades: from the call over the plan's transactions to the reported end.

mod answers;
pub(crate) mod authority;
mod calls;
mod chain;
mod content;
mod ends;
mod floors;
mod judge;
mod orders;
mod steps;

use crate::basics::Ticket;
use crate::clocks::Instant;
use crate::trade_book::{Allowance, Snapshot, TradeBook};
use crate::trade_slots::{Body, Slot, SlotKey};
use crate::trading::TradeAsk;
use std::collections::{BTreeMap, BTreeSet};

/// What the auditor knows of trades.
#[derive(Debug, Default)]
pub(crate) struct Trades {
    pub(crate) book: TradeBook,
    pub(crate) market: crate::market::Market,
    pub(crate) exchanges: BTreeMap<u64, crate::ExchangeFact>,
    /// The open `POST /trade` calls.
    pub(crate) open: BTreeMap<Ticket, OpenTrade>,
    /// The largest daily volume in force for each agent so far.
    pub(crate) largest_volume: BTreeMap<String, u64>,
    /// Transactions that were signed after the end of their plans.
    pub(crate) void: BTreeSet<(SlotKey, Body)>,
    /// Swaps whose time may have been over when they were signed. They count once they are broadcast.
    pub(crate) late: BTreeMap<(SlotKey, Body), Slot>,
    /// The wallet is locked because its process has ended, which ends no plan.
    pub(crate) restarted: bool,
    /// The instants at which open polls and orders arrived.
    pub(crate) arrived: BTreeMap<Ticket, Instant>,
}

/// An open `POST /trade` call.
#[derive(Debug, Clone)]
pub(crate) struct OpenTrade {
    pub(crate) rec: u64,
    pub(crate) ask: TradeAsk,
    pub(crate) seq: u64,
    /// Answers that are correct because the agent may not trade: HTTP status and code.
    pub(crate) errors: Vec<(u16, &'static str)>,
    /// States in which the wallet may have judged it.
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) periods: Vec<Allowance>,
}

impl Trades {
    pub(crate) fn new(facts: &crate::Facts) -> Self {
        let lower = |text: &String| text.to_lowercase();
        let exchanges = facts.networks.iter().filter_map(|network| {
            let ex = network.exchange.as_ref()?;
            let dollars = ex.dollars.iter().map(|(token, decimals)| (lower(token), *decimals));
            let ex = crate::ExchangeFact {
                v3_router: lower(&ex.v3_router),
                universal_router: lower(&ex.universal_router),
                permit2: lower(&ex.permit2),
                wrapped: lower(&ex.wrapped),
                dollars: dollars.collect(),
                ..ex.clone()
            };
            Some((network.chain, ex))
        });
        Self { exchanges: exchanges.collect(), ..Self::default() }
    }
}
