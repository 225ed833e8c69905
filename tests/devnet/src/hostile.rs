//! Smart wallets that attack the caller who verifies a signature with them.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

sol! {
    interface IHostileWallet {
        function setMode(uint8 mode, uint256 amount) external;
    }
}

/// How a hostile wallet reacts to a signature check (EIP-1271).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletMode {
    /// Behaves like any smart wallet.
    Honest,
    Reverts,
    /// Returns a value that means neither yes nor no.
    WrongAnswer,
    /// Answers correctly, but returns a megabyte.
    HugeAnswer,
    /// Burns all gas that it receives.
    BurnsGas,
    /// Burns all gas in a real transaction, and answers correctly in a call without a gas price.
    BurnsWhenSent,
    /// Burns all gas if it receives more than this.
    BurnsAbove(u64),
    /// Burns all gas if it receives less than this.
    BurnsBelow(u64),
    /// Burns this much gas, then answers correctly.
    BurnsThenAnswers(u64),
    /// Tries to move money of the calling token, then answers correctly.
    ReentersQuietly,
    /// Like `ReentersQuietly`, but reverts because the attempt failed.
    ReentersLoudly,
}

impl WalletMode {
    /// Returns the contract's numbers for the mode and its amount.
    fn encoded(self) -> (u8, U256) {
        let (mode, amount) = match self {
            Self::Honest => (0, 0),
            Self::Reverts => (1, 0),
            Self::WrongAnswer => (2, 0),
            Self::HugeAnswer => (3, 0),
            Self::BurnsGas => (4, 0),
            Self::BurnsWhenSent => (5, 0),
            Self::BurnsAbove(gas) => (6, gas),
            Self::BurnsBelow(gas) => (7, gas),
            Self::BurnsThenAnswers(gas) => (8, gas),
            Self::ReentersQuietly => (9, 0),
            Self::ReentersLoudly => (10, 0),
        };
        (mode, U256::from(amount))
    }
}

impl Devnet {
    /// Deploys a hostile smart wallet of `owner`.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_hostile_wallet(
        &self,
        owner: Address,
        mode: WalletMode,
    ) -> Result<Address, DevnetError> {
        let (mode, amount) = mode.encoded();
        let arguments = (owner, U256::from(mode), amount).abi_encode_params();
        self.deploy(own_contracts::HOSTILE_WALLET.creation_code(&arguments)?).await
    }

    /// Changes the mode of a hostile wallet, for example between the simulation and the sending of a payment.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_hostile_mode(
        &self,
        wallet: Address,
        mode: WalletMode,
    ) -> Result<(), DevnetError> {
        let (mode, amount) = mode.encoded();
        let call = IHostileWallet::setModeCall { mode, amount };
        self.send(&self.call_from_payer(wallet, call.abi_encode())).await?;
        Ok(())
    }
}
