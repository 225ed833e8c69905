//! Dust payments with padded offers against a real process: the memory and disk that they use.

use std::path::Path;

use bursar_core::codes::Code;
use bursar_tests::agent::Agent;
use bursar_tests::process::{EngineProcess, StartOptions, memory_mib};
use serde_json::{Value, json};

use crate::threats::stage::{add_agent, offer_with, set_up_wallet};
use crate::threats::wire::KeepAlive;

/// Maximum growth of memory, and of disk use, during the whole attack (T-43), in MiB.
const GROWTH_MIB_MAX: f64 = 64.0;
/// Number of unpadded payments after the padded ones.
const PLAIN_PAYMENTS: usize = 400;

/// Returns a payment of one atom with `padding` pieces of 3 kB in its offer.
fn ask(agent: &Agent, now_s: i64, n: usize, padding: usize) -> Vec<u8> {
    let header = offer_with(1, n, |offer| {
        // At most four pieces go into the part that is echoed with the payment; the others go
        // into a part that is only read.
        offer["accepts"][0]["extra"]["padding"] = json!(vec!["x".repeat(3_000); padding.min(4)]);
        offer["more"] = json!(vec!["y".repeat(3_000); padding.saturating_sub(4)]);
    });
    agent.ask(now_s, &header, None).to_string().into_bytes()
}

/// Returns the size of all files in a folder, in MiB.
fn disk_mib(folder: &Path) -> f64 {
    let files = std::fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file"));
    let sizes = files.map(|file| file.metadata().map_or(0, |known| known.len()));
    sizes.sum::<u64>() as f64 / f64::from(1 << 20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_43_padded_dust_payments_use_little_memory_and_disk() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let mut engine = EngineProcess::start(&folder, &StartOptions::default());
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, "--day 1000 --txn 10 --auto 5").await;
    let agent = add_agent(&mut operator, "bot", "hmac").await;
    let other = add_agent(&mut operator, "other", "hmac").await;
    let mut n = 0;
    let mut pay = |engine: &EngineProcess, wire: &mut KeepAlive, by: &Agent, padding: usize| {
        n += 1;
        let (status, body) = wire.ask("POST", "/sign", &ask(by, engine.now_s(), n, padding));
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    };
    let paid = (200, String::new());
    let mut wire = KeepAlive::open(&engine.url);
    // Exclude one-time allocations of the first payments.
    for _payment in 0..20 {
        assert_eq!(pay(&engine, &mut wire, &other, 0), paid);
    }
    let (before, _most) = memory_mib(engine.pid());

    let mut padded = 0;
    let refused = loop {
        match pay(&engine, &mut wire, &agent, 15) {
            reply if reply == paid && padded < 2_000 => padded += 1,
            reply => break reply,
        }
    };
    assert_eq!(refused, (429, Code::TooManyToday.to_string()));
    assert!(padded > 500, "{padded}");
    for _payment in 0..PLAIN_PAYMENTS {
        assert_eq!(pay(&engine, &mut wire, &agent, 0), paid);
    }
    assert_eq!(pay(&engine, &mut wire, &other, 15), paid, "another agent has its own day");
    let (_now, most) = memory_mib(engine.pid());
    assert!(most - before <= GROWTH_MIB_MAX, "{before} MiB, and then {most}");
    let disk = disk_mib(&folder);
    assert!(disk <= GROWTH_MIB_MAX, "{disk} MiB on the disk");

    // The next start uses no more memory or disk either.
    assert_eq!(engine.terminate(), Some(0));
    let start = StartOptions { has_password: true, ..StartOptions::default() };
    let engine = EngineProcess::start(&folder, &start);
    assert_eq!(pay(&engine, &mut KeepAlive::open(&engine.url), &other, 0), paid);
    let (_now, most) = memory_mib(engine.pid());
    assert!(most - before <= GROWTH_MIB_MAX, "{before} MiB, and after the start {most}");
}
