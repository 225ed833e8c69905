//! Payers of the scheme `upto` name a contract of ours: several signers settle their payments, many in one transaction.

use std::collections::BTreeSet;
use std::process::Command;

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolError, sol};
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::{Call, WalletMode};
use bursar_tests::facilitator::signer_address;
use bursar_tests::payer::{
    PERMIT2, Payer, PaymentTerms, SignedPayment, TransferMethod, UPTO_PROXY,
};
use bursar_tests::sponsored::PermitTerms;
use bursar_tests::upto_contract::{self, setting};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::sponsoring::with;
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, SHOP, Stage};
use crate::facilitator::upto::{assert_one_of_a_hundred_settles, offered_kind, reason};

sol! {
    struct Settlement {
        uint256 gasLimit;
        bytes data;
    }

    function settleOne(bytes data);
    function settleMany(Settlement[] settlements);
    function settle(
        ((address, uint256), uint256, uint256) permit, uint256 amount, address owner,
        (address, address, uint256) witness, bytes signature
    );
    function transfer(address to, uint256 amount);
    error NotASigner();
    error NotASettlement();
    error UnauthorizedFacilitator();
}

const PRICE_MAX: u64 = 10_000;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a facilitator with this many signers; the first two may call its contract.
async fn set_up(signers: u8, general: &str) -> Option<(Stage, Address)> {
    let chain = full_chain_or_skip(BASE).await?;
    let contract = upto_contract::deploy(&chain, &[0, 1]).await;
    Some((Stage::on(chain, signers, general, &setting(&[&[0, 1]])).await, contract))
}

async fn sign_payment(stage: &Stage, contract: Address) -> SignedPayment {
    let payer = stage.payer().await;
    let terms = payer.terms(stage.network(), SHOP, PRICE_MAX);
    payer.pay(TransferMethod::Upto, &PaymentTerms { facilitator: contract, ..terms })
}

/// Returns the transaction of a success.
async fn transaction(stage: &Stage, answer: &Value) -> Value {
    let hash = &answer["transaction"];
    assert!(hash.is_string(), "{answer}");
    stage.chain.request("eth_getTransactionByHash", json!([hash])).await.expect("answered")
}

fn selector<C: SolCall>() -> String {
    format!("0x{}", hex::encode(C::SELECTOR))
}

fn address(value: &Value) -> Address {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().expect("an address")
}

/// An operator can deploy the contract from the command's output alone. Until then the scheme is not offered.
#[tokio::test(flavor = "multi_thread")]
async fn the_printed_transaction_deploys_the_contract_that_is_then_offered() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let stage = Stage::on(chain, 2, "", &setting(&[&[0, 1]])).await;
    assert_eq!(offered_kind(&stage).await, Value::Null);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar-test-facilitator"));
    command.arg("--config").arg(stage.home.settings()).arg("upto-contract");
    let done = tokio::task::spawn_blocking(move || command.output().expect("started")).await;
    let done = done.expect("joined");
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).expect("text");
    let line = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_else(|| panic!("{text}")).trim().to_owned()
    };
    assert_eq!(line("network:"), "eip155:8453");
    assert!(
        stage.home.signers.iter().all(|signer| line("accounts:").contains(&signer.to_string()))
    );
    let (to, data): (Address, Bytes) =
        (line("to:").parse().expect("an address"), line("data:").parse().expect("bytes"));
    let deployer = Payer::random().address();
    let coin = json!([deployer, U256::from(10).pow(U256::from(20))]);
    stage.chain.request("anvil_setBalance", coin).await.expect("set");
    let deployment = Call { from: deployer, to, value: U256::ZERO, data };
    stage.chain.send_as(&deployment).await.expect("deployed");

    let end = Instant::now() + TIMEOUT;
    let contract: Address = line("contract:").parse().expect("an address");
    while offered_kind(&stage).await["extra"] != json!({ "facilitatorAddress": contract }) {
        assert!(Instant::now() < end, "{}", offered_kind(&stage).await);
        sleep(Duration::from_millis(50)).await;
    }
    let paid = sign_payment(&stage, contract).await;
    assert_eq!(stage.verify(&paid.body(2)).await["isValid"], true);
    let answer = stage.settle(&paid.settle_body(4_321)).await;
    assert_eq!((&answer["success"], &answer["amount"]), (&json!(true), &json!("4321")), "{answer}");
    assert_eq!(address(&transaction(&stage, &answer).await["to"]), contract);
    stage.facilitator.stop().await;
}

