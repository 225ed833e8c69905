//! The rules for trades, from the call and the transactions of the plan to the reported end.

mod answers;
mod authority;
mod calls;
mod content;
mod ends;
mod floors;
mod judge;
mod late;
mod plan;
mod steps;
mod volume;

use crate::basics::Address;
use crate::plans::{PlanBook, PlanRecord};
use crate::trading::{Allowances, OpenAllowance, Trade};
use std::collections::BTreeMap;

pub(crate) use content::{Content, PERSON_PERMIT_S, check_permit};
pub(crate) use ends::arrived;
pub(crate) use judge::Snapshot;
pub(crate) use volume::Allowance;

pub(crate) type TradeRecord = PlanRecord<Trade>;

/// What the auditor knows about trades.
#[derive(Debug, Default)]
pub(crate) struct Trades {
    pub(crate) book: PlanBook<Trade>,
    /// The daily volumes of each agent's trades that may be in force.
    pub(crate) periods: BTreeMap<String, Vec<Allowance>>,
    /// The latest token allowances of each address, by chain and address.
    pub(crate) allowances: BTreeMap<(u64, Address), Vec<OpenAllowance>>,
    /// The lowest and the highest price of the native coin that a source reported, in micro-dollars.
    pub(crate) prices: Option<(u64, u64)>,
    pub(crate) market: crate::market::Market,
    pub(crate) exchanges: BTreeMap<u64, crate::ExchangeFact>,
    /// The largest daily volume in force for each agent so far.
    pub(crate) largest_volume: BTreeMap<String, u64>,
    /// Whether the wallet is locked because its process has ended, which ends no plan.
    pub(crate) is_locked_by_restart: bool,
}

/// Fields that only the record of a trade has.
#[derive(Debug, Clone, Default)]
pub(crate) struct TradeExtra {
    /// The value in micro-dollars, and the slippage in basis points: (least, most).
    pub(crate) value: Option<(u64, u64)>,
    pub(crate) slippage: Option<(u32, u32)>,
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

    pub(crate) fn note_allowances(&mut self, allowances: &Allowances) {
        let at = (allowances.chain, allowances.owner.to_lowercase());
        let mut open = allowances.open.clone();
        open.sort();
        self.allowances.insert(at, open);
    }
}
