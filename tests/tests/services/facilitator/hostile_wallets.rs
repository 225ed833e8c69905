//! Hostile contracts as payers: other payers are unharmed, the signer loses at most its gas cap, and every request gets
//! a verdict.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::{Call, WalletMode};
use bursar_tests::payer::{PERMIT2, Payer, PaymentTerms, SignedPayment, TransferMethod};
use bursar_tests::upto_contract;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};
use crate::facilitator::troubles::metric_value;
use crate::facilitator::verdict::{Refusal, check_settle, check_verify, with};

/// Upper bound of gas: the default limit for a contract's payment, plus the overhead of its transaction.
const GAS_CAP: u64 = 660_000 + 40 * 800;
/// Upper bound of the gas for one plain payer's transfer.
const PLAIN_TRANSFER_GAS_MAX: u64 = 250_000;
/// Mode numbers in the wallet's source.
const MODE_BURNS_GAS: u8 = 4;
const MODE_BURNS_GAS_WHEN_SENT: u8 = 5;
const MODE_BURNS_GAS_IN_SETTLEMENT: u8 = 7;
/// Upper bound for the time of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

impl Stage {
    async fn number(&self, method: &str, params: Value) -> U256 {
        let answer = self.chain.request(method, params).await.expect("answered");
        serde_json::from_value(answer).expect("a number")
    }

    /// Returns the signer's balance, in wei.
    async fn coin_of_signer(&self) -> U256 {
        self.number("eth_getBalance", json!([self.home.signers[0], "latest"])).await
    }

    /// Returns the gas of each of the signer's transactions after a block, and their total fees in wei.
    async fn gas_used_since(&self, block: U256) -> (Vec<u64>, U256) {
        let head = self.number("eth_blockNumber", json!([])).await;
        let (mut each, mut fees, mut at) = (Vec::new(), U256::ZERO, block + U256::from(1));
        while at <= head {
            let receipts = self.chain.request("eth_getBlockReceipts", json!([at])).await;
            for receipt in receipts.expect("receipts").as_array().expect("a list") {
                let from: Address = serde_json::from_value(receipt["from"].clone()).expect("from");
                if from == self.home.signers[0] {
                    let number = |name: &str| -> U256 {
                        serde_json::from_value(receipt[name].clone()).expect("a number")
                    };
                    each.push(number("gasUsed").to::<u64>());
                    fees += number("gasUsed") * number("effectiveGasPrice");
                }
            }
            at += U256::from(1);
        }
        (each, fees)
    }

    async fn deploy_hostile_wallet(&self, owner: &Payer, mode: WalletMode) -> Address {
        let wallet = self.chain.deploy_hostile_wallet(owner.address(), mode).await;
        let wallet = wallet.expect("deployed");
        self.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
        self.chain.approve_as(wallet, self.coin(), PERMIT2).await.expect("approved");
        wallet
    }

    /// Returns the code of a wallet owned by a key, for the key's own account (EIP-7702).
    async fn code_for(&self, payer: &Payer) -> Value {
        let wallet = self.chain.deploy_hostile_wallet(payer.address(), WalletMode::Honest).await;
        let at = json!([wallet.expect("deployed"), "latest"]);
        self.chain.request("eth_getCode", at).await.expect("code")
    }

    /// Installs `code` with this mode number, without mining a block.
    async fn give_code(&self, payer: &Payer, code: &Value, mode: u8) {
        let at = payer.address();
        self.chain.request("anvil_setCode", json!([at, code])).await.expect("set");
        let word = |number: u8| B256::with_last_byte(number);
        let mode = json!([at, word(0), word(mode)]);
        self.chain.request("anvil_setStorageAt", mode).await.expect("set");
    }

    fn pay_from(&self, owner: &Payer, method: TransferMethod, wallet: Address) -> SignedPayment {
        owner
            .pay(method, &PaymentTerms { from: wallet, ..owner.terms(self.network(), SHOP, 1_000) })
    }
}

/// A wallet's modes at verification and at settlement, and the verdict (`None`: either one is fine).
struct Case {
    at_verification: WalletMode,
    when_settled: WalletMode,
    good: Option<bool>,
}

fn same_mode_case(mode: WalletMode, good: Option<bool>) -> Case {
    Case { at_verification: mode, when_settled: mode, good }
}

