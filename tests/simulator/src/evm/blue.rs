//! Morpho Blue: one contract for all markets, with virtual shares, and interest by the time of blocks.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256, uint};
use alloy_sol_types::{Panic, SolCall, SolError, SolValue};

use super::abi;
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_reason, word};
use super::math::mul_div;

/// One with 18 decimals.
pub(super) const WAD: U256 = uint!(1_000_000_000_000_000_000_U256);
pub(super) const VIRTUAL_SHARES: U256 = uint!(1_000_000_U256);
const GAS: u64 = 110_000;

/// A market, and the shares of each lender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Market {
    pub(super) params: abi::MarketParams,
    pub(super) totals: Totals,
    /// Shares by account.
    pub(super) positions: BTreeMap<Address, U256>,
}

/// The totals of a market at its last update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(super) supply_assets: U256,
    pub(super) supply_shares: U256,
    pub(super) borrow_assets: U256,
    pub(super) borrow_shares: U256,
    /// Unix seconds.
    pub(super) updated_s: u64,
    /// The part of the interest that the market keeps, with 18 decimals.
    pub(super) fee: U256,
    /// The interest that borrowers pay in a second, with 18 decimals.
    pub(super) rate: U256,
}

/// Returns the id of a market.
pub(super) fn market_id(params: &abi::MarketParams) -> B256 {
    keccak256(params.abi_encode())
}

pub(super) fn underflow() -> Reverted {
    Panic { code: uint!(0x11_U256) }.abi_encode().into()
}

impl Totals {
    /// Returns the totals with the interest up to `time`.
    pub(super) fn accrued_at(self, time: u64) -> Self {
        let Some(elapsed) = time.checked_sub(self.updated_s).filter(|elapsed| *elapsed > 0) else {
            return self;
        };
        let mut after = Self { updated_s: time, ..self };
        let first = self.rate * U256::from(elapsed);
        let second = first * first / (uint!(2_U256) * WAD);
        let third = second * first / (uint!(3_U256) * WAD);
        let interest = self.borrow_assets * (first + second + third) / WAD;
        after.supply_assets += interest;
        after.borrow_assets += interest;
        let fee = interest * self.fee / WAD;
        if !fee.is_zero() {
            let others = after.supply_assets - fee;
            after.supply_shares +=
                mul_div(fee, self.supply_shares + VIRTUAL_SHARES, others + U256::ONE, false);
        }
        after
    }

    pub(super) fn to_assets(self, shares: U256, up: bool) -> U256 {
        let (assets, all) = (self.supply_assets + U256::ONE, self.supply_shares + VIRTUAL_SHARES);
        mul_div(shares, assets, all, up)
    }

    pub(super) fn to_shares(self, assets: U256, up: bool) -> U256 {
        let (all, total) = (self.supply_shares + VIRTUAL_SHARES, self.supply_assets + U256::ONE);
        mul_div(assets, all, total, up)
    }

    /// Returns the assets that are lent to the market and not borrowed.
    pub(super) fn liquidity(self) -> U256 {
        self.supply_assets.saturating_sub(self.borrow_assets)
    }
}

impl Market {
    pub(super) fn shares_of(&self, who: Address) -> U256 {
        self.positions.get(&who).copied().unwrap_or_default()
    }

    /// Returns the value of an account's shares at a time.
    pub(super) fn assets_of(&self, who: Address, time: u64) -> U256 {
        self.totals.accrued_at(time).to_assets(self.shares_of(who), false)
    }

    /// Returns the assets that an account can withdraw at a time.
    pub(super) fn withdrawable(&self, who: Address, time: u64) -> U256 {
        self.assets_of(who, time).min(self.totals.accrued_at(time).liquidity())
    }
}

/// The amount that a call moves, in assets or shares. The other of the two is zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) assets: U256,
    pub(super) shares: U256,
}

impl Amount {
    pub(super) fn of_assets(assets: U256) -> Self {
        Self { assets, shares: U256::ZERO }
    }
}

