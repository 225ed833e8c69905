//! The contracts that settle x402 payments that the token alone cannot: the proxies for Permit2, the payment
//! channels with their collectors, and Prism, which starts with no facilitators and no fee.

use alloy_sol_types::SolValue;

use super::addresses::Contracts;
use super::builder::Builder;
use crate::copied;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts::{
    BATCH_SETTLEMENT, ERC3009_DEPOSIT_COLLECTOR, EXACT_PERMIT2_PROXY, PERMIT2_DEPOSIT_COLLECTOR,
    PRISM, UPTO_PERMIT2_PROXY,
};

impl Devnet {
    /// Adds to a light chain what the scheme `upto` of x402 needs: Permit2 and its proxy for payments up to an
    /// amount, at the addresses that [`Contracts::of`] lists.
    ///
    /// # Errors
    /// The chain is unknown, or does not answer.
    pub async fn add_upto(&self) -> Result<(), DevnetError> {
        let unknown = DevnetError::UnknownChain(self.network.chain);
        let contracts = Contracts::of(self.network.chain).ok_or(unknown)?;
        self.place_copied(contracts.permit2, &copied::PERMIT2).await?;
        self.place_upto_proxy(&contracts).await
    }

    async fn place_upto_proxy(&self, contracts: &Contracts) -> Result<(), DevnetError> {
        let code = UPTO_PERMIT2_PROXY.creation_code(&(contracts.permit2,).abi_encode_params())?;
        self.deploy_at(contracts.upto_permit2_proxy, code).await
    }
}

impl Builder<'_> {
    pub(super) async fn place_settling(&self) -> Result<(), DevnetError> {
        let Contracts { permit2, exact_permit2_proxy, prism, .. } = self.contracts;
        let uses_permit2 = (permit2,).abi_encode_params();
        self.place(exact_permit2_proxy, EXACT_PERMIT2_PROXY.creation_code(&uses_permit2)?).await?;
        self.devnet.place_upto_proxy(&self.contracts).await?;
        self.place_batch_settlement().await?;
        self.place(prism, PRISM.creation_code(&[])?).await
    }

    async fn place_batch_settlement(&self) -> Result<(), DevnetError> {
        let Contracts { permit2, batch_settlement, erc3009_collector, permit2_collector, .. } =
            self.contracts;
        self.place(batch_settlement, BATCH_SETTLEMENT.creation_code(&[])?).await?;
        let serves = (batch_settlement,).abi_encode_params();
        self.place(erc3009_collector, ERC3009_DEPOSIT_COLLECTOR.creation_code(&serves)?).await?;
        let serves = (batch_settlement, permit2).abi_encode_params();
        self.place(permit2_collector, PERMIT2_DEPOSIT_COLLECTOR.creation_code(&serves)?).await
    }
}
