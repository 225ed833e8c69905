//! Tokens of any kind on the local chain: what somebody has of one, and what they let others take.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, sol};
use serde_json::json;

use super::deploy::Call;
use super::stable::IStable;
use super::{Devnet, DevnetError};

sol! {
    interface IApprove {
        function approve(address spender, uint256 value) external;
    }
}

/// More than any transaction of the kit costs.
const GAS_MONEY: u128 = 1_000_000_000_000_000_000;

impl Devnet {
    /// Makes `amount` smallest units of a token of ours for `to`.
    pub async fn mint_of(
        &self,
        token: Address,
        to: Address,
        amount: u128,
    ) -> Result<(), DevnetError> {
        let call = IStable::mintCall { to, value: U256::from(amount) };
        self.send(&self.ours(token, call.abi_encode())).await?;
        Ok(())
    }

    /// What `owner` has of any token, in smallest units.
    pub async fn balance_of_token(
        &self,
        token: Address,
        owner: Address,
    ) -> Result<U256, DevnetError> {
        self.read(token, IStable::balanceOfCall { owner }).await
    }

    /// Lets `spender` take all that `owner` has of a token, in the owner's name, whose key nobody needs. Who
    /// has no native coin needs none: the owner's is afterwards what it was.
    pub async fn approve_as(
        &self,
        owner: Address,
        token: Address,
        spender: Address,
    ) -> Result<(), DevnetError> {
        let coin = self.request("eth_getBalance", json!([owner, "pending"])).await?;
        self.request("anvil_setBalance", json!([owner, U256::from(GAS_MONEY)])).await?;
        let approve = IApprove::approveCall { spender, value: U256::MAX };
        let sent = self.send_as(&Call::new(owner, token, &approve)).await;
        self.request("anvil_setBalance", json!([owner, coin])).await?;
        sent.map(|_receipt| ())
    }
}
