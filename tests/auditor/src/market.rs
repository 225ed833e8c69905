//! The market as nodes reported it to the wallet, and the value of a trade by these reports.

use crate::ExchangeFact;
use crate::basics::Address;
use crate::clocks::Instant;
use crate::trading::{
    Head, NATIVE, Pool, PriceRead, Quoted, Read, Rehearsal, Rehearsed, Route, Trade,
};
use crate::wide;
use std::collections::BTreeMap;

/// How long a reading of the native coin's price counts (60 seconds).
const PRICE_VALID_MS: i64 = 60_000;
/// How long readings are kept (30 minutes).
const READINGS_KEPT_MS: i64 = 1_800_000;
/// The bounds of a plausible price, in millionths of a dollar: 1 to 1,000,000 dollars.
const PLAUSIBLE_PRICES: std::ops::RangeInclusive<u64> = 1_000_000..=1_000_000_000_000;
/// One native coin in wei.
const WEI_PER_COIN: u128 = 1_000_000_000_000_000_000;

/// All readings of the wallet, each with the number of its observation.
#[derive(Debug, Default)]
pub(crate) struct Market {
    quotes: Vec<(u64, Quoted)>,
    reads: Vec<(u64, Read)>,
    prices: Vec<(u64, Instant, PriceRead)>,
    rehearsals: Vec<(u64, Rehearsed)>,
    heads: BTreeMap<u64, Head>,
    /// Every newest block that a node has shown, by chain.
    shown_blocks: BTreeMap<u64, Vec<ShownBlock>>,
    /// The newest block time that a node has shown, by chain.
    times_s: BTreeMap<u64, u64>,
    /// The observation at which the process last started.
    started: u64,
}

/// A block that a node has shown as its newest.
#[derive(Debug, Clone, Copy)]
struct ShownBlock {
    seq: u64,
    block: u64,
    /// The latest block time that nodes had shown until then, in Unix seconds.
    latest_s: u64,
}

/// An instant, and the newest block of a chain that the wallet knew at that instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainTime {
    pub(crate) chain: u64,
    pub(crate) now: Instant,
    pub(crate) newest_s: u64,
}

/// The price of the native coin that the wallet may use: (least, most), or the reason why it may use none.
pub(crate) type CoinPrice = Result<(u64, u64), &'static str>;

/// The value of a trade in millionths of a dollar: (least, most), or the reason why it is unknown.
pub(crate) type Value = Result<(u64, u64), &'static str>;

/// Returns whether two tokens are the same for a pool of this kind. A v3 pool trades the wrapped coin.
pub(crate) fn same_token(a: &str, b: &str, v4: bool, wrapped: &str) -> bool {
    let plain = |t: &str| if !v4 && t == NATIVE { wrapped.to_owned() } else { t.to_lowercase() };
    plain(a) == plain(b)
}

pub(crate) fn is_v4(pool: &Pool) -> bool {
    matches!(pool, Pool::V4 { .. })
}

/// Returns whether a trade only wraps or unwraps the native coin.
pub(crate) fn is_wrap(trade: &Trade, wrapped: &str) -> bool {
    (trade.token_in == NATIVE && trade.token_out == wrapped)
        || (trade.token_in == wrapped && trade.token_out == NATIVE)
}

impl Market {
    pub(crate) fn add_quote(&mut self, seq: u64, quoted: &Quoted) {
        self.note_block_time(quoted.chain, quoted.block_s);
        self.quotes.push((seq, quoted.clone()));
    }

    pub(crate) fn add_read(&mut self, seq: u64, read: &Read) {
        self.reads.push((seq, read.clone()));
    }

    pub(crate) fn add_price(&mut self, seq: u64, at: Instant, price: &PriceRead) {
        // Calls are answered within minutes, so older readings are dropped, except one that shows a jump of the price.
        let old = |one: &Instant| one.elapsed(&at).1.is_none_or(|ms| ms > READINGS_KEPT_MS);
        let first = self.prices.iter().position(|(_, one, _)| !old(one));
        let first = first.unwrap_or(self.prices.len());
        let api = |(_, _, read): &(u64, Instant, PriceRead)| {
            matches!(read, PriceRead::Api { micros: Some(_) })
        };
        let last = self.prices.get(..first).and_then(|old| old.iter().rposition(api));
        self.prices.drain(..last.unwrap_or(first));
        self.prices.push((seq, at, price.clone()));
    }

    pub(crate) fn add_rehearsal(&mut self, seq: u64, rehearsed: &Rehearsed) {
        self.rehearsals.push((seq, rehearsed.clone()));
    }

