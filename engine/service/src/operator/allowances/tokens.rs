//! The tokens whose allowances are read: those of our table, those that policies list, and those that trades used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::token;
use bursar_core::fault::Fault;
use bursar_core::networks::{ChainId, Network};

use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::journal::read_fault;

/// Maximum number of tokens of one network that come from trades: an agent chooses these tokens.
const TRADED_TOKENS_MAX: usize = 200;

/// A token as it is shown.
#[derive(Debug, Clone)]
pub(super) struct TokenLabel {
    /// The symbol in our table if `verified`, else the symbol that the token's contract reports.
    pub(super) symbol: String,
    pub(super) decimals: Option<u8>,
    /// Whether the token is in our table.
    pub(super) verified: bool,
}

/// The tokens of all networks.
pub(super) struct Tokens {
    /// The tokens that policies list, for all networks: a policy names no network for them.
    listed: BTreeSet<Address>,
    /// The inputs of trades that sent a transaction: only those can have left an allowance.
    traded: BTreeMap<ChainId, BTreeMap<Address, TokenLabel>>,
}

impl Tokens {
    /// Reads the policies and the journal.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) async fn of(engine: &EngineContext) -> Result<Self, Fault> {
        let view = engine.core.view();
        let lists = view.state.policies.values().map(|record| &record.policy.trading.tokens);
        let listed = lists.flat_map(|list| list.iter()).collect();
        let reader = engine.core.reader();
        let read = blocking(move || {
            let mut traded: BTreeMap<ChainId, BTreeMap<Address, TokenLabel>> = BTreeMap::new();
            reader.newest(&mut |request| {
                let sent = request.execution().is_some_and(|one| !one.steps.is_empty());
                if let Some(trade) = request.trade().filter(|_trade| sent)
                    && let Some(token) = trade.token_in.address
                {
                    let known = traded.entry(trade.chain).or_default();
                    if known.len() < TRADED_TOKENS_MAX {
                        known.entry(token).or_insert_with(|| TokenLabel {
                            symbol: trade.token_in.symbol.clone(),
                            decimals: Some(trade.token_in.decimals),
                            verified: false,
                        });
                    }
                }
                true
            })?;
            Ok(traded)
        });
        let traded = read.await?.map_err(|error| read_fault(&error))?;
        Ok(Self { listed, traded })
    }

    /// Returns the tokens to read on a network, each once.
    pub(super) fn tokens_on(&self, network: &Network) -> Vec<Address> {
        let known = network.known_tokens().filter_map(|known| known.address);
        let traded = self.traded.get(&network.chain).into_iter().flat_map(BTreeMap::keys).copied();
        let all: BTreeSet<Address> =
            known.chain(self.listed.iter().copied()).chain(traded).collect();
        all.into_iter().collect()
    }

    /// Returns a token's description: from our table, from a trade, or from its contract.
    pub(super) async fn describe(
        &self,
        engine: &Arc<EngineContext>,
        network: &Network,
        address: Address,
    ) -> TokenLabel {
        if let Some(known) = network.known_tokens().find(|one| one.address == Some(address)) {
            let symbol = known.symbol.to_owned();
            return TokenLabel { symbol, decimals: Some(known.decimals), verified: true };
        }
        let traded = self.traded.get(&network.chain).and_then(|tokens| tokens.get(&address));
        if let Some(known) = traded {
            return known.clone();
        }
        let own = match engine.ports.chains.get(&network.chain) {
            Some(chain) => token::describe(&*chain, address).await.ok().flatten(),
            None => None,
        };
        TokenLabel {
            symbol: own.as_ref().map_or_else(String::new, |own| own.symbol.clone()),
            decimals: own.map(|own| own.decimals).filter(|decimals| *decimals <= 77),
            verified: false,
        }
    }
}
