//! `bursar-facilitator check` reports what is missing before anything depends on it; `status` reports the
//! state of a running facilitator.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bursar_devnet::full::full_chain_or_skip;
use bursar_facilitator::check::check;
use bursar_serve::findings::{Finding, Severity};
use bursar_tests::facilitator::{FacilitatorHome, signer_address};
use bursar_tests::limited_rpc::LimitedRpc;
use serde_json::{Value, json};

use bursar_tests::payer::TransferMethod;
use bursar_tests::upto_contract;

use crate::facilitator::stage::{BASE, SHOP, Stage, prepared_home};

async fn findings(home: &FacilitatorHome) -> Vec<Finding> {
    let all = check(&home.config()).await.expect("it would start");
    all.into_iter().filter(|finding| finding.subject == "Base").collect()
}

fn has_finding(found: &[Finding], severity: Severity, word: &str) -> bool {
    found.iter().any(|finding| finding.severity == severity && finding.text.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_what_is_present_and_what_is_missing() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let bare = FacilitatorHome::new(chain.network(), chain.url(), 1, "", "");
    let answer = findings(&bare).await;
    assert!(has_finding(&answer, Severity::Bad, "fund it"), "{answer:#?}");
    assert!(
        has_finding(&answer, Severity::Warning, "is not a facilitator of Prism"),
        "{answer:#?}"
    );
    assert!(has_finding(&answer, Severity::Good, "EIP-712 domain: USD Coin 2"), "{answer:#?}");

    assert!(has_finding(&answer, Severity::Good, "because no authorizer is set"), "{answer:#?}");
    let all: Vec<Finding> =
        check(&bare.config()).await.expect("it would start").into_iter().collect();
    assert!(has_finding(&all, Severity::Good, "is used by no program"), "{all:#?}");

    let whole = prepared_home(&chain, chain.url(), 2, "", "").await;
    let answer = findings(&whole).await;
    assert!(answer.iter().all(|finding| finding.severity == Severity::Good), "{answer:#?}");

    let key =
        format!("name = \"shop\", sha256 = \"{}\", receivers = [\"{SHOP}\"]", "11".repeat(32));
    let (keys, more) = (format!("api_keys = [{{ {key} }}]"), "authorizer = \"authorizer.key\"");
    let signing = FacilitatorHome::new(chain.network(), chain.url(), 2, &keys, more);
    let text = format!("{} signs claims of payment channels", signing.authorizer());
    assert!(has_finding(&findings(&signing).await, Severity::Good, &text));

    let named = upto_contract::setting(&[&[0, 1]]);
    let by_contract = FacilitatorHome::new(chain.network(), chain.url(), 2, "", &named);
    let answer = findings(&by_contract).await;
    assert!(
        has_finding(&answer, Severity::Warning, "the scheme upto is not offered"),
        "{answer:#?}"
    );
    let contract = upto_contract::deploy(&chain, &[0, 1]).await;
    let text = format!("the upto contract {contract} can be called by ");
    assert!(has_finding(&findings(&by_contract).await, Severity::Good, &text));

    let no_code = json!([bursar_tests::payer::PROXY, "0x"]);
    chain.request("anvil_setCode", no_code).await.expect("set");
    let answer = findings(&whole).await;
    assert!(
        has_finding(&answer, Severity::Warning, "exact Permit2 proxy is missing at"),
        "{answer:#?}"
    );

    chain.kill();
    let answer = findings(&whole).await;
    let is_of_node = |finding: &&Finding| !finding.text.contains("no authorizer is set");
    let mut of_nodes = answer.iter().filter(is_of_node);
    assert!(of_nodes.all(|finding| finding.severity == Severity::Bad), "{answer:#?}");
    assert!(has_finding(&answer, Severity::Bad, "no endpoint"), "{answer:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_a_node_without_large_batches_which_settles_all_the_same() {
    for batch_max in [1, 10] {
        let Some(chain) = full_chain_or_skip(BASE).await else { return };
        let node = LimitedRpc::in_front_of(chain.url(), batch_max).await;
        let stage = Stage::with_node(chain, &node.url, 1, "", "").await;
        let answer = findings(&stage.home).await;
        let said = "does not accept a batch of 50 requests (batch too large (code -32600))";
        assert!(has_finding(&answer, Severity::Warning, said), "{batch_max}: {answer:#?}");
        let payment = stage.pay(&stage.payer().await, TransferMethod::Eip3009, 700);
        let settled = stage.settle(&payment.body(2)).await;
        assert_eq!(settled["success"], true, "{batch_max}: {settled}");
        stage.facilitator.stop().await;
    }
}

/// Runs the `status` command against this metrics address.
async fn status(home: &FacilitatorHome, metrics: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar-test-facilitator"));
    command.arg("--config").arg(home.settings()).arg("status");
    command.env("FACILITATOR_METRICS_LISTEN", metrics);
    let asked = tokio::task::spawn_blocking(move || command.output().expect("started"));
    asked.await.expect("asked")
}

#[tokio::test(flavor = "multi_thread")]
async fn status_reports_balances_spent_gas_and_a_stopped_facilitator() {
    let Some(stage) = Stage::set_up(BASE, 1, "").await else { return };
    let payer = stage.payer().await;
    let reply = stage.settle(&stage.pay(&payer, TransferMethod::Eip3009, 700).body(2)).await;
    assert_eq!(reply["success"], true, "{reply}");
    let metrics = stage.facilitator.running.metrics_address.expect("metrics").to_string();
    let _mining = stage.keep_mining();
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = status(&stage.home, &metrics).await;
        assert!(answer.status.success(), "{answer:?}");
        let report: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        let base = &report["networks"]["eip155:8453"];
        assert_eq!(report["store"], true, "{report}");
        let signer = stage.home.signers[0].to_string();
        assert!(base["signersWei"][&signer].is_string(), "{report}");
        // The value appears after the block is final and the next probe has run.
        if base["gasSpentTodayWei"] != "0" {
            break;
        }
        assert!(Instant::now() < end, "{report}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let home = stage.home;
    stage.facilitator.stop().await;
    let answer = status(&home, &metrics).await;
    assert!(!answer.status.success());
    let text = String::from_utf8_lossy(&answer.stderr);
    assert!(text.contains("no facilitator answers at"), "{text}");
}

/// If the contract obeyed a foreign account, that account could settle payments that name the contract.
#[tokio::test(flavor = "multi_thread")]
async fn payers_can_name_only_our_own_accounts() {
    let network = bursar_core::networks::by_chain(BASE).expect("a network");
    let refusal = async |setting: String| {
        let home = FacilitatorHome::new(network, "http://127.0.0.1:1", 1, "", &setting);
        check(&home.config()).await.expect_err("refused").to_string()
    };
    let own = signer_address(0);
    let text = refusal(format!("upto_contracts = [\"{own} {SHOP}\"]")).await;
    assert!(
        text.contains(&format!("{SHOP}, which is not an account of this facilitator")),
        "{text}"
    );
    let text = refusal(format!("upto_contracts = [\"{own}\", \"{SHOP}\"]")).await;
    assert!(text.contains("not an account of this facilitator"), "{text}");
    let text = refusal(format!("upto_contracts = [\"{SHOP}\"]")).await;
    assert!(text.contains("contains none of its signers"), "{text}");
    let text = refusal(format!("upto_facilitator = \"{SHOP}\"")).await;
    assert!(text.contains("not one of its signers"), "{text}");
}
