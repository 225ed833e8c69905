//! The calls of vaults: deposits, withdrawals and read-only calls.

use alloy_primitives::aliases::U184;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolError};

use super::VenueName;
use super::abi;
use super::blue::{Amount, underflow};
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_error, word};
use super::vaults::{Kind, LendsTo, Two, VaultTotals};

const GAS: u64 = 130_000;

/// The assets and shares that a call moves.
#[derive(Debug, Clone, Copy)]
struct MovedAmounts {
    assets: U256,
    shares: U256,
}

/// The accounts of a withdrawal.
#[derive(Debug, Clone, Copy)]
struct WithdrawalAccounts {
    caller: Address,
    receiver: Address,
    on_behalf: Address,
}

fn flag(value: bool) -> Bytes {
    word(U256::from(u8::from(value)))
}

fn text(value: &str) -> Bytes {
    abi::Vault::nameCall::abi_encode_returns(&value.to_owned()).into()
}

fn account(value: Address) -> Bytes {
    Bytes::from(value.into_word())
}

impl Machine<'_> {
    pub(super) fn vault(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let (vault, caller, data) = (message.to, message.from, &message.data[..]);
        let totals = self.state.vault_totals(vault, self.env.time).ok_or_else(Bytes::new)?;
        if is_call::<abi::Vault::depositCall>(data) {
            let abi::Vault::depositCall { assets, onBehalf } = arguments(data)?;
            let moved = MovedAmounts { assets, shares: totals.to_shares(assets, false) };
            self.deposit_into(vault, totals, moved, (caller, onBehalf))?;
            return Ok(word(moved.shares));
        }
        if is_call::<abi::Vault::mintCall>(data) {
            let abi::Vault::mintCall { shares, onBehalf } = arguments(data)?;
            let moved = MovedAmounts { assets: totals.to_assets(shares, true), shares };
            self.deposit_into(vault, totals, moved, (caller, onBehalf))?;
            return Ok(word(moved.assets));
        }
        if is_call::<abi::Vault::withdrawCall>(data) {
            let abi::Vault::withdrawCall { assets, receiver, onBehalf } = arguments(data)?;
            let moved = MovedAmounts { assets, shares: totals.to_shares(assets, true) };
            self.exit(
                vault,
                totals,
                moved,
                WithdrawalAccounts { caller, receiver, on_behalf: onBehalf },
            )?;
            return Ok(word(moved.shares));
        }
        if is_call::<abi::Vault::redeemCall>(data) {
            let abi::Vault::redeemCall { shares, receiver, onBehalf } = arguments(data)?;
            let moved = MovedAmounts { assets: totals.to_assets(shares, false), shares };
            self.exit(
                vault,
                totals,
                moved,
                WithdrawalAccounts { caller, receiver, on_behalf: onBehalf },
            )?;
            return Ok(word(moved.assets));
        }
        self.vault_view(vault, totals, data)
    }

    /// Adds the accrued interest of a vault, and the shares for its fee.
    fn accrue(&mut self, vault: Address, totals: VaultTotals) {
        let time = self.env.time;
        let Some(one) = self.state.lending.vaults.get_mut(&vault) else { return };
        (one.total, one.updated) = (totals.assets, time);
        one.supply += totals.fee_shares;
        *one.shares.entry(one.curator).or_default() += totals.fee_shares;
        if let Kind::Meta(meta) = &mut one.kind {
            meta.lost = totals.lost;
        }
    }

    fn vault_v2(&self, vault: Address) -> Option<Two> {
        match &self.state.lending.vaults.get(&vault)?.kind {
            Kind::Two(two) => Some(two.clone()),
            Kind::Meta(_) => None,
        }
    }

    fn deposit_into(
        &mut self,
        vault: Address,
        totals: VaultTotals,
        MovedAmounts { assets, shares }: MovedAmounts,
        (caller, on_behalf): (Address, Address),
    ) -> Result<(), Reverted> {
        self.gas += GAS;
        self.accrue(vault, totals);
        let two = self.vault_v2(vault);
        if let Some(two) = &two {
            if two.closed.receive_shares {
                return Err(revert_error(&abi::Vault::CannotReceiveShares {}));
            }
            if two.closed.send_assets {
                return Err(revert_error(&abi::Vault::CannotSendAssets {}));
            }
        }
        let asset = self.state.lending.vaults.get(&vault).map(|one| one.asset).unwrap_or_default();
        let paid = self.transfer_from(asset, vault, caller, vault, assets);
        match &two {
            Some(_) => paid.map_err(|_why| revert_error(&abi::Vault::TransferFromReverted {}))?,
            None => paid?,
        }
        if let Some(one) = self.state.lending.vaults.get_mut(&vault) {
            *one.shares.entry(on_behalf).or_default() += shares;
            one.supply += shares;
            one.total += assets;
        }
        let minted = abi::Erc20::Transfer { from: Address::ZERO, to: on_behalf, value: shares };
        self.emit(vault, &minted);
        let event = abi::Vault::Deposit { sender: caller, owner: on_behalf, assets, shares };
        self.emit(vault, &event);
        match &two {
            Some(two) => self.allocate(vault, asset, two, assets),
            None => self.supply_to_queue(vault, assets),
        }
    }

    /// Lends a deposit of a Vault V2 through its liquidity adapter.
    fn allocate(
        &mut self,
        vault: Address,
        asset: Address,
        two: &Two,
        assets: U256,
    ) -> Result<(), Reverted> {
        let Some((adapter, data)) = &two.liquidity else { return Ok(()) };
        self.transfer(asset, vault, *adapter, assets)?;
        let lends_to = self.state.lending.adapters.get(adapter).map(|one| one.lends_to.clone());
        match lends_to {
            Some(LendsTo::Markets(_)) => {
                let params = decode_market_params(data)?;
                self.allow(asset, *adapter, self.singleton(), assets);
                let amount = Amount::of_assets(assets);
                self.blue_supply(*adapter, &params, amount, *adapter)?;
            }
            Some(LendsTo::Vault(inner)) => {
                self.allow(asset, *adapter, inner, assets);
                let totals = self.state.vault_totals(inner, self.env.time);
                let totals = totals.ok_or_else(Bytes::new)?;
                let moved = MovedAmounts { assets, shares: totals.to_shares(assets, false) };
                self.deposit_into(inner, totals, moved, (*adapter, *adapter))?;
            }
            None => return Err(Bytes::new()),
        }
        self.check_caps(*adapter, data, two)
    }

    /// Checks that the amount lent in one place does not exceed its cap.
    fn check_caps(&self, adapter: Address, data: &Bytes, two: &Two) -> Result<(), Reverted> {
        let cap = two.caps.get(&super::adapters::cap_of(adapter, data)).copied();
        let cap = cap.filter(|cap| !cap.is_zero());
        let cap = cap.ok_or_else(|| revert_error(&abi::Vault::ZeroAbsoluteCap {}))?;
        if self.state.assets_lent_by(adapter, self.env.time) > cap {
            return Err(revert_error(&abi::Vault::AbsoluteCapExceeded {}));
        }
        Ok(())
    }

    fn allow(&mut self, token: Address, owner: Address, spender: Address, amount: U256) {
        if let Some(one) = self.state.tokens.get_mut(&token) {
            one.allowances.insert((owner, spender), amount);
        }
    }

    fn supply_queue(&self, vault: Address) -> Vec<(B256, U256, abi::MarketParams)> {
        let Some(one) = self.state.lending.vaults.get(&vault) else { return Vec::new() };
        let Kind::Meta(meta) = &one.kind else { return Vec::new() };
        let params = |id: &B256| Some(self.state.lending.markets.get(id)?.params.clone());
        let each = meta.queue.iter().filter_map(|(id, cap)| Some((*id, *cap, params(id)?)));
        each.collect()
    }

    /// Lends a deposit of a MetaMorpho vault to the first markets with room under their caps.
    fn supply_to_queue(&mut self, vault: Address, assets: U256) -> Result<(), Reverted> {
        let mut left = assets;
        for (id, cap, params) in self.supply_queue(vault) {
            let market = self.state.lending.markets.get(&id);
            let lent = market.map_or(U256::ZERO, |one| one.assets_of(vault, self.env.time));
            let part = left.min(cap.saturating_sub(lent));
            if part.is_zero() {
                continue;
            }
            self.allow(params.loanToken, vault, self.singleton(), part);
            self.blue_supply(vault, &params, Amount::of_assets(part), vault)?;
            left -= part;
        }
        if left.is_zero() { Ok(()) } else { Err(revert_error(&abi::Vault::AllCapsReached {})) }
    }

    fn exit(
        &mut self,
        vault: Address,
        totals: VaultTotals,
        moved: MovedAmounts,
        ends: WithdrawalAccounts,
    ) -> Result<(), Reverted> {
        self.gas += GAS;
        self.accrue(vault, totals);
        if ends.caller != ends.on_behalf {
            return Err(underflow());
        }
        match self.vault_v2(vault) {
            Some(two) => self.exit_two(vault, &two, moved, ends),
            None => self.exit_meta(vault, moved, ends),
        }
    }

    fn exit_two(
        &mut self,
        vault: Address,
        two: &Two,
        moved: MovedAmounts,
        ends: WithdrawalAccounts,
    ) -> Result<(), Reverted> {
        if two.closed.send_shares {
            return Err(revert_error(&abi::Vault::CannotSendShares {}));
        }
        if two.closed.receive_assets {
            return Err(revert_error(&abi::Vault::CannotReceiveAssets {}));
        }
        let asset = self.state.lending.vaults.get(&vault).map(|one| one.asset).unwrap_or_default();
        let missing = moved.assets.saturating_sub(self.state.balance(asset, vault));
        if !missing.is_zero()
            && let Some((adapter, data)) = &two.liquidity
        {
            self.deallocate(vault, asset, (*adapter, data), missing)?;
        }
        self.burn(vault, moved, ends, |_held| underflow())?;
        let paid = self.transfer(asset, vault, ends.receiver, moved.assets);
        paid.map_err(|_why| revert_error(&abi::Vault::TransferReverted {}))?;
        self.emit_withdraw(vault, moved, ends);
        Ok(())
    }

    /// Withdraws money through the liquidity adapter of a Vault V2.
    fn deallocate(
        &mut self,
        vault: Address,
        asset: Address,
        (adapter, data): (Address, &Bytes),
        assets: U256,
    ) -> Result<(), Reverted> {
        match self.state.lending.adapters.get(&adapter).map(|one| one.lends_to.clone()) {
            Some(LendsTo::Markets(_)) => {
                let ends = (adapter, adapter);
                self.blue_withdraw(
                    adapter,
                    &decode_market_params(data)?,
                    Amount::of_assets(assets),
                    ends,
                )?;
            }
            Some(LendsTo::Vault(inner)) => {
                let totals = self.state.vault_totals(inner, self.env.time);
                let totals = totals.ok_or_else(Bytes::new)?;
                let moved = MovedAmounts { assets, shares: totals.to_shares(assets, true) };
                let ends =
                    WithdrawalAccounts { caller: adapter, receiver: adapter, on_behalf: adapter };
                self.exit(inner, totals, moved, ends)?;
            }
            None => return Err(Bytes::new()),
        }
        self.transfer(asset, adapter, vault, assets)
    }

    fn exit_meta(
        &mut self,
        vault: Address,
        moved: MovedAmounts,
        ends: WithdrawalAccounts,
    ) -> Result<(), Reverted> {
        let mut left = moved.assets;
        for (id, _cap, params) in self.supply_queue(vault) {
            let market = self.state.lending.markets.get(&id);
            let free = market.map_or(U256::ZERO, |one| one.withdrawable(vault, self.env.time));
            let part = left.min(free);
            if !part.is_zero() {
                self.blue_withdraw(vault, &params, Amount::of_assets(part), (vault, vault))?;
                left -= part;
            }
        }
        if !left.is_zero() {
            return Err(revert_error(&abi::Vault::NotEnoughLiquidity {}));
        }
        let (sender, needed) = (ends.on_behalf, moved.shares);
        let short = |balance| {
            let short = abi::Vault::ERC20InsufficientBalance { sender, balance, needed };
            short.abi_encode().into()
        };
        self.burn(vault, moved, ends, short)?;
        let asset = self.state.lending.vaults.get(&vault).map(|one| one.asset).unwrap_or_default();
        self.transfer(asset, vault, ends.receiver, moved.assets)?;
        self.emit_withdraw(vault, moved, ends);
        Ok(())
    }

    fn burn(
        &mut self,
        vault: Address,
        moved: MovedAmounts,
        ends: WithdrawalAccounts,
        short: impl Fn(U256) -> Reverted,
    ) -> Result<(), Reverted> {
        let Some(one) = self.state.lending.vaults.get_mut(&vault) else { return Err(underflow()) };
        let held = one.shares.get(&ends.on_behalf).copied().unwrap_or_default();
        let left = held.checked_sub(moved.shares).ok_or_else(|| short(held))?;
        one.shares.insert(ends.on_behalf, left);
        one.supply -= moved.shares;
        one.total = one.total.saturating_sub(moved.assets);
        let (from, value) = (ends.on_behalf, moved.shares);
        self.emit(vault, &abi::Erc20::Transfer { from, to: Address::ZERO, value });
        Ok(())
    }

    fn emit_withdraw(&mut self, vault: Address, moved: MovedAmounts, ends: WithdrawalAccounts) {
        let WithdrawalAccounts { caller: sender, receiver, on_behalf: owner } = ends;
        let MovedAmounts { assets, shares } = moved;
        self.emit(vault, &abi::Vault::Withdraw { sender, receiver, owner, assets, shares });
    }

    fn vault_view(
        &self,
        vault: Address,
        totals: VaultTotals,
        data: &[u8],
    ) -> Result<Bytes, Reverted> {
        let one = self.state.lending.vaults.get(&vault).ok_or_else(Bytes::new)?;
        let venue = VenueName::Vault(vault);
        if is_call::<abi::Erc20::balanceOfCall>(data) {
            let owner = arguments::<abi::Erc20::balanceOfCall>(data)?.owner;
            let shares = self.state.lending.shares_of(venue, owner);
            return Ok(word(self.state.lending.shown_shares(venue, owner, shares)));
        }
        if is_call::<abi::Erc20::allowanceCall>(data) {
            return Ok(word(U256::ZERO));
        }
        if is_call::<abi::Erc20::decimalsCall>(data) {
            return Ok(word(U256::from(18)));
        }
        if is_call::<abi::Vault::nameCall>(data) || is_call::<abi::Vault::symbolCall>(data) {
            return Ok(text(one.name));
        }
        if is_call::<abi::Vault::assetCall>(data) {
            return Ok(account(one.asset));
        }
        if is_call::<abi::Vault::ownerCall>(data) {
            return Ok(account(one.owner));
        }
        if is_call::<abi::Vault::curatorCall>(data) {
            return Ok(account(one.curator));
        }
        if is_call::<abi::Vault::totalAssetsCall>(data) {
            return Ok(word(totals.assets));
        }
        if is_call::<abi::Vault::totalSupplyCall>(data) {
            return Ok(word(one.supply));
        }
        if is_call::<abi::Vault::convertToAssetsCall>(data) {
            let shares = arguments::<abi::Vault::convertToAssetsCall>(data)?.shares;
            return Ok(word(totals.to_assets(shares, false)));
        }
        if is_call::<abi::Vault::previewDepositCall>(data) {
            let assets = arguments::<abi::Vault::previewDepositCall>(data)?.assets;
            return Ok(word(totals.to_shares(assets, false)));
        }
        if is_call::<abi::Vault::previewMintCall>(data) {
            let shares = arguments::<abi::Vault::previewMintCall>(data)?.shares;
            return Ok(word(totals.to_assets(shares, true)));
        }
        if is_call::<abi::Vault::previewWithdrawCall>(data) {
            let assets = arguments::<abi::Vault::previewWithdrawCall>(data)?.assets;
            return Ok(word(totals.to_shares(assets, true)));
        }
        if is_call::<abi::Vault::previewRedeemCall>(data) {
            let shares = arguments::<abi::Vault::previewRedeemCall>(data)?.shares;
            return Ok(word(totals.to_assets(shares, false)));
        }
        match &one.kind {
            Kind::Two(two) => self.two_view(two, data),
            Kind::Meta(meta) => {
                if is_call::<abi::Vault::maxWithdrawCall>(data) {
                    let owner = arguments::<abi::Vault::maxWithdrawCall>(data)?.owner;
                    return Ok(word(self.state.withdrawable(venue, owner, self.env.time)));
                }
                queue_view(&meta.queue, data)
            }
        }
    }

    fn two_view(&self, two: &Two, data: &[u8]) -> Result<Bytes, Reverted> {
        // A Vault V2 always returns zero here.
        if is_call::<abi::Vault::maxWithdrawCall>(data) {
            return Ok(word(U256::ZERO));
        }
        if is_call::<abi::VaultTwo::adaptersLengthCall>(data) {
            return Ok(word(U256::from(two.adapters.len())));
        }
        if is_call::<abi::VaultTwo::adaptersCall>(data) {
            let index = arguments::<abi::VaultTwo::adaptersCall>(data)?.index;
            let index = usize::try_from(index).map_err(|_large| Bytes::new())?;
            return two.adapters.get(index).map(|one| account(*one)).ok_or_else(Bytes::new);
        }
        if is_call::<abi::VaultTwo::adapterRegistryCall>(data) {
            let contracts = self.env.contracts.network.lending.ok_or_else(Bytes::new)?;
            return Ok(account(contracts.adapter_registry));
        }
        if is_call::<abi::VaultTwo::liquidityAdapterCall>(data) {
            let adapter = two.liquidity.as_ref().map(|(adapter, _data)| *adapter);
            return Ok(account(adapter.unwrap_or_default()));
        }
        if is_call::<abi::VaultTwo::liquidityDataCall>(data) {
            let data = two.liquidity.as_ref().map(|(_adapter, data)| data.clone());
            let data = data.unwrap_or_default();
            return Ok(abi::VaultTwo::liquidityDataCall::abi_encode_returns(&data).into());
        }
        if is_call::<abi::VaultTwo::virtualSharesCall>(data) {
            return Ok(word(U256::from(10).pow(U256::from(12))));
        }
        if is_call::<abi::VaultTwo::absoluteCapCall>(data) {
            let id = arguments::<abi::VaultTwo::absoluteCapCall>(data)?.id;
            return Ok(word(two.caps.get(&id).copied().unwrap_or_default()));
        }
        let closed = &two.closed;
        if is_call::<abi::VaultTwo::canReceiveSharesCall>(data) {
            return Ok(flag(!closed.receive_shares));
        }
        if is_call::<abi::VaultTwo::canSendSharesCall>(data) {
            return Ok(flag(!closed.send_shares));
        }
        if is_call::<abi::VaultTwo::canReceiveAssetsCall>(data) {
            return Ok(flag(!closed.receive_assets));
        }
        if is_call::<abi::VaultTwo::canSendAssetsCall>(data) {
            return Ok(flag(!closed.send_assets));
        }
        Err(Bytes::new())
    }
}

