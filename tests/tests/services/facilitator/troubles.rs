//! Operational faults: signers without coin, a removed signer, reorganised blocks, and an unknown price of data.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::failpoints::NoFailpoints;
use bursar_core::networks::by_chain;
use bursar_devnet::Authorization;
use bursar_devnet::full::full_chain_or_skip;
use bursar_devnet::report_skip;
use bursar_facilitator::check::check;
use bursar_facilitator::config::NetworkConfig;
use bursar_facilitator::keys::KeyFault;
use bursar_facilitator::service::{Running, StartFault, load_keys};
use bursar_serve::findings::{Finding, Severity};
use bursar_tests::facilitator::{FacilitatorHome, ask, idempotency_key};
use bursar_tests::mount::Mount;
use bursar_tests::payer::{Payer, SignedPayment, TransferMethod, now_s};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, SHOP, Stage, prepared_home};

const TIMEOUT: Duration = Duration::from_secs(30);

async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not happen");
        sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn metric_value(stage: &Stage, name: &str) -> String {
    let address = stage.facilitator.running.metrics_address.expect("metrics");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let answer = client.get(format!("http://{address}/metrics")).send().await.expect("answered");
    let text = answer.text().await.expect("text");
    let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()).unwrap_or("0").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_the_signers_coin_and_health_reports_degradation() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let get = async |path: &str| stage.facilitator.get(path).await;
    wait_until("ready", async || get("/readyz").await.0 == 200).await;
    assert_eq!(get("/health").await.1["status"], "healthy");
    assert_eq!(get("/livez").await.0, 200);
    stage.fund_signers(U256::ZERO).await;
    wait_until("not ready", async || get("/readyz").await.0 == 503).await;
    let (_status, checks) = get("/readyz").await;
    assert_eq!(checks["networks"]["eip155:8453"]["nativeCoin"], false, "{checks}");
    assert_eq!(checks["networks"]["eip155:8453"]["node"], true, "{checks}");
    assert_eq!(checks["store"], true, "{checks}");
    let (status, health) = get("/health").await;
    assert_eq!((status, &health["status"]), (200, &json!("degraded")), "{health}");
    assert_eq!(health["networks"]["eip155:8453"], json!({ "configured": true }));
    assert_eq!(get("/livez").await.0, 200, "it is alive all the same");
    stage.fund_signers(U256::from(10).pow(U256::from(20))).await;
    wait_until("ready again", async || get("/readyz").await.0 == 200).await;
    assert_eq!(get("/health").await.1["status"], "healthy");
    stage.chain.kill();
    wait_until("not ready", async || get("/readyz").await.0 == 503).await;
    stage.facilitator.stop().await;
}

/// Two programs with one key would use each other's nonces. An authorizer sends nothing, so
/// programs may share its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_facilitator_does_not_start_with_a_signer_of_a_running_one() {
    let network = by_chain(BASE).expect("known");
    let home =
        |signers, more| FacilitatorHome::new(network, "http://127.0.0.1:9", signers, "", more);
    let (used, other) = (home(2, "authorizer = \"authorizer.key\""), home(1, ""));
    let start = async |change: &dyn Fn(&mut NetworkConfig)| {
        let mut config = other.config();
        change(config.networks.get_mut(&BASE).expect("configured"));
        let keys = load_keys(&config).expect("keys");
        other.wait_for_store().await;
        Running::start(config, keys, Arc::new(NoFailpoints)).await
    };
    let running = used.start().await;
    let found = check(&used.config()).await.expect("it would start");
    let keys: Vec<_> = found.into_iter().filter(|finding| finding.subject == "keys").collect();
    let is_good = |finding: &Finding| {
        finding.severity == Severity::Good && finding.text.contains("used by a running program")
    };
    assert!(keys.len() == 2 && keys.iter().all(is_good), "{keys:#?}");
    let shared = used.folder().join("signer1.key");
    let signs = |network: &mut NetworkConfig| network.signers.push(shared.clone());
    let retires = |network: &mut NetworkConfig| network.retired_signers.push(shared.clone());
    let changes: [&dyn Fn(&mut NetworkConfig); 2] = [&signs, &retires];
    for change in changes {
        let refused = start(change).await.err();
        assert!(
            matches!(&refused, Some(StartFault::Key(KeyFault::InUse { file })) if *file == shared),
            "{refused:?}"
        );
    }
    let authorizer = used.folder().join("authorizer.key");
    let authorizes = |network: &mut NetworkConfig| network.authorizer = Some(authorizer.clone());
    start(&authorizes).await.expect("it sends nothing").stop().await;
    running.stop().await;
    start(&signs).await.expect("it is free").stop().await;
}

