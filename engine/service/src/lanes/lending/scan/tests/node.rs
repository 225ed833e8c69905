//! A scripted node with events, limits, false answers and outages. It panics if the scan calls a contract.

use std::sync::{Mutex, MutexGuard};

use alloy_primitives::{Address, B256, Bytes};
use bursar_chain::ports::{Chain, ChainFault, ChainReply, FoundLog, Log, LogFilter};
use bursar_core::networks::{ChainId, Lending, Network, VaultKind, by_chain};
use bursar_morpho::events::{CREATE_METAMORPHO, CREATE_VAULT_V2, MARKET_SUPPLY, VAULT_DEPOSIT};

pub(super) fn base() -> &'static Network {
    by_chain(ChainId(8453)).unwrap()
}

pub(super) fn lending() -> &'static Lending {
    base().lending.unwrap()
}

pub(super) fn refused_range() -> ChainFault {
    ChainFault::Rejected { code: -32005, message: "limit exceeded".to_owned() }
}

#[derive(Debug)]
pub(super) struct Node(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    safe: Result<u64, ChainFault>,
    head: u64,
    events: Vec<FoundLog>,
    /// Maximum number of blocks of one query.
    blocks_max: u64,
    is_away: bool,
    /// The number of queries that are answered before the node goes away.
    away_after: usize,
    lie: Option<FoundLog>,
    queries: Vec<LogFilter>,
    safe_reads: usize,
    failures: usize,
    refused_count: usize,
    in_flight: usize,
    in_flight_max: usize,
}

impl Node {
    pub(super) fn new(safe: u64) -> Self {
        Self(Mutex::new(Inner {
            safe: Ok(safe),
            head: safe,
            events: Vec::new(),
            blocks_max: u64::MAX,
            is_away: false,
            away_after: usize::MAX,
            lie: None,
            queries: Vec::new(),
            safe_reads: 0,
            failures: 0,
            refused_count: 0,
            in_flight: 0,
            in_flight_max: 0,
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub(super) fn emit(&self, events: impl IntoIterator<Item = FoundLog>) {
        self.inner().events.extend(events);
    }

    /// Removes the events after a block, as a reorganisation does.
    pub(super) fn forget_after(&self, block: u64) {
        self.inner().events.retain(|event| event.block_number <= block);
    }

    pub(super) fn set_safe(&self, safe: Result<u64, ChainFault>) {
        self.inner().safe = safe;
    }

    pub(super) fn set_blocks_max(&self, blocks: u64) {
        self.inner().blocks_max = blocks;
    }

    pub(super) fn set_away(&self, is_away: bool) {
        let mut inner = self.inner();
        (inner.is_away, inner.away_after) = (is_away, usize::MAX);
    }

    pub(super) fn go_away_after(&self, queries: usize) {
        self.inner().away_after = queries;
    }

    /// Adds an event to each answer about the same kind of event.
    pub(super) fn lie(&self, lie: Option<FoundLog>) {
        self.inner().lie = lie;
    }

    pub(super) fn queries_made(&self) -> Vec<LogFilter> {
        self.inner().queries.clone()
    }

    pub(super) fn query_count(&self) -> usize {
        self.inner().queries.len()
    }

    pub(super) fn forget_queries(&self) {
        self.inner().queries.clear();
    }

    pub(super) fn safe_reads(&self) -> usize {
        self.inner().safe_reads
    }

    pub(super) fn failures(&self) -> usize {
        self.inner().failures
    }

    pub(super) fn refused_count(&self) -> usize {
        self.inner().refused_count
    }

    pub(super) fn in_flight_max(&self) -> usize {
        self.inner().in_flight_max
    }

    fn begin(&self) -> Result<(), ChainFault> {
        let mut inner = self.inner();
        inner.in_flight += 1;
        inner.in_flight_max = inner.in_flight_max.max(inner.in_flight);
        if inner.is_away || inner.queries.len() >= inner.away_after {
            inner.failures += 1;
            return Err(ChainFault::Unavailable { tried: Vec::new() });
        }
        Ok(())
    }

    fn answer<'a, T: Send + 'a>(
        &'a self,
        answer: impl FnOnce(&mut Inner) -> Result<T, ChainFault> + Send + 'a,
    ) -> ChainReply<'a, T> {
        Box::pin(async move {
            let begun = self.begin();
            tokio::task::yield_now().await;
            let mut inner = self.inner();
            inner.in_flight -= 1;
            begun?;
            answer(&mut inner)
        })
    }
}

impl Chain for Node {
    fn block_number(&self) -> ChainReply<'_, u64> {
        self.answer(|inner| Ok(inner.head))
    }
    fn safe_block_number(&self) -> ChainReply<'_, u64> {
        self.answer(|inner| {
            inner.safe_reads += 1;
            inner.safe.clone()
        })
    }
    fn logs(&self, wanted: LogFilter) -> ChainReply<'_, Vec<FoundLog>> {
        self.answer(move |inner| {
            inner.queries.push(wanted.clone());
            if wanted.to_block - wanted.from_block >= inner.blocks_max {
                inner.refused_count += 1;
                return Err(refused_range());
            }
            let matching = inner.events.iter().filter(|event| wanted.matches(event));
            let is_like = |lie: &&FoundLog| wanted.events.contains(&lie.log.topics[0]);
            Ok(matching.chain(inner.lie.iter().filter(is_like)).cloned().collect())
        })
    }
}

fn event(emitter: Address, topics: Vec<B256>, block_number: u64) -> FoundLog {
    FoundLog {
        log: Log { address: emitter, topics, data: Bytes::from_static(&[7; 64]) },
        tx_hash: B256::repeat_byte(1),
        block_number,
        block_hash: B256::repeat_byte(2),
        index: 0,
    }
}

pub(super) fn creation_event(
    kind: VaultKind,
    factory: Address,
    asset: Address,
    vault: Address,
    block: u64,
) -> FoundLog {
    let creator = B256::repeat_byte(0x0c);
    let topics = match kind {
        VaultKind::V2 => vec![CREATE_VAULT_V2, creator, asset.into_word(), vault.into_word()],
        VaultKind::MetaMorpho => {
            vec![CREATE_METAMORPHO, vault.into_word(), creator, asset.into_word()]
        }
    };
    event(factory, topics, block)
}

pub(super) fn deposit(vault: Address, sender: Address, owner: Address, block: u64) -> FoundLog {
    event(vault, vec![VAULT_DEPOSIT, sender.into_word(), owner.into_word()], block)
}

pub(super) fn supply(
    singleton: Address,
    market: B256,
    caller: Address,
    owner: Address,
    block: u64,
) -> FoundLog {
    let topics = vec![MARKET_SUPPLY, market, caller.into_word(), owner.into_word()];
    event(singleton, topics, block)
}
