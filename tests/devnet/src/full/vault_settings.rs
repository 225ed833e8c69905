//! Settings of a vault on a running full chain: caps, curator, liquidity, fees and gates. Only the owner of a vault
//! can change its curator, as on real networks; the kit may change everything else.

use alloy_primitives::aliases::{U96, U184};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;

use super::lending_abi::{IGate, IMetaMorpho, IVaultV2};
use super::loans::LoanMarket;
use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

/// The scale of fractions in the vaults: this number stands for one.
const WAD: u128 = 1_000_000_000_000_000_000;

/// One of the four gates of a Vault V2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateSide {
    ReceiveShares,
    SendShares,
    ReceiveAssets,
    SendAssets,
}

/// The fees of a Vault V2, and their receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VaultFees {
    /// Fee on the interest, in percent.
    pub performance: u8,
    /// Yearly fee on the assets, in percent.
    pub management: u8,
    pub recipient: Address,
}

impl GateSide {
    /// The four gates; the two that can keep money in the vault come last.
    pub const ALL: [Self; 4] =
        [Self::ReceiveShares, Self::SendAssets, Self::SendShares, Self::ReceiveAssets];
}

impl Devnet {
    /// Sets the caps of an id in a Vault V2: in smallest units, and as a part of all assets times 10^18.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_vault_cap(
        &self,
        vault: Address,
        id: B256,
        absolute: u128,
        relative: u128,
    ) -> Result<(), DevnetError> {
        let (absolute, relative_) = (U256::from(absolute), U256::from(relative));
        self.send_as_maker(vault, &IVaultV2::setCapsCall { id, absolute, relative_ }).await
    }

    /// Sets the cap of a market in a vault of MetaMorpho. The first cap appends the market to the vault's queues.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_market_cap(
        &self,
        vault: Address,
        market: &LoanMarket,
        cap: U256,
    ) -> Result<(), DevnetError> {
        let cap = U184::saturating_from(cap);
        self.send_as_maker(vault, &IMetaMorpho::setCapCall { params: market.params(), cap }).await
    }

    /// Sets the adapter of a Vault V2 for deposits and exits; the zero address removes it.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_liquidity_adapter(
        &self,
        vault: Address,
        adapter: Address,
        data: Bytes,
    ) -> Result<(), DevnetError> {
        self.send_as_maker(vault, &IVaultV2::setLiquidityAdapterAndDataCall { adapter, data }).await
    }

    /// Moves assets of a Vault V2 from an adapter to its idle balance.
    ///
    /// # Errors
    /// The adapter cannot pay, or the transaction failed.
    pub async fn deallocate(
        &self,
        vault: Address,
        adapter: Address,
        data: Bytes,
        assets: u128,
    ) -> Result<(), DevnetError> {
        let assets = U256::from(assets);
        self.send_as_maker(vault, &IVaultV2::deallocateCall { adapter, data, assets }).await
    }

    /// Sets the curator of a vault of either kind, as its owner.
    ///
    /// # Errors
    /// `owner` is not the owner, or the transaction failed.
    pub async fn set_curator(
        &self,
        vault: Address,
        owner: Address,
        curator: Address,
    ) -> Result<(), DevnetError> {
        let set = IVaultV2::setCuratorCall { newCurator: curator };
        self.send_with_free_gas(&Call::new(owner, vault, &set)).await.map(|_receipt| ())
    }

    /// Sets the fees of a Vault V2.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_vault_fees(&self, vault: Address, fees: VaultFees) -> Result<(), DevnetError> {
        let a_year = 365 * 24 * 60 * 60;
        let set = IVaultV2::setFeesCall {
            performance: percent(fees.performance),
            management: percent(fees.management).wrapping_div(U96::from(a_year)),
            recipient: fees.recipient,
        };
        self.send_as_maker(vault, &set).await
    }

    /// Sets the fee of a vault of MetaMorpho on its interest, in percent.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_metamorpho_fee(
        &self,
        vault: Address,
        fee: u8,
        recipient: Address,
    ) -> Result<(), DevnetError> {
        self.send_as_maker(vault, &IMetaMorpho::setFeeCall { fee: percent(fee), recipient }).await
    }

    /// Sets the fastest growth of a Vault V2's assets, per second times 10^18.
    ///
    /// `u64::MAX` removes the limit, so that a donation raises the share price at once.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_max_rate(&self, vault: Address, rate: u64) -> Result<(), DevnetError> {
        self.send_as_maker(vault, &IVaultV2::setMaxRateCall { rate }).await
    }

    /// Sets the penalty for a forced deallocation from an adapter, in hundredths of a percent: at most 200.
    ///
    /// # Errors
    /// The penalty is too high, or the transaction failed.
    pub async fn set_exit_penalty(
        &self,
        vault: Address,
        adapter: Address,
        bps: u64,
    ) -> Result<(), DevnetError> {
        let penalty = U256::from(u128::from(bps).saturating_mul(WAD / 10_000));
        self.send_as_maker(vault, &IVaultV2::setForceDeallocatePenaltyCall { adapter, penalty })
            .await
    }

    /// Gives a Vault V2 new dollars that belong to no depositor.
    ///
    /// See [`Devnet::set_max_rate`]. A vault of MetaMorpho counts only assets that [`Devnet::supply_market`] supplies
    /// on its behalf.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn donate(&self, vault: Address, assets: u128) -> Result<(), DevnetError> {
        self.mint(vault, assets).await.map(|_hash| ())
    }

    /// Puts a new gate on one side of a Vault V2, and returns the gate.
    ///
    /// The gate is open; [`Devnet::set_gate_open`] changes that.
    ///
    /// # Errors
    /// The deployment or the transaction failed.
    pub async fn add_gate(&self, vault: Address, side: GateSide) -> Result<Address, DevnetError> {
        let gate = self.deploy(own_contracts::GATE.creation_code(&[])?).await?;
        self.set_gate(vault, side, gate).await?;
        Ok(gate)
    }

    /// Sets the gate of one side of a Vault V2; the zero address removes it.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_gate(
        &self,
        vault: Address,
        side: GateSide,
        gate: Address,
    ) -> Result<(), DevnetError> {
        let set = match side {
            GateSide::ReceiveShares => IVaultV2::setReceiveSharesGateCall { gate }.abi_encode(),
            GateSide::SendShares => IVaultV2::setSendSharesGateCall { gate }.abi_encode(),
            GateSide::ReceiveAssets => IVaultV2::setReceiveAssetsGateCall { gate }.abi_encode(),
            GateSide::SendAssets => IVaultV2::setSendAssetsGateCall { gate }.abi_encode(),
        };
        self.send(&self.call_from_payer(vault, set)).await.map(|_receipt| ())
    }

    /// Opens or closes a gate.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_gate_open(&self, gate: Address, open: bool) -> Result<(), DevnetError> {
        self.send_as_maker(gate, &IGate::setOpenCall { open }).await
    }
}

fn percent(percent: u8) -> U96 {
    U96::from(u128::from(percent).saturating_mul(WAD / 100))
}
