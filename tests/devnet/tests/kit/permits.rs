//! Permits of tokens (EIP-2612): alone, and together with a payment through x402's proxies.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::Call;
use bursar_devnet::full::CHAINS;

use crate::full::{DOLLAR, Log, Trader, error_data};
use crate::payer::{Payer, now_s};
use crate::proxy::{EIP2612Permit, Payment};

sol! {
    interface IPermitToken {
        function nonces(address owner) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function permit(
            address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r,
            bytes32 s
        ) external;
        function permit(
            address owner, address spender, uint256 value, uint256 deadline, bytes signature
        ) external;
        function receiveWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore,
            bytes32 nonce, bytes signature
        ) external;
    }
}

/// Events that report a failed permit.
const FAILED_WITH_REASON_EVENT: &str = "EIP2612PermitFailedWithReason(address,address,string)";
const FAILED_WITH_PANIC_EVENT: &str = "EIP2612PermitFailedWithPanic(address,address,uint256)";
const FAILED_WITH_DATA_EVENT: &str = "EIP2612PermitFailedWithData(address,address,bytes)";

/// An account that neither owns nor receives anything.
const OTHER: Address = Address::repeat_byte(0x36);

/// A permit to be signed.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    pub(crate) owner: Address,
    pub(crate) spender: Address,
    pub(crate) value: u128,
    pub(crate) nonce: u64,
    pub(crate) deadline: u64,
}

impl Permit {
    /// Returns an owner's first permit, for Permit2.
    pub(crate) fn new(trader: &Trader, owner: Address, value: u128) -> Self {
        let spender = trader.contracts.permit2;
        Self { owner, spender, value, nonce: 0, deadline: now_s() + 60 }
    }

    /// Signs in the domain of the token.
    pub(crate) async fn sign(&self, trader: &Trader, token: Address, key: &Payer) -> Vec<u8> {
        let kind =
            "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)";
        let words = [
            keccak256(kind),
            self.owner.into_word(),
            self.spender.into_word(),
            U256::from(self.value).into(),
            U256::from(self.nonce).into(),
            U256::from(self.deadline).into(),
        ];
        let domain = trader.devnet.read(token, IPermitToken::DOMAIN_SEPARATORCall {}).await;
        key.sign_under(domain.unwrap(), &words)
    }

    /// Returns the permit in the form that the proxies accept.
    pub(crate) fn for_proxy(&self, signature: &[u8]) -> EIP2612Permit {
        EIP2612Permit {
            value: U256::from(self.value),
            deadline: U256::from(self.deadline),
            r: B256::from_slice(&signature[..32]),
            s: B256::from_slice(&signature[32..64]),
            v: signature[64],
        }
    }

    /// Returns the call of the token's `permit` with `v, r, s`.
    pub(crate) fn call(&self, trader: &Trader, token: Address, signature: &[u8]) -> Call {
        let EIP2612Permit { value, deadline, r, s, v } = self.for_proxy(signature);
        let Self { owner, spender, .. } = *self;
        let permit = IPermitToken::permit_0Call { owner, spender, value, deadline, v, r, s };
        trader.call(token, &permit)
    }

    /// Returns the call of the token's `permit` with a signature of any form as `bytes`.
    fn call_with_bytes(&self, trader: &Trader, token: Address, signature: &[u8]) -> Call {
        let permit = IPermitToken::permit_1Call {
            owner: self.owner,
            spender: self.spender,
            value: U256::from(self.value),
            deadline: U256::from(self.deadline),
            signature: Bytes::copy_from_slice(signature),
        };
        trader.call(token, &permit)
    }
}

/// Returns the revert data of a contract for a reason in words.
fn words(reason: &str) -> Vec<u8> {
    [&error_data("Error(string)"), &(reason,).abi_encode_params()[..]].concat()
}

async fn allowance(trader: &Trader, token: Address, permit: &Permit) -> (U256, U256) {
    let Permit { owner, spender, .. } = *permit;
    let allowed = trader.devnet.read(token, IPermitToken::allowanceCall { owner, spender }).await;
    let nonce = trader.devnet.read(token, IPermitToken::noncesCall { owner }).await;
    (allowed.unwrap(), nonce.unwrap())
}

/// Returns the data of the failed-permit events that a proxy or a collector emits, with their names.
pub(crate) fn failed_permits(logs: &[Log], token: Address, owner: Address) -> Vec<Vec<u8>> {
    let topics = [FAILED_WITH_REASON_EVENT, FAILED_WITH_PANIC_EVENT, FAILED_WITH_DATA_EVENT]
        .map(|event| vec![keccak256(event), token.into_word(), owner.into_word()]);
    let failed = logs.iter().filter(|log| topics.contains(&log.topics));
    failed.map(|log| [&log.topics[0][..4], &log.data[..]].concat()).collect()
}

