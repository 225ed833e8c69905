//! Reads an address's position in one venue, and its worth.
//!
//! The worth of a vault position can be read only with its number of shares, and a market position only with the
//! market's parameters. A read uses the cached values, and shows whether they are still right.

use alloy_primitives::{Address, B256, U256};
use bursar_morpho::market::{AccruedMarket, BorrowRate};
use bursar_morpho::views::{market, vault};
use bursar_morpho::{MarketParams, VenueId};

use crate::lanes::batch::{Answers, Batch};

/// The result of the last read of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PositionHint {
    pub(super) shares: U256,
    /// The parameters of a market, which never change.
    pub(super) params: Option<MarketParams>,
}

/// A position at one block. Amounts are in the stablecoin's smallest unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPosition {
    pub(super) shares: U256,
    /// The amount that the shares redeem for.
    pub(super) worth: U256,
    /// The market of the position, with its accrued interest; `None` for a vault.
    pub(super) market: Option<(MarketParams, AccruedMarket)>,
}

/// The outcome of reading a position.
pub(super) enum PositionOutcome {
    Read(ReadPosition),
    /// The hint was wrong: read again with this hint.
    WrongHint(PositionHint),
    Unreadable,
}

/// The batch indexes of the reads of one position.
#[derive(Debug)]
pub(super) enum PositionReads {
    Vault {
        shares: usize,
        worth: Option<usize>,
        asked: PositionHint,
    },
    /// The market's parameters are not known yet.
    NewMarket {
        id: B256,
        params: usize,
    },
    Market {
        params: MarketParams,
        market: usize,
        position: usize,
    },
}

impl PositionReads {
    pub(super) fn ask(
        batch: &mut Batch,
        singleton: Address,
        venue: VenueId,
        owner: Address,
        asked: PositionHint,
    ) -> Self {
        match (venue, asked.params) {
            (VenueId::Vault(vault), _) => Self::Vault {
                shares: batch.add(vault, vault::balance_call(owner)),
                worth: (!asked.shares.is_zero())
                    .then(|| batch.add(vault, vault::preview_redeem_call(asked.shares))),
                asked,
            },
            (VenueId::Market(id), None) => {
                Self::NewMarket { id, params: batch.add(singleton, market::market_params_call(id)) }
            }
            (VenueId::Market(id), Some(params)) => {
                // The reads that follow this one in the same call see the accrued interest.
                let _paid = batch.add(singleton, market::accrue_interest_call(&params));
                Self::Market {
                    params,
                    market: batch.add(singleton, market::market_call(id)),
                    position: batch.add(singleton, market::position_call(id, owner)),
                }
            }
        }
    }

    /// Reads the answers. `block_time` is the time of their block, in Unix seconds.
    pub(super) fn read(&self, answers: &Answers, block_time: u64) -> PositionOutcome {
        self.try_read(answers, block_time).unwrap_or(PositionOutcome::Unreadable)
    }

    fn try_read(&self, answers: &Answers, block_time: u64) -> Option<PositionOutcome> {
        Some(match self {
            Self::Vault { shares, worth, asked } => {
                // A vault without contract code has no shares. The journal may still record a loan there.
                let is_absent = answers.bytes(*shares).ok()?.is_empty();
                let shares = if is_absent { U256::ZERO } else { answers.number(*shares).ok()? };
                if shares != asked.shares && !shares.is_zero() {
                    return Some(PositionOutcome::WrongHint(PositionHint { shares, ..*asked }));
                }
                let worth = match worth.filter(|_asked| !shares.is_zero()) {
                    Some(at) => answers.number(at).ok()?,
                    None => U256::ZERO,
                };
                PositionOutcome::Read(ReadPosition { shares, worth, market: None })
            }
            Self::NewMarket { id, params } => {
                let params = market::decode_market_params(*id, answers.bytes(*params).ok()?)?;
                PositionOutcome::WrongHint(PositionHint {
                    shares: U256::ZERO,
                    params: Some(params),
                })
            }
            Self::Market { params, market, position } => {
                let market = market::decode_market(answers.bytes(*market).ok()?)?;
                let position = market::decode_position(answers.bytes(*position).ok()?)?;
                // Without the accrued interest, the worth would be too low.
                let is_current = market.last_update == u128::from(block_time);
                if !is_current && market.total_borrow_assets > 0 {
                    return None;
                }
                let market = market.accrue(BorrowRate::NoModel, block_time).ok()?;
                let shares = position.supply_shares;
                let worth = market.assets_floor(shares)?;
                PositionOutcome::Read(ReadPosition {
                    shares,
                    worth,
                    market: Some((*params, market)),
                })
            }
        })
    }
}
