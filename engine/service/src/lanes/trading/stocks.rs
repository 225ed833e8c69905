//! The value of stock tokens in dollars, from price feeds. A missing, stale or paused feed gives no value, and the
//! trade waits for the operator.

use alloy_primitives::{Address, U256};
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::{Feed, StockToken};
use bursar_uniswap::read;

use super::eth_price::FeedPrice;
use super::reads::{Answers, Batch};
use super::spec::Spec;

/// The batch indexes of the answers about the stock tokens of a trade.
pub(super) struct StockReads(Vec<StockRead>);

struct StockRead {
    stock: StockToken,
    price: usize,
    decimals: usize,
    paused: usize,
}

/// The prices of the stock tokens of a trade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StockPrices(Vec<(StockToken, Usd)>);

impl StockReads {
    /// Adds the reads for the stock tokens on both sides of a trade.
    pub(super) fn add(batch: &mut Batch, spec: &Spec<'_>) -> Self {
        let sides = [spec.token_in.address, spec.token_out.address];
        let traded = spec.exchange.stock_tokens.iter();
        let traded = traded.filter(|stock| sides.contains(&Some(stock.token.address)));
        Self(traded.map(|stock| StockRead::add(batch, stock)).collect())
    }

    /// Reads the answers. `now` is the time of their block, in Unix seconds.
    pub(super) fn prices(&self, answers: &Answers, now: u64) -> StockPrices {
        let priced = self.0.iter().filter_map(|one| Some((one.stock, one.price(answers, now)?)));
        StockPrices(priced.collect())
    }
}

impl StockRead {
    fn add(batch: &mut Batch, stock: &StockToken) -> Self {
        let Feed { address: feed, .. } = stock.feed;
        Self {
            stock: *stock,
            price: batch.add(feed, read::feed_call()),
            decimals: batch.add(feed, read::feed_decimals_call()),
            paused: batch.add(stock.token.address, read::oracle_paused_call()),
        }
    }

    fn price(&self, answers: &Answers, now: u64) -> Option<Usd> {
        let Feed { decimals, stale_seconds, .. } = self.stock.feed;
        let own = answers.bytes(self.decimals).ok()?;
        if read::decode_feed_decimals(own) != Ok(decimals) {
            return None;
        }
        // Older stock tokens have no pause, so a missing answer does not count as paused.
        let paused = answers.bytes(self.paused).ok();
        if paused.is_some_and(|answer| read::decode_oracle_paused(answer) == Ok(true)) {
            return None;
        }
        match answers.feed(self.price, decimals, now, stale_seconds) {
            FeedPrice::Price(price) => Some(price),
            FeedPrice::Missing | FeedPrice::Unknown => None,
        }
    }
}

impl StockPrices {
    /// Returns the value of an amount, rounded up to a millionth of a dollar; `None` if there is no price.
    pub(super) fn value(&self, token: Address, atoms: Atoms) -> Option<Usd> {
        let (stock, price) = self.0.iter().find(|(stock, _price)| stock.token.address == token)?;
        let one = U256::from(10).checked_pow(U256::from(stock.token.decimals))?;
        let product = atoms.0.checked_mul(U256::from(price.0))?;
        let micros = product.checked_add(one.checked_sub(U256::ONE)?)?.checked_div(one)?;
        u64::try_from(micros).ok().map(Usd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use bursar_chain::multicall::ReadFault;
    use bursar_core::networks::by_id_name_or_title;

    const NOW: u64 = 1_767_225_600;

    fn nvda() -> StockToken {
        let exchange = by_id_name_or_title("robinhood").unwrap().exchange.unwrap();
        *exchange.stock_tokens.iter().find(|stock| stock.token.symbol == "NVDA").unwrap()
    }

    fn words(words: &[u64]) -> Result<Bytes, ReadFault> {
        let words = words.iter().flat_map(|word| U256::from(*word).to_be_bytes::<32>());
        Ok(words.collect::<Vec<u8>>().into())
    }

    /// Returns the value of one and a half tokens at 224.92 dollars, by these answers.
    fn value(
        updated: u64,
        decimals: Result<Bytes, ReadFault>,
        paused: Result<Bytes, ReadFault>,
    ) -> Option<Usd> {
        let stock = nvda();
        let round = words(&[1, 22_492_000_000, updated, updated, 1]);
        let answers = Answers(vec![round, decimals, paused]);
        let reads = StockReads(vec![StockRead { stock, price: 0, decimals: 1, paused: 2 }]);
        let atoms = Atoms(U256::from(1_500_000_000_000_000_000u64));
        reads.prices(&answers, NOW).value(stock.token.address, atoms)
    }

    #[test]
    fn a_fresh_feed_values_a_stock_token() {
        let worth = Some(Usd(337_380_000));
        assert_eq!(value(NOW, words(&[8]), words(&[0])), worth);
        assert_eq!(value(NOW - 89_999, words(&[8]), words(&[0])), worth);
        // Older tokens have no `oraclePaused`.
        assert_eq!(value(NOW, words(&[8]), Ok(Bytes::new())), worth);
    }

    #[test]
    fn a_stale_paused_or_unexpected_feed_gives_no_value() {
        assert_eq!(value(NOW - 90_000, words(&[8]), words(&[0])), None, "stale");
        assert_eq!(value(NOW, words(&[8]), words(&[1])), None, "paused");
        assert_eq!(value(NOW, words(&[18]), words(&[0])), None, "other decimals");
        assert_eq!(value(NOW, Ok(Bytes::new()), words(&[0])), None, "an address without code");
        let none = StockPrices::default();
        assert_eq!(none.value(nvda().token.address, Atoms(U256::ONE)), None);
    }

    #[test]
    fn values_round_up() {
        let prices = StockPrices(vec![(nvda(), Usd(224_920_001))]);
        let value = |atoms: u64| prices.value(nvda().token.address, Atoms(U256::from(atoms)));
        assert_eq!(value(1), Some(Usd(1)));
        assert_eq!(value(1_000_000_000_000_000_000), Some(Usd(224_920_001)));
        assert_eq!(value(500_000_000_000_000_000), Some(Usd(112_460_001)));
        assert_eq!(value(0), Some(Usd::ZERO));
        assert_eq!(prices.value(nvda().token.address, Atoms(U256::MAX)), None);
    }
}