/// Returns the result of [`failed_permits`] for a token that reverts with this reason.
pub(crate) fn failed_with_reason(reason: &str) -> Vec<u8> {
    [&error_data(FAILED_WITH_REASON_EVENT), &(reason,).abi_encode_params()[..]].concat()
}

#[tokio::test]
async fn the_coin_accepts_a_permit_once_and_in_order() {
    let key = Payer::new(0xa1);
    let Some(trader) = Trader::with_address(ChainId(8453), key.address()).await else { return };
    let coin = trader.dollar();
    let first = Permit::new(&trader, trader.address, 7);
    let signature = first.sign(&trader, coin, &key).await;
    let call = first.call(&trader, coin, &signature);
    trader.fund(OTHER).await;
    trader.must(&Call { from: OTHER, ..call.clone() }).await;
    assert_eq!(allowance(&trader, coin, &first).await, (U256::from(7), U256::from(1)));
    assert_eq!(trader.refusal(&call).await, words("EIP2612: invalid signature"));

    let second = Permit { nonce: 1, value: 9, ..first.clone() };
    let late = Permit { deadline: now_s() - 30, ..second.clone() };
    let call = late.call(&trader, coin, &late.sign(&trader, coin, &key).await);
    assert_eq!(trader.refusal(&call).await, words("FiatTokenV2: permit is expired"));
    let call = second.call(&trader, coin, &second.sign(&trader, coin, &key).await);
    trader.devnet.set_paused(true).await.unwrap();
    assert_eq!(trader.refusal(&call).await, words("Pausable: paused"));
    trader.devnet.set_paused(false).await.unwrap();
    trader.must(&call).await;
    assert_eq!(allowance(&trader, coin, &first).await, (U256::from(9), U256::from(2)));
}

#[tokio::test]
async fn the_coin_accepts_a_permit_of_a_smart_wallet() {
    let key = Payer::new(0xa2);
    let Some(trader) = Trader::on(ChainId(4663)).await else { return };
    let wallet = trader.devnet.deploy_wallet(key.address()).await.unwrap();
    let coin = trader.dollar();
    let permit = Permit::new(&trader, wallet, 7);
    let signature = permit.sign(&trader, coin, &key).await;
    let longer = [&signature[..], &[0]].concat();
    trader.must(&permit.call_with_bytes(&trader, coin, &longer)).await;
    assert_eq!(allowance(&trader, coin, &permit).await, (U256::from(7), U256::from(1)));
}

#[tokio::test]
async fn only_the_payee_receives_with_an_authorization() {
    let key = Payer::new(0xa3);
    let Some(trader) = Trader::with_address(ChainId(8453), key.address()).await else { return };
    trader.fund(OTHER).await;
    let terms = key.terms(OTHER, 60, 1);
    let kind = "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,\
                uint256 validBefore,bytes32 nonce)";
    let signed = [
        keccak256(kind),
        terms.from.into_word(),
        terms.to.into_word(),
        terms.value.into(),
        terms.valid_after.into(),
        terms.valid_before.into(),
        terms.nonce,
    ];
    let receive = |signature: Vec<u8>, from: Address| {
        let receive = IPermitToken::receiveWithAuthorizationCall {
            from: terms.from,
            to: terms.to,
            value: terms.value,
            validAfter: terms.valid_after,
            validBefore: terms.valid_before,
            nonce: terms.nonce,
            signature: signature.into(),
        };
        Call::new(from, trader.dollar(), &receive)
    };
    let good = key.sign_struct(trader.network, &signed);
    let refusal = trader.refusal(&receive(good.clone(), trader.address)).await;
    assert_eq!(refusal, words("FiatTokenV2: caller must be the payee"));
    // A signature for `transferWithAuthorization`, which any sender may submit, is not valid here.
    let transfer = key.sign(trader.network, &terms);
    let refusal = trader.refusal(&receive(transfer, OTHER)).await;
    assert_eq!(refusal, words("FiatTokenV2: invalid signature"));
    trader.must(&receive(good, OTHER)).await;
    assert_eq!(trader.balance(trader.dollar(), OTHER).await, U256::from(60));
}

