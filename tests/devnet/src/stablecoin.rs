//! The network's stablecoin: balances, authorizations, and deployment.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks;
use serde_json::json;

use crate::copied::{self, CopiedContract};
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::stable::{self, Authorization, IStable};

impl Devnet {
    /// Mints `amount` smallest units of the stablecoin to `to`; returns the transaction.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn mint(&self, to: Address, amount: u128) -> Result<B256, DevnetError> {
        let call = IStable::mintCall { to, value: U256::from(amount) };
        let mint = self.call_from_payer(self.network.stablecoin.address, call.abi_encode());
        Ok(self.send(&mint).await?.hash)
    }

    /// Pauses the stablecoin or ends the pause. While it is paused, only the kit can still mint.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_paused(&self, paused: bool) -> Result<(), DevnetError> {
        let call = IStable::setPausedCall { paused };
        let set = self.call_from_payer(self.network.stablecoin.address, call.abi_encode());
        self.send(&set).await.map(|_receipt| ())
    }

    /// Returns the stablecoin balance of `owner`, in smallest units.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn balance_of(&self, owner: Address) -> Result<U256, DevnetError> {
        self.read(self.network.stablecoin.address, IStable::balanceOfCall { owner }).await
    }

    /// Returns whether the authorization with this nonce was used or cancelled.
    ///
    /// # Errors
    /// The chain does not answer.
    pub async fn is_authorization_used(
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

    /// Settles an authorization and returns the transaction after the money has moved.
    ///
    /// # Errors
    /// The transaction failed, or succeeded without the transfer.
    pub async fn settle(
        &self,
        terms: &Authorization,
        signature: &[u8],
    ) -> Result<B256, DevnetError> {
        let coin = self.network.stablecoin.address;
        let receipt = self.send(&self.call_from_payer(coin, terms.calldata(signature))).await?;
        if receipt.has_transfer(coin, terms.from, terms.to, terms.value) {
            Ok(receipt.hash)
        } else {
            Err(DevnetError::NoTransfer(receipt.hash))
        }
    }

    /// Deploys the stablecoin of the network's row, at the row's address.
    pub(crate) async fn place_stablecoin(&self) -> Result<(), DevnetError> {
        let coin = &self.network.stablecoin;
        self.deploy_at(coin.address, stable::creation_code(coin)?).await
    }

    /// Deploys a stand-in for each further token of the row, except for `but`. A stand-in only keeps balances.
    pub(crate) async fn place_tokens(&self, but: Option<Address>) -> Result<(), DevnetError> {
        let code = stable::creation_code(&self.network.stablecoin)?;
        for token in self.network.tokens.iter().filter(|token| Some(token.address) != but) {
            self.deploy_at(token.address, code.clone()).await?;
        }
        Ok(())
    }

    /// Deploys Multicall3 at its address on real networks. A chain that we attach to may lack it, as real ones
    /// may.
    pub(crate) async fn place_multicall(&self) -> Result<(), DevnetError> {
        self.place_copied(networks::MULTICALL3, &copied::MULTICALL3).await
    }

    /// Deploys a copied contract at an address.
    pub(crate) async fn place_copied(
        &self,
        at: Address,
        contract: &CopiedContract,
    ) -> Result<(), DevnetError> {
        self.request("anvil_setCode", json!([at, contract.runtime_code()?])).await?;
        Ok(())
    }

    /// Checks that signatures for the real network's coin are valid for this chain's coin.
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
