//! Wallets that attack signature verifiers: each behaves as its mode specifies.

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use alloy_sol_types::{SolCall, sol};
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::{Authorization, Devnet, WalletMode};
use serde_json::{Value, json};

use crate::payer::{Payer, digest};

sol! {
    function isValidSignature(bytes32 hash, bytes signature) external returns (bytes4);
}

const TO: Address = Address::repeat_byte(0x22);
const VALID_SIGNATURE_ANSWER: [u8; 4] = hex!("1626ba7e");
const INVALID_SIGNATURE_MESSAGE: &str = "FiatTokenV2: invalid signature";
/// Gas limit of every transaction of the kit.
const GAS: u64 = 10_000_000;

/// A hostile wallet with money on its own chain, and its owner.
struct Scene {
    devnet: Devnet,
    network: &'static Network,
    owner: Payer,
    wallet: Address,
}

impl Scene {
    async fn with(mode: WalletMode) -> Option<Self> {
        let anvil = chain_or_skip()?;
        let network = by_chain(ChainId(8453)).unwrap();
        let devnet = Devnet::start_at(&anvil, network.chain).await.unwrap();
        let owner = Payer::new(0x81);
        let wallet = devnet.deploy_hostile_wallet(owner.address(), mode).await.unwrap();
        devnet.mint(wallet, 100).await.unwrap();
        Some(Self { devnet, network, owner, wallet })
    }

    fn terms(&self, nonce: u8) -> Authorization {
        Authorization { from: self.wallet, ..self.owner.terms(TO, 10, nonce) }
    }

    /// Lets the wallet pay; returns the gas used, or the error.
    async fn pay(&self, nonce: u8) -> Result<u64, String> {
        let terms = self.terms(nonce);
        let settled = self.devnet.settle(&terms, &self.owner.sign(self.network, &terms)).await;
        Ok(self.gas_used(settled.map_err(|error| error.to_string())?).await)
    }

    async fn gas_used(&self, transaction: B256) -> u64 {
        let receipt = self.devnet.request("eth_getTransactionReceipt", json!([transaction])).await;
        number(&receipt.unwrap()["gasUsed"])
    }

    /// Returns the wallet's answer to its owner's signature, called with this much gas.
    async fn answer(&self, gas: u64) -> Result<Vec<u8>, String> {
        let (domain, words) = (B256::repeat_byte(1), [B256::repeat_byte(2)]);
        let question = isValidSignatureCall {
            hash: digest(domain, &words),
            signature: self.owner.sign_under(domain, &words).into(),
        };
        let data = Bytes::from(question.abi_encode());
        let call = json!({ "to": self.wallet, "data": data, "gas": U256::from(gas) });
        let answer = self.devnet.request("eth_call", json!([call, "pending"])).await;
        let answer: Bytes =
            serde_json::from_value(answer.map_err(|error| error.to_string())?).unwrap();
        Ok(answer.to_vec())
    }

    async fn assert_paid(&self, amount: u64) {
        assert_eq!(self.devnet.balance_of(TO).await.unwrap(), U256::from(amount));
        let left = U256::from(100 - amount);
        assert_eq!(self.devnet.balance_of(self.wallet).await.unwrap(), left);
    }
}

fn number(value: &Value) -> u64 {
    serde_json::from_value::<U256>(value.clone()).unwrap().to()
}

#[tokio::test]
async fn an_honest_mode_pays_and_a_mode_can_be_changed() {
    let Some(scene) = Scene::with(WalletMode::Honest).await else { return };
    assert!(scene.pay(1).await.unwrap() < 150_000);
    scene.assert_paid(10).await;
    let terms = scene.terms(2);
    let forged = Payer::new(0x82).sign(scene.network, &terms);
    assert!(scene.devnet.settle(&terms, &forged).await.is_err());
    scene.devnet.set_hostile_mode(scene.wallet, WalletMode::Reverts).await.unwrap();
    assert!(scene.pay(2).await.unwrap_err().ends_with(INVALID_SIGNATURE_MESSAGE));
    scene.devnet.set_hostile_mode(scene.wallet, WalletMode::Honest).await.unwrap();
    scene.pay(2).await.unwrap();
    scene.assert_paid(20).await;
}

