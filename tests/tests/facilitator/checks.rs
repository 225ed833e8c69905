//! `bursar-facilitator check`: what is missing is said before anybody depends on it.

use bursar_demo::devnet::full::full_chain_or_skip;
use bursar_facilitator::check::check;
use bursar_serve::findings::{Finding, Mark};
use bursar_tests::facilitator::Home;
use serde_json::json;

use crate::stage::{BASE, furnished};

async fn found(home: &Home) -> Vec<Finding> {
    let all = check(&home.config()).await.expect("it would start");
    all.into_iter().filter(|finding| finding.about == "Base").collect()
}

fn says(found: &[Finding], mark: Mark, word: &str) -> bool {
    found.iter().any(|finding| finding.mark == mark && finding.text.contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_good_and_what_is_missing_is_said() {
    let Some(chain) = full_chain_or_skip(BASE).await else { return };
    let bare = Home::new(chain.network(), chain.url(), 1, "", "");
    let told = found(&bare).await;
    assert!(says(&told, Mark::Bad, "fund it"), "{told:#?}");
    assert!(says(&told, Mark::Mind, "does not know"), "{told:#?}");
    assert!(says(&told, Mark::Good, "signs as USD Coin 2"), "{told:#?}");

    let whole = furnished(&chain, chain.url(), 2, "", "").await;
    let told = found(&whole).await;
    assert!(told.iter().all(|finding| finding.mark == Mark::Good), "{told:#?}");

    let no_code = json!([bursar_tests::payer::PROXY, "0x"]);
    chain.request("anvil_setCode", no_code).await.expect("set");
    let told = found(&whole).await;
    assert!(says(&told, Mark::Mind, "exact Permit2 proxy is not at"), "{told:#?}");

    chain.kill();
    let told = found(&whole).await;
    assert!(told.iter().all(|finding| finding.mark == Mark::Bad), "{told:#?}");
    assert!(says(&told, Mark::Bad, "no endpoint"), "{told:#?}");
}
