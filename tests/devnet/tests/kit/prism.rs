//! Prism on a full chain: payments in order, by listed facilitators, with or without a fee.

use alloy_primitives::{Address, B256, U256, b256, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use bursar_core::networks::ChainId;
use bursar_devnet::full::CHAINS;
use bursar_devnet::{Call, DevnetError};
use serde_json::json;

use crate::full::{DOLLAR, Trader, error_data};
use crate::payer::{Payer, now_s};

sol! {
    #[derive(Debug)]
    interface IPrism {
        function settleERC20(
            address token, address from, address to, uint256 value, uint256 nonce,
            uint256 validAfter, uint256 validBefore, uint8 v, bytes32 r, bytes32 s
        ) external;
        function getNonce(address user, address token) external view returns (uint256);
        function isFacilitator(address who) external view returns (bool);
        function facilitators(address who) external view returns (bool);
        function collectedFees(address token) external view returns (uint256);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }
}

const TO: Address = Address::repeat_byte(0x33);
const FACILITATOR: Address = Address::repeat_byte(0x70);

const PAYMENT: B256 = b256!("0xc7bf020550e52cb0e18cf51eb8f69e350b9009c8aa383fa02ea332638e5df4a4");
const SETTLED: B256 = b256!("0xf606286dbcfcd175b8b22c61b8e1da14bf5b5776d73aa1f32d6f328599af957b");

/// A payment to be signed.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) token: Address,
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) value: u128,
    pub(crate) nonce: u64,
    pub(crate) valid_after: u64,
    pub(crate) valid_before: u64,
}

impl Payment {
    pub(crate) fn new(trader: &Trader, nonce: u64) -> Self {
        let (valid_after, valid_before) = (now_s() - 60, now_s() + 60);
        let (token, from, value) = (trader.dollar(), trader.address, 5 * DOLLAR);
        Self { token, from, to: TO, value, nonce, valid_after, valid_before }
    }

    fn sign(&self, trader: &Trader, key: &Payer) -> Vec<u8> {
        let words = [
            PAYMENT,
            self.token.into_word(),
            self.from.into_word(),
            self.to.into_word(),
            U256::from(self.value).into(),
            U256::from(self.nonce).into(),
            U256::from(self.valid_after).into(),
            U256::from(self.valid_before).into(),
        ];
        key.sign_under(domain(trader), &words)
    }

    fn call(&self, trader: &Trader, signature: &[u8]) -> Call {
        let settle = IPrism::settleERC20Call {
            token: self.token,
            from: self.from,
            to: self.to,
            value: U256::from(self.value),
            nonce: U256::from(self.nonce),
            validAfter: U256::from(self.valid_after),
            validBefore: U256::from(self.valid_before),
            v: signature[64],
            r: B256::from_slice(&signature[..32]),
            s: B256::from_slice(&signature[32..64]),
        };
        Call::new(FACILITATOR, trader.contracts.prism, &settle)
    }

    pub(crate) fn signed_call(&self, trader: &Trader, key: &Payer) -> Call {
        self.call(trader, &self.sign(trader, key))
    }
}

fn domain(trader: &Trader) -> B256 {
    let kind = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
    );
    let (name, version) = (keccak256("Primer"), keccak256("1"));
    let chain = U256::from(trader.network.chain.0);
    keccak256((kind, name, version, chain, trader.contracts.prism).abi_encode_params())
}

/// Returns a trader whose dollars Prism may transfer, on a chain with a facilitator that has native coin for gas.
async fn owner(chain: ChainId, key: &Payer) -> Option<Trader> {
    let trader = Trader::with_address(chain, key.address()).await?;
    trader.approve(trader.dollar(), trader.contracts.prism).await;
    let ether = json!([FACILITATOR, U256::MAX >> 128]);
    trader.devnet.request("anvil_setBalance", ether).await.unwrap();
    trader.devnet.add_prism_facilitator(FACILITATOR).await.unwrap();
    Some(trader)
}

async fn nonce(trader: &Trader) -> U256 {
    let asked = IPrism::getNonceCall { user: trader.address, token: trader.dollar() };
    trader.devnet.read(trader.contracts.prism, asked).await.unwrap()
}

#[tokio::test]
async fn prism_has_its_known_interface_and_domain() {
    assert_eq!(IPrism::settleERC20Call::SELECTOR, hex!("31523f9b"));
    assert_eq!(IPrism::getNonceCall::SELECTOR, hex!("d828435d"));
    for chain in CHAINS {
        let Some(trader) = Trader::on(chain).await else { return };
        let prism = trader.contracts.prism;
        assert_eq!(format!("{prism:?}"), "0x402357ff1e18d42d0f14a5d56d6e1ebd741b3a86");
        let found = trader.devnet.read(prism, IPrism::DOMAIN_SEPARATORCall {}).await;
        assert_eq!(found.unwrap(), domain(&trader));
        // There is no facilitator until a test adds one.
        for is_one in [false, true] {
            let asked = IPrism::isFacilitatorCall { who: FACILITATOR };
            assert_eq!(trader.devnet.read(prism, asked).await.unwrap(), is_one);
            let asked = IPrism::facilitatorsCall { who: FACILITATOR };
            assert_eq!(trader.devnet.read(prism, asked).await.unwrap(), is_one);
            trader.devnet.add_prism_facilitator(FACILITATOR).await.unwrap();
        }
    }
}