/// The first payments are sent alone; the others share transactions of both signers. A payer that
/// cannot pay twice is refused once.
#[tokio::test(flavor = "multi_thread")]
async fn payments_share_transactions_of_all_signers_and_fail_alone() {
    let general = "in_flight = 1\nbatch_window_ms = 20";
    let Some((stage, contract)) = set_up(3, general).await else { return };
    let mut bodies = Vec::new();
    for n in 0..16 {
        bodies.push(sign_payment(&stage, contract).await.settle_body(1_000 + n));
    }
    // Each payment is valid alone, but the payer can pay for only one of them.
    let poor = stage.payer().await;
    let whole = u64::try_from(INITIAL_BALANCE).expect("small");
    for _one in 0..2 {
        let terms = poor.terms(stage.network(), SHOP, whole);
        let paid = poor.pay(TransferMethod::Upto, &PaymentTerms { facilitator: contract, ..terms });
        bodies.push(paid.settle_body(whole));
    }
    let before = stage.balance(SHOP).await;
    stage.chain.set_automine(false).await.expect("set");
    let settles = join_all(bodies.iter().map(|body| stage.settle(body)));
    let mining = async {
        for _block in 0..60 {
            sleep(Duration::from_millis(100)).await;
            stage.chain.mine(1).await.expect("mined");
        }
    };
    let answers = tokio::select! {
        answers = settles => answers,
        () = mining => panic!("no answers"),
    };
    let (good, bad): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["success"] == true);
    assert_eq!((good.len(), bad.len()), (17, 1), "{answers:?}");
    assert_eq!(reason(bad[0]), "insufficient_balance", "{}", bad[0]);
    let sum: u64 = (0..16).map(|n| 1_000 + n).sum();
    assert_eq!(stage.balance(SHOP).await - before, U256::from(sum + whole));
    let (mut senders, mut hashes, mut shared) = (BTreeSet::new(), BTreeSet::new(), 0);
    for answer in &good {
        if !hashes.insert(answer["transaction"].to_string()) {
            continue;
        }
        let sent = transaction(&stage, answer).await;
        assert_eq!(address(&sent["to"]), contract, "{sent}");
        senders.insert(address(&sent["from"]));
        let input = sent["input"].as_str().expect("text").to_owned();
        shared += usize::from(input.starts_with(&selector::<settleManyCall>()));
    }
    assert_eq!(senders, [0, 1].map(signer_address).into(), "the listed signers, and no other");
    assert!(shared > 0 && hashes.len() < 10, "{} transactions, {shared} shared", hashes.len());
    stage.facilitator.stop().await;
}

