//! Prism of a full chain as a test sets it up: who its facilitators are, its fee, and whether it is paused.

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
    /// Lets somebody carry Prism's payments out.
    pub async fn add_prism_facilitator(&self, who: Address) -> Result<(), DevnetError> {
        self.tell_prism(&IPrism::addFacilitatorCall { who }).await
    }

    /// What Prism keeps of each payment, in hundredths of a percent; 500 at most.
    pub async fn set_prism_fee(&self, bps: u16) -> Result<(), DevnetError> {
        self.tell_prism(&IPrism::setFeeCall { feePercentage: U256::from(bps) }).await
    }

    /// Makes Prism refuse every payment.
    pub async fn pause_prism(&self) -> Result<(), DevnetError> {
        self.tell_prism(&IPrism::pauseCall {}).await
    }

    /// Ends [`Devnet::pause_prism`].
    pub async fn unpause_prism(&self) -> Result<(), DevnetError> {
        self.tell_prism(&IPrism::unpauseCall {}).await
    }

    async fn tell_prism(&self, order: &impl SolCall) -> Result<(), DevnetError> {
        let unknown = DevnetError::UnknownChain(self.network.chain);
        let prism = Contracts::of(self.network.chain).ok_or(unknown)?.prism;
        // A light chain has none, and an address without code takes any order in silence.
        self.read(prism, IPrism::feePercentageCall {}).await?;
        self.send(&self.ours(prism, order.abi_encode())).await?;
        Ok(())
    }
}
