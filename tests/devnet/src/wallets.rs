//! Smart wallets with EIP-1271 signatures on the local chain: the owner's key signs, and the wallet verifies. A
//! signature is possible before the wallet is deployed.

use alloy_primitives::{Address, Bytes, U256, address};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

/// An address that we chose, because no real network has this factory.
const FACTORY: Address = address!("0x00000000000000000000000000000000Fac70121");

sol! {
    interface IWalletFactory {
        function create(address owner, uint256 salt) external returns (address wallet);
        function addressOf(address owner, uint256 salt) external view returns (address);
    }
}

/// A wallet that is not deployed yet, and the call that deploys it: the content of an EIP-6492 signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterfactualWallet {
    pub wallet: Address,
    pub factory: Address,
    pub calldata: Bytes,
}

impl Devnet {
    /// Deploys a smart wallet for a key.
    ///
    /// It accepts its owner's 65-byte signature, even with one extra byte, which requires the
    /// `bytes` form of a transfer.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_wallet(&self, owner: Address) -> Result<Address, DevnetError> {
        self.deploy(own_contracts::WALLET.creation_code(&(owner,).abi_encode_params())?).await
    }

    /// Returns the address of the smart wallet factory, after deploying it if necessary.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn wallet_factory(&self) -> Result<Address, DevnetError> {
        let deploy = || async {
            // On a chain that we attached to, another process may have deployed the factory.
            if self.has_code(FACTORY).await? {
                return Ok(());
            }
            self.deploy_at(FACTORY, own_contracts::WALLET_FACTORY.creation_code(&[])?).await
        };
        self.factory.get_or_try_init(deploy).await?;
        Ok(FACTORY)
    }

    /// Returns the address that the factory would give this wallet, and the call that deploys it.
    ///
    /// # Errors
    /// The factory cannot be deployed, or the chain does not answer.
    pub async fn counterfactual(
        &self,
        owner: Address,
        salt: U256,
    ) -> Result<CounterfactualWallet, DevnetError> {
        let factory = self.wallet_factory().await?;
        let wallet = self.read(factory, IWalletFactory::addressOfCall { owner, salt }).await?;
        let calldata = IWalletFactory::createCall { owner, salt }.abi_encode().into();
        Ok(CounterfactualWallet { wallet, factory, calldata })
    }
}
