//! A wallet in a folder on disk, and the payments made in it through `/sign`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bursar_control::answers::Answer;
use bursar_tests::agent::Agent;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Run, post, run_load};

/// Maximum number of payments that are signed in advance; a proof is valid for five minutes.
const PAYMENTS_PER_BATCH: usize = 20_000;
const CONNECTIONS: usize = 64;
/// Advance of the engine's clock between batches: fifty days of twenty thousand payments are a million.
const BATCH_INTERVAL_MS: i64 = 86_400_000;

pub struct Wallet {
    pub folder: PathBuf,
    pub agent: Agent,
    /// The number of payments so far, and some of their ids.
    notes: Notes,
    _home: Option<TempDir>,
}

#[derive(Debug, Clone, Default)]
struct Notes {
    payments: usize,
    ids: Vec<String>,
}

/// A wallet whose engine runs.
pub struct Running {
    pub engine: EngineProcess,
    pub agent: Agent,
    pub ids: Vec<String>,
    /// The number of the next payment.
    next: std::cell::Cell<usize>,
}

impl Wallet {
    /// Creates a wallet with one payment.
    pub async fn new(name: &str) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
        let mut wallet = Self::create(&home.path().join(name)).await;
        wallet._home = Some(home);
        wallet.pay_until(1).await;
        wallet
    }

    /// Opens the wallet that an earlier run left, or creates a new one.
    pub async fn open_or_create(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let Ok(text) = std::fs::read_to_string(folder.with_extension("json")) else {
            let _left = std::fs::remove_dir_all(&folder);
            return Self::create(&folder).await;
        };
        let noted: Value = serde_json::from_str(&text).expect("notes");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let agent = Agent::new(text(&noted["agent"]), text(&noted["token"]), false);
        let ids = noted["ids"].as_array().expect("ids").iter().map(text).collect();
        let payments = noted["payments"].as_u64().expect("a number") as usize;
        Self { folder, agent, notes: Notes { payments, ids }, _home: None }
    }

    fn save_notes(&self) {
        let noted = json!({
            "agent": self.agent.id, "token": self.agent.token,
            "payments": self.notes.payments, "ids": self.notes.ids,
        });
        std::fs::write(self.folder.with_extension("json"), noted.to_string()).expect("noted");
    }

    async fn create(folder: &Path) -> Self {
        let mut engine = EngineProcess::start(folder, &StartOptions::default());
        let mut operator = engine.operator().await;
        for line in [
            "wallet create bench",
            "seed create",
            "address create pay 0",
            "policy create p --day 1000000 --txn 10 --auto 5",
        ] {
            operator.must(line).await;
        }
        let created = operator.outcome("agent register bench --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!("an agent") };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let agent = Agent::new(given.agent_id, created.secret.expect("a token"), false);
        assert_eq!(engine.terminate(), Some(0));
        Self { folder: folder.to_owned(), agent, notes: Notes::default(), _home: None }
    }

    pub fn start(&self, open: bool) -> Running {
        let env = vec![("BURSAR_SERVER_RATE_PER_MINUTE".to_owned(), "4000000000".to_owned())];
        let engine = EngineProcess::start(
            &self.folder,
            &StartOptions { has_password: open, env, ..StartOptions::default() },
        );
        Running {
            engine,
            agent: self.agent.clone(),
            ids: self.notes.ids.clone(),
            next: std::cell::Cell::new(self.notes.payments + 1_000_000_000),
        }
    }

    /// Pays until this many payments are recorded, then stops the engine.
    pub async fn pay_until(&mut self, payments: usize) {
        if self.notes.payments >= payments {
            return;
        }
        let begun = Instant::now();
        let (mut running, mut skew) = (self.start(true), 0);
        running.next.set(self.notes.payments);
        while self.notes.payments < payments {
            let count = PAYMENTS_PER_BATCH.min(payments - self.notes.payments);
            let run = running.pay(CONNECTIONS, count).await;
            self.notes.payments += count;
            skew += BATCH_INTERVAL_MS;
            running.engine.set_clock_offset(skew);
            let thinned = if payments > 10_000 { 100 } else { 1 };
            self.notes.ids.extend(ids(&run).step_by(thinned));
        }
        // The clock has moved past the validity of the last payments, and this command adds one more entry.
        running.engine.operator().await.must("policy create later --day 1").await;
        assert_eq!(running.engine.terminate(), Some(0));
        self.save_notes();
        let length = |name| std::fs::metadata(self.folder.join(name)).map_or(0, |file| file.len());
        let bytes = length("journal.redb") + length("journal-history.redb");
        println!(
            "{payments} payments, made in {:.0} s; the journal has {} MiB",
            begun.elapsed().as_secs_f64(),
            bytes >> 20
        );
    }
}

fn ids(run: &Run) -> impl Iterator<Item = String> {
    run.answers.iter().map(|(_at, body)| {
        let answer: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(answer["status"], "success", "{answer}");
        answer["transaction_id"].as_str().expect("an id").to_owned()
    })
}

impl Running {
    pub fn address(&self) -> &str {
        self.engine.url.strip_prefix("http://").expect("a URL")
    }

    /// Asks for `count` new payments, each of which must be signed.
    pub async fn pay(&self, connections: usize, count: usize) -> Run {
        let first = self.next.replace(self.next.get() + count);
        let now = self.engine.now_s();
        let body = |n| self.agent.ask(now, &offer(1_000, n), None).to_string();
        let requests = (first..first + count).map(|n| post("/sign", &body(n as u64)));
        let run = run_load(self.address(), connections, count, Arc::new(requests.collect()), true);
        let run = run.await;
        assert_eq!(ids(&run).count(), count);
        run
    }
}
