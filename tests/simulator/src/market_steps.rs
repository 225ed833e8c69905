//! Steps that change markets, nodes and blocks.

use bursar_core::networks::ChainId;

use crate::evm::{Contracts, feed_answer};
use crate::plan::{NodeMode, Step};
use crate::world::{World, WorldFailure};

/// Milliseconds between two blocks.
const BLOCK_MS: u64 = 2_000;

/// The range of the native coin's price, in millionths of a dollar.
const PRICE_RANGE: std::ops::RangeInclusive<u64> = 300_000_000..=20_000_000_000;

impl World {
    pub(crate) fn market_step(&mut self, step: Step) -> Result<(), WorldFailure> {
        match step {
            Step::Mine { blocks } => return self.mine(blocks),
            Step::MovePool { chain, pool, permille } => {
                self.change_chain(chain, |chain| {
                    chain.with_ledger(|ledger| {
                        let count = ledger.state.pool_count().max(1);
                        ledger.state.move_pool(pool % count, permille);
                        ledger.make_final();
                    });
                });
            }
            Step::PriceMove { permille } => self.move_price(permille),
            Step::Prices { faults } => {
                self.price_faults = faults;
                let micros = self.prices.micros();
                self.prices.set(micros, faults & 1 != 0);
                self.update_feeds();
            }
            Step::Nodes { chain, mode } => {
                self.loans.nodes_lied |= matches!(mode, NodeMode::Lags(_));
                self.change_chain(chain, |chain| chain.set_mode(mode));
            }
            Step::Reorg { chain, lose } => self.change_chain(chain, |chain| chain.reorganize(lose)),
            Step::DropTx { chain } => self.change_chain(chain, |chain| {
                chain.with_ledger(|ledger| ledger.mempool.clear());
            }),
            Step::ReplaceNonce { chain } => {
                self.change_chain(chain, |chain| chain.take_next_nonce())
            }
            Step::BaseFee { chain, permille } => self.change_chain(chain, |chain| {
                chain.with_ledger(|ledger| ledger.base_fee = u128::from(permille) * 1_000_000);
            }),
            Step::Rebase => {
                for chain in &self.chains {
                    chain.with_ledger(|ledger| {
                        ledger.state.rebase();
                        ledger.make_final();
                    });
                }
            }
            _other => {}
        }
        self.settle()
    }

    fn change_chain(&self, chain: usize, work: impl FnOnce(&crate::chain::WorldChain)) {
        if let Some(chain) = self.chains.get(chain) {
            work(chain);
        }
    }

    /// Lets blocks pass, one after another.
    pub(crate) fn mine(&mut self, blocks: u8) -> Result<(), WorldFailure> {
        for _block in 0..blocks {
            self.pass(BLOCK_MS)?;
        }
        Ok(())
    }

    /// Moves the price of a named pool so that a trade in this direction pays less or more.
    pub(crate) fn move_listed_pool(
        &mut self,
        chain: usize,
        pool: usize,
        flip: bool,
        permille: u64,
    ) {
        self.change_chain(chain, |chain| {
            let contracts = Contracts::of(ChainId(chain.id()));
            chain.with_ledger(|ledger| {
                ledger.state.move_named(&contracts, pool, flip, permille);
                ledger.make_final();
            });
        });
    }

    fn move_price(&mut self, permille: u64) {
        let before = self.prices.micros();
        let micros = (before / 1_000 * permille).clamp(*PRICE_RANGE.start(), *PRICE_RANGE.end());
        self.prices.set(micros, self.price_faults & 1 != 0);
        let moved = micros * 1_000 / before.max(1);
        for chain in &self.chains {
            let contracts = Contracts::of(ChainId(chain.id()));
            chain.with_ledger(|ledger| {
                ledger.state.move_native(contracts.weth(), moved);
                ledger.make_final();
            });
        }
        self.update_feeds();
    }

    /// Updates the price feeds that are not stuck.
    pub(crate) fn update_feeds(&mut self) {
        if !self.swarm.has_markets() || self.price_faults & 2 != 0 {
            return;
        }
        let micros = self.prices.micros();
        let micros = if self.price_faults & 4 != 0 { micros / 20 * 19 } else { micros };
        for chain in &self.chains {
            let contracts = Contracts::of(ChainId(chain.id()));
            chain.with_ledger(|ledger| {
                ledger.state.feed = (feed_answer(&contracts, micros), ledger.time);
            });
        }
    }

    /// Ends all trouble with chains and markets.
    pub(crate) fn end_market_trouble(&mut self) {
        self.price_faults = 0;
        let micros = self.prices.micros();
        self.prices.set(micros, false);
        for chain in &self.chains {
            chain.set_mode(NodeMode::Honest);
            chain.with_ledger(|ledger| ledger.base_fee = 50_000_000);
        }
        self.update_feeds();
        if self.swarm.loans {
            self.calm_venues();
        }
    }
}