fn cases() -> Vec<Case> {
    let then = |when_settled| Case {
        at_verification: WalletMode::Honest,
        when_settled,
        good: Some(false),
    };
    vec![
        same_mode_case(WalletMode::Honest, Some(true)),
        same_mode_case(WalletMode::Reverts, Some(false)),
        same_mode_case(WalletMode::WrongAnswer, Some(false)),
        same_mode_case(WalletMode::HugeAnswer, Some(false)),
        same_mode_case(WalletMode::BurnsGas, Some(false)),
        // The facilitator cannot detect this before it sends the transaction; the gas limit caps the cost.
        same_mode_case(WalletMode::BurnsWhenSent, None),
        same_mode_case(WalletMode::BurnsAbove(100_000), Some(false)),
        // The threshold is below the gas of a probe and above the gas of a settlement.
        same_mode_case(WalletMode::BurnsBelow(1_000_000), Some(false)),
        same_mode_case(WalletMode::BurnsThenAnswers(200_000), Some(true)),
        same_mode_case(WalletMode::BurnsThenAnswers(1_500_000), Some(false)),
        // The facilitator asks in a static call, in which such a wallet only burns a little gas.
        same_mode_case(WalletMode::ReentersQuietly, None),
        same_mode_case(WalletMode::ReentersLoudly, Some(false)),
        then(WalletMode::Reverts),
        then(WalletMode::BurnsGas),
        then(WalletMode::HugeAnswer),
        then(WalletMode::BurnsBelow(1_000_000)),
    ]
}

