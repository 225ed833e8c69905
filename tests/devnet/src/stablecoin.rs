//! The stablecoin of the network: balances, authorizations, and its place on the chain.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks;
use serde_json::json;

use crate::error::DevnetError;
use crate::multicall;
use crate::node::Devnet;
use crate::stable::{self, Authorization, IStable};

impl Devnet {
    /// Makes `amount` smallest units of the stablecoin for `to`.
    pub async fn mint(&self, to: Address, amount: u128) -> Result<B256, DevnetError> {
        let call = IStable::mintCall { to, value: U256::from(amount) };
        let mint = self.ours(self.network.stablecoin.address, call.abi_encode());
        Ok(self.send(&mint).await?.hash)
    }

    /// What `owner` has of the stablecoin, in smallest units.
    pub async fn balance_of(&self, owner: Address) -> Result<U256, DevnetError> {
        self.read(self.network.stablecoin.address, IStable::balanceOfCall { owner }).await
    }

    /// Whether the authorization with that nonce was used or cancelled.
    pub async fn authorization_used(
        &self,
        from: Address,
        nonce: B256,
    ) -> Result<bool, DevnetError> {
        self.read(
            self.network.stablecoin.address,
            IStable::authorizationStateCall { authorizer: from, nonce },
        )
        .await
    }

    /// Carries an authorization out and returns the transaction once the money has moved.
    pub async fn settle(
        &self,
        terms: &Authorization,
        signature: &[u8],
    ) -> Result<B256, DevnetError> {
        let coin = self.network.stablecoin.address;
        let receipt = self.send(&self.ours(coin, terms.calldata(signature))).await?;
        if receipt.moved(coin, terms.from, terms.to, terms.value) {
            Ok(receipt.hash)
        } else {
            Err(DevnetError::NoTransfer(receipt.hash))
        }
    }

    /// Puts the coin of the network's row at the row's address.
    pub(crate) async fn place_stablecoin(&self) -> Result<(), DevnetError> {
        let coin = &self.network.stablecoin;
        self.deploy_at(coin.address, stable::creation_code(coin)?).await
    }

    /// Puts a stand-in at the address of each further token of the row but one that comes from elsewhere: it
    /// counts balances, and that is all that anybody asks of it.
    pub(crate) async fn place_tokens(&self, but: Option<Address>) -> Result<(), DevnetError> {
        let code = stable::creation_code(&self.network.stablecoin)?;
        for token in self.network.tokens.iter().filter(|token| Some(token.address) != but) {
            self.deploy_at(token.address, code.clone()).await?;
        }
        Ok(())
    }

    /// Puts Multicall3 where real networks have it. A chain that is attached to may lack it, as a real one
    /// may.
    pub(crate) async fn place_multicall(&self) -> Result<(), DevnetError> {
        let code = multicall::runtime_code()?;
        self.request("anvil_setCode", json!([networks::MULTICALL3, code])).await?;
        Ok(())
    }

    /// The coin must be one for which signatures of the real network are valid.
    pub(crate) async fn check_stablecoin(&self) -> Result<(), DevnetError> {
        let expected = self.network.stablecoin.domain_separator;
        let found =
            self.read(self.network.stablecoin.address, IStable::DOMAIN_SEPARATORCall {}).await?;
        if found == expected {
            return Ok(());
        }
        Err(DevnetError::Contract(format!("DOMAIN_SEPARATOR is {found} and not {expected}")))
    }
}