#[tokio::test]
async fn a_hostile_wallet_can_revert() {
    let Some(scene) = Scene::with(WalletMode::Reverts).await else { return };
    let error = scene.answer(GAS).await.unwrap_err();
    assert!(error.ends_with("the wallet refuses"), "{error}");
    assert!(scene.pay(1).await.unwrap_err().ends_with(INVALID_SIGNATURE_MESSAGE));
}

#[tokio::test]
async fn a_hostile_wallet_can_return_nonsense() {
    let Some(scene) = Scene::with(WalletMode::WrongAnswer).await else { return };
    assert_eq!(scene.answer(GAS).await.unwrap()[..4], hex!("deadbeef"));
    assert!(scene.pay(1).await.unwrap_err().ends_with(INVALID_SIGNATURE_MESSAGE));
}

#[tokio::test]
async fn a_hostile_wallet_can_return_a_megabyte() {
    let Some(scene) = Scene::with(WalletMode::HugeAnswer).await else { return };
    let answer = scene.answer(GAS).await.unwrap();
    assert_eq!((answer.len(), &answer[..4]), (1 << 20, &VALID_SIGNATURE_ANSWER[..]));
    // The wallet accepts the signature, but a caller that copies its whole answer pays for that.
    assert!(scene.pay(1).await.unwrap() > 4_000_000);
    scene.assert_paid(10).await;
}

#[tokio::test]
async fn a_hostile_wallet_can_burn_all_gas() {
    let Some(scene) = Scene::with(WalletMode::BurnsGas).await else { return };
    assert!(scene.answer(100_000).await.is_err());
    assert!(scene.answer(GAS).await.is_err());
    assert!(scene.pay(1).await.unwrap_err().ends_with(INVALID_SIGNATURE_MESSAGE));
}

#[tokio::test]
async fn a_hostile_wallet_can_burn_gas_only_when_sent() {
    let Some(scene) = Scene::with(WalletMode::BurnsWhenSent).await else { return };
    assert_eq!(scene.answer(GAS).await.unwrap()[..4], VALID_SIGNATURE_ANSWER);
    // The kit simulates before it sends, so a sent transaction shows that the simulation succeeded.
    let error = scene.pay(1).await.unwrap_err();
    assert!(error.ends_with("was reverted"), "{error}");
    let hash = error.split(' ').find_map(|word| word.parse::<B256>().ok()).unwrap();
    let burnt = scene.gas_used(hash).await;
    assert!(burnt > GAS / 100 * 98, "{burnt}");
    scene.assert_paid(0).await;
}

#[tokio::test]
async fn a_hostile_wallet_can_depend_on_the_gas_limit() {
    let Some(scene) = Scene::with(WalletMode::BurnsAbove(200_000)).await else { return };
    for (mode, little, much) in [
        (WalletMode::BurnsAbove(200_000), true, false),
        (WalletMode::BurnsBelow(200_000), false, true),
    ] {
        scene.devnet.set_hostile_mode(scene.wallet, mode).await.unwrap();
        for (gas, honest) in [(150_000, little), (300_000, much)] {
            assert_eq!(scene.answer(gas).await.is_ok(), honest, "{mode:?} with {gas}");
        }
        assert_eq!(scene.pay(1).await.is_ok(), much, "{mode:?}");
    }
}

#[tokio::test]
async fn a_hostile_wallet_can_burn_gas_and_then_agree() {
    let price = 3_000_000;
    let Some(scene) = Scene::with(WalletMode::BurnsThenAnswers(price)).await else { return };
    let cost = scene.pay(1).await.unwrap();
    assert!((price..price + 150_000).contains(&cost), "{cost}");
    scene.assert_paid(10).await;
    assert!(scene.answer(price).await.is_err());
}

#[tokio::test]
async fn a_hostile_wallet_cannot_move_more_by_reentering() {
    let Some(scene) = Scene::with(WalletMode::ReentersQuietly).await else { return };
    // The attempt alone costs the gas that it received.
    assert!(scene.pay(1).await.unwrap() > 100_000);
    scene.assert_paid(10).await;
    scene.devnet.set_hostile_mode(scene.wallet, WalletMode::ReentersLoudly).await.unwrap();
    assert!(scene.pay(2).await.unwrap_err().ends_with(INVALID_SIGNATURE_MESSAGE));
    scene.assert_paid(10).await;
}
