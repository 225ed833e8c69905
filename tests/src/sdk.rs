//! Runs the scripts of `tests/sdk`, which use the official x402 packages, as processes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bursar_devnet::install::{Kit, Wheels, packages, python};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The npm packages of the scripts.
pub const PACKAGES: Kit = Kit {
    package: "the packages of tests/sdk",
    manifest: include_str!("../sdk/package.json"),
    lock: include_str!("../sdk/package-lock.json"),
    proof_file: "node_modules/x402/package.json",
};

/// The Python packages of the scripts.
pub const WHEELS: Wheels = Wheels {
    package: "the packages of tests/sdk/requirements.txt",
    requirements: include_str!("../sdk/requirements.txt"),
};

/// The modules that scripts import.
const SHARED_MODULES: [&str; 2] = ["facilitator_signer.mjs", "local.mjs"];

/// Timeout of a wait for a line; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server frameworks of the shops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    Hono,
    Express,
    FastApi,
}

impl Framework {
    pub const ALL: [Framework; 3] = [Framework::Hono, Framework::Express, Framework::FastApi];

    /// Starts a shop with its settings: facilitator, payee and routes. Its READY line contains its URL.
    pub async fn start(self, settings: &Value) -> Script {
        let settings = settings.to_string();
        match self {
            Framework::Hono => Script::start("hono.mjs", &[&settings]).await,
            Framework::Express => Script::start("shop.mjs", &[&settings]).await,
            Framework::FastApi => Script::start_python("fastapi_shop.py", &[&settings]).await,
        }
    }
}

/// A running script.
#[derive(Debug)]
pub struct Script {
    /// The text after READY in the script's first line, such as an address.
    pub ready_text: String,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
    _child: Child,
    /// A folder with the scripts and a link to the packages. Node resolves packages from the script's folder.
    _home: Option<TempDir>,
}

impl Script {
    /// Installs the packages if necessary, starts a node script and waits until it is ready.
    pub async fn start(name: &str, args: &[&str]) -> Self {
        let kit = tokio::task::spawn_blocking(|| packages(&PACKAGES)).await.expect("it ends");
        let kit = kit.unwrap_or_else(|missing| panic!("{missing}"));
        let home = tempfile::tempdir().expect("a folder");
        for script in SHARED_MODULES.into_iter().chain([name]) {
            std::fs::copy(source(script), home.path().join(script)).expect("copied");
        }
        let modules = home.path().join("node_modules");
        std::os::unix::fs::symlink(kit.join("node_modules"), modules).expect("linked");
        let mut node = Command::new("node");
        node.arg(home.path().join(name)).args(args);
        Self::run(node, Some(home)).await
    }

    /// Like [`Self::start`], for a Python script.
    pub async fn start_python(name: &str, args: &[&str]) -> Self {
        let found = tokio::task::spawn_blocking(|| python(&WHEELS)).await.expect("it ends");
        let mut python = Command::new(found.unwrap_or_else(|missing| panic!("{missing}")));
        // Without `NO_PROXY`, Python's HTTP client would use a proxy even for loopback addresses.
        python.arg(source(name)).args(args).env("NO_PROXY", "127.0.0.1");
        // In the encoding of another locale, Python would read other characters.
        python.env("PYTHONUTF8", "1");
        Self::run(python, None).await
    }

    async fn run(mut command: Command, home: Option<TempDir>) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("it is there: it has installed the packages");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let stdin = child.stdin.take().expect("piped");
        let ready = String::new();
        let mut script = Self { ready_text: ready, lines, stdin, _child: child, _home: home };
        let line = script.line().await;
        let ready =
            line.strip_prefix("READY").unwrap_or_else(|| panic!("the script printed {line}"));
        script.ready_text = ready.trim().to_owned();
        script
    }

    /// Sends one line and reads the response.
    pub async fn ask(&mut self, order: &Value) -> Value {
        self.stdin.write_all(format!("{order}\n").as_bytes()).await.expect("it reads");
        self.next().await
    }

    /// Reads the next line of a script that writes several lines for one order.
    pub async fn next(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    async fn line(&mut self) -> String {
        let line = timeout(TIMEOUT, self.lines.next_line()).await.expect("in time");
        line.expect("text").expect("it still runs")
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk").join(name)
}
