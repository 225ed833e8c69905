//! Probes under paused time, so that waits are exact.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use alloy_primitives::{Bytes, U256};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::icon_http::IconHttp;
use bursar_chain::ports::{BlockTag, Chain, ChainFault, ChainReply, Clock};
use bursar_chain::registry_http::RegistryHttp;
use bursar_core::limits::CARD_BALANCE_AGE_MS_MAX;
use bursar_core::networks::NETWORKS;
use bursar_core::time::Utc;
use tokio::sync::Semaphore;

use super::*;
use crate::ports::{NoFailpoints, Ports, PriceSource, SystemDisk, SystemRandom};

/// A chain without Multicall3 where every address has the same amount of each token.
#[derive(Debug)]
struct Purse {
    amount: AtomicUsize,
    queries: AtomicUsize,
    alive: AtomicBool,
    /// The number of probes that may proceed; further probes wait forever.
    gate: Semaphore,
}

fn unavailable<T>() -> Result<T, ChainFault> {
    Err(ChainFault::Unavailable { tried: Vec::new() })
}

impl Chain for Purse {
    fn call(&self, to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        Box::pin(async move {
            if to == bursar_core::networks::MULTICALL3 {
                self.queries.fetch_add(1, Ordering::SeqCst);
                self.gate.acquire().await.unwrap().forget();
                return if self.alive.load(Ordering::SeqCst) {
                    Ok(Bytes::new())
                } else {
                    unavailable()
                };
            }
            let amount = U256::from(self.amount.load(Ordering::SeqCst));
            Ok(Bytes::copy_from_slice(&amount.to_be_bytes::<32>()))
        })
    }
    fn balance(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        Box::pin(async { Ok(U256::ZERO) })
    }
}

struct Stage {
    funds: Arc<Funds>,
    chain: Arc<Purse>,
    clock: Arc<ManualClock>,
}

const START: Utc = Utc(1_767_225_600_000);

impl Stage {
    fn new() -> Self {
        let chain = Arc::new(Purse {
            amount: AtomicUsize::new(5),
            queries: AtomicUsize::new(0),
            alive: AtomicBool::new(true),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let clock = Arc::new(ManualClock::new(START));
        let ports = Ports {
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SystemRandom),
            disk: Arc::new(SystemDisk),
            failpoints: Arc::new(NoFailpoints),
            rules: crate::rules::Rules::default(),
            chains: [(network().chain, Arc::clone(&chain) as Arc<dyn Chain>)].into_iter().collect(),
            explorers: crate::ports::Explorers::default(),
            prices: PriceSource::default(),
            icons: Arc::new(IconHttp::new()),
            registry: Arc::new(RegistryHttp),
            devices: None,
            signer: None,
        };
        Self { funds: Arc::new(Funds::new(&ports)), chain, clock }
    }

    fn stop_answers(&self) {
        self.chain.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    fn queries(&self) -> usize {
        self.chain.queries.load(Ordering::SeqCst)
    }

    /// Returns each address's amount and its age, and how long the call took; both times in milliseconds.
    async fn ask(&self, owners: u8) -> (Vec<Result<(u64, u64), UnknownReason>>, u64) {
        let begun = Instant::now();
        let wanted = (0..owners).map(|n| (Address::repeat_byte(n), network()));
        let found = self.funds.cached_balances(wanted).await;
        let now = self.clock.now().utc;
        let told = found.into_values().map(|known| {
            let cached = known?;
            let held = &cached.funds.held[1];
            assert_eq!(held.token, Some(network().stablecoin.address));
            let age = u64::try_from(now.since_ms(cached.read)).unwrap();
            Ok((held.amount.unwrap().0.to::<u64>(), age))
        });
        let told = told.collect();
        (told, u64::try_from(begun.elapsed().as_millis()).unwrap())
    }
}

fn network() -> &'static Network {
    &NETWORKS[0]
}

#[tokio::test(start_paused = true)]
async fn a_balance_is_read_once_and_cached_for_some_seconds() {
    let stage = Stage::new();
    assert_eq!(stage.ask(1).await, (vec![Ok((5, 0))], 0));
    stage.chain.amount.store(6, Ordering::SeqCst);
    stage.clock.advance(CARD_BALANCE_FRESH_MS - 1);
    assert_eq!(stage.ask(1).await, (vec![Ok((5, CARD_BALANCE_FRESH_MS - 1))], 0));
    assert_eq!(stage.queries(), 1);
    stage.clock.advance(1);
    assert_eq!(stage.ask(1).await, (vec![Ok((6, 0))], 0));
    // A lookup for another purpose refreshes the cache too.
    stage.chain.amount.store(7, Ordering::SeqCst);
    stage.funds.of(Address::repeat_byte(0), &[network()]).await;
    assert_eq!(stage.ask(1).await, (vec![Ok((7, 0))], 0));
    assert_eq!(stage.queries(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_silent_network_is_waited_for_once_and_for_all_cards_at_the_same_time() {
    let stage = Stage::new();
    stage.stop_answers();
    let unknown = vec![Err(UnknownReason::TooSlow); 5];
    assert_eq!(stage.ask(5).await, (unknown.clone(), CARD_BALANCE_WAIT_MS));
    for _again in 0..3 {
        assert_eq!(stage.ask(5).await, (unknown.clone(), 0));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.queries(), 5, "each address is looked at once at a time");
    // The probes time out, and callers do not wait for new ones either.
    for _round in 0..3 {
        tokio::time::sleep(Duration::from_millis(FUNDS_TIMEOUT_MS + 1)).await;
        stage.clock.advance(CARD_BALANCE_FRESH_MS);
        assert_eq!(stage.ask(5).await, (unknown.clone(), 0));
    }
    // The network answers again: the running probe succeeds, and callers do not wait.
    stage.chain.gate.add_permits(1_000);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.ask(5).await, (vec![Ok((5, 0)); 5], 0));
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_continues_and_answers_the_next_caller() {
    let stage = Stage::new();
    stage.stop_answers();
    assert_eq!(stage.ask(1).await, (vec![Err(UnknownReason::TooSlow)], CARD_BALANCE_WAIT_MS));
    stage.chain.gate.add_permits(1);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.ask(1).await, (vec![Ok((5, 0))], 0));
    assert_eq!(stage.queries(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_balance_is_returned_with_its_age_until_it_is_too_old() {
    let stage = Stage::new();
    assert_eq!(stage.ask(1).await.0, [Ok((5, 0))]);
    stage.chain.alive.store(false, Ordering::SeqCst);
    let mut age = 0;
    while age + CARD_BALANCE_FRESH_MS < CARD_BALANCE_AGE_MS_MAX {
        age += CARD_BALANCE_FRESH_MS;
        stage.clock.advance(CARD_BALANCE_FRESH_MS);
        assert_eq!(stage.ask(1).await, (vec![Ok((5, age))], 0));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.clock.advance(CARD_BALANCE_FRESH_MS);
    assert_eq!(stage.ask(1).await, (vec![Err(UnknownReason::NoAnswer)], 0), "never zero");
}

#[tokio::test(start_paused = true)]
async fn without_an_endpoint_no_caller_waits() {
    let stage = Stage::new();
    let other = NETWORKS.iter().find(|row| row.chain != network().chain).unwrap();
    let found = stage.funds.cached_balances([(Address::ZERO, other)]).await;
    let told = found.into_values().map(|known| known.unwrap_err()).collect::<Vec<_>>();
    assert_eq!(told, [UnknownReason::NoEndpoint]);
}