/// Removes the first signer from the settings.
fn replace_signer(home: &bursar_tests::facilitator::FacilitatorHome) {
    let text = std::fs::read_to_string(home.settings()).expect("read");
    let text =
        text.replace("signers = [\"signer0.key\", \"signer1.key\"]", "signers = [\"signer1.key\"]");
    std::fs::write(home.settings(), text).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_of_a_signer_that_was_removed_are_decided_by_the_chain_and_by_their_expiry() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let home = prepared_home(&chain, chain.url(), 2, "wait_ms = 400\nin_flight = 1", "").await;
    let [gone, other] = home.signers[..] else { panic!("two signers") };
    let coin = async |signer: Address, wei: u64| {
        chain.request("anvil_setBalance", json!([signer, U256::from(wei)])).await.expect("set");
    };
    // Only the first signer has coin for gas, so it sends both payments.
    coin(other, 0).await;
    let facilitator = home.start().await;
    let mut stage = Stage { chain: chain.clone(), facilitator, home };
    let (mined, lost) = (stage.payer().await, stage.payer().await);
    let mined = stage.pay(&mined, TransferMethod::Eip3009, 700);
    let mut terms = lost.terms(stage.network(), SHOP, 900);
    terms.valid_before_s = now_s() + 12;
    let lost = lost.pay(TransferMethod::Eip3009, &terms);
    stage.chain.set_automine(false).await.expect("set");
    let first = stage.settle(&mined.body(2)).await;
    assert_eq!(first["errorReason"], "settlement_pending", "{first}");
    // With `in_flight = 1` the second transaction waits for the first: mine the first, so that the second is sent.
    stage.chain.mine(1).await.expect("mined");
    wait_until("settled", async || stage.settle(&mined.body(2)).await["success"] == true).await;
    let second = stage.settle(&lost.body(2)).await;
    assert_eq!(second["errorReason"], "settlement_pending", "{second}");
    let hash = second["transaction"].clone();
    stage.facilitator.stop().await;
    stage.chain.request("anvil_dropTransaction", json!([hash])).await.expect("dropped");
    replace_signer(&stage.home);
    coin(other, 1_000_000_000_000_000_000).await;
    stage.home.wait_for_store().await;
    let found: Vec<_> =
        check(&stage.home.config()).await.expect("it would start").into_iter().collect();
    let names = |finding: &&bursar_serve::findings::Finding| {
        finding.severity == Severity::Bad && finding.text.contains(&gone.to_string())
    };
    assert!(found.iter().any(|finding| names(&finding)), "{found:#?}");
    stage.facilitator = stage.home.start_again().await;
    // The dropped transaction never arrives, so its payment ends when it expires on the chain.
    stage.chain.set_automine(true).await.expect("set");
    let mut last = Value::Null;
    wait_until("expired", async || {
        stage.chain.mine(1).await.expect("mined");
        last = stage
            .facilitator
            .post_with_key("/settle", &lost.body(2), &idempotency_key(&lost.body(2)))
            .await
            .1;
        last["errorReason"] == "invalid_exact_evm_payload_authorization_valid_before"
    })
    .await;
    assert_eq!(stage.balance(SHOP).await, U256::from(700));
    stage.facilitator.stop().await;
}

