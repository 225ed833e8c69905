//! Backups of a wallet that changes while they are made.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use crate::stage::Home;

/// All files in a backup are from one instant: the wallet file has the secret of every agent in the journal.
#[test]
fn backups_during_registrations_contain_the_secret_of_each_agent() {
    let mut home = Home::new();
    home.create_wallet();
    let (engine, _address) = home.engine(&home.data());
    let (home, is_done) = (&home, &AtomicBool::new(false));
    let files: Vec<PathBuf> = thread::scope(|scope| {
        for program in 0..4 {
            scope.spawn(move || {
                for n in 0.. {
                    home.must(&format!("agent register late-{program}-{n} --auth hmac"));
                    if is_done.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
        }
        let backup = |n| {
            let file = home.dir.path().join(format!("{n}.backup"));
            home.must(&format!("wallet backup {}", file.display()));
            file
        };
        let files = (0..8).map(backup).collect();
        is_done.store(true, Ordering::Release);
        files
    });
    drop(engine);
    for file in files {
        let data = home.dir.path().join("restored");
        let run = |line: &str| {
            let output = home.command(&data, &format!("{line} --json")).output().unwrap();
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(told["ok"], true, "{line}: {told}");
            told["data"].clone()
        };
        run(&format!("wallet restore {} --yes", file.display()));
        let agents = run("agent list");
        for agent in agents["agents"].as_array().unwrap() {
            assert_eq!(agent["problem"], Value::Null, "{}: {agent}", file.display());
        }
        std::fs::remove_dir_all(data).unwrap();
    }
}