#[tokio::test]
async fn payments_are_made_in_the_order_of_their_numbers() {
    let key = Payer::new(0x65);
    for chain in CHAINS {
        let Some(trader) = owner(chain, &key).await else { return };
        for number in 0..3 {
            assert_eq!(nonce(&trader).await, U256::from(number));
            let payment = Payment::new(&trader, number);
            for wrong in [number + 1, number.wrapping_sub(1)] {
                let payment = Payment { nonce: wrong, ..payment.clone() };
                let refusal = trader.refusal(&payment.signed_call(&trader, &key)).await;
                assert_eq!(refusal, error_data("NonceAlreadyUsed()"), "{wrong} for {number}");
            }
            trader.must(&payment.signed_call(&trader, &key)).await;
        }
        assert_eq!(trader.balance(trader.dollar(), TO).await, U256::from(15 * DOLLAR));
    }
}

#[tokio::test]
async fn a_payment_is_reported_with_its_fee() {
    let key = Payer::new(0x66);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let (dollar, prism) = (trader.dollar(), trader.contracts.prism);
    let mut paid = U256::ZERO;
    for (number, bps, fee) in [(0, 0, 0), (1, 500, DOLLAR / 4), (2, 1, 500)] {
        trader.devnet.set_prism_fee(bps).await.unwrap();
        let payment = Payment::new(&trader, number);
        let receipt = trader.must(&payment.signed_call(&trader, &key)).await;
        let logs = trader.logs(&receipt).await;
        // There is one transfer without a fee or two with a fee, and the settlement event.
        assert_eq!(logs.len(), if fee == 0 { 2 } else { 3 });
        let report = logs.last().unwrap();
        assert_eq!(report.address, prism);
        let parties = [dollar, trader.address, TO].map(|party| party.into_word());
        assert_eq!(report.topics, [&[SETTLED], &parties[..]].concat());
        let words: Vec<U256> = report.data.chunks(32).map(U256::from_be_slice).collect();
        let reported = [payment.value, u128::from(number), fee].map(U256::from);
        assert_eq!(words[..3], reported);
        assert!(words[3].to::<u64>().abs_diff(now_s()) < 30, "{}", words[3]);
        assert_eq!(words[4..], [U256::from_be_slice(FACILITATOR.as_slice())]);
        paid += U256::from(payment.value - fee);
        assert_eq!(trader.balance(dollar, TO).await, paid);
    }
    let kept = U256::from(DOLLAR / 4 + 500);
    assert_eq!(trader.balance(dollar, prism).await, kept);
    let collected = trader.devnet.read(prism, IPrism::collectedFeesCall { token: dollar }).await;
    assert_eq!(collected.unwrap(), kept);
    let DevnetError::Reverted { data, .. } = trader.devnet.set_prism_fee(501).await.unwrap_err()
    else {
        panic!("a fee of more than 5 % was taken")
    };
    assert_eq!(data[..], error_data("FeeTooHigh()"));
}

#[tokio::test]
async fn prism_reverts_with_named_errors() {
    let key = Payer::new(0x67);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let good = Payment::new(&trader, 0);
    let call = good.signed_call(&trader, &key);
    let outsider = Call { from: trader.address, ..call.clone() };
    assert_eq!(trader.refusal(&outsider).await, error_data("NotFacilitator()"));
    let cases = [
        ("ZeroAmount()", Payment { value: 0, ..good.clone() }),
        ("InvalidAddress()", Payment { to: Address::ZERO, ..good.clone() }),
        ("AuthorizationNotYetValid()", Payment { valid_after: now_s() + 99, ..good.clone() }),
        ("AuthorizationExpired()", Payment { valid_before: now_s() - 30, ..good.clone() }),
        // The payment is signed by a key other than the payer's.
        ("InvalidSignature()", Payment { from: TO, ..good.clone() }),
    ];
    for (error, payment) in cases {
        let refusal = trader.refusal(&payment.signed_call(&trader, &key)).await;
        assert_eq!(refusal, error_data(error), "{error}");
    }
    let altered = Payment { value: good.value + 1, ..good.clone() };
    let altered = altered.call(&trader, &good.sign(&trader, &key));
    assert_eq!(trader.refusal(&altered).await, error_data("InvalidSignature()"));
    trader.devnet.pause_prism().await.unwrap();
    assert_eq!(trader.refusal(&call).await, error_data("EnforcedPause()"));
    trader.devnet.unpause_prism().await.unwrap();
    let more = Payment { value: u128::MAX, ..good };
    let refusal = trader.refusal(&more.signed_call(&trader, &key)).await;
    // Prism passes on the token's error.
    let words = b"ERC20: transfer amount exceeds balance";
    assert!(refusal.windows(words.len()).any(|part| part == words), "{refusal:?}");
    trader.must(&call).await;
}

#[tokio::test]
async fn prism_rejects_high_s_signatures() {
    let key = Payer::new(0x68);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let payment = Payment::new(&trader, 0);
    let low = payment.sign(&trader, &key);
    // The order of the curve, from its standard (SEC 2).
    let order = U256::from_be_bytes(hex!(
        "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
    ));
    let s = order - U256::from_be_slice(&low[32..64]);
    let high = [&low[..32], &s.to_be_bytes::<32>(), &[27 + 28 - low[64]]].concat();
    let refusal = trader.refusal(&payment.call(&trader, &high)).await;
    assert_eq!(refusal, error_data("InvalidSignature()"));
    trader.must(&payment.call(&trader, &low)).await;
}

#[tokio::test]
async fn prism_does_not_support_eip_1271() {
    let key = Payer::new(0x69);
    let Some(trader) = owner(ChainId(8453), &key).await else { return };
    let wallet = trader.devnet.deploy_wallet(key.address()).await.unwrap();
    let payment = Payment { from: wallet, ..Payment::new(&trader, 0) };
    let refusal = trader.refusal(&payment.signed_call(&trader, &key)).await;
    assert_eq!(refusal, error_data("InvalidSignature()"));
}