#[tokio::test]
async fn a_permit_token_reverts_with_named_errors_and_has_no_authorizations() {
    let key = Payer::new(0xa4);
    let Some(trader) = Trader::with_address(ChainId(8453), key.address()).await else { return };
    let token = trader.devnet.deploy_permit_token("Permit", "1").await.unwrap();
    let permit = Permit::new(&trader, trader.address, 7);
    let late = Permit { deadline: now_s() - 30, ..permit.clone() };
    let refusal = trader.refusal(&late.call(&trader, token, &[27; 65])).await;
    assert_eq!(refusal[..4], error_data("ERC2612ExpiredSignature(uint256)"));
    let signature = permit.sign(&trader, token, &key).await;
    let other = Permit { value: 8, ..permit.clone() };
    let refusal = trader.refusal(&other.call(&trader, token, &signature)).await;
    assert_eq!(refusal[..4], error_data("ERC2612InvalidSigner(address,address)"));
    trader.must(&permit.call(&trader, token, &signature)).await;
    assert_eq!(allowance(&trader, token, &permit).await, (U256::from(7), U256::from(1)));
    let selector = error_data("authorizationState(address,bytes32)");
    let ask = [&selector[..], &[0; 64]].concat();
    let ask = Call { data: ask.into(), ..permit.call(&trader, token, &signature) };
    assert!(trader.refusal(&ask).await.is_empty());
}

#[tokio::test]
async fn a_proxy_payment_brings_its_own_permit() {
    let key = Payer::new(0xa5);
    for chain in CHAINS {
        let Some(trader) = Trader::with_address(chain, key.address()).await else { return };
        let coin = trader.dollar();
        let payment = Payment::new(trader.address, coin);
        let signature = payment.sign(&trader, &key);
        // Permit2 may not move the coin yet.
        assert!(!trader.refusal(&payment.call(&trader, &signature)).await.is_empty());

        let permit = Permit::new(&trader, trader.address, payment.amount);
        let permit = permit.for_proxy(&permit.sign(&trader, coin, &key).await);
        let call = payment.call_with_permit(&trader, &signature, permit);
        let logs = trader.logs(&trader.must(&call).await).await;
        let last = logs.last().unwrap();
        assert_eq!(
            (last.address, &last.topics[..]),
            (call.to, &[keccak256("SettledWithPermit()")][..])
        );
        assert!(failed_permits(&logs, coin, trader.address).is_empty());
        assert_eq!(trader.balance(coin, payment.to).await, U256::from(payment.amount));
    }
}

#[tokio::test]
async fn a_permit_that_another_sender_used_does_not_stop_a_proxy_payment() {
    let key = Payer::new(0xa6);
    let Some(trader) = Trader::with_address(ChainId(8453), key.address()).await else { return };
    let plain = trader.devnet.deploy_permit_token("Permit", "1").await.unwrap();
    trader.devnet.mint_of(plain, trader.address, 5 * DOLLAR).await.unwrap();
    for (nonce, token, event) in
        [(10, trader.dollar(), FAILED_WITH_REASON_EVENT), (11, plain, FAILED_WITH_DATA_EVENT)]
    {
        let payment = Payment { nonce: U256::from(nonce), ..Payment::new(trader.address, token) };
        let permit = Permit::new(&trader, trader.address, payment.amount);
        let permit_signature = permit.sign(&trader, token, &key).await;
        trader.must(&permit.call(&trader, token, &permit_signature)).await;
        let signature = payment.sign(&trader, &key);
        let permit = permit.for_proxy(&permit_signature);
        let call = payment.call_with_permit(&trader, &signature, permit);
        let logs = trader.logs(&trader.must(&call).await).await;
        let [failed] = &failed_permits(&logs, token, trader.address)[..] else {
            panic!("one event")
        };
        assert_eq!(failed[..4], error_data(event));
        assert_eq!(trader.balance(token, payment.to).await, U256::from(payment.amount));
    }
}

#[tokio::test]
async fn a_permit_for_another_amount_stops_a_proxy_payment() {
    let key = Payer::new(0xa7);
    let Some(trader) = Trader::with_address(ChainId(8453), key.address()).await else { return };
    let payment = Payment::new(trader.address, trader.dollar());
    let signature = payment.sign(&trader, &key);
    for value in [payment.amount - 1, payment.amount + 1, u128::MAX] {
        let permit = Permit::new(&trader, trader.address, value);
        let permit = permit.for_proxy(&permit.sign(&trader, trader.dollar(), &key).await);
        let call = payment.call_with_permit(&trader, &signature, permit);
        assert_eq!(
            trader.refusal(&call).await,
            error_data("Permit2612AmountMismatch()"),
            "{value}"
        );
    }
    // A failed permit alone grants no allowance.
    let permit = Permit::new(&trader, trader.address, payment.amount).for_proxy(&[27; 65]);
    let call = payment.call_with_permit(&trader, &signature, permit);
    assert!(!trader.refusal(&call).await.is_empty());
}
