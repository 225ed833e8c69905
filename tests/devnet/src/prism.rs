//! Controls Prism on a full chain: its facilitators, its fee, and its pause.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, sol};

use crate::error::DevnetError;
use crate::full::Contracts;
use crate::node::Devnet;

sol! {
    interface IPrism {
        function addFacilitator(address who) external;
        function setFee(uint256 feePercentage) external;
        function pause() external;
        function unpause() external;
        function feePercentage() external view returns (uint256);
    }
}

impl Devnet {
    /// Allows an account to settle payments through Prism.
    ///
    /// # Errors
    /// The chain is not a full one, or the transaction failed.
    pub async fn add_prism_facilitator(&self, who: Address) -> Result<(), DevnetError> {
        self.send_to_prism(&IPrism::addFacilitatorCall { who }).await
    }

    /// Sets Prism's fee on each payment, in basis points; at most 500.
    ///
    /// # Errors
    /// The chain is not a full one, the fee is too high, or the transaction failed.
    pub async fn set_prism_fee(&self, bps: u16) -> Result<(), DevnetError> {
        self.send_to_prism(&IPrism::setFeeCall { feePercentage: U256::from(bps) }).await
    }

    /// Makes Prism refuse every payment.
    ///
    /// # Errors
    /// The chain is not a full one, or the transaction failed.
    pub async fn pause_prism(&self) -> Result<(), DevnetError> {
        self.send_to_prism(&IPrism::pauseCall {}).await
    }

    /// Makes Prism accept payments again, after [`Devnet::pause_prism`].
    ///
    /// # Errors
    /// The chain is not a full one, or the transaction failed.
    pub async fn unpause_prism(&self) -> Result<(), DevnetError> {
        self.send_to_prism(&IPrism::unpauseCall {}).await
    }

    async fn send_to_prism(&self, order: &impl SolCall) -> Result<(), DevnetError> {
        let unknown = DevnetError::UnknownChain(self.network.chain);
        let prism = Contracts::of(self.network.chain).ok_or(unknown)?.prism;
        // A light chain has no Prism, and a transaction to an address without code succeeds silently.
        self.read(prism, IPrism::feePercentageCall {}).await?;
        self.send(&self.call_from_payer(prism, order.abi_encode())).await?;
        Ok(())
    }
}
