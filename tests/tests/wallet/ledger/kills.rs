//! `kill -9` at each point between a prompt and its record: the next engine asks for the same terms, and one payment
//! results.

use std::collections::BTreeSet;
use std::time::Duration;

use bursar_control::answers::Answer;
use bursar_ledger_device::device::Decision;
use bursar_tests::agent::Agent;
use bursar_tests::offers::{decode_header, offer};
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};

use super::support::{SEED_WORDS, plug_in, prompts};

/// Points at which the first engine is killed.
const POINTS: [&str; 10] = [
    "device.ready:1",
    "device.prompted:1",
    "device.answered:1",
    "device.recorded:1",
    // The commits of the ask, the prompt and the signature.
    "journal.before_commit:3",
    "journal.after_commit:3",
    "journal.before_commit:4",
    "journal.after_commit:4",
    "journal.before_commit:5",
    "journal.after_commit:5",
];

struct Wallet {
    http: reqwest::Client,
}

impl Wallet {
    async fn post(&self, url: &str, body: &Value) -> Option<Value> {
        let answer = self.http.post(format!("{url}/sign")).json(body).send().await.ok()?;
        answer.json().await.ok()
    }

    async fn poll(&self, url: &str, id: &str) -> Option<Value> {
        let answer = self.http.get(format!("{url}/sign/status/{id}")).send().await.ok()?;
        answer.json().await.ok()
    }
}

/// Presses whenever the device shows a prompt, until `done`; returns the texts of the screens.
async fn press_until(
    device: &bursar_ledger_device::device::Device,
    mut done: impl AsyncFnMut() -> bool,
) {
    let begun = std::time::Instant::now();
    while !done().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "not in time: {:?}", device.log());
        if device.screen().is_some() {
            device.press(Decision::Press);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_at_any_point_the_same_terms_are_signed_once() {
    for point in POINTS {
        let (device, at) = plug_in(SEED_WORDS);
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        let env = vec![("BURSAR_TEST_LEDGER".to_owned(), at.to_string())];
        let start = StartOptions { env: env.clone(), ..StartOptions::default() };
        let engine = EngineProcess::start(&folder, &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("address ledger add 0 safe").await;
        operator.must("policy create p --day 10 --txn 5 --auto 0.5").await;
        let created = operator.outcome("agent register bot --auth bearer").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!("credentials") };
        operator.must(&format!("agent commission {} p safe", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, true);
        drop((operator, engine));

        let (fault, unlock) = (Some(format!("kill:{point}")), true);
        let start = StartOptions {
            env: env.clone(),
            fault,
            has_password: unlock,
            ..StartOptions::default()
        };
        let mut engine = EngineProcess::start(&folder, &start);
        let wallet = Wallet { http: reqwest::Client::builder().no_proxy().build().unwrap() };
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
        let asked = wallet.post(&engine.url, &body).await;
        press_until(&device, async || engine.has_exited()).await;
        assert!(engine.wait_killed(), "{point}");
        let prompts_before = prompts(&device);

        let start = StartOptions { env, has_password: unlock, ..StartOptions::default() };
        let engine = EngineProcess::start(&folder, &start);
        let again = wallet.post(&engine.url, &body).await.expect("an answer");
        if let Some(asked) = asked {
            assert_eq!(
                again["request_id"].as_str().or(again["transaction_id"].as_str()),
                asked["request_id"].as_str()
            );
        }
        let id = again["request_id"].as_str().or(again["transaction_id"].as_str());
        let id = id.unwrap_or_else(|| panic!("{point}: {again}")).to_owned();
        let mut paid = Value::Null;
        press_until(&device, async || {
            paid = wallet.poll(&engine.url, &id).await.unwrap_or_default();
            paid["status"] == json!("success")
        })
        .await;
        let terms =
            &decode_header(paid["header_value"].as_str().unwrap())["payload"]["authorization"];
        assert_eq!(terms["value"], json!("12000"));
        // Every prompt had the same nonce, so at most one payment exists.
        let nonces: BTreeSet<String> = shown_values(&device, "nonce");
        assert_eq!(nonces.len(), 1, "{point}: {nonces:?} ({prompts_before} before the kill)");
        let mut operator = engine.operator().await;
        let Answer::History(history) = operator.must("history").await else { panic!("rows") };
        assert_eq!(history.requests.len(), 1, "{point}");
        operator.must("audit verify").await;
    }
}

/// Returns the values of a field on all screens so far.
fn shown_values(device: &bursar_ledger_device::device::Device, field: &str) -> BTreeSet<String> {
    let log = device.log();
    let asked = log.iter().filter_map(|line| line.split_once("asked: "));
    let pages = asked.flat_map(|(_before, pages)| pages.split(" / "));
    pages.filter(|page| page.contains(field)).map(str::to_owned).collect()
}