/// The guarantees are those of payments that name a signer: each is used once, zero closes it, and wallets can pay.
#[tokio::test(flavor = "multi_thread")]
async fn each_authorization_that_names_the_contract_is_used_once() {
    let Some((stage, contract)) = set_up(2, "").await else { return };
    for amount in [5_000, 0] {
        let paid = sign_payment(&stage, contract).await;
        assert_one_of_a_hundred_settles(&stage, &paid, amount).await;
        let reply = stage.settle(&paid.settle_body(PRICE_MAX)).await;
        assert_eq!(reason(&reply), "duplicate_settlement", "{reply}");
    }
    // A payment of a wallet with code is sent alone.
    let owner = Payer::random();
    let wallet = stage.chain.deploy_wallet(owner.address()).await.expect("deployed");
    stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
    let coin = stage.coin();
    stage.chain.approve_as(wallet, coin, PERMIT2).await.expect("approved");
    let terms = owner.terms(stage.network(), SHOP, PRICE_MAX);
    let terms = PaymentTerms { from: wallet, facilitator: contract, ..terms };
    let answer = stage.settle(&owner.pay(TransferMethod::Upto, &terms).settle_body(9)).await;
    assert_eq!(answer["success"], true, "{answer}");
    let sent = transaction(&stage, &answer).await;
    assert!(sent["input"].as_str().expect("text").starts_with(&selector::<settleOneCall>()));
    // A payer without allowance and coin sends a permit.
    let bare = stage.bare_payer().await;
    let terms = bare.terms(stage.network(), SHOP, PRICE_MAX);
    let terms = PaymentTerms { facilitator: contract, ..terms };
    let permit = stage.permit_terms(terms.valid_before_s);
    let permit = bare.permit(&PermitTerms { value: U256::from(PRICE_MAX), ..permit });
    let body = with(bare.pay(TransferMethod::Upto, &terms).settle_body(9), &permit);
    let answer = stage.settle(&body).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(address(&transaction(&stage, &answer).await["to"]), contract);
    // A payer without the money is refused with the token's reason, which the contract passes on.
    let empty = Payer::random();
    stage.chain.approve_as(empty.address(), coin, PERMIT2).await.expect("approved");
    let terms = empty.terms(stage.network(), SHOP, PRICE_MAX);
    let unfunded =
        empty.pay(TransferMethod::Upto, &PaymentTerms { facilitator: contract, ..terms });
    assert_eq!(reason(&stage.verify(&unfunded.body(2)).await), "insufficient_balance");
    stage.facilitator.stop().await;
}

/// A new list of signers makes a new contract. Payments signed before the change are settled through the old
/// contract, even by a signer that was retired.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_signers_strands_no_authorization() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let old = upto_contract::deploy(&chain, &[0, 1]).await;
    let sole = upto_contract::deploy(&chain, &[1]).await;
    let new = upto_contract::deploy(&chain, &[0, 2]).await;
    let stage = Stage::on(chain, 3, "", &setting(&[&[0, 1], &[1]])).await;
    assert_eq!(offered_kind(&stage).await["extra"]["facilitatorAddress"], json!(old));
    let before = [sign_payment(&stage, old).await, sign_payment(&stage, sole).await];
    let unknown = sign_payment(&stage, new).await;
    assert_eq!(reason(&stage.verify(&unknown.body(2)).await), "facilitator_mismatch");
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let text = std::fs::read_to_string(home.settings()).expect("read");
    let changed = text
        .replace(
            "signers = [\"signer0.key\", \"signer1.key\", \"signer2.key\"]",
            "signers = [\"signer0.key\", \"signer2.key\"]\nretired_signers = [\"signer1.key\"]",
        )
        .replace(&setting(&[&[0, 1], &[1]]), &setting(&[&[0, 2], &[0, 1], &[1]]));
    assert!(changed.contains("retired_signers"), "{changed}");
    std::fs::write(home.settings(), changed).expect("written");
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    assert_eq!(offered_kind(&stage).await["extra"]["facilitatorAddress"], json!(new));
    let [by_old, by_sole] = before;
    for (paid, senders) in [(by_old, vec![0]), (by_sole, vec![1]), (unknown, vec![0, 2])] {
        let answer = stage.settle(&paid.settle_body(77)).await;
        assert_eq!(answer["success"], true, "{answer}");
        let sent = transaction(&stage, &answer).await;
        assert_eq!(address(&sent["to"]), paid.terms.facilitator, "{sent}");
        let senders: Vec<_> = senders.into_iter().map(signer_address).collect();
        assert!(senders.contains(&address(&sent["from"])), "{sent}");
    }
    stage.facilitator.stop().await;
}

