//! Tokens of any kind on the local chain, those that lie among them: what somebody has of one, and what they
//! let others take.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolValue, sol};
use serde_json::json;

use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own;
use crate::stable::IStable;

sol! {
    interface IApprove {
        function approve(address spender, uint256 value) external;
    }

    interface IHostileToken {
        function setMode(uint8 mode) external;
    }

    interface IPlainToken {
        function setAnswer(uint8 answer) external;
    }
}

/// More than any transaction of the kit costs.
const GAS_MONEY: u128 = 1_000_000_000_000_000_000;

/// What a token does when money is moved, by an authorization (EIP-3009) or by an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenMode {
    /// What it should.
    Honest,
    /// Nothing: an authorization is not even used up.
    DoesNothing,
    /// Gives the payee a hundredth less, and keeps that.
    TakesFee,
    /// Reports the transfer and moves nothing.
    OnlyReports,
    /// Moves the money and reports no transfer.
    MovesSilently,
    /// What it should, of a token without authorizations.
    Plain,
    /// What it should, of a token without authorizations that returns nothing where others return `true`.
    PlainWithoutAnswer,
    /// Nothing, of a token without authorizations that returns `false` where others revert.
    PlainRefusing,
}

/// The two contracts behind the modes, with their own numbers for them.
enum Kind {
    Hostile(u8),
    Plain(u8),
}

impl TokenMode {
    fn kind(self) -> Kind {
        match self {
            Self::Honest => Kind::Hostile(0),
            Self::DoesNothing => Kind::Hostile(1),
            Self::TakesFee => Kind::Hostile(2),
            Self::OnlyReports => Kind::Hostile(3),
            Self::MovesSilently => Kind::Hostile(4),
            Self::Plain => Kind::Plain(0),
            Self::PlainWithoutAnswer => Kind::Plain(1),
            Self::PlainRefusing => Kind::Plain(2),
        }
    }
}

impl Devnet {
    /// Makes a token of six decimals, with `name` and `version` in the domain of its authorizations if it
    /// has any. Nobody has of it before [`Devnet::mint_of`].
    pub async fn deploy_token(
        &self,
        name: &str,
        version: &str,
        mode: TokenMode,
    ) -> Result<Address, DevnetError> {
        let code = match mode.kind() {
            Kind::Hostile(mode) => {
                let arguments = (name, name, version, U256::from(mode)).abi_encode_params();
                own::HOSTILE_TOKEN.creation_code(&arguments)?
            }
            Kind::Plain(answer) => {
                let arguments = (name, name, U256::from(answer)).abi_encode_params();
                own::PLAIN_TOKEN.creation_code(&arguments)?
            }
        };
        self.deploy(code).await
    }

    /// Changes what a token does; one with authorizations keeps them, and refuses to become a plain one.
    pub async fn set_token_mode(&self, token: Address, mode: TokenMode) -> Result<(), DevnetError> {
        let call = match mode.kind() {
            Kind::Hostile(mode) => IHostileToken::setModeCall { mode }.abi_encode(),
            Kind::Plain(answer) => IPlainToken::setAnswerCall { answer }.abi_encode(),
        };
        self.send(&self.ours(token, call)).await?;
        Ok(())
    }

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
