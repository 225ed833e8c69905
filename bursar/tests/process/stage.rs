//! The shipped program, a running engine, and an agent that requests payments.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

/// Builds `bursar` with a separate data folder and no way to ask a question.
///
/// It has neither standard input nor a terminal. Variables that supply a password or select log lines are removed.
pub(crate) fn bursar(data: &Path, line: &str) -> Command {
    let mut command = silent(Path::new(env!("CARGO_BIN_EXE_bursar")), line);
    command.env("BURSAR_DATA_DIR", data);
    command
}

/// Builds a command of a program that has no way to ask a question, and without variables that name files.
pub(crate) fn silent(program: &Path, line: &str) -> Command {
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).stdin(Stdio::null());
    for name in ["BURSAR_DATA_DIR", "BURSAR_PASSWORD_FILE", "CREDENTIALS_DIRECTORY", "BURSAR_LOG"] {
        command.env_remove(name);
    }
    // The default explorer is a public host, and no test may connect outside this machine.
    command.env("BURSAR_NETWORKS_8453_EXPLORER", "none");
    command
}

/// Copies `bursar` in a separate process.
///
/// If this process wrote the file, a child that another test forks at that moment would hold it open for writing.
/// Linux would then refuse to run it (`ETXTBSY`).
pub(crate) fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_bursar")).arg(to).status().unwrap();
    assert!(copied.success());
}

pub(crate) fn run(data: &Path, line: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = bursar(data, line).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A running `bursar engine`, which is killed at the end of the test.
pub(crate) struct Engine(pub(crate) Child);

impl Engine {
    /// Starts an engine and waits for the READY line on standard output.
    pub(crate) fn start(data: &Path, options: &str) -> (Self, String) {
        Self::spawn(bursar(data, &format!("engine {options}")))
    }

    pub(crate) fn spawn(mut command: Command) -> (Self, String) {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut engine = Self(child);
        let mut line = String::new();
        let out = engine.0.stdout.as_mut().unwrap();
        BufReader::with_capacity(1, out).read_line(&mut line).unwrap();
        (engine, line)
    }

    /// Sends a signal. Returns the exit code and the rest of standard output.
    pub(crate) fn stop_with(mut self, signal: rustix::process::Signal) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, signal).unwrap();
        let mut rest = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (self.0.wait().unwrap().code(), rest)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

pub(crate) const PASSWORD: &str = "correct horse battery";

/// Creates a file that only its owner may read.
pub(crate) fn write_private_file(path: &Path, text: &str) {
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// A data folder and the password of its wallet.
pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    /// The id and the token of the agent `bot`.
    pub(crate) agent: Option<(String, String)>,
    offers: u64,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_private_file(&dir.path().join("password"), PASSWORD);
        Self { dir, agent: None, offers: 0 }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Builds a command with the password, and with endpoints on which nothing listens.
    pub(crate) fn command(&self, data: &Path, line: &str) -> Command {
        let mut command = bursar(data, line);
        command
            .env("BURSAR_PASSWORD_FILE", self.dir.path().join("password"))
            .env("BURSAR_SERVER_LISTEN", "127.0.0.1:0")
            .env("BURSAR_NETWORKS_8453_RPC", "http://127.0.0.1:9")
            .env("BURSAR_NETWORKS_4663_RPC", "http://127.0.0.1:9");
        command
    }

    /// Starts an engine, which unlocks the wallet if the folder has one. Returns it with its address for agents.
    pub(crate) fn engine(&self, data: &Path) -> (Engine, String) {
        let (engine, line) = Engine::spawn(self.command(data, "engine"));
        (engine, line.trim().strip_prefix("READY http://").unwrap().to_owned())
    }

    /// Runs a command that must succeed and returns its data.
    pub(crate) fn must(&self, line: &str) -> Value {
        let output = self.command(&self.data(), &format!("{line} --json")).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["ok"], true, "{line}: {told}");
        crate::schemas::check(&told).unwrap();
        told["data"].clone()
    }

    /// Creates a wallet with an agent whose payments all need approval.
    pub(crate) fn create_wallet(&mut self) {
        for line in [
            "wallet create main",
            "seed create --reveal",
            "address create pay 0",
            "policy create p",
        ] {
            self.must(line);
        }
        let told = self.must("agent register bot --auth bearer");
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        self.agent = Some((text("agent_id"), text("token")));
        self.must("agent commission bot p pay");
    }

    /// Requests a payment as the agent, which the policy holds. Returns the id of the request.
    pub(crate) fn ask(&mut self, address: &str) -> String {
        self.offers += 1;
        let coin = bursar_core::networks::by_id_name_or_title("8453").unwrap().stablecoin;
        let (id, token) = self.agent.as_ref().unwrap();
        let offer = json!({
            "x402Version": 1,
            "error": "payment required",
            "accepts": [{
                "scheme": "exact",
                "network": "base",
                "maxAmountRequired": "1000000",
                "resource": format!("https://api.example.com/{}", self.offers),
                "description": "a test",
                "mimeType": "application/json",
                "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
                "maxTimeoutSeconds": 60,
                "asset": coin.address.to_checksum(None),
                "extra": {"name": coin.domain_name, "version": coin.domain_version},
            }],
        });
        let body = json!({"agent_id": id, "signature": token, "x402_data": offer}).to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = "POST /sign HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let told: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(told["code"], "APPROVAL_REQUIRED", "{told}");
        told["request_id"].as_str().unwrap().to_owned()
    }
}
