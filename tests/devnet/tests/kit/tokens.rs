//! Misbehaving tokens and tokens without authorizations: each behaves as its mode specifies.

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::{Authorization, Call, DevnetError, TokenMode};

use crate::full::{Trader, error_data};
use crate::payer::Payer;
use crate::prism;
use crate::proxy;

sol! {
    interface IToken {
        function name() external view returns (string);
        function decimals() external view returns (uint8);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function transferFrom(address from, address to, uint256 value) external;
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, uint8 v, bytes32 r, bytes32 s
        ) external;
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
}

const TO: Address = Address::repeat_byte(0x33);
/// The EIP-3009 type hash of a transfer.
const TRANSFER: B256 =
    B256::new(hex!("7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267"));

fn domain(token: Address) -> B256 {
    let kind = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
    );
    let (name, version) = (keccak256("Liar"), keccak256("7"));
    keccak256((kind, name, version, U256::from(8453), token).abi_encode_params())
}

/// An account that holds a million whole units of a token with six decimals.
struct Holder {
    key: Payer,
    trader: Trader,
    token: Address,
}

impl Holder {
    async fn of(mode: TokenMode) -> Option<Self> {
        let key = Payer::new(0x91);
        let trader = Trader::with_address(ChainId(8453), key.address()).await?;
        let token = trader.devnet.deploy_token("Liar", "7", mode).await.unwrap();
        trader.devnet.mint_of(token, trader.address, 1_000_000_000_000).await.unwrap();
        Some(Self { key, trader, token })
    }

    /// Returns a call with an authorization of 1001, in the `v, r, s` form if `of_key`, else in the `bytes` form.
    fn authorization_call(&self, nonce: u8, of_key: bool) -> Call {
        let Authorization { from, to, value, valid_after, valid_before, nonce } =
            self.key.terms(TO, 1001, nonce);
        let words = [
            TRANSFER,
            from.into_word(),
            to.into_word(),
            value.into(),
            valid_after.into(),
            valid_before.into(),
            nonce,
        ];
        let signature = self.key.sign_under(domain(self.token), &words);
        let data = if of_key {
            IToken::transferWithAuthorization_0Call {
                from,
                to,
                value,
                validAfter: valid_after,
                validBefore: valid_before,
                nonce,
                v: signature[64],
                r: B256::from_slice(&signature[..32]),
                s: B256::from_slice(&signature[32..64]),
            }
            .abi_encode()
        } else {
            IToken::transferWithAuthorization_1Call {
                from,
                to,
                value,
                validAfter: valid_after,
                validBefore: valid_before,
                nonce,
                signature: signature.into(),
            }
            .abi_encode()
        };
        Call { from: self.trader.address, to: self.token, value: U256::ZERO, data: data.into() }
    }

    async fn is_nonce_used(&self, nonce: u8) -> bool {
        let asked = IToken::authorizationStateCall {
            authorizer: self.trader.address,
            nonce: B256::repeat_byte(nonce),
        };
        self.trader.devnet.read(self.token, asked).await.unwrap()
    }

    async fn balance(&self, of: Address) -> u128 {
        self.trader.devnet.balance_of_token(self.token, of).await.unwrap().to()
    }

    /// Sends a call; returns the payer's loss, the payee's gain, and the reported transfers to the payee.
    async fn effect(&self, call: &Call) -> (u128, u128, Vec<u128>) {
        let before = (self.balance(self.trader.address).await, self.balance(TO).await);
        let receipt = self.trader.must(call).await;
        let topics = [
            keccak256("Transfer(address,address,uint256)"),
            self.trader.address.into_word(),
            TO.into_word(),
        ];
        let logs = self.trader.logs(&receipt).await;
        let reported = logs
            .iter()
            .filter(|log| log.address == self.token && log.topics == topics)
            .map(|log| U256::from_be_slice(&log.data).to())
            .collect();
        let after = (self.balance(self.trader.address).await, self.balance(TO).await);
        (before.0 - after.0, after.1 - before.1, reported)
    }

    /// Returns a payment by Permit2 and one by Prism, with the payer as its facilitator.
    async fn indirect_payments(&self) -> [Call; 2] {
        let devnet = &self.trader.devnet;
        let contracts = &self.trader.contracts;
        for spender in [contracts.permit2, contracts.prism] {
            devnet.approve_as(self.trader.address, self.token, spender).await.unwrap();
        }
        devnet.add_prism_facilitator(self.trader.address).await.unwrap();
        let payment =
            proxy::Payment { amount: 1001, ..proxy::Payment::new(self.trader.address, self.token) };
        let by_permit2 = payment.call(&self.trader, &payment.sign(&self.trader, &self.key));
        let payment = prism::Payment {
            token: self.token,
            value: 1001,
            ..prism::Payment::new(&self.trader, 0)
        };
        let by_prism = payment.signed_call(&self.trader, &self.key);
        [by_permit2, Call { from: self.trader.address, ..by_prism }]
    }
}

