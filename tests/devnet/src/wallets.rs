//! Smart wallets on the local chain, which sign as EIP-1271 says: their owner's key signs, and the wallet is
//! asked. One may be signed for before it is there.

use alloy_primitives::{Address, Bytes, U256, address};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own;

/// No network has a factory of ours.
const FACTORY: Address = address!("0x00000000000000000000000000000000Fac70121");

sol! {
    interface IWalletFactory {
        function create(address owner, uint256 salt) external returns (address wallet);
        function addressOf(address owner, uint256 salt) external view returns (address);
    }
}

/// A wallet that is not there yet, and the call that makes it: what EIP-6492 wraps a signature in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterfactual {
    pub wallet: Address,
    pub factory: Address,
    pub calldata: Bytes,
}

impl Devnet {
    /// Makes a smart wallet for a key. It takes its owner's signature of 65 bytes, or the same with one
    /// more byte behind it, which has to go through the `bytes` form of a transfer.
    pub async fn deploy_wallet(&self, owner: Address) -> Result<Address, DevnetError> {
        self.deploy(own::WALLET.creation_code(&(owner,).abi_encode_params())?).await
    }

    /// Where the factory of smart wallets stands, after putting it there if nobody has.
    pub async fn wallet_factory(&self) -> Result<Address, DevnetError> {
        let place = || async {
            // On a chain that is attached to, another process may have.
            if self.has_code(FACTORY).await? {
                return Ok(());
            }
            self.deploy_at(FACTORY, own::WALLET_FACTORY.creation_code(&[])?).await
        };
        self.factory.get_or_try_init(place).await?;
        Ok(FACTORY)
    }

    /// The wallet that the factory would make of that key and number, and the call that has it made.
    pub async fn counterfactual(
        &self,
        owner: Address,
        salt: U256,
    ) -> Result<Counterfactual, DevnetError> {
        let factory = self.wallet_factory().await?;
        let wallet = self.read(factory, IWalletFactory::addressOfCall { owner, salt }).await?;
        let calldata = IWalletFactory::createCall { owner, salt }.abi_encode().into();
        Ok(Counterfactual { wallet, factory, calldata })
    }
}
