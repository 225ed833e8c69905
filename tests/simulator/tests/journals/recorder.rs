//! Records the journals of this build: some simulated worlds, and a wallet that a password file opens.

use std::path::Path;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::Clock;
use bursar_core::time::Utc;
use bursar_simulator::Plan;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, PASSWORD};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::reading::{self, Reading};

/// The number of seeds to choose from.
const SEED_COUNT: u64 = 240;

/// The maximum size of a packed set, in bytes.
const SET_BYTES_MAX: u64 = 500_000;

/// Records the journals into the new folder `set`: the unattended one, and worlds that together contain all `covered`
/// kinds.
pub(crate) async fn write(set: &Path, covered: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("unattended");
    let stopped = record_unattended(&folder).await;
    let mut missing = missing_kinds(covered, &reading::entries_of(&folder));
    describe(&folder, stopped).await;
    let mut bytes = pack(&folder, set);
    let mut worlds = Vec::new();
    for seed in 0..SEED_COUNT {
        let (plan, to) = (Plan::of(seed), home.path().join(format!("world-{seed}")));
        let at = to.clone();
        // The world needs its own thread, because it has its own runtime.
        let recorded = std::thread::spawn(move || bursar_simulator::record(&plan, &at));
        let Ok(stopped) = recorded.join().expect("no panic") else { continue };
        let entries = reading::entries_of(&to);
        // After a wrong password, the next attempt would be delayed.
        let refused = last_index(&entries, |line| line.ends_with("PasswordRefused"));
        let opened = last_index(&entries, |line| line.contains(" WalletOpened"));
        if refused <= opened {
            worlds.push((entries, folder_bytes(&to), to, stopped));
        }
    }
    while !missing.is_empty() {
        let gain = |entries: &str| missing.len() - self::missing_kinds(&missing, entries).len();
        let best = worlds.iter().filter(|(entries, ..)| gain(entries) > 0);
        let best =
            best.max_by_key(|(entries, bytes, ..)| gain(entries) as u64 * 1_000_000 / *bytes);
        let Some((entries, _bytes, folder, stopped)) = best else { break };
        missing = self::missing_kinds(&missing, entries);
        describe(folder, *stopped).await;
        bytes += pack(folder, set);
    }
    println!("{bytes} bytes, missing {missing:?}");
    assert!(missing.is_empty() && bytes <= SET_BYTES_MAX);
}

/// Returns the kinds of entries that a journal does not contain.
pub(crate) fn missing_kinds<'a>(covered: &[&'a str], entries: &str) -> Vec<&'a str> {
    let contains = |wanted: &str| {
        entries.lines().any(|line| {
            let what = line.splitn(3, ' ').nth(2).unwrap_or_default();
            what == wanted || what.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(' '))
        })
    };
    covered.iter().filter(|wanted| !contains(wanted)).copied().collect()
}

/// Packs a data folder into the set. Returns the size of the package in bytes.
fn pack(folder: &Path, set: &Path) -> u64 {
    let name = folder.file_name().expect("a name").to_string_lossy();
    let file = set.join(format!("{name}.tar.gz"));
    std::fs::create_dir_all(set).expect("a folder");
    let packed = GzEncoder::new(std::fs::File::create(&file).expect("a file"), Compression::best());
    let mut archive = tar::Builder::new(packed);
    archive.mode(tar::HeaderMode::Deterministic);
    archive.append_dir_all("", folder).expect("packed");
    archive.into_inner().and_then(GzEncoder::finish).expect("packed");
    std::fs::metadata(&file).expect("there").len()
}

fn last_index(entries: &str, is_wanted: impl Fn(&str) -> bool) -> Option<usize> {
    entries.lines().enumerate().filter(|(_at, line)| is_wanted(line)).map(|(at, _line)| at).last()
}

fn folder_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    files
        .map(|file| file.metadata().expect("there"))
        .filter(|file| file.is_file())
        .map(|file| file.len())
        .sum()
}