#[tokio::test]
async fn a_token_with_authorizations_follows_its_mode() {
    let cases = [
        (TokenMode::Honest, true, (1001, 1001, vec![1001])),
        (TokenMode::DoesNothing, false, (0, 0, vec![])),
        // A hundredth of 1001, rounded up, is 11.
        (TokenMode::TakesFee, true, (1001, 990, vec![990])),
        (TokenMode::OnlyReports, true, (0, 0, vec![1001])),
        (TokenMode::MovesSilently, true, (1001, 1001, vec![])),
    ];
    for (mode, uses, effect) in cases {
        let Some(holder) = Holder::of(mode).await else { return };
        for (nonce, of_key) in [(1, true), (2, false)] {
            let call = holder.authorization_call(nonce, of_key);
            assert_eq!(holder.effect(&call).await, effect, "{mode:?}");
            assert_eq!(holder.is_nonce_used(nonce).await, uses, "{mode:?}");
        }
        for call in holder.indirect_payments().await {
            assert_eq!(holder.effect(&call).await, effect, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_token_mode_can_be_changed() {
    let Some(holder) = Holder::of(TokenMode::Honest).await else { return };
    let devnet = &holder.trader.devnet;
    let found = devnet.read(holder.token, IToken::DOMAIN_SEPARATORCall {}).await.unwrap();
    assert_eq!(found, domain(holder.token));
    let call = holder.authorization_call(1, true);
    devnet.simulate(&call).await.unwrap();
    devnet.set_token_mode(holder.token, TokenMode::OnlyReports).await.unwrap();
    assert_eq!(holder.effect(&call).await, (0, 0, vec![1001]));
    // The token refuses the mode, and still verifies signatures as before.
    assert!(devnet.set_token_mode(holder.token, TokenMode::Plain).await.is_err());
    let mut forged = holder.authorization_call(2, true);
    forged.data = [&forged.data[..4 + 8 * 32], &[1; 32]].concat().into();
    assert!(devnet.simulate(&forged).await.is_err());
}

#[tokio::test]
async fn a_plain_token_has_no_authorizations() {
    for mode in [TokenMode::Plain, TokenMode::PlainWithoutAnswer, TokenMode::PlainRefusing] {
        let Some(holder) = Holder::of(mode).await else { return };
        let devnet = &holder.trader.devnet;
        assert_eq!(devnet.read(holder.token, IToken::nameCall {}).await.unwrap(), "Liar");
        assert_eq!(devnet.read(holder.token, IToken::decimalsCall {}).await.unwrap(), 6);
        for of_key in [true, false] {
            assert!(holder.trader.refusal(&holder.authorization_call(1, of_key)).await.is_empty());
        }
        assert!(devnet.read(holder.token, IToken::DOMAIN_SEPARATORCall {}).await.is_err());
        assert!(devnet.set_token_mode(holder.token, TokenMode::TakesFee).await.is_err());
    }
}

#[tokio::test]
async fn a_plain_token_is_moved_by_an_allowance_whatever_it_answers() {
    for (mode, length) in [(TokenMode::Plain, 32), (TokenMode::PlainWithoutAnswer, 0)] {
        let Some(holder) = Holder::of(mode).await else { return };
        for call in holder.indirect_payments().await {
            assert_eq!(holder.effect(&call).await, (1001, 1001, vec![1001]), "{mode:?}");
        }
        let take =
            IToken::transferFromCall { from: holder.trader.address, to: TO, value: U256::ONE };
        let taker = holder.trader.contracts.prism;
        let answer = holder.trader.devnet.simulate(&Call::new(taker, holder.token, &take)).await;
        let answer: Bytes = answer.unwrap();
        assert_eq!(answer.len(), length);
        assert_eq!(U256::from_be_slice(&answer), U256::from(length / 32));
    }
}

#[tokio::test]
async fn a_transfer_that_returns_false_is_refused() {
    let Some(holder) = Holder::of(TokenMode::PlainRefusing).await else { return };
    let [by_permit2, by_prism] = holder.indirect_payments().await;
    let refusal = holder.trader.refusal(&by_permit2).await;
    let words = b"TRANSFER_FROM_FAILED";
    assert!(refusal.windows(words.len()).any(|part| part == words), "{refusal:?}");
    let refusal = holder.trader.refusal(&by_prism).await;
    let token = holder.token.into_word();
    let error = [&error_data("SafeERC20FailedOperation(address)"), token.as_slice()].concat();
    assert_eq!(refusal, error);
    // The token reads its mode at each call.
    holder.trader.devnet.set_token_mode(holder.token, TokenMode::Plain).await.unwrap();
    assert_eq!(holder.effect(&by_prism).await, (1001, 1001, vec![1001]));
}

#[tokio::test]
async fn two_tokens_share_no_state() {
    let Some(holder) = Holder::of(TokenMode::Honest).await else { return };
    let devnet = &holder.trader.devnet;
    let other = devnet.deploy_token("Liar", "7", TokenMode::Honest).await.unwrap();
    assert_ne!(other, holder.token);
    assert_eq!(devnet.balance_of_token(other, holder.trader.address).await.unwrap(), U256::ZERO);
    let call = Call { to: other, ..holder.authorization_call(1, true) };
    let error = devnet.simulate(&call).await.unwrap_err();
    assert!(matches!(error, DevnetError::Reverted { .. }), "{error}");
}