async fn hostile_wallets_by(method: TransferMethod) {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let neighbour = stage.payer().await;
    for Case { at_verification, when_settled, good } in cases() {
        let case = format!("{method:?}, {at_verification:?} and then {when_settled:?}");
        let owner = Payer::random();
        let wallet = stage.deploy_hostile_wallet(&owner, at_verification).await;
        let body = stage.pay_from(&owner, method, wallet).body(2);
        let answer = timeout(ANSWER_TIMEOUT, stage.verify(&body)).await.expect(&case);
        check_verify(&case, &answer);
        if let Some(good) = good
            && at_verification == when_settled
        {
            assert_eq!(answer["isValid"], good, "{case}: {answer}");
        }
        if at_verification != when_settled {
            stage.chain.set_hostile_mode(wallet, when_settled).await.expect("set");
        }
        let block = stage.number("eth_blockNumber", json!([])).await;
        let coin = stage.coin_of_signer().await;
        let had = stage.balance(wallet).await;
        let mining = stage.keep_mining();
        let beside = stage.pay(&neighbour, TransferMethod::Eip3009, 77).body(2);
        let both = async { tokio::join!(stage.settle(&body), stage.settle(&beside)) };
        let (answer, theirs) = timeout(ANSWER_TIMEOUT, both).await.expect(&case);
        assert_eq!(theirs["success"], true, "{case}: a neighbour: {theirs}");
        drop(mining);
        check_settle(&case, &body, &answer);
        if let Some(good) = good {
            assert_eq!(answer["success"], good, "{case}: {answer}");
        }
        let moved = had - stage.balance(wallet).await;
        let expected = if answer["success"] == true { 1_000 } else { 0 };
        assert_eq!(moved, U256::from(expected), "{case}: {answer}");
        let (each, fees) = stage.gas_used_since(block).await;
        let used: u64 = each.iter().sum();
        // A wallet that burned gas is not tried again, so at most one attempt may cost up to the cap.
        let attempts = if good == Some(false) { 0 } else { 1 };
        assert!(used <= PLAIN_TRANSFER_GAS_MAX + attempts * GAS_CAP, "{case}: {each:?}");
        assert!(each.iter().all(|used| *used <= GAS_CAP), "{case}: {each:?}");
        assert_eq!(coin - stage.coin_of_signer().await, fees, "{case}: nothing else was paid");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_wallet_that_pays_by_eip3009_harms_no_other_payer() {
    hostile_wallets_by(TransferMethod::Eip3009).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_wallet_that_pays_by_permit2_harms_no_other_payer() {
    hostile_wallets_by(TransferMethod::Permit2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_burns_gas_when_sent_is_reported_as_a_failed_transaction() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let owner = Payer::random();
    let wallet = stage.deploy_hostile_wallet(&owner, WalletMode::BurnsWhenSent).await;
    let _mining = stage.keep_mining();
    let answer =
        stage.settle(&stage.pay_from(&owner, TransferMethod::Eip3009, wallet).body(2)).await;
    assert_eq!(answer["errorReason"], "invalid_exact_evm_transaction_failed", "{answer}");
    assert_eq!(answer["transaction"], "", "{answer}");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_owner_signed_is_taken_from_a_wallet() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (owner, thief) = (Payer::random(), Payer::random());
    let wallet = stage.deploy_hostile_wallet(&owner, WalletMode::Honest).await;
    let mut refusals = Vec::new();
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2] {
        let refusal =
            |case, body| Refusal { case, code: "invalid_signature", body, payer: Some(wallet) };
        let stolen = stage.pay_from(&thief, method, wallet).body(2);
        let good = stage.pay_from(&owner, method, wallet).body(2);
        let garbage = json!(format!("0x{}", "5a".repeat(65)));
        let signature = "/paymentPayload/payload/signature";
        refusals.push(refusal("another key's", stolen));
        refusals.push(refusal("garbage", with(&good, signature, garbage)));
        refusals.push(refusal("nothing", with(&good, signature, json!("0x"))));
    }
    // Prism asks no wallet contract for its signature, not even an honest one.
    let terms =
        PaymentTerms { from: wallet, nonce: B256::ZERO, ..owner.terms(stage.network(), SHOP, 10) };
    refusals.push(Refusal {
        case: "by Prism",
        code: "invalid_signature",
        body: owner.pay(TransferMethod::Prism, &terms).body(2),
        payer: Some(wallet),
    });
    stage.assert_refuses(&refusals).await;
    stage.facilitator.stop().await;
}

/// Plans a wallet that is not deployed, and gives it money.
async fn counterfactual_wallet(stage: &Stage, owner: &Payer) -> (PaymentTerms, Address, Bytes) {
    let mut terms = owner.terms(stage.network(), SHOP, 1_000);
    let planned = stage.chain.counterfactual(owner.address(), terms.nonce.into()).await;
    let planned = planned.expect("planned");
    terms.from = planned.wallet;
    stage.chain.mint(terms.from, INITIAL_BALANCE).await.expect("minted");
    stage.chain.approve_as(terms.from, stage.coin(), PERMIT2).await.expect("approved");
    // No contract can be deployed at an address with a nonce (EIP-684): keep the approval, reset the nonce.
    stage.chain.request("anvil_setNonce", json!([terms.from, "0x0"])).await.expect("set");
    (terms, planned.factory, planned.calldata)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_wallet_is_deployed_for_its_own_payment_only() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    for method in [TransferMethod::Eip3009, TransferMethod::Permit2] {
        let block = stage.number("eth_blockNumber", json!([])).await;
        let (owner, thief) = (Payer::random(), Payer::random());
        let (terms, factory, data) = counterfactual_wallet(&stage, &owner).await;
        let (other, _factory, others) = counterfactual_wallet(&stage, &Payer::random()).await;
        let refusal = |case, code, paid: SignedPayment| Refusal {
            case,
            code,
            body: paid.body(2),
            payer: Some(terms.from),
        };
        let unlisted = "eip6492_factory_not_allowed";
        let unsigned = "invalid_signature";
        let wrapped = |who: &Payer, to, data: &[u8]| who.pay_undeployed(method, &terms, to, data);
        let refusals = [
            refusal("a stranger's factory", unlisted, wrapped(&owner, SHOP, &data)),
            refusal("the token as factory", unlisted, wrapped(&owner, stage.coin(), &data)),
            refusal("Prism as factory", unlisted, wrapped(&owner, bursar_tests::payer::PRISM, &[])),
            refusal("a factory that reverts", unsigned, wrapped(&owner, factory, &[1, 2, 3, 4])),
            refusal("a factory that is told nothing", unsigned, wrapped(&owner, factory, &[])),
            refusal("another's wallet", unsigned, wrapped(&owner, factory, &others)),
            refusal("another's signature", unsigned, wrapped(&thief, factory, &data)),
        ];
        stage.assert_refuses(&refusals).await;
        assert_eq!(
            stage.gas_used_since(block).await.0,
            Vec::<u64>::new(),
            "{method:?}: nothing was sent"
        );
        // Another account deploys the wallet in the meantime; the signature's EIP-6492 wrapper remains valid.
        deploy_by_other_sender(&stage, factory, &data).await;
        let forged =
            refusal("another's, when it is there", unsigned, wrapped(&thief, factory, &data));
        stage.assert_refuses(&[forged]).await;
        let body = wrapped(&owner, factory, &data).body(2);
        assert_eq!(stage.verify(&body).await["isValid"], true, "{method:?}");
        let answer = stage.settle(&body).await;
        assert_eq!(answer["success"], true, "{method:?}: {answer}");
        let code = stage.chain.request("eth_getCode", json!([other.from, "latest"])).await;
        assert_eq!(code.expect("code"), "0x", "{method:?}: nobody else's wallet was deployed");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_that_was_deployed_by_its_payment_pays_again_at_once() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let owner = Payer::random();
    let (terms, factory, data) = counterfactual_wallet(&stage, &owner).await;
    // The facilitator has now cached that the account has no code.
    let early = owner.pay(TransferMethod::Eip3009, &terms).body(2);
    assert_eq!(stage.verify(&early).await["isValid"], false);
    let first = owner.pay_undeployed(TransferMethod::Eip3009, &terms, factory, &data).body(2);
    assert_eq!(stage.verify(&first).await["isValid"], true);
    assert_eq!(stage.settle(&first).await["success"], true);
    let next = PaymentTerms { nonce: B256::repeat_byte(2), ..terms };
    let answer = stage.settle(&owner.pay(TransferMethod::Eip3009, &next).body(2)).await;
    assert_eq!(answer["success"], true, "{answer}");
    stage.facilitator.stop().await;
}

/// Each settlement from such a wallet costs the signer gas, so further payments are rejected for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_payer_that_burnt_gas_is_refused_for_a_minute() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let owner = Payer::random();
    let wallet = stage.deploy_hostile_wallet(&owner, WalletMode::BurnsWhenSent).await;
    let block = stage.number("eth_blockNumber", json!([])).await;
    let _mining = stage.keep_mining();
    for _payment in 0..4 {
        let answer =
            stage.settle(&stage.pay_from(&owner, TransferMethod::Eip3009, wallet).body(2)).await;
        assert_eq!(answer["success"], false, "{answer}");
    }
    let (each, _fees) = stage.gas_used_since(block).await;
    assert!(each.iter().sum::<u64>() <= GAS_CAP, "{each:?}");
    stage.facilitator.stop().await;
}

/// The account gets code between verification and settlement, when its payment would otherwise be batched.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_gets_code_after_verification_is_settled_alone() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (payer, neighbour) = (stage.payer().await, stage.payer().await);
    let good = stage.pay(&neighbour, TransferMethod::Eip3009, 70).body(2);
    let bad = stage.pay(&payer, TransferMethod::Eip3009, 80).body(2);
    for body in [&good, &bad] {
        assert_eq!(stage.verify(body).await["isValid"], true);
    }
    let code = stage.code_for(&payer).await;
    stage.give_code(&payer, &code, MODE_BURNS_GAS_WHEN_SENT).await;
    let block = stage.number("eth_blockNumber", json!([])).await;
    let _mining = stage.keep_mining();
    let (theirs, answer) = tokio::join!(stage.settle(&good), stage.settle(&bad));
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(theirs["success"], true, "{theirs}");
    let (each, _fees) = stage.gas_used_since(block).await;
    assert_eq!(each.len(), 2, "each once, and alone: {each:?}");
    stage.facilitator.stop().await;
}

/// The facilitator knows neither payer. Its first check shows the kind of each, and it checks again for that kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_payer_of_an_unexpected_kind_is_checked_again_as_its_real_kind() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let block = stage.number("eth_blockNumber", json!([])).await;
    // A key's account that turns out to be a contract; it accepts the signature if it gets the gas of a probe.
    let payer = stage.payer().await;
    let code = stage.code_for(&payer).await;
    stage.give_code(&payer, &code, MODE_BURNS_GAS_IN_SETTLEMENT).await;
    let amount =
        json!([payer.address(), B256::with_last_byte(1), B256::from(U256::from(1_000_000))]);
    stage.chain.request("anvil_setStorageAt", amount).await.expect("set");
    let answer = stage.settle(&stage.pay(&payer, TransferMethod::Eip3009, 80).body(2)).await;
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(answer["transaction"], "", "{answer}");
    assert_eq!(stage.gas_used_since(block).await.0, Vec::<u64>::new());
    // A deployed wallet, whose factory burns all its gas when asked to deploy it again.
    let owner = Payer::random();
    let (terms, factory, data) = counterfactual_wallet(&stage, &owner).await;
    deploy_by_other_sender(&stage, factory, &data).await;
    let paid = owner.pay_undeployed(TransferMethod::Eip3009, &terms, factory, &data);
    let answer = stage.settle(&paid.body(2)).await;
    assert_eq!(answer["success"], true, "{answer}");
    let (each, _fees) = stage.gas_used_since(block).await;
    assert!(each.len() == 1 && each[0] < PLAIN_TRANSFER_GAS_MAX, "{each:?}");
    stage.facilitator.stop().await;
}

async fn deploy_by_other_sender(stage: &Stage, factory: Address, data: &Bytes) {
    let coin = json!([SHOP, "0xde0b6b3a7640000"]);
    stage.chain.request("anvil_setBalance", coin).await.expect("set");
    let deploy = Call { from: SHOP, to: factory, value: U256::ZERO, data: data.clone() };
    stage.chain.send_as(&deploy).await.expect("deployed");
}

/// Like the test before, with our batching contract, which limits the gas of each payment: the transaction still
/// settles the other payment.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_starts_burning_gas_spoils_no_transaction_of_the_contract() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let contract = upto_contract::deploy(&chain, &[0]).await;
    let setting = upto_contract::setting(&[&[0]]);
    let stage = Stage::on(chain, 1, "in_flight = 1\nwait_ms = 10000", &setting).await;
    let signed = async || {
        let payer = stage.payer().await;
        let terms = payer.terms(stage.network(), SHOP, 100);
        let terms = PaymentTerms { facilitator: contract, ..terms };
        (payer.pay(TransferMethod::Upto, &terms).settle_body(70), payer)
    };
    let ((first, _), (good, _), (bad, payer)) = (signed().await, signed().await, signed().await);
    let code = stage.code_for(&payer).await;
    stage.chain.set_automine(false).await.expect("set");
    let has_sent = async |count: u64| {
        let signer = json!([stage.home.signers[0], "pending"]);
        while stage.number("eth_getTransactionCount", signer.clone()).await != U256::from(count) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let turns = async {
        has_sent(1).await;
        let both = futures::future::join(stage.settle(&bad), stage.settle(&good));
        let burns = async {
            // Both payments are queued behind the first transaction, and are sent together after it.
            while metric_value(&stage, "facilitator_open_payments").await != "3" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stage.chain.mine(1).await.expect("mined");
            has_sent(2).await;
            stage.give_code(&payer, &code, MODE_BURNS_GAS).await;
            stage.chain.set_automine(true).await.expect("set");
            stage.keep_mining()
        };
        let ((bad, good), _mining) = tokio::join!(both, burns);
        (bad, good)
    };
    let (first, (bad, good)) = tokio::join!(stage.settle(&first), turns);
    assert_eq!((&first["success"], &good["success"]), (&json!(true), &json!(true)), "{good}");
    assert_eq!(bad["success"], false, "{bad}");
    let hash = json!([good["transaction"]]);
    let sent = stage.chain.request("eth_getTransactionByHash", hash).await.expect("answered");
    assert_eq!((&sent["nonce"], &sent["to"]), (&json!("0x1"), &json!(contract)), "{sent}");
    // The account is refused although it no longer has code, because its payment cost gas.
    stage.chain.request("anvil_setCode", json!([payer.address(), "0x"])).await.expect("set");
    let again = payer.terms(stage.network(), SHOP, 100);
    let again = payer.pay(TransferMethod::Eip3009, &again).body(2);
    let answer = stage.settle(&again).await;
    assert!(answer.to_string().contains("wait a minute"), "{answer}");
    stage.facilitator.stop().await;
}

/// The account gets code (EIP-7702) after its payment was batched with another payer's.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_starts_burning_gas_in_flight_does_not_harm_its_batch() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let (payer, neighbour) = (stage.payer().await, stage.payer().await);
    let good = stage.pay(&neighbour, TransferMethod::Eip3009, 70).body(2);
    let bad = stage.pay(&payer, TransferMethod::Eip3009, 80).body(2);
    for body in [&good, &bad] {
        assert_eq!(stage.verify(body).await["isValid"], true);
    }
    let code = stage.code_for(&payer).await;
    stage.chain.set_automine(false).await.expect("set");
    let turns = async {
        // Both payments are in one pending transaction.
        loop {
            let waiting = stage.chain.request("txpool_status", json!([])).await.expect("status");
            if waiting["pending"] != "0x0" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stage.give_code(&payer, &code, MODE_BURNS_GAS).await;
        stage.chain.set_automine(true).await.expect("set");
        stage.keep_mining()
    };
    let (first, second, _mining) = tokio::join!(stage.settle(&bad), stage.settle(&good), turns);
    assert_eq!(first["success"], false, "{first}");
    assert_eq!(second["success"], true, "{second}");
    stage.facilitator.stop().await;
}