fn queue_view(queue: &[(B256, U256)], data: &[u8]) -> Result<Bytes, Reverted> {
    if is_call::<abi::VaultOne::withdrawQueueLengthCall>(data) {
        return Ok(word(U256::from(queue.len())));
    }
    if is_call::<abi::VaultOne::withdrawQueueCall>(data) {
        let index = arguments::<abi::VaultOne::withdrawQueueCall>(data)?.index;
        let index = usize::try_from(index).map_err(|_large| Bytes::new())?;
        let id = queue.get(index).map(|(id, _cap)| Bytes::copy_from_slice(id.as_slice()));
        return id.ok_or_else(Bytes::new);
    }
    if is_call::<abi::VaultOne::configCall>(data) {
        let id = arguments::<abi::VaultOne::configCall>(data)?.id;
        let cap = queue.iter().find(|(known, _cap)| *known == id).map(|(_id, cap)| *cap);
        let answer = abi::VaultOne::configReturn {
            cap: U184::saturating_from(cap.unwrap_or_default()),
            enabled: cap.is_some(),
            removableAt: 0,
        };
        return Ok(abi::VaultOne::configCall::abi_encode_returns(&answer).into());
    }
    Err(Bytes::new())
}

fn decode_market_params(data: &Bytes) -> Result<abi::MarketParams, Reverted> {
    use alloy_sol_types::SolValue;
    abi::MarketParams::abi_decode_validate(data).map_err(|_odd| Bytes::new())
}
