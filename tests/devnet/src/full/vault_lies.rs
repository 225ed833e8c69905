//! Vaults, adapters and events that imitate honest ones.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolValue;

use super::lending_abi::{IForger, ILyingVault, IOddAdapter, IVaultV2};
use super::venues::NewVault;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

const WAD: u128 = 1_000_000_000_000_000_000;

/// The lie that a vault tells about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultLie {
    /// No lie: the vault is honest.
    None,
    /// The vault reports this asset.
    Asset(Address),
    /// The vault reports this number of decimals for its shares.
    Decimals(u8),
    /// Previews and conversions report this percentage of the true value. Deposits and
    /// redemptions use the true value.
    Preview(u32),
    /// The vault reports this share balance for every account.
    Balance(U256),
    /// The vault reports no adapters.
    Adapters,
    /// The vault keeps this percentage of each deposit, and its previews do not show that.
    EntryFee(u8),
    /// Like `EntryFee`, but only in calls with a gas price, which most simulations lack.
    EntryFeeWhenSent(u8),
    /// The vault reports that it is closed to every account that has approved it. Deposits still work.
    ShutOnceApproved,
}

impl Devnet {
    /// Deploys a Vault V2 that can lie, with curator, name and registry.
    ///
    /// No factory creates it. It counts as official if `new` names the official factory, or after
    /// [`Devnet::register_vault_v2`].
    ///
    /// # Errors
    /// The deployment or a transaction failed.
    pub async fn deploy_lying_vault(&self, new: &NewVault) -> Result<Address, DevnetError> {
        let arguments = (new.owner, self.network.stablecoin.address).abi_encode_params();
        let vault = self.deploy(own_contracts::LYING_VAULT.creation_code(&arguments)?).await?;
        self.prepare_vault_v2(vault, new).await?;
        if let Some(factory) = new.factory {
            self.register_vault_v2(factory, new.owner, vault).await?;
        }
        Ok(vault)
    }

    /// Replaces the code of an existing Vault V2 with that of a lying vault.
    ///
    /// Its money and settings stay. It is honest until [`Devnet::set_vault_lie`].
    ///
    /// # Errors
    /// The deployment or the change failed.
    pub async fn corrupt_vault_v2(&self, vault: Address) -> Result<(), DevnetError> {
        let owner = self.read(vault, IVaultV2::ownerCall {}).await?;
        let arguments = (owner, self.network.stablecoin.address).abi_encode_params();
        let other = self.deploy(own_contracts::LYING_VAULT.creation_code(&arguments)?).await?;
        let code = self.request("eth_getCode", serde_json::json!([other, "latest"])).await?;
        self.request("anvil_setCode", serde_json::json!([vault, code])).await?;
        Ok(())
    }

    /// Changes the lie of a lying vault.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_vault_lie(&self, vault: Address, lie: VaultLie) -> Result<(), DevnetError> {
        let (lie, value) = match lie {
            VaultLie::None => (0, U256::ZERO),
            VaultLie::Asset(asset) => (1, asset.into_word().into()),
            VaultLie::Decimals(decimals) => (2, U256::from(decimals)),
            VaultLie::Preview(percent) => (3, U256::from(percent)),
            VaultLie::Balance(shares) => (4, shares),
            VaultLie::Adapters => (5, U256::ZERO),
            VaultLie::EntryFee(percent) => (6, U256::from(percent)),
            VaultLie::EntryFeeWhenSent(percent) => (7, U256::from(percent)),
            VaultLie::ShutOnceApproved => (8, U256::ZERO),
        };
        self.send_as_maker(vault, &ILyingVault::setLieCall { lie, value }).await
    }

    /// Adds an adapter of no factory to a Vault V2, without a cap: a leveraged "Box", or a hostile one.
    ///
    /// It is honest at first, and the registry does not know it.
    ///
    /// # Errors
    /// The deployment or a transaction failed.
    pub async fn add_unofficial_adapter(&self, vault: Address) -> Result<Address, DevnetError> {
        let arguments = (vault,).abi_encode_params();
        let adapter = self.deploy(own_contracts::ODD_ADAPTER.creation_code(&arguments)?).await?;
        let registry = self.read(vault, IVaultV2::adapterRegistryCall {}).await?;
        let set = |registry| IVaultV2::setAdapterRegistryCall { registry };
        self.send_as_maker(vault, &set(Address::ZERO)).await?;
        self.send_as_maker(vault, &IVaultV2::addAdapterCall { adapter }).await?;
        self.send_as_maker(vault, &set(registry)).await?;
        self.allow_adapter(vault, adapter).await?;
        Ok(adapter)
    }

    /// Moves idle assets of a Vault V2 into an adapter that has no markets.
    ///
    /// # Errors
    /// The vault has too few idle assets, or the transaction failed.
    pub async fn allocate(
        &self,
        vault: Address,
        adapter: Address,
        assets: u128,
    ) -> Result<(), DevnetError> {
        let (data, assets) = (alloy_primitives::Bytes::new(), U256::from(assets));
        self.send_as_maker(vault, &IVaultV2::allocateCall { adapter, data, assets }).await
    }

    /// Sets the value that an odd adapter reports: `percent` of its deposits, with the gain or loss multiplied by
    /// `leverage`.
    ///
    /// # Errors
    /// A transaction failed.
    pub async fn set_adapter_worth(
        &self,
        adapter: Address,
        percent: u64,
        leverage: u64,
    ) -> Result<(), DevnetError> {
        let part = U256::from(u128::from(percent).saturating_mul(WAD / 100));
        self.send_as_maker(adapter, &IOddAdapter::setPartCall { part }).await?;
        let leverage = U256::from(leverage);
        self.send_as_maker(adapter, &IOddAdapter::setLeverageCall { leverage }).await
    }

    /// Sets whether an odd adapter refuses to return assets.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_adapter_refuses(
        &self,
        adapter: Address,
        refuses: bool,
    ) -> Result<(), DevnetError> {
        self.send_as_maker(adapter, &IOddAdapter::setRefusesCall { refuses }).await
    }

    /// Makes an odd adapter give money away and still report it.
    ///
    /// # Errors
    /// The adapter has too little money, or the transaction failed.
    pub async fn steal_from_adapter(
        &self,
        adapter: Address,
        to: Address,
        assets: u128,
    ) -> Result<(), DevnetError> {
        self.send_as_maker(adapter, &IOddAdapter::stealCall { to, assets: U256::from(assets) })
            .await
    }

    /// Deploys a contract that emits events of vaults and of Morpho Blue in the name of any account.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_forger(&self) -> Result<Address, DevnetError> {
        self.deploy(own_contracts::FORGER.creation_code(&[])?).await
    }

    /// Emits the event of a deposit that never happened.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn forge_deposit(
        &self,
        forger: Address,
        owner: Address,
        assets: u128,
    ) -> Result<(), DevnetError> {
        let assets = U256::from(assets);
        self.send_as_maker(forger, &IForger::forgeDepositCall { owner, assets, shares: assets })
            .await
    }

    /// Emits the event of a supply to a market that never happened.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn forge_supply(
        &self,
        forger: Address,
        market: B256,
        owner: Address,
        assets: u128,
    ) -> Result<(), DevnetError> {
        let assets = U256::from(assets);
        let forge = IForger::forgeSupplyCall { id: market, owner, assets, shares: assets };
        self.send_as_maker(forger, &forge).await
    }
}
