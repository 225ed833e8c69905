//! Tokens that follow the standard and nevertheless behave unexpectedly.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolValue, sol};

use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;

sol! {
    interface IOddToken {
        function setQuirk(uint8 quirk) external;
        function setDecimals(uint8 decimals) external;
        function setIndex(uint256 index) external;
        function setCallback(address to, bytes data) external;
        function run(address to, bytes data) external;
    }
}

/// The behaviour of an odd token on a transfer or an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenQuirk {
    None,
    /// An allowance changes only to or from zero.
    ZeroFirst,
    /// The token refuses transfers by an allowance, with a reason that contains terminal escapes.
    Refuses,
    /// Like `Refuses`, except in the block of the approval, so a simulation of approval and transfer succeeds.
    RefusesLater,
    /// The token makes a call before each transfer by an allowance, except in the block of the approval.
    CallsLater,
    /// The token makes a call before each transfer by an allowance.
    Calls,
    /// An allowance lasts only until the end of its block, so a simulation of approval and transfer succeeds.
    Forgets,
}

impl TokenQuirk {
    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::ZeroFirst => 1,
            Self::Refuses => 2,
            Self::RefusesLater => 3,
            Self::CallsLater => 4,
            Self::Calls => 5,
            Self::Forgets => 6,
        }
    }
}

impl Devnet {
    /// Deploys an odd token with six decimals. All balances are zero until [`Devnet::mint_of`].
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_odd_token(
        &self,
        symbol: &str,
        quirk: TokenQuirk,
    ) -> Result<Address, DevnetError> {
        let arguments = (symbol, symbol, U256::from(quirk.number())).abi_encode_params();
        self.deploy(own_contracts::ODD_TOKEN.creation_code(&arguments)?).await
    }

    /// Changes the behaviour of an odd token.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_token_quirk(
        &self,
        token: Address,
        quirk: TokenQuirk,
    ) -> Result<(), DevnetError> {
        self.send_to_token(token, &IOddToken::setQuirkCall { quirk: quirk.number() }).await
    }

    /// Changes the decimals of an odd token, as the owner of a proxy can.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_token_decimals(
        &self,
        token: Address,
        decimals: u8,
    ) -> Result<(), DevnetError> {
        self.send_to_token(token, &IOddToken::setDecimalsCall { decimals }).await
    }

    /// Rebases an odd token: all balances become `percent` of the minted amounts.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn rebase_token(&self, token: Address, percent: u64) -> Result<(), DevnetError> {
        // The rebase index has 18 decimals.
        let index = U256::from(percent).saturating_mul(U256::from(10_000_000_000_000_000_u64));
        self.send_to_token(token, &IOddToken::setIndexCall { index }).await
    }

    /// Sets the call that an odd token makes in the middle of a transfer.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn set_token_callback(
        &self,
        token: Address,
        to: Address,
        data: Bytes,
    ) -> Result<(), DevnetError> {
        self.send_to_token(token, &IOddToken::setCallbackCall { to, data }).await
    }

    /// Makes a call as an odd token.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn run_as_token(
        &self,
        token: Address,
        to: Address,
        data: Bytes,
    ) -> Result<(), DevnetError> {
        self.send_to_token(token, &IOddToken::runCall { to, data }).await
    }

    async fn send_to_token(&self, token: Address, call: &impl SolCall) -> Result<(), DevnetError> {
        self.send(&self.call_from_payer(token, call.abi_encode())).await?;
        Ok(())
    }
}
