//! Proofs and mandates, checked by programs that we did not write: a checker of proofs whose author read its page alone, and
//! eth-account with CPython's canonical text.

use std::path::{Path, PathBuf};
use std::process::Command;

use bursar_control::answers::Answer;
use bursar_devnet::install::python;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::sdk::WHEELS;

/// Recovers the signer of a mandate as an issuer of another program would, and prints it.
const RECOVER: &str = r#"
import json, sys
from eth_account import Account
from eth_account.messages import encode_defunct
mandate = json.load(open(sys.argv[1], encoding="utf-8"))
signature = mandate.pop("signature")
text = json.dumps(mandate, sort_keys=True, separators=(",", ":"))
print(Account.recover_message(encode_defunct(text=text), signature=signature["value"]))
"#;

async fn interpreter() -> PathBuf {
    let found = tokio::task::spawn_blocking(|| python(&WHEELS)).await.expect("it ends");
    found.unwrap_or_else(|missing| panic!("{missing}"))
}

/// Runs the checker of the examples, and returns its exit code and its output.
fn check(python: &Path, file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/check_receipt_proof.py");
    let done = Command::new(python).arg(script).arg(file).args(more).output().expect("it runs");
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

#[tokio::test]
async fn checker_from_the_page_alone_and_eth_account_agree_with_us() {
    let python = interpreter().await;
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let folder = tempfile::tempdir().expect("a folder");
    for line in ["mandate create bot", "mandate retire bot"] {
        let Answer::Mandate(mandate) = operator.must(line).await else { panic!("a mandate") };
        let file = folder.path().join("mandate.json");
        std::fs::write(&file, mandate.mandate.expect("signed").to_string()).expect("written");
        let done =
            Command::new(&python).args(["-c", RECOVER]).arg(&file).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), mandate.address, "{line}");
    }
    let mut ids = Vec::new();
    for n in 1..=5 {
        let body = agent.ask(engine.now_s(), &offer(12_000, n), None);
        let paid = engine.post("/sign", &body).await.1;
        ids.push(paid["transaction_id"].as_str().expect("an id").to_owned());
    }
    engine.clock.advance(3_700_000);
    for id in ids {
        let outcome = operator.outcome(&format!("receipt {id} --proof p")).await;
        let Ok(Answer::Proof(proof)) = outcome.reply.result else { panic!("a proof") };
        let file = folder.path().join("proof.json");
        std::fs::write(&file, &outcome.file).expect("written");
        let (code, shown) = check(&python, &file, &["--head", &proof.head]);
        assert_eq!(code, Some(0), "{shown}");
        assert!(shown.contains(&proof.signer.expect("signed")), "{shown}");
        assert_eq!(check(&python, &file, &["--head", &"0".repeat(64)]).0, Some(1));
        let changed = outcome.file.replace(r#""leaf":"#, r#""leaf":1"#);
        std::fs::write(&file, changed).expect("written");
        assert_eq!(check(&python, &file, &[]).0, Some(1));
    }
}