impl Machine<'_> {
    pub(super) fn blue(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let (data, time) = (&message.data[..], self.env.time);
        let markets = &self.state.lending.markets;
        if is_call::<abi::Blue::idToMarketParamsCall>(data) {
            let id = arguments::<abi::Blue::idToMarketParamsCall>(data)?.id;
            let none = || vec![0; 5 * 32];
            let answer = markets.get(&id).map_or_else(none, |one| one.params.abi_encode());
            return Ok(answer.into());
        }
        if is_call::<abi::Blue::marketCall>(data) {
            let id = arguments::<abi::Blue::marketCall>(data)?.id;
            let Some(market) = markets.get(&id) else { return Ok(vec![0; 6 * 32].into()) };
            let one = &market.totals;
            let words = [
                one.supply_assets,
                one.supply_shares,
                one.borrow_assets,
                one.borrow_shares,
                U256::from(one.updated_s),
                one.fee,
            ];
            return Ok(words.map(|word| word.to_be_bytes::<32>()).concat().into());
        }
        if is_call::<abi::Blue::positionCall>(data) {
            let abi::Blue::positionCall { id, user } = arguments(data)?;
            let shares = markets.get(&id).map_or(U256::ZERO, |market| market.shares_of(user));
            let shown = self.state.lending.shown_shares(super::VenueName::Market(id), user, shares);
            return Ok([word(shown), vec![0; 64].into()].concat().into());
        }
        if is_call::<abi::Blue::accrueInterestCall>(data) {
            let id = market_id(&arguments::<abi::Blue::accrueInterestCall>(data)?.params);
            let market = self.state.lending.markets.get_mut(&id);
            let market = market.ok_or_else(|| revert_reason("market not created"))?;
            market.totals = market.totals.accrued_at(time);
            return Ok(Bytes::new());
        }
        if is_call::<abi::Blue::supplyCall>(data) {
            let abi::Blue::supplyCall { params, assets, shares, onBehalf, data: _ } =
                arguments(data)?;
            let amount = Amount { assets, shares };
            let moved = self.blue_supply(message.from, &params, amount, onBehalf)?;
            return Ok(abi::Blue::supplyCall::abi_encode_returns(&moved.into()).into());
        }
        if is_call::<abi::Blue::withdrawCall>(data) {
            let abi::Blue::withdrawCall { params, assets, shares, onBehalf, receiver } =
                arguments(data)?;
            let amount = Amount { assets, shares };
            let ends = (onBehalf, receiver);
            let moved = self.blue_withdraw(message.from, &params, amount, ends)?;
            return Ok(abi::Blue::withdrawCall::abi_encode_returns(&moved.into()).into());
        }
        Err(Bytes::new())
    }

    /// Accrues the interest of a market, and returns its totals.
    fn accrued_totals(
        &mut self,
        params: &abi::MarketParams,
        amount: Amount,
    ) -> Result<Totals, Reverted> {
        let market = self.state.lending.markets.get_mut(&market_id(params));
        let market = market.ok_or_else(|| revert_reason("market not created"))?;
        if amount.assets.is_zero() == amount.shares.is_zero() {
            return Err(revert_reason("inconsistent input"));
        }
        market.totals = market.totals.accrued_at(self.env.time);
        Ok(market.totals)
    }

    /// Supplies assets from `caller`. Returns assets and shares.
    pub(super) fn blue_supply(
        &mut self,
        caller: Address,
        params: &abi::MarketParams,
        amount: Amount,
        on_behalf: Address,
    ) -> Result<(U256, U256), Reverted> {
        self.gas += GAS;
        let (id, totals) = (market_id(params), self.accrued_totals(params, amount)?);
        if on_behalf.is_zero() {
            return Err(revert_reason("zero address"));
        }
        let (assets, shares) = if amount.shares.is_zero() {
            (amount.assets, totals.to_shares(amount.assets, false))
        } else {
            (totals.to_assets(amount.shares, true), amount.shares)
        };
        if let Some(market) = self.state.lending.markets.get_mut(&id) {
            *market.positions.entry(on_behalf).or_default() += shares;
            market.totals.supply_assets += assets;
            market.totals.supply_shares += shares;
        }
        let singleton = self.singleton();
        self.emit(
            singleton,
            &abi::Blue::Supply { id, caller, onBehalf: on_behalf, assets, shares },
        );
        let paid = self.transfer_from(params.loanToken, singleton, caller, singleton, assets);
        paid.map_err(|_why| revert_reason("transferFrom reverted"))?;
        Ok((assets, shares))
    }

    /// Withdraws assets for the account itself. Returns assets and shares.
    pub(super) fn blue_withdraw(
        &mut self,
        caller: Address,
        params: &abi::MarketParams,
        amount: Amount,
        (on_behalf, receiver): (Address, Address),
    ) -> Result<(U256, U256), Reverted> {
        self.gas += GAS;
        let (id, totals) = (market_id(params), self.accrued_totals(params, amount)?);
        if receiver.is_zero() {
            return Err(revert_reason("zero address"));
        }
        if caller != on_behalf {
            return Err(revert_reason("unauthorized"));
        }
        let (assets, shares) = if amount.shares.is_zero() {
            (amount.assets, totals.to_shares(amount.assets, true))
        } else {
            (totals.to_assets(amount.shares, false), amount.shares)
        };
        if let Some(market) = self.state.lending.markets.get_mut(&id) {
            let left = market.shares_of(on_behalf).checked_sub(shares).ok_or_else(underflow)?;
            market.positions.insert(on_behalf, left);
            let totals = &mut market.totals;
            totals.supply_shares -= shares;
            totals.supply_assets =
                totals.supply_assets.checked_sub(assets).ok_or_else(underflow)?;
            if totals.borrow_assets > totals.supply_assets {
                return Err(revert_reason("insufficient liquidity"));
            }
        }
        let singleton = self.singleton();
        let event =
            abi::Blue::Withdraw { id, caller, onBehalf: on_behalf, receiver, assets, shares };
        self.emit(singleton, &event);
        let paid = self.transfer(params.loanToken, singleton, receiver, assets);
        paid.map_err(|_why| revert_reason("transfer reverted"))?;
        Ok((assets, shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 31_536_000;

    fn totals() -> Totals {
        Totals {
            supply_assets: uint!(1_000_000_000_000_U256),
            supply_shares: uint!(1_000_000_000_000_000_000_U256),
            borrow_assets: uint!(600_000_000_000_U256),
            borrow_shares: uint!(600_000_000_000_000_000_U256),
            updated_s: 1_000,
            fee: U256::ZERO,
            rate: WAD / U256::from(10 * YEAR),
        }
    }

    #[test]
    fn interest_compounds_to_the_third_order() {
        let after = totals().accrued_at(1_000 + YEAR);
        // e^0.1 - 1 is 0.10517, and its first three terms are 0.105166...
        let interest = after.borrow_assets - totals().borrow_assets;
        assert!(interest > uint!(63_099_000_000_U256) && interest < uint!(63_101_000_000_U256));
        assert_eq!(after.supply_assets - totals().supply_assets, interest);
        assert_eq!(totals().accrued_at(1_000), totals());
    }

    #[test]
    fn shares_round_against_the_account() {
        let totals = totals();
        let shares = totals.to_shares(uint!(7_U256), false);
        assert!(totals.to_assets(shares, false) <= uint!(7_U256));
        assert!(totals.to_shares(uint!(7_U256), true) >= shares);
        let empty = Totals { supply_assets: U256::ZERO, supply_shares: U256::ZERO, ..totals };
        assert_eq!(empty.to_shares(uint!(5_U256), false), uint!(5_000_000_U256));
    }
}
