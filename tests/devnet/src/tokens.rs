//! Tokens of any kind on the local chain, including misbehaving ones: balances and allowances.

use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolCall, SolValue, sol};
use serde_json::json;

use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;
use crate::own_contracts;
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

/// An amount of native coin in smallest units that exceeds the cost of any transaction here.
const GAS_MONEY: u128 = 1_000_000_000_000_000_000;

/// The behaviour of a token when money is moved by an authorization (EIP-3009) or by an allowance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenMode {
    /// Behaves correctly.
    Honest,
    /// Does nothing: it does not even mark an authorization as used.
    DoesNothing,
    /// Gives the payee a hundredth less and keeps the difference.
    TakesFee,
    /// Emits the transfer event and moves nothing.
    OnlyReports,
    /// Moves the money and emits no transfer event.
    MovesSilently,
    /// Behaves correctly, but has no authorizations.
    Plain,
    /// Behaves correctly, but has no authorizations, and returns no value instead of `true`.
    PlainWithoutAnswer,
    /// Moves nothing, has no authorizations, and returns `false` instead of reverting.
    PlainRefusing,
}

/// The two contracts behind the modes, with their own mode numbers.
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
    /// Deploys a token with six decimals. All balances are zero until [`Devnet::mint_of`].
    ///
    /// `name` and `version` are part of its authorization domain, if it has one.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_token(
        &self,
        name: &str,
        version: &str,
        mode: TokenMode,
    ) -> Result<Address, DevnetError> {
        let code = match mode.kind() {
            Kind::Hostile(mode) => {
                let arguments = (name, name, version, U256::from(mode)).abi_encode_params();
                own_contracts::HOSTILE_TOKEN.creation_code(&arguments)?
            }
            Kind::Plain(answer) => {
                let arguments = (name, name, U256::from(answer)).abi_encode_params();
                own_contracts::PLAIN_TOKEN.creation_code(&arguments)?
            }
        };
        self.deploy(code).await
    }

    /// Deploys an honest token with permits (EIP-2612) and without authorizations.
    ///
    /// It has six decimals; `name` and `version` are its EIP-712 domain.
    ///
    /// # Errors
    /// The deployment failed.
    pub async fn deploy_permit_token(
        &self,
        name: &str,
        version: &str,
    ) -> Result<Address, DevnetError> {
        let arguments = (name, name, version).abi_encode_params();
        self.deploy(own_contracts::PERMIT_TOKEN.creation_code(&arguments)?).await
    }

    /// Changes a token's mode. A token with authorizations cannot become a plain one.
    ///
    /// # Errors
    /// The token refused the mode, or the transaction failed.
    pub async fn set_token_mode(&self, token: Address, mode: TokenMode) -> Result<(), DevnetError> {
        let call = match mode.kind() {
            Kind::Hostile(mode) => IHostileToken::setModeCall { mode }.abi_encode(),
            Kind::Plain(answer) => IPlainToken::setAnswerCall { answer }.abi_encode(),
        };
        self.send(&self.call_from_payer(token, call)).await?;
        Ok(())
    }

    /// Mints `amount` smallest units of one of our tokens to `to`.
    ///
    /// # Errors
    /// The transaction failed.
    pub async fn mint_of(
        &self,
        token: Address,
        to: Address,
        amount: u128,
    ) -> Result<(), DevnetError> {
        let call = IStable::mintCall { to, value: U256::from(amount) };
        self.send(&self.call_from_payer(token, call.abi_encode())).await?;
        Ok(())
    }

    /// Returns the balance of `owner` in any token, in smallest units.
    ///
    /// # Errors
    /// The chain does not answer, or the contract is not a token.
    pub async fn balance_of_token(
        &self,
        token: Address,
        owner: Address,
    ) -> Result<U256, DevnetError> {
        self.read(token, IStable::balanceOfCall { owner }).await
    }

    /// Lets `spender` transfer the whole token balance of `owner`, without the owner's key.
    ///
    /// The owner needs no native coin: its native balance is restored afterwards.
    ///
    /// # Errors
    /// The transaction failed.
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
