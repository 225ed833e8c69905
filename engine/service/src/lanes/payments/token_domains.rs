//! Checks that tokens on the chain have the EIP-712 domains of our table. The chain is queried only if an offer
//! contradicts the table, and answers are cached. Otherwise an agent could cause a node call with each request.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Bytes, keccak256};
use bursar_chain::ports::{BlockTag, Clock};
use bursar_core::networks::{ChainId, NETWORKS, Network};
use tokio::sync::Mutex;

use crate::ports::Chains;

/// How long a token's answer is cached, in milliseconds.
const ANSWER_LASTS_MS: u64 = 24 * 60 * 60 * 1000;
/// Maximum time of a query, in milliseconds. It is longer than the timeout of one node, so that the next node can be
/// asked, and shorter than the 25 seconds in which an agent's request is answered.
const ASK_MS: u64 = 12_000;
/// How long a failed query is cached, in milliseconds.
const FAILURE_LASTS_MS: u64 = 30_000;

/// The cached answers of the reference stablecoins, one per network.
#[derive(Debug)]
pub struct TokenDomains {
    chains: Chains,
    clock: Arc<dyn Clock>,
    /// Each lock is held during the query, so that simultaneous requests share one call.
    answers: BTreeMap<ChainId, Mutex<Option<CachedAnswer>>>,
}

/// The answer of one token; `confirms` is false if the query fails.
#[derive(Debug, Clone, Copy)]
struct CachedAnswer {
    confirms: bool,
    until_ms: u64,
}

impl TokenDomains {
    /// Creates an empty cache.
    pub fn new(chains: Chains, clock: Arc<dyn Clock>) -> Self {
        let known = NETWORKS.iter().map(|network| (network.chain, Mutex::default())).collect();
        Self { chains, clock, answers: known }
    }

    /// Returns whether the token has the domain separator of our table (`DOMAIN_SEPARATOR()`, EIP-2612).
    ///
    /// It returns false if the query fails.
    pub async fn confirms(&self, network: &Network) -> bool {
        let Some(known) = self.answers.get(&network.chain) else { return false };
        let mut known = known.lock().await;
        let now_ms = self.clock.now().age_clock_ms();
        if let Some(known) = known.filter(|known| now_ms < known.until_ms) {
            return known.confirms;
        }
        // Cancel-safe: both branches only wait.
        let answer = tokio::select! {
            biased;
            answer = self.query(network) => answer,
            () = self.clock.sleep_until(self.clock.mono_ms().saturating_add(ASK_MS)) => {
                tracing::warn!(network = %network.chain, "token domain not confirmed: no node answered in time");
                None
            }
        };
        let lasts_ms = if answer.is_some() { ANSWER_LASTS_MS } else { FAILURE_LASTS_MS };
        let confirms = answer.unwrap_or(false);
        *known = Some(CachedAnswer { confirms, until_ms: now_ms.saturating_add(lasts_ms) });
        confirms
    }

    /// Queries the token. `None` if the query fails.
    async fn query(&self, network: &Network) -> Option<bool> {
        let chain = self.chains.get(&network.chain)?;
        let hash = keccak256("DOMAIN_SEPARATOR()");
        let selector = Bytes::copy_from_slice(hash.0.first_chunk::<4>().map_or(&[], |four| four));
        let coin = &network.stablecoin;
        match chain.call(coin.address, selector, BlockTag::Latest).await {
            Ok(answer) => Some(answer.as_ref() == coin.domain_separator.as_slice()),
            Err(failure) => {
                tracing::warn!(network = %network.chain, %failure, "token domain not confirmed");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use alloy_primitives::Address;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_chain::ports::{Chain, ChainFault, ChainReply};
    use bursar_core::time::Utc;

    use super::*;

    /// A chain with the stablecoin of our table, which answers only while `alive`, and never while it `hangs`.
    #[derive(Debug, Default)]
    struct Token {
        alive: AtomicBool,
        hangs: AtomicBool,
        asked: AtomicUsize,
    }

    fn unavailable<T>() -> Result<T, ChainFault> {
        Err(ChainFault::Unavailable { tried: Vec::new() })
    }

    impl Chain for Token {
        fn call(&self, to: Address, data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
            // The selector of `DOMAIN_SEPARATOR()` (EIP-2612).
            assert_eq!((to, data.as_ref()), (coin().address, &[0x36, 0x44, 0xe5, 0x15][..]));
            self.asked.fetch_add(1, Ordering::SeqCst);
            let alive = self.alive.load(Ordering::SeqCst);
            let hangs = self.hangs.load(Ordering::SeqCst);
            Box::pin(async move {
                if hangs {
                    std::future::pending::<()>().await;
                }
                if alive {
                    Ok(Bytes::copy_from_slice(&coin().domain_separator[..]))
                } else {
                    unavailable()
                }
            })
        }
    }

    fn coin() -> bursar_core::networks::Stablecoin {
        NETWORKS[0].stablecoin
    }

    #[tokio::test]
    async fn a_query_that_hangs_fails_in_time() {
        let token = Arc::new(Token::default());
        token.hangs.store(true, Ordering::SeqCst);
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        let chains = [(NETWORKS[0].chain, Arc::clone(&token) as Arc<dyn Chain>)];
        let domains =
            TokenDomains::new(chains.into_iter().collect(), Arc::clone(&clock) as Arc<dyn Clock>);
        let time = async {
            while token.asked.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            clock.advance(ASK_MS);
        };
        assert!(!tokio::join!(domains.confirms(&NETWORKS[0]), time).0);
        assert!(!domains.confirms(&NETWORKS[0]).await, "the failure is cached");
        assert_eq!(token.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn an_answer_holds_for_a_day_and_a_failure_for_half_a_minute() {
        let token = Arc::new(Token::default());
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(0)));
        let chains = [(NETWORKS[0].chain, Arc::clone(&token) as Arc<dyn Chain>)];
        let domains =
            TokenDomains::new(chains.into_iter().collect(), Arc::clone(&clock) as Arc<dyn Clock>);
        let asked = async |after_ms| {
            clock.advance(after_ms);
            let confirmed = domains.confirms(&NETWORKS[0]).await;
            (confirmed, token.asked.load(Ordering::SeqCst))
        };
        assert_eq!(asked(0).await, (false, 1));
        token.alive.store(true, Ordering::SeqCst);
        assert_eq!(asked(29_999).await, (false, 1));
        assert_eq!(asked(1).await, (true, 2));
        token.alive.store(false, Ordering::SeqCst);
        assert_eq!(asked(24 * 60 * 60 * 1000 - 1).await, (true, 2));
        assert_eq!(asked(1).await, (false, 3));
        assert!(!domains.confirms(&NETWORKS[1]).await, "it has no endpoint");
    }
}
