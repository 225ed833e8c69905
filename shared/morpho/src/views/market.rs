//! Reads of the singleton and of its markets' interest rate models.

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::abi::blue::{IInterestModel, IMorphoBlue};
use crate::abi::{decode, encode};
use crate::market::{Market, MarketParams};

/// The position of one address in a market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketPosition {
    /// Shares of the assets that the address lent.
    pub supply_shares: U256,
    /// Shares of the debt that the address owes.
    pub borrow_shares: u128,
    /// Collateral, in its smallest units.
    pub collateral: u128,
}

/// Encodes `idToMarketParams`; [`decode_market_params`] decodes the answer.
pub fn market_params_call(market_id: B256) -> Bytes {
    encode(&IMorphoBlue::idToMarketParamsCall { id: market_id })
}

/// Decodes the answer to [`market_params_call`] for `market_id`.
///
/// Also returns `None` for the parameters of another market, such as the zeros for a market that does not exist.
pub fn decode_market_params(market_id: B256, answer: &[u8]) -> Option<MarketParams> {
    let params = MarketParams::from_abi(&decode::<IMorphoBlue::idToMarketParamsCall>(answer)?);
    (params.id() == market_id).then_some(params)
}

/// Encodes `market`; [`decode_market`] decodes the answer.
pub fn market_call(market_id: B256) -> Bytes {
    encode(&IMorphoBlue::marketCall { id: market_id })
}

/// Decodes the answer to [`market_call`].
///
/// A market that does not exist is all zeros.
pub fn decode_market(answer: &[u8]) -> Option<Market> {
    Some(Market::from_abi(&decode::<IMorphoBlue::marketCall>(answer)?))
}

/// Encodes `accrueInterest`, which returns nothing and reverts for a market that does not exist.
///
/// If it runs before [`market_call`] in the same simulated transaction, the totals include the interest up to that
/// block's time.
pub fn accrue_interest_call(params: &MarketParams) -> Bytes {
    encode(&IMorphoBlue::accrueInterestCall { params: params.to_abi() })
}

/// Encodes `position`; [`decode_position`] decodes the answer.
pub fn position_call(market_id: B256, owner: Address) -> Bytes {
    encode(&IMorphoBlue::positionCall { id: market_id, user: owner })
}

/// Decodes the answer to [`position_call`].
pub fn decode_position(answer: &[u8]) -> Option<MarketPosition> {
    let position = decode::<IMorphoBlue::positionCall>(answer)?;
    Some(MarketPosition {
        supply_shares: position.supplyShares,
        borrow_shares: position.borrowShares,
        collateral: position.collateral,
    })
}

/// Encodes the interest rate model's `borrowRateView`; [`decode_amount`](super::decode_amount) decodes the answer.
///
/// The answer is the rate per second with 18 decimals.
pub fn borrow_rate_call(params: &MarketParams, market: &Market) -> Bytes {
    let (params, market) = (params.to_abi(), market.to_abi());
    encode(&IInterestModel::borrowRateViewCall { params, market })
}