    pub(crate) fn add_head(&mut self, seq: u64, head: Head) {
        self.note_block_time(head.chain, head.time_s);
        let shown = self.shown_blocks.entry(head.chain).or_default();
        let latest_s = shown.last().map_or(0, |last| last.latest_s).max(head.time_s);
        shown.push(ShownBlock { seq, block: head.block, latest_s });
        let known = self.heads.entry(head.chain).or_insert(head);
        if head.block > known.block {
            *known = head;
        }
    }

    /// Notes the time of a block that the wallet may have seen.
    pub(crate) fn note_block_time(&mut self, chain: u64, time_s: u64) {
        let known = self.times_s.entry(chain).or_default();
        *known = time_s.max(*known);
    }

    /// Notes the time of the newest block of every chain.
    pub(crate) fn note_block_time_of_all(
        &mut self,
        chains: impl Iterator<Item = u64>,
        time_s: u64,
    ) {
        for chain in chains {
            self.note_block_time(chain, time_s);
        }
    }

    pub(crate) fn note_start(&mut self, seq: u64) {
        self.started = seq;
    }

    pub(crate) fn newest_time_s(&self, chain: u64) -> Option<u64> {
        self.times_s.get(&chain).copied()
    }

    pub(crate) fn newest_block(&self, chain: u64) -> Option<u64> {
        self.heads.get(&chain).map(|head| head.block)
    }

    /// Returns whether `at_s` had not passed yet at some block that a node showed between two observations.
    ///
    /// A time has passed once any node has shown a later block time, because a node may be behind its chain. If no
    /// block was shown between the observations, the last block before them counts. If `block` is given, only that
    /// block counts.
    pub(crate) fn is_in_time(
        &self,
        (chain, block): (u64, Option<u64>),
        (from, until): (u64, u64),
        at_s: u64,
    ) -> bool {
        let Some(all) = self.shown_blocks.get(&chain) else { return false };
        let end = all.partition_point(|one| one.seq <= until);
        let first = all.partition_point(|one| one.seq < from).min(end.saturating_sub(1));
        let mut shown = all.get(first..end).unwrap_or_default().iter();
        shown.any(|one| one.latest_s <= at_s && block.is_none_or(|block| one.block == block))
    }

