//! Searches an engine's memory from another process.
#![cfg(target_os = "linux")]

use std::os::unix::fs::FileExt;

use bursar_control::answers::Answer;
use bursar_core::derivation::Template;
use bursar_core::ids::SeedId;
use bursar_devnet::report_skip;
use bursar_engine::vault::derive::private_key;
use bursar_engine::vault::seed::Seed;
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, PASSWORD};
use bursar_tests::process::{EngineProcess, StartOptions};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::threats::secrets::contains;
use crate::threats::stage::add_agent;
use crate::threats::wire::exchange;

/// Byte strings to search for, with their names.
type Needles = Vec<(String, Vec<u8>)>;

/// Overlap of two memory chunks: longer than the longest needle, so that one on a chunk boundary is found.
const CHUNK_OVERLAP_BYTES: usize = 256;

/// Returns which needles are in the writable memory of a process; `None` if that memory cannot be read.
fn found_in(pid: u32, needles: &Needles) -> Option<Vec<&str>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut found = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        let [mut at, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        while at < to {
            let size = chunk.len().min(usize::try_from(to - at).unwrap());
            if let Ok(read @ 1..) = memory.read_at(&mut chunk[..size], at) {
                let hits = needles.iter().filter(|(_, needle)| contains(&chunk[..read], needle));
                found.extend(hits.map(|(name, _)| name.as_str()));
            }
            let end = at + size as u64;
            at = if end == to { to } else { end - CHUNK_OVERLAP_BYTES as u64 };
        }
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// Adds everything derived from a phrase: its bytes, entropy, seed, and private keys in both byte orders. Returns
/// the key of the first address.
fn secrets_of(phrase: &str, name: &str, needles: &mut Needles) -> Vec<u8> {
    let seed = Seed::from_phrase(&SecretString::from(phrase)).unwrap();
    let stretched = seed.bip39_seed(&SecretString::from("")).unwrap();
    let mut add =
        |what: &str, bytes: &[u8]| needles.push((format!("{what} {name}"), bytes.to_vec()));
    add("phrase", phrase.as_bytes());
    add("entropy", seed.expose_entropy());
    add("seed", stretched.expose_secret().as_slice());
    let mut key = Vec::new();
    // Goes from last to first, so that the key of the first address is returned.
    for path in [Template::SEEDS.path(0).unwrap(), "m".parse().unwrap()].iter().rev() {
        key = private_key(&stretched, path).unwrap().expose_bytes().to_vec();
        add("key", &key);
        // The little-endian form, as a scalar's limbs are stored.
        add("limbs of the key", &key.iter().rev().copied().collect::<Vec<_>>());
    }
    add("digits of the key", hex::encode(&key).as_bytes());
    key
}

/// Secrets pass through the socket and keys sign; after a lock none of them is in memory.
#[tokio::test]
async fn t_47_nothing_secret_is_left_in_the_engines_memory_after_a_lock() {
    let home = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    operator.must("wallet create main").await;
    operator.must("wallet lock").await;
    operator.must("wallet open").await;
    let mut needles = vec![("password".to_owned(), PASSWORD.as_bytes().to_vec())];
    let phrase = operator.outcome("seed create").await.secret.expect("words");
    let key = secrets_of(&phrase, "of a new seed", &mut needles);
    let mut entropy = [0; 32];
    getrandom::fill(&mut entropy).unwrap();
    operator.phrase = Seed::from_entropy(&entropy).unwrap().phrase().unwrap().to_string();
    operator.must("seed import").await;
    secrets_of(&operator.phrase.clone(), "of an imported seed", &mut needles);
    for (label, seed) in [("pay", SeedId(1)), ("other", SeedId(2))] {
        operator.must(&format!("address create {label} 0 x --seed {seed}")).await;
    }
    operator.must("policy create p --auto 5").await;
    let mut agents = Vec::new();
    for auth in ["hmac", "bearer"] {
        let agent = add_agent(&mut operator, auth, auth).await;
        needles.push((format!("token of {auth}"), agent.token.as_bytes().to_vec()));
        needles.push((format!("key of {auth}"), hex::decode(&agent.token[3..]).unwrap()));
        agents.push(agent);
    }
    // Every secret is used: show the words, export the key, sign with and without a hold.
    assert_eq!(operator.outcome("seed words S001").await.secret.expect("words"), phrase);
    let exported = operator.outcome("address export pay").await.secret.expect("a key");
    assert_eq!(exported.trim_start_matches("0x"), hex::encode(&key), "the search knows the keys");
    // Only the HMAC agent pays: a bearer agent sends its token with every request, and HTTP read buffers are not wiped.
    for (n, atoms) in [(1, 1_000), (2, 6_000_000)] {
        let body = agents[0].ask(engine.now_s(), &offer(atoms, n), None).to_string();
        let answer = exchange(&engine.url, "POST", "/sign", "", body.as_bytes());
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let answer: Value = serde_json::from_slice(&answer[body..]).unwrap();
        let Some(held) = answer["request_id"].as_str().filter(|_id| n == 2) else {
            assert_eq!(answer["status"], "success", "{answer}");
            continue;
        };
        let approved = operator.must(&format!("approve {held} --yes --confirm 6.00")).await;
        assert!(matches!(approved, Answer::Decided(_)), "{approved:?}");
    }
    // Control: an open wallet has its secrets in memory, so the search must find them.
    let Some(open) = found_in(engine.pid(), &needles) else {
        report_skip("this machine does not let a test read another process's memory");
        return;
    };
    for held in ["key of hmac", "entropy of a new seed", "entropy of an imported seed"] {
        assert!(open.contains(&held), "{open:?}");
    }
    operator.must("wallet lock").await;
    assert_eq!(found_in(engine.pid(), &needles).unwrap(), Vec::<&str>::new());
}