/// A call of a contract that is not deployed would succeed and do nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_names_a_contract_without_code_is_refused() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let deployed = upto_contract::deploy(&chain, &[0, 1]).await;
    let missing = upto_contract::contract_of(&[0]).address;
    let stage = Stage::on(chain, 2, "", &setting(&[&[0, 1], &[0]])).await;
    let paid = sign_payment(&stage, missing).await;
    let answers = [
        stage.verify(&paid.body(2)).await,
        stage.settle(&paid.settle_body(10)).await,
        stage.settle(&paid.settle_body(0)).await,
    ];
    for answer in answers {
        assert_eq!(reason(&answer), "facilitator_mismatch", "{answer}");
        let text = answer.to_string();
        assert!(text.contains("is not deployed on the network"), "{answer}");
    }
    assert_eq!(stage.verify(&sign_payment(&stage, deployed).await.body(2)).await["isValid"], true);
    stage.facilitator.stop().await;
}

/// If the settings no longer list the contract, a merchant that repeats its request still receives its success.
#[tokio::test(flavor = "multi_thread")]
async fn known_payments_are_answered_after_the_settings_have_lost_their_contract() {
    let Some((stage, contract)) = set_up(2, "").await else { return };
    let (settled, closed) =
        (sign_payment(&stage, contract).await, sign_payment(&stage, contract).await);
    let new = sign_payment(&stage, contract).await;
    let bodies = [settled.settle_body(77), closed.settle_body(0)];
    let mut answers = Vec::new();
    for body in &bodies {
        answers.push(stage.settle(body).await);
    }
    let Stage { chain, facilitator, home } = stage;
    facilitator.stop().await;
    let text = std::fs::read_to_string(home.settings()).expect("read");
    let changed = text.replace(&setting(&[&[0, 1]]), &setting(&[&[0]]));
    assert_ne!(changed, text);
    std::fs::write(home.settings(), changed).expect("written");
    let facilitator = home.start_again().await;
    let stage = Stage { chain, facilitator, home };
    for (body, answer) in bodies.iter().zip(&answers) {
        assert_eq!(answer["success"], true, "{answer}");
        assert_eq!(stage.settle(body).await, *answer);
    }
    assert_eq!(reason(&stage.settle(&new.settle_body(1)).await), "facilitator_mismatch");
    stage.facilitator.stop().await;
}

/// Encodes the call of the proxy that settles this amount.
fn settlement(paid: &SignedPayment, amount: u64) -> Bytes {
    let terms = &paid.terms;
    let signature = paid.payload["signature"].as_str().expect("text");
    let (nonce, deadline) = (terms.nonce.into(), U256::from(terms.valid_before_s));
    let call = settleCall {
        permit: ((terms.token, terms.amount), nonce, deadline),
        amount: U256::from(amount),
        owner: terms.from,
        witness: (terms.to, terms.facilitator, U256::from(terms.valid_after_s)),
        signature: hex::decode(&signature[2..]).expect("hex").into(),
    };
    call.abi_encode().into()
}

fn call(from: Address, to: Address, call: &impl SolCall) -> Call {
    Call { from, to, value: U256::ZERO, data: call.abi_encode().into() }
}

fn settle_many(gas_limit: u64, all: &[Bytes]) -> settleManyCall {
    let gas_limit = U256::from(gas_limit);
    let each = |data: &Bytes| Settlement { gasLimit: gas_limit, data: data.clone() };
    settleManyCall { settlements: all.iter().map(each).collect() }
}

/// Sends a transaction with a gas limit, and returns whether it succeeded.
async fn send(stage: &Stage, call: &Call, gas: u64) -> bool {
    stage.chain.request("anvil_impersonateAccount", json!([call.from])).await.expect("set");
    let sent = json!([{
        "from": call.from, "to": call.to, "data": call.data, "gas": U256::from(gas),
    }]);
    let hash = stage.chain.request("eth_sendTransaction", sent).await.expect("sent");
    let end = Instant::now() + TIMEOUT;
    loop {
        let receipt = stage.chain.request("eth_getTransactionReceipt", json!([hash])).await;
        let receipt = receipt.expect("answered");
        if !receipt.is_null() {
            return receipt["status"] == "0x1";
        }
        assert!(Instant::now() < end, "{hash} is not mined");
        sleep(Duration::from_millis(10)).await;
    }
}

