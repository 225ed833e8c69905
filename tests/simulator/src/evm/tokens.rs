//! Tokens: ERC-20 with the quirks of some real ones, and the wrapped native coin.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;

use super::abi;
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_reason, word};
use super::state::TokenKind;

const APPROVE_GAS: u64 = 26_000;
const TRANSFER_GAS: u64 = 30_000;
const WRAP_GAS: u64 = 24_000;

impl Machine<'_> {
    pub(super) fn token(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let (data, address) = (&message.data[..], message.to);
        let token = self.state.tokens.get(&address).ok_or_else(Bytes::new)?;
        let wraps = token.kind == TokenKind::Wrapped;
        if is_call::<abi::Erc20::balanceOfCall>(data) {
            let owner = arguments::<abi::Erc20::balanceOfCall>(data)?.owner;
            return Ok(word(self.state.balance(address, owner)));
        }
        if is_call::<abi::Erc20::allowanceCall>(data) {
            let asked = arguments::<abi::Erc20::allowanceCall>(data)?;
            return Ok(word(self.state.allowance(address, asked.owner, asked.spender)));
        }
        if is_call::<abi::Erc20::decimalsCall>(data) {
            return Ok(word(U256::from(token.decimals)));
        }
        if is_call::<abi::Erc20::symbolCall>(data) {
            return Ok(abi::Erc20::symbolCall::abi_encode_returns(&token.symbol.to_owned()).into());
        }
        if is_call::<abi::Erc20::approveCall>(data) {
            let abi::Erc20::approveCall { spender, value } = arguments(data)?;
            self.approve(address, message.from, spender, value)?;
            return Ok(word(U256::ONE));
        }
        if is_call::<abi::Erc20::transferCall>(data) {
            let abi::Erc20::transferCall { to, value } = arguments(data)?;
            self.transfer(address, message.from, to, value)?;
            return Ok(word(U256::ONE));
        }
        if wraps && (data.is_empty() || is_call::<abi::Weth::depositCall>(data)) {
            self.wrap(address, message.from, message.value);
            return Ok(Bytes::new());
        }
        if wraps && is_call::<abi::Weth::withdrawCall>(data) {
            let wad = arguments::<abi::Weth::withdrawCall>(data)?.wad;
            self.unwrap(address, message.from, wad)?;
            return Ok(Bytes::new());
        }
        Err(Bytes::new())
    }

    fn approve(
        &mut self,
        token: Address,
        owner: Address,
        spender: Address,
        value: U256,
    ) -> Result<(), Reverted> {
        self.gas += APPROVE_GAS;
        let one = self.state.tokens.get_mut(&token).ok_or_else(Bytes::new)?;
        if one.paused {
            return Err(revert_reason("Pausable: paused"));
        }
        let now = one.allowances.get(&(owner, spender)).copied().unwrap_or_default();
        if one.kind == TokenKind::ZeroFirst && !now.is_zero() && !value.is_zero() {
            return Err(Bytes::new());
        }
        one.allowances.insert((owner, spender), value);
        self.emit(token, &abi::Erc20::Approval { owner, spender, value });
        Ok(())
    }

    pub(super) fn transfer(
        &mut self,
        token: Address,
        from: Address,
        to: Address,
        value: U256,
    ) -> Result<(), Reverted> {
        self.gas += TRANSFER_GAS;
        let one = self.state.tokens.get_mut(&token).ok_or_else(Bytes::new)?;
        if one.paused {
            return Err(revert_reason("Pausable: paused"));
        }
        let held = one.balances.get(&from).copied().unwrap_or_default();
        let left = held.checked_sub(value);
        let left = left.ok_or_else(|| revert_reason("ERC20: transfer amount exceeds balance"))?;
        let arrives = match one.kind {
            TokenKind::Fee(bps) => value - value * U256::from(bps) / U256::from(10_000),
            TokenKind::Rebasing => value.saturating_sub(U256::ONE),
            TokenKind::Plain | TokenKind::Wrapped | TokenKind::ZeroFirst => value,
        };
        one.balances.insert(from, left);
        let there = one.balances.get(&to).copied().unwrap_or_default();
        one.balances.insert(to, there + arrives);
        self.emit(token, &abi::Erc20::Transfer { from, to, value: arrives });
        Ok(())
    }

    /// Executes `transferFrom`, called by `spender`.
    pub(super) fn transfer_from(
        &mut self,
        token: Address,
        spender: Address,
        from: Address,
        to: Address,
        value: U256,
    ) -> Result<(), Reverted> {
        let allowed = self.state.allowance(token, from, spender);
        let left = allowed.checked_sub(value);
        let left = left.ok_or_else(|| revert_reason("ERC20: insufficient allowance"))?;
        self.transfer(token, from, to, value)?;
        if allowed != U256::MAX
            && let Some(one) = self.state.tokens.get_mut(&token)
        {
            one.allowances.insert((from, spender), left);
        }
        Ok(())
    }

    /// Gives wrapped coins to `who`, for native coins that the wrapping contract has received.
    pub(super) fn wrap(&mut self, weth: Address, who: Address, wad: U256) {
        self.gas += WRAP_GAS;
        if let Some(one) = self.state.tokens.get_mut(&weth) {
            *one.balances.entry(who).or_default() += wad;
        }
        self.emit(weth, &abi::Weth::Deposit { dst: who, wad });
    }

    pub(super) fn unwrap(
        &mut self,
        weth: Address,
        who: Address,
        wad: U256,
    ) -> Result<(), Reverted> {
        self.gas += WRAP_GAS;
        let held = self.state.balance(weth, who);
        let left = held.checked_sub(wad).ok_or_else(Bytes::new)?;
        if let Some(one) = self.state.tokens.get_mut(&weth) {
            one.balances.insert(who, left);
        }
        self.emit(weth, &abi::Weth::Withdrawal { src: who, wad });
        self.pay(weth, who, wad)
    }
}
