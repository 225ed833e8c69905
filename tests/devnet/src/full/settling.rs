//! The contracts that settle those x402 payments that a token alone cannot settle: the proxies for Permit2, the
//! payment channels with their collectors, and Prism. Prism starts without facilitators and without a fee.

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
    /// Adds the contracts of x402's schemes to a light chain, at the addresses that [`Contracts::of`] lists.
    ///
    /// These are Permit2 with its proxies, and the payment channels with their collectors.
    ///
    /// # Errors
    /// The chain is unknown, or does not answer.
    pub async fn add_x402(&self) -> Result<(), DevnetError> {
        let unknown = DevnetError::UnknownChain(self.network.chain);
        let contracts = Contracts::of(self.network.chain).ok_or(unknown)?;
        self.place_copied(contracts.permit2, &copied::PERMIT2).await?;
        self.place_x402(&contracts).await
    }

    async fn place_x402(&self, contracts: &Contracts) -> Result<(), DevnetError> {
        let Contracts { permit2, batch_settlement, .. } = *contracts;
        let of_permit2 = (permit2,).abi_encode_params();
        let of_escrow = (batch_settlement,).abi_encode_params();
        let of_both = (batch_settlement, permit2).abi_encode_params();
        for (at, contract, arguments) in [
            (contracts.exact_permit2_proxy, EXACT_PERMIT2_PROXY, &of_permit2),
            (contracts.upto_permit2_proxy, UPTO_PERMIT2_PROXY, &of_permit2),
            (batch_settlement, BATCH_SETTLEMENT, &Vec::new()),
            (contracts.erc3009_collector, ERC3009_DEPOSIT_COLLECTOR, &of_escrow),
            (contracts.permit2_collector, PERMIT2_DEPOSIT_COLLECTOR, &of_both),
        ] {
            self.deploy_at(at, contract.creation_code(arguments)?).await?;
        }
        Ok(())
    }
}

impl Builder<'_> {
    pub(super) async fn place_settling(&self) -> Result<(), DevnetError> {
        self.devnet.place_x402(&self.contracts).await?;
        self.place(self.contracts.prism, PRISM.creation_code(&[])?).await
    }
}