/// The contract itself isolates each failure, whatever its kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_that_fails_or_wastes_gas_affects_no_other() {
    let Some((stage, contract)) = set_up(2, "").await else { return };
    let mut bad = Vec::new();
    for mode in [WalletMode::BurnsGas, WalletMode::HugeAnswer, WalletMode::Reverts] {
        let owner = Payer::random();
        let wallet = stage.chain.deploy_hostile_wallet(owner.address(), mode).await;
        let wallet = wallet.expect("deployed");
        stage.chain.mint(wallet, INITIAL_BALANCE).await.expect("minted");
        stage.chain.approve_as(wallet, stage.coin(), PERMIT2).await.expect("approved");
        let terms = owner.terms(stage.network(), SHOP, PRICE_MAX);
        let terms = PaymentTerms { from: wallet, facilitator: contract, ..terms };
        bad.push(settlement(&owner.pay(TransferMethod::Upto, &terms), 1));
    }
    let used = sign_payment(&stage, contract).await;
    assert_eq!(stage.settle(&used.settle_body(1)).await["success"], true);
    bad.push(settlement(&used, 1));
    bad.push(settlement(&sign_payment(&stage, contract).await, PRICE_MAX + 1));
    bad.push(settlement(&sign_payment(&stage, SHOP).await, 1));
    let mut all = Vec::new();
    for one in bad {
        all.push(settlement(&sign_payment(&stage, contract).await, 1_000));
        all.push(one);
    }
    all.push(settlement(&sign_payment(&stage, contract).await, 1_000));
    let before = stage.balance(SHOP).await;
    let many = settle_many(200_000, &all);
    assert!(send(&stage, &call(signer_address(1), contract, &many), 4_000_000).await);
    assert_eq!(stage.balance(SHOP).await - before, U256::from(7_000));
    // If the gas does not suffice for the second payment, the first is still settled.
    let two = [
        settlement(&sign_payment(&stage, contract).await, 10),
        settlement(&sign_payment(&stage, contract).await, 20),
    ];
    let many = settle_many(300_000, &two);
    assert!(send(&stage, &call(signer_address(0), contract, &many), 400_000).await);
    assert_eq!(stage.balance(SHOP).await - before, U256::from(7_010));
    stage.facilitator.stop().await;
}

/// The contract obeys only the listed signers, and can only settle.
#[tokio::test(flavor = "multi_thread")]
async fn the_contract_obeys_its_signers_alone_and_only_settles() {
    let Some((stage, contract)) = set_up(3, "").await else { return };
    let good = settlement(&sign_payment(&stage, contract).await, 10);
    let fails_with = async |call: Call, error: [u8; 4]| {
        let answer = stage.chain.simulate(&call).await.expect_err("reverts").to_string();
        assert!(answer.contains(&hex::encode(error)), "{answer}");
    };
    let one = settleOneCall { data: good.clone() };
    for stranger in [signer_address(2), SHOP, contract] {
        fails_with(call(stranger, contract, &one), NotASigner::SELECTOR).await;
        for all in [&[good.clone()][..], &[]] {
            let many = settle_many(200_000, all);
            fails_with(call(stranger, contract, &many), NotASigner::SELECTOR).await;
        }
    }
    let foreign = Bytes::from(transferCall { to: SHOP, amount: U256::from(1) }.abi_encode());
    for data in [foreign, Bytes::new(), Bytes::from_static(&[0xff, 0x11])] {
        let many = settle_many(200_000, &[good.clone(), data.clone()]);
        fails_with(call(signer_address(1), contract, &many), NotASettlement::SELECTOR).await;
        let one = settleOneCall { data };
        fails_with(call(signer_address(0), contract, &one), NotASettlement::SELECTOR).await;
    }
    // A signer alone cannot call the proxy in place of the contract, and the contract accepts no coin.
    let direct = Call { data: good, ..call(signer_address(0), UPTO_PROXY, &one) };
    fails_with(direct, UnauthorizedFacilitator::SELECTOR).await;
    let own = call(signer_address(0), contract, &one);
    stage.chain.simulate(&own).await.expect("a signer can settle");
    stage.chain.simulate(&own.with_value(U256::from(1))).await.expect_err("it accepts no coin");
    stage.facilitator.stop().await;
}