fn authorization_of(paid: &SignedPayment) -> (Authorization, Vec<u8>) {
    let terms = &paid.terms;
    let authorization = Authorization {
        from: terms.from,
        to: terms.to,
        value: terms.amount,
        valid_after: U256::from(terms.valid_after_s),
        valid_before: U256::from(terms.valid_before_s),
        nonce: terms.nonce,
    };
    let signature = paid.payload["signature"].as_str().expect("text");
    (authorization, hex::decode(&signature[2..]).expect("hex"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_of_another_sender_is_watched_until_its_block_is_final() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let url = chain.url().to_owned();
    let general = "foreign_settlements = \"success\"";
    let stage = Stage::with_node(chain, &url, 1, general, "confirmations = 5").await;
    let payer = stage.payer().await;
    let paid = stage.pay(&payer, TransferMethod::Eip3009, 3_000);
    let (authorization, signature) = authorization_of(&paid);
    stage.chain.settle(&authorization, &signature).await.expect("settled");
    let answer = stage.settle(&paid.body(2)).await;
    assert_eq!(answer["success"], true, "{answer}");
    assert_eq!(stage.balance(SHOP).await, U256::from(3_000));
    // The reorganisation removes the block, and its transaction is not mined again.
    stage.chain.request("anvil_reorg", json!([1, []])).await.expect("reorganised");
    assert_eq!(stage.balance(SHOP).await, U256::ZERO);
    stage.chain.mine(6).await.expect("mined");
    // A success was returned, so the facilitator settles the payment again.
    wait_until("settled again", async || stage.balance(SHOP).await == U256::from(3_000)).await;
    assert_eq!(metric_value(&stage, "facilitator_reorganised_payments_total").await, "1");
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_where_data_costs_gas_and_no_node_returns_the_price() {
    let Some(stage) = Stage::set_up(ROBINHOOD, 1, "wait_ms = 700").await else { return };
    let payer = stage.payer().await;
    let first = stage.settle(&stage.pay(&payer, TransferMethod::Eip3009, 100).body(2)).await;
    assert_eq!(first["success"], true, "a local chain has no such gas: {first}");
    // The precompile exists on every Arbitrum chain; this one always fails.
    let arb_sys = Address::with_last_byte(0x64);
    stage.chain.request("anvil_setCode", json!([arb_sys, "0xfe"])).await.expect("set");
    let answer = stage.settle(&stage.pay(&payer, TransferMethod::Eip3009, 100).body(2)).await;
    assert_eq!(answer["errorReason"], "settlement_withdrawn", "{answer}");
    stage.chain.mine(2).await.expect("mined");
    assert_eq!(stage.balance(payer.address()).await, U256::from(INITIAL_BALANCE - 100));
    stage.facilitator.stop().await;
}

/// The payer cancels the nonce between verify and settle.
///
/// The payee then receives the same amount for another reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_permit_is_not_settled_by_an_unrelated_transfer() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let paid = stage.pay(&payer, TransferMethod::Permit2, 700);
    assert_eq!(stage.verify(&paid.body(2)).await["isValid"], true);
    let nonce = U256::from_be_bytes(paid.terms.nonce.0);
    cancel_permit(&stage, &payer, nonce).await;
    transfer(&stage, &payer, 700).await;
    assert_eq!(stage.balance(SHOP).await, U256::from(700));
    for _again in 0..2 {
        let answer = stage.settle_without_key(&paid.body(2)).await;
        assert_eq!(answer["errorReason"], "permit2_invalid_nonce", "{answer}");
        assert_eq!(answer["transaction"], "", "{answer}");
    }
    // The same happens to a payment in flight: it was accepted before the nonce was cancelled.
    let paid = stage.pay(&payer, TransferMethod::Permit2, 700);
    stage.chain.set_automine(false).await.expect("set");
    let cancels = async {
        let signer = stage.home.signers[0];
        wait_until("sent", async || {
            let answer =
                stage.chain.request("eth_getTransactionCount", json!([signer, "pending"])).await;
            answer.expect("answered") != "0x0"
        })
        .await;
        // The cancellation and the transfer have a higher fee, so they are mined before our transaction, which then
        // moves nothing.
        cancel_permit(&stage, &payer, U256::from_be_bytes(paid.terms.nonce.0)).await;
        transfer(&stage, &payer, 700).await;
        for _block in 0..20 {
            stage.chain.mine(1).await.expect("mined");
            sleep(Duration::from_millis(100)).await;
        }
    };
    let body = paid.body(2);
    let (answer, ()) = tokio::join!(stage.settle_or_503(&body), cancels);
    assert_eq!(answer["success"], false, "{answer}");
    assert_eq!(stage.balance(SHOP).await, U256::from(1_400), "the two transfers, and no permit");
    stage.facilitator.stop().await;
}

async fn cancel_permit(stage: &Stage, payer: &Payer, nonce: U256) {
    let bit: U256 = U256::from(1) << (nonce & U256::from(0xff)).to::<usize>();
    let data = format!("0x3ff9dcb1{:064x}{bit:064x}", nonce >> 8);
    send_as(stage, payer, bursar_tests::payer::PERMIT2, &data).await;
}

async fn transfer(stage: &Stage, payer: &Payer, amount: u64) {
    let data = format!("0xa9059cbb{:0>64}{amount:064x}", hex::encode(SHOP));
    send_as(stage, payer, stage.coin(), &data).await;
}

async fn send_as(stage: &Stage, payer: &Payer, to: Address, data: &str) {
    let from = payer.address();
    let chain = &stage.chain;
    chain
        .request("anvil_setBalance", json!([from, U256::from(10).pow(U256::from(20))]))
        .await
        .expect("set");
    chain.request("anvil_impersonateAccount", json!([from])).await.expect("set");
    let sent = json!([{
        "from": from, "to": to, "data": data, "gas": "0x40000",
        "maxFeePerGas": "0x2540be4000", "maxPriorityFeePerGas": "0x174876e800",
    }]);
    chain.request("eth_sendTransaction", sent).await.expect("sent");
}

/// A store that cannot be written ends the process, with the reason in the log. The next start resumes the accepted
/// payments, and each settles once.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_written_ends_the_process_and_costs_nothing() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let home = prepared_home(&chain, chain.url(), 1, "store = \"disk/facilitator.redb\"", "").await;
    let disk = home.folder().join("disk");
    std::fs::create_dir(&disk).expect("a folder");
    let mounted = match Mount::in_memory(&disk, 4) {
        Ok(mounted) => mounted,
        Err(why) => {
            report_skip(&format!("no small disk here, only root can mount one ({why})"));
            return;
        }
    };
    let mut process = home.start_process(None);
    let payer = Payer::random();
    chain.mint(payer.address(), 1_000_000).await.expect("minted");
    let pay = || payer.pay(TransferMethod::Eip3009, &payer.terms(chain.network(), SHOP, 7)).body(2);
    let first = ask(&process.url, "/settle", &pay()).await.expect("answered");
    assert_eq!(first.1["success"], true, "{}", first.1);
    // Fill the disk, so that the store cannot grow.
    let filler = std::fs::File::create(disk.join("filler")).expect("a file");
    let mut writer = &filler;
    while std::io::Write::write_all(&mut writer, &[0x5a; 4096]).is_ok() {}
    let (mut bodies, mut paid) = (Vec::new(), 1_u64);
    while !process.has_exited() {
        assert!(bodies.len() < 5_000, "the store grows on a full disk");
        let body = pay();
        let answer = ask(&process.url, "/settle", &body).await;
        paid +=
            u64::from(answer.as_ref().is_some_and(|(_status, answer)| answer["success"] == true));
        bodies.push(body);
    }
    assert!(!process.wait().success());
    let log = std::fs::read_to_string(home.folder().join("log")).expect("a log");
    assert!(log.contains("is full") && log.contains("free some space"), "{log}");
    // With free space the service starts again. Each payment is requested once more, and moves once.
    filler.set_len(0).expect("emptied");
    let process = home.start_process(None);
    for body in &bodies {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = ask(&process.url, "/settle", body).await.expect("answered");
            if answer.1["success"] == true {
                break;
            }
            assert!(Instant::now() < end, "{}", answer.1);
        }
    }
    let moved = chain.balance_of(SHOP).await.expect("a balance");
    assert_eq!(moved, U256::from(7 * (bodies.len() as u64 + 1)), "{paid} before the end");
    drop((process, mounted));
}
