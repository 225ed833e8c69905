//! Scripts of `tests/sdk`, which are made of the protocol's own packages, as processes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bursar_demo::devnet::install::{Kit, packages};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// What the scripts are made of.
pub const PACKAGES: Kit = Kit {
    package: "the packages of tests/sdk",
    manifest: include_str!("../sdk/package.json"),
    lock: include_str!("../sdk/package-lock.json"),
    proof: "node_modules/x402/package.json",
};

/// Longest wait for a line; reached only by what would never come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running script.
#[derive(Debug)]
pub struct Script {
    /// What it said beside READY, such as its address.
    pub ready: String,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
    _child: Child,
    /// The scripts beside a link to the packages: that is where node looks for them.
    _home: TempDir,
}

impl Script {
    /// Installs the packages if need be, starts a script and waits until it is ready.
    pub async fn start(name: &str, args: &[&str]) -> Self {
        let kit = tokio::task::spawn_blocking(|| packages(&PACKAGES)).await.expect("it ends");
        let kit = kit.unwrap_or_else(|missing| panic!("{missing}"));
        let home = tempfile::tempdir().expect("a folder");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk");
        for script in ["local.mjs", name] {
            std::fs::copy(sources.join(script), home.path().join(script)).expect("copied");
        }
        let modules = home.path().join("node_modules");
        std::os::unix::fs::symlink(kit.join("node_modules"), modules).expect("linked");
        let mut child = Command::new("node")
            .arg(home.path().join(name))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("node is there: it has installed the packages");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdin = child.stdin.take().expect("piped");
        let ready = String::new();
        let mut script = Self { ready, lines, stdin, _child: child, _home: home };
        let line = script.line().await;
        let ready = line.strip_prefix("READY").unwrap_or_else(|| panic!("{name} says {line}"));
        script.ready = ready.trim().to_owned();
        script
    }

    /// Sends it a line and reads the answer.
    pub async fn ask(&mut self, order: &Value) -> Value {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await.expect("it reads");
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("in time");
        line.expect("text").expect("it still runs")
    }
}
