//! The adapters of Vault V2, and the factories that confirm what they created.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolValue;
use bursar_core::networks::{AdapterKind, VaultKind};

use super::abi;
use super::machine::{Machine, Message, Reverted, arguments, is_call, word};
use super::vaults::{Adapter, Kind, LendsTo};

/// Returns the id of the cap on the amount that an adapter lends with this data.
pub(super) fn cap_of(adapter: Address, data: &Bytes) -> B256 {
    match abi::MarketParams::abi_decode_validate(data) {
        Ok(params) => market_cap(adapter, &params),
        Err(_none) => keccak256(("this".to_owned(), adapter).abi_encode_params()),
    }
}

/// Returns the id of the cap on one market through one adapter.
pub(super) fn market_cap(adapter: Address, params: &abi::MarketParams) -> B256 {
    keccak256(("this/marketParams".to_owned(), adapter, params.clone()).abi_encode_params())
}

fn flag(value: bool) -> Bytes {
    word(U256::from(u8::from(value)))
}

impl Machine<'_> {
    /// Returns the address of the singleton of all markets; the zero address on a network without one.
    pub(super) fn singleton(&self) -> Address {
        self.env.contracts.network.lending.map(|one| one.singleton).unwrap_or_default()
    }

    /// Runs a call to one of Morpho's contracts; `None` if it goes to another contract.
    pub(super) fn lending(&mut self, message: &Message) -> Option<Result<Bytes, Reverted>> {
        let contracts = self.env.contracts.network.lending?;
        let (to, venues) = (message.to, &self.state.lending);
        if venues.is_empty() {
            return None;
        }
        if to == contracts.singleton {
            return Some(self.blue(message));
        }
        if venues.vaults.contains_key(&to) {
            return Some(self.vault(message));
        }
        if let Some(adapter) = venues.adapters.get(&to) {
            return Some(self.adapter(to, adapter, &message.data));
        }
        let vaults = contracts.vault_factories.iter().find(|known| known.address == to);
        if let Some(factory) = vaults {
            return Some(self.vault_factory(factory.kind, &message.data));
        }
        let adapters = contracts.adapter_factories.iter().find(|known| known.address == to);
        adapters.map(|factory| self.adapter_factory(factory.kind, &message.data))
    }

    /// Returns whether a call to one of Morpho's contracts changes nothing, or cannot fail after a change.
    pub(super) fn is_lending_view(&self, to: Address, data: &[u8]) -> bool {
        let Some(contracts) = self.env.contracts.network.lending else { return false };
        let venues = &self.state.lending;
        let known = to == contracts.singleton
            || venues.vaults.contains_key(&to)
            || venues.adapters.contains_key(&to)
            || contracts.vault_factories.iter().any(|one| one.address == to)
            || contracts.adapter_factories.iter().any(|one| one.address == to);
        let moves = is_call::<abi::Blue::supplyCall>(data)
            || is_call::<abi::Blue::withdrawCall>(data)
            || is_call::<abi::Vault::depositCall>(data)
            || is_call::<abi::Vault::mintCall>(data)
            || is_call::<abi::Vault::withdrawCall>(data)
            || is_call::<abi::Vault::redeemCall>(data);
        known && !moves
    }

    fn vault_factory(&self, kind: VaultKind, data: &[u8]) -> Result<Bytes, Reverted> {
        let vaults = &self.state.lending.vaults;
        match kind {
            VaultKind::V2 => {
                let asked = arguments::<abi::Factories::isVaultV2Call>(data)?.account;
                let vault = vaults.get(&asked).filter(|one| matches!(one.kind, Kind::Two(_)));
                Ok(flag(vault.is_some_and(|one| one.official)))
            }
            VaultKind::MetaMorpho => {
                let asked = arguments::<abi::Factories::isMetaMorphoCall>(data)?.account;
                let vault = vaults.get(&asked).filter(|one| matches!(one.kind, Kind::Meta(_)));
                Ok(flag(vault.is_some_and(|one| one.official)))
            }
        }
    }

    fn adapter_factory(&self, kind: AdapterKind, data: &[u8]) -> Result<Bytes, Reverted> {
        let adapters = &self.state.lending.adapters;
        let created = |asked: Address, lends: fn(&LendsTo) -> bool| {
            let known = adapters.get(&asked).filter(|one| one.official);
            flag(known.is_some_and(|one| lends(&one.lends_to)))
        };
        match kind {
            AdapterKind::Markets => {
                let call = arguments::<abi::Factories::isMorphoMarketV1AdapterV2Call>(data)?;
                Ok(created(call.account, |one| matches!(one, LendsTo::Markets(_))))
            }
            AdapterKind::MetaMorpho => {
                let call = arguments::<abi::Factories::isMorphoVaultV1AdapterCall>(data)?;
                Ok(created(call.account, |one| matches!(one, LendsTo::Vault(_))))
            }
        }
    }

    fn adapter(&self, address: Address, adapter: &Adapter, data: &[u8]) -> Result<Bytes, Reverted> {
        let ids = match &adapter.lends_to {
            LendsTo::Vault(inner) if is_call::<abi::Adapter::morphoVaultV1Call>(data) => {
                return Ok(Bytes::from(inner.into_word()));
            }
            LendsTo::Vault(_) => return Err(Bytes::new()),
            LendsTo::Markets(ids) => ids,
        };
        if is_call::<abi::Adapter::marketIdsLengthCall>(data) {
            return Ok(word(U256::from(ids.len())));
        }
        if is_call::<abi::Adapter::marketIdsCall>(data) {
            let index = arguments::<abi::Adapter::marketIdsCall>(data)?.index;
            let index = usize::try_from(index).map_err(|_large| Bytes::new())?;
            let id = ids.get(index).map(|id| Bytes::copy_from_slice(id.as_slice()));
            return id.ok_or_else(Bytes::new);
        }
        if is_call::<abi::Adapter::expectedSupplyAssetsCall>(data) {
            let id = arguments::<abi::Adapter::expectedSupplyAssetsCall>(data)?.id;
            let market = self.state.lending.markets.get(&id);
            let assets = market.map(|market| market.assets_of(address, self.env.time));
            return Ok(word(assets.unwrap_or_default()));
        }
        Err(Bytes::new())
    }
}