    /// Returns this trade's quotes since an observation, oldest first, each with the number of its observation.
    pub(crate) fn quotes_of<'a>(
        &'a self,
        trade: &'a Trade,
        ex: &'a ExchangeFact,
        from: u64,
    ) -> impl Iterator<Item = (u64, &'a Quoted)> {
        let fits = move |q: &Quoted| {
            let first = q.hops.first().is_some_and(|hop| {
                same_token(&q.token_in, &trade.token_in, is_v4(&hop.pool), &ex.wrapped)
            });
            let last = q.hops.last().is_some_and(|hop| {
                same_token(&hop.token_out, &trade.token_out, is_v4(&hop.pool), &ex.wrapped)
            });
            let pool = match (&trade.pool, q.hops.as_slice()) {
                (Route::Best, _) => true,
                (Route::Pool(pool), [hop]) => hop.pool == *pool,
                (Route::Pool(_), _) => false,
            };
            q.chain == trade.chain && q.amount_in == trade.amount_in && first && last && pool
        };
        let begin = self.quotes.partition_point(|(seq, _)| *seq < from);
        let later = self.quotes.get(begin..).unwrap_or_default().iter();
        later.filter(move |(_, q)| fits(q)).map(|(seq, q)| (*seq, q))
    }

    /// Returns the balances that nodes reported since an observation: (least, most). A failed read counts as zero.
    ///
    /// Concurrent calls read the same address, so each of the values may have decided this call.
    pub(crate) fn balance(
        &self,
        chain: u64,
        owner: &str,
        token: &str,
        from: u64,
    ) -> Option<(u128, u128)> {
        let begin = self.reads.partition_point(|(seq, _)| *seq < from);
        let amounts = self.reads.get(begin..)?.iter().filter_map(|(_, read)| match read {
            Read::Balance { chain: c, owner: o, token: t, amount, .. }
                if *c == chain && o == owner && t == token =>
            {
                Some(*amount)
            }
            _ => None,
        });
        let least = amounts.clone().map(|amount| amount.unwrap_or(0)).min()?;
        // The wallet may retry a failed read at another node, so a failed read does not prove a small balance.
        let most = amounts.map(|amount| amount.unwrap_or(u128::MAX)).max()?;
        Some((least, most))
    }

    /// Returns whether any read of a chain failed since an observation.
    pub(crate) fn failed_read(&self, chain: u64, from: u64) -> bool {
        let begin = self.reads.partition_point(|(seq, _)| *seq < from);
        let mut later = self.reads.get(begin..).unwrap_or_default().iter();
        later.any(|(_, read)| match read {
            Read::Failed { chain: c }
            | Read::Balance { chain: c, amount: None, .. }
            | Read::Allowance { chain: c, amount: None, .. } => *c == chain,
            _ => false,
        })
    }

    /// Returns the gas costs that nodes reported since an observation: (least, most).
    pub(crate) fn gas_cost(&self, chain: u64, from: u64) -> Option<(u128, u128)> {
        let begin = self.reads.partition_point(|(seq, _)| *seq < from);
        let costs = self.reads.get(begin..)?.iter().filter_map(|(_, read)| match read {
            Read::GasCost { chain: c, worst } if *c == chain => Some(*worst),
            _ => None,
        });
        Some((costs.clone().min()?, costs.max()?))
    }

    /// Returns whether a rehearsal of this trade proved its effects since an observation.
    ///
    /// A later rehearsal, before the swap, may fail while the call is still open.
    pub(crate) fn is_proved(
        &self,
        trade: &Trade,
        froms: &std::collections::BTreeSet<Address>,
        wrapped: &str,
        from: u64,
    ) -> bool {
        let mut all = self.rehearsals_of(trade, froms, wrapped, from);
        all.any(|rehearsed| rehearsed.outcome == Rehearsal::Proved)
    }

    /// Returns whether a node reported since an observation that it cannot simulate, and no node rehearsed this trade.
    pub(crate) fn is_unrehearsed(
        &self,
        trade: &Trade,
        froms: &std::collections::BTreeSet<Address>,
        wrapped: &str,
        from: u64,
    ) -> bool {
        let begin = self.reads.partition_point(|(seq, _)| *seq < from);
        let mut later = self.reads.get(begin..).unwrap_or_default().iter();
        let lacks =
            |read: &Read| matches!(read, Read::NoSimulation { chain } if *chain == trade.chain);
        later.any(|(_, read)| lacks(read))
            && self.rehearsals_of(trade, froms, wrapped, from).next().is_none()
    }

    fn rehearsals_of<'a>(
        &'a self,
        trade: &'a Trade,
        froms: &'a std::collections::BTreeSet<Address>,
        wrapped: &'a str,
        from: u64,
    ) -> impl Iterator<Item = &'a Rehearsed> {
        let begin = self.rehearsals.partition_point(|(seq, _)| *seq < from);
        let same = move |a: &str, b: &str| same_token(a, b, false, wrapped);
        let fits = move |r: &&Rehearsed| {
            r.chain == trade.chain
                && r.amount_in == trade.amount_in
                && same(&r.token_in, &trade.token_in)
                && same(&r.token_out, &trade.token_out)
                && (froms.is_empty() || froms.contains(&r.from))
        };
        let later = self.rehearsals.get(begin..).unwrap_or_default().iter();
        later.map(|(_, rehearsed)| rehearsed).filter(fits)
    }

    /// Returns the price of the native coin that the wallet may use at this instant.
    fn coin_price(&self, time: ChainTime, ex: &ExchangeFact) -> CoinPrice {
        let fresh = |at: &Instant| at.elapsed(&time.now).1.is_some_and(|ms| ms <= PRICE_VALID_MS);
        let mut why = "no reading of the price API within 60 seconds";
        let mut found: Option<(u64, u64)> = None;
        let mut before: Option<u64> = None;
        for (seq, at, read) in &self.prices {
            let PriceRead::Api { micros } = read else { continue };
            let Some(api) = *micros else { continue };
            let last = before.replace(api);
            if *seq <= self.started {
                before = None;
            }
            if !fresh(at) {
                continue;
            }
            if !PLAUSIBLE_PRICES.contains(&api) {
                why = "the price is not plausible";
            } else if last.is_some_and(|last| differ_by_more_than(api, last, 20)) {
                why = "the price jumped by more than 20 %";
            } else {
                match self.with_feed(api, time, ex) {
                    Ok(price) => {
                        let (least, most) = found.unwrap_or((price.0, price.1));
                        found = Some((least.min(price.0), most.max(price.1)));
                    }
                    Err(reason) => why = reason,
                }
            }
        }
        found.ok_or(why)
    }

    /// Returns whether every reading that may count lets the wallet use the price.
    pub(crate) fn price_is_sure(&self, time: ChainTime, ex: &ExchangeFact) -> bool {
        let fresh = |at: &Instant| at.elapsed(&time.now).1.is_some_and(|ms| ms <= PRICE_VALID_MS);
        let recent = || self.prices.iter().filter(|(_, at, _)| fresh(at)).map(|(_, _, read)| read);
        // Compute the feed's age by the later of the chain's time and the machine's, so that no reading passes by
        // mistake.
        let latest_s = u64::try_from(time.now.second()).unwrap_or(0).max(time.newest_s);
        let old = |updated_s: u64| {
            ex.feed_max_age_s.is_some_and(|most| latest_s.saturating_sub(updated_s) > most)
        };
        let apis = || {
            recent().filter_map(|read| match read {
                PriceRead::Api { micros } => Some(*micros),
                PriceRead::Feed { .. } => None,
            })
        };
        let feeds = || {
            recent().filter_map(|read| match read {
                PriceRead::Feed { chain, micros, updated_s } if *chain == time.chain => {
                    Some(micros.filter(|_| !old(*updated_s)))
                }
                _ => None,
            })
        };
        let good = |api: Option<u64>| {
            api.is_some_and(|api| {
                ex.feed_max_age_s.is_none()
                    || feeds()
                        .all(|feed| feed.is_some_and(|feed| !differ_by_more_than(api, feed, 3)))
            })
        };
        apis().all(good) && self.coin_price(time, ex).is_ok()
    }

    /// Combines a price from the API with every feed reading that counts.
    fn with_feed(&self, api: u64, time: ChainTime, ex: &ExchangeFact) -> CoinPrice {
        let Some(max_age) = ex.feed_max_age_s else { return Ok((api, api)) };
        let ChainTime { chain, now, newest_s } = time;
        let wall_s = u64::try_from(now.second()).unwrap_or(0);
        // Compute the feed's age by the earlier of the chain's time and the machine's, so that any usable reading
        // counts.
        let young =
            |updated_s: u64| wall_s.min(newest_s.max(1)).saturating_sub(updated_s) <= max_age;
        let mut why = "no reading of the feed within 60 seconds";
        let mut found: Option<(u64, u64)> = None;
        for (_, at, read) in &self.prices {
            let PriceRead::Feed { chain: of, micros, updated_s } = read else { continue };
            let fresh = at.elapsed(&now).1.is_some_and(|ms| ms <= PRICE_VALID_MS);
            if *of != chain || !fresh {
                continue;
            }
            match *micros {
                None => why = "the feed failed",
                Some(_) if !young(*updated_s) => why = "the feed is too old",
                Some(feed) if !PLAUSIBLE_PRICES.contains(&feed) => {
                    why = "the feed is not plausible"
                }
                Some(feed) if differ_by_more_than(api, feed, 3) => {
                    why = "API and feed are 3 % apart"
                }
                Some(feed) => {
                    let price = api.max(feed);
                    let (least, most) = found.unwrap_or((price, price));
                    found = Some((least.min(price), most.max(price)));
                }
            }
        }
        found.ok_or(why)
    }

    /// Returns the value of an amount in millionths of a dollar, by prices from outside the pools.
    pub(crate) fn value(
        &self,
        time: ChainTime,
        ex: &ExchangeFact,
        token: &str,
        amount: u128,
    ) -> Value {
        let micros = |amount| u64::try_from(amount).unwrap_or(u64::MAX);
        if let Some((_, decimals)) = ex.dollars.iter().find(|(dollar, _)| dollar == token) {
            let unit = 10u128.saturating_pow(u32::from(*decimals));
            let (least, most) =
                (wide::floor(amount, 1_000_000, unit), wide::ceil(amount, 1_000_000, unit));
            return Ok((micros(least), micros(most)));
        }
        if token != NATIVE && token != ex.wrapped {
            return Err("the token has no price outside the pools");
        }
        let (least, most) = self.coin_price(time, ex)?;
        let least = wide::floor(amount, u128::from(least), WEI_PER_COIN);
        Ok((micros(least), micros(wide::ceil(amount, u128::from(most), WEI_PER_COIN))))
    }
}

/// Returns whether two prices differ by more than this percentage of the higher one.
fn differ_by_more_than(a: u64, b: u64, percent: u128) -> bool {
    let (least, most) = (u128::from(a.min(b)), u128::from(a.max(b)));
    most.saturating_sub(least).saturating_mul(100) > most.saturating_mul(percent)
}
