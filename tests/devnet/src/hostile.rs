//! Smart wallets that mean ill whoever asks them about a signature.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own;

sol! {
    interface IHostileWallet {
        function setMode(uint8 mode, uint256 amount) external;
    }
}

/// What a hostile wallet does when it is asked whether its owner signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletMode {
    /// Answers as any smart wallet does.
    Honest,
    Reverts,
    /// Answers with what means neither yes nor no.
    WrongAnswer,
    /// Answers honestly, in a megabyte.
    HugeAnswer,
    /// Uses up all gas that it is given.
    BurnsGas,
    /// Uses up all gas in a transaction that pays for gas, and is honest in a call that names no price.
    BurnsWhenSent,
    /// Uses up all gas if it is given more than so much.
    BurnsAbove(u64),
    /// Uses up all gas if it is given less than so much.
    BurnsBelow(u64),
    /// Uses up so much gas and then answers honestly.
    BurnsThenAnswers(u64),
    /// Tries to move money of the token that asks, and answers honestly after.
    ReentersQuietly,
    /// The same, and reverts since it could not.
    ReentersLoudly,
}

impl WalletMode {
    /// As the contract numbers them.
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
    /// Makes a smart wallet for a key that means ill.
    pub async fn deploy_hostile_wallet(
        &self,
        owner: Address,
        mode: WalletMode,
    ) -> Result<Address, DevnetError> {
        let (mode, amount) = mode.encoded();
        let arguments = (owner, U256::from(mode), amount).abi_encode_params();
        self.deploy(own::HOSTILE_WALLET.creation_code(&arguments)?).await
    }

    /// Changes what a hostile wallet does, such as between a look at a payment and its sending.
    pub async fn set_hostile_mode(
        &self,
        wallet: Address,
        mode: WalletMode,
    ) -> Result<(), DevnetError> {
        let (mode, amount) = mode.encoded();
        let call = IHostileWallet::setModeCall { mode, amount };
        self.send(&self.ours(wallet, call.abi_encode())).await?;
        Ok(())
    }
}