/// Writes down the content that this build reads from a journal, without changing the journal.
async fn describe(folder: &Path, stopped: Utc) {
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("data");
    reading::copy(folder, &copy);
    // The journal's time may be later than the engine's clock.
    let opened = reading::open(&copy, Arc::new(ManualClock::new(stopped))).await;
    let last = opened.engine.core().view().state.clock;
    reading::stop(opened).await;
    let copy = home.path().join("again");
    reading::copy(folder, &copy);
    let opened = reading::open(&copy, Arc::new(ManualClock::new(last))).await;
    let reading = Reading::of(&opened).await;
    reading::stop(opened).await;
    std::fs::write(folder.join("entries.txt"), reading.entries).expect("written");
    let shown = serde_json::to_string(&reading.shown).expect("JSON");
    std::fs::write(folder.join("shown.json"), shown).expect("written");
}

/// Records a wallet that pays while a person has opened it, and while only a password file has.
async fn record_unattended(folder: &Path) -> Utc {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data");
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let setup = || Setup { clock: Arc::clone(&clock), ..Setup::default() };
    let engine = TestEngine::open(path.clone(), setup()).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5 --allow-domains api.example.com").await;
    let signs = engine.add_agent("signs", "hmac").await;
    let bears = engine.add_agent("bears", "bearer").await;
    let mut operator = engine.operator();
    operator.must("config set unattended.daily 1").await;
    let mut number = 0;
    let mut ask = |agent: &bursar_tests::agent::Agent, atoms| {
        number += 1;
        let url = format!("https://api.example.com/{number}");
        agent.ask(engine.now_s(), &offer(atoms, number), Some(&url))
    };
    let bodies: Vec<Value> = [(&signs, 12_000), (&bears, 13_000), (&signs, 499_999)]
        .map(|(agent, atoms)| ask(agent, atoms))
        .into();
    for body in &bodies {
        let (status, answer) = engine.post("/sign", body).await;
        assert_eq!(status, 200, "{answer}");
        let id = answer["request_id"].as_str().unwrap_or_default().to_owned();
        let hash = format!("0x{}", "ab".repeat(32));
        let report = signs.report(engine.now_s(), &id, "payment_settled", Some(&hash));
        // One of the reports comes from another agent, and the wallet refuses it.
        engine.post("/callback", &report).await;
    }
    for decision in ["approve", "deny", ""] {
        let body = ask(&signs, 2_000_000);
        let (status, answer) = engine.post("/sign", &body).await;
        assert_eq!(status, 202, "{answer}");
        let id = answer["request_id"].as_str().expect("an id").to_owned();
        if !decision.is_empty() {
            operator.must(&format!("{decision} {id}")).await;
        }
    }
    engine.post("/sign", &ask(&bears, 6_000_000)).await;
    operator.must("wallet passwd").await;
    operator.must("agent suspend bears").await;
    operator.must("agent resume bears").await;
    operator.must("address rename pay paying").await;
    drop(operator);
    reading::stop(engine).await;
    for start in 0..2 {
        clock.advance(24 * 3_600_000);
        let engine = TestEngine::open(path.clone(), setup()).await;
        engine.engine.record_start().await.expect("recorded");
        engine.engine.unlock(PASSWORD.into()).await.expect("opened");
        for _payment in 0..2 {
            number += 1;
            let body = signs.ask(
                engine.now_s(),
                &offer(450_000, number),
                Some("https://api.example.com/unattended"),
            );
            let (status, answer) = engine.post("/sign", &body).await;
            assert_eq!(status, 200, "{answer}");
        }
        if start == 0 {
            let mut operator = engine.operator();
            operator.must("wallet lock").await;
            operator.password = "a wrong password".to_owned();
            operator.run_refused("wallet open").await;
            // After a wrong password, the next attempt is delayed.
            operator.password = PASSWORD.to_owned();
            engine.while_time_passes(operator.must("wallet open")).await;
        }
        reading::stop(engine).await;
    }
    reading::copy(&path, folder);
    clock.utc()
}
