//! Runs the shipped program with recognizable secrets and the most detailed log.
//!
//! The test then searches everything that the program wrote, printed or holds in memory for these secrets.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PASSWORD: &str = "Kanarienvogel-2b6e Passwort";
const RPC_KEY: &str = "KANARIENVOGELRPCKEY2b6e";
const ORDER_KEY: &str = "kanarienvogel-order-2b6e";
const PATIENCE: Duration = Duration::from_secs(60);

/// A temporary folder for the data folder and the operator's own files with secrets.
struct Stage {
    home: tempfile::TempDir,
    /// All output of commands and all responses to agents.
    outputs: Vec<(String, Vec<u8>)>,
}

fn write_private_file(path: &Path, text: &str) {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
        command.args(line.split_whitespace()).stdin(Stdio::null());
        for name in ["BURSAR_PASSWORD_FILE", "CREDENTIALS_DIRECTORY"] {
            command.env_remove(name);
        }
        let rpc = format!("http://127.0.0.1:9/v2/{RPC_KEY}");
        command
            .env("BURSAR_DATA_DIR", self.path("data"))
            .env("BURSAR_LOG", "trace")
            .env("BURSAR_NETWORKS_8453_RPC", &rpc)
            .env("BURSAR_NETWORKS_4663_RPC", rpc)
            .env("BURSAR_NETWORKS_8453_EXPLORER", "none");
        command
    }

    /// Runs a command with the password and the seed phrase. Returns the data of its JSON.
    fn run(&mut self, line: &str) -> Value {
        let secrets = format!(
            "--json --yes --password-file {} --seed-file {}",
            self.path("password").display(),
            self.path("phrase").display()
        );
        let output = self.command(&format!("{line} {secrets}")).output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["ok"], true, "{line}: {told} {}", String::from_utf8_lossy(&output.stderr));
        // Registering an agent shows its token to the operator.
        if !line.starts_with("agent register") {
            self.outputs.push((line.to_owned(), output.stdout));
        }
        self.outputs.push((format!("{line}, standard error"), output.stderr));
        told["data"].clone()
    }

    fn log(&self, name: &str) -> File {
        File::options().create(true).append(true).open(self.path(name)).unwrap()
    }

    /// Starts an engine and returns it with its address.
    fn engine(&self, options: &str) -> (RunningProcess, String) {
        let mut command = self.command(&format!("engine --listen 127.0.0.1:0 {options}"));
        let before = std::fs::read(self.path("out")).map_or(0, |out| out.len());
        command.stdout(self.log("out")).stderr(self.log("log"));
        let mut running = RunningProcess(command.spawn().unwrap());
        let end = Instant::now() + PATIENCE;
        loop {
            let out = std::fs::read_to_string(self.path("out")).unwrap();
            if let Some(line) = out.get(before..).unwrap().strip_suffix('\n') {
                let url = line.strip_prefix("READY http://").unwrap().to_owned();
                return (running, url);
            }
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "no engine: {ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn post(&mut self, address: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n");
        write!(stream, "{head}connection: close\r\n\r\n{body}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8(answer.clone()).unwrap();
        self.outputs.push((format!("POST {path}"), answer));
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// A child process that is killed at the end of the test.
struct RunningProcess(Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

fn offer(n: u32) -> Value {
    json!({
        "x402Version": 2,
        "resource": {"url": format!("https://api.example.com/{n}")},
        "accepts": [{
            "scheme": "exact", "network": "eip155:8453", "amount": "1000",
            "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 60,
            "extra": {"name": if n == 2 { "Dollar" } else { "USD Coin" }, "version": "2"},
        }],
    })
}

/// Returns the values that must not appear anywhere, with their names. Keys are included both as text and as bytes.
fn secret_values(phrase: &Value, tokens: &[String]) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, bytes: &[u8]| found.push((name.to_owned(), bytes.to_vec()));
    add("password", PASSWORD.as_bytes());
    add("key of the node", RPC_KEY.as_bytes());
    add("idempotency key", ORDER_KEY.as_bytes());
    let words: Vec<&str> = phrase["mnemonic"].as_str().unwrap().split(' ').collect();
    for three in words.windows(3) {
        for between in [" ", "\n", ",", "\",\""] {
            add("words of the seed", three.join(between).as_bytes());
        }
    }
    let addresses = phrase["addresses"].as_array().unwrap().iter();
    let keys = addresses.map(|address| address["private_key"].as_str().unwrap());
    let seeds = ["seed", "entropy"].map(|name| phrase[name].as_str().unwrap());
    let digits = keys.chain(seeds).map(|text| text.trim_start_matches("0x"));
    for digits in digits.chain(tokens.iter().map(|token| token.strip_prefix("AT_").unwrap())) {
        add("digits of a key", digits.as_bytes());
        let bytes = digits.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        let bytes: Vec<u8> = bytes.map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
        add("bytes of a key", &bytes);
    }
    found
}

#[test]
fn t_37_program_output_and_files_contain_no_secret() {
    let home = tempfile::tempdir().unwrap();
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/bip39-addresses.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(vectors).unwrap()).unwrap();
    let mut cases = vectors["cases"].as_array().unwrap().iter();
    let phrase = cases.find(|case| case["name"] == "legal winner").unwrap();
    let mut stage = Stage { home, outputs: Vec::new() };
    write_private_file(&stage.path("password"), PASSWORD);
    write_private_file(&stage.path("phrase"), phrase["mnemonic"].as_str().unwrap());

    let (engine, address) = stage.engine("");
    stage.run("wallet create main");
    stage.run("seed import");
    stage.run("address create pay 0 tests");
    stage.run("policy create p --auto 1");
    let (mut agents, mut tokens) = (Vec::new(), Vec::new());
    for auth in ["hmac", "bearer"] {
        let given = stage.run(&format!("agent register bot-{auth} --auth {auth}"));
        let id = given["agent_id"].as_str().unwrap().to_owned();
        stage.run(&format!("agent commission {id} p pay"));
        tokens.push(given["token"].as_str().unwrap().to_owned());
        agents.push(id);
    }
    let mut ids = Vec::new();
    let mut pay = |stage: &mut Stage, address: &str, n: u32| {
        let body = json!({"agent_id": agents[1], "signature": tokens[1], "x402_data": offer(n),
                          "idempotency_key": format!("{ORDER_KEY}-{n}")});
        let answer = stage.post(address, "/sign", &body);
        ids.extend(
            answer["transaction_id"].as_str().or(answer["request_id"].as_str()).map(str::to_owned),
        );
        answer
    };
    assert_eq!(pay(&mut stage, &address, 1)["status"], "success");
    // Sends the secrets of both agents in fields where they do not belong.
    for (agent, token) in agents.iter().zip(&tokens) {
        for body in [
            json!({"agent_id": token, "signature": token}),
            json!({"agent_id": agent, "signature": format!("{token}x"), "payment_required": token}),
            json!({"agent_id": agent, "signature": token, "x402_data": {"accepts": [token]}}),
            json!([token, PASSWORD]),
        ] {
            for path in ["/sign", "/trade", "/callback", "/mandate", "/ping", "/status"] {
                stage.post(&address, path, &body);
            }
        }
    }
    for line in
        ["status", "agent list", "seed list", "address list", "requests --all", "audit verify"]
    {
        stage.run(line);
    }
    drop(engine);
    let unlocked = format!("--password-file {}", stage.path("password").display());
    let (engine, address) = stage.engine(&unlocked);
    assert_eq!(pay(&mut stage, &address, 2)["status"], "pending");
    stage.run("wallet lock");
    stage.run("wallet open");

    let canaries = secret_values(phrase, &tokens);
    let holds = |place: &str, bytes: &[u8]| {
        for (name, canary) in &canaries {
            let found = bytes.windows(canary.len()).any(|window| window == canary);
            assert!(!found, "{name} in {place}");
        }
    };
    let mut places = files(&stage.path("data"));
    assert!(places.len() >= 3, "{places:?}");
    places.extend([stage.path("log"), stage.path("out")]);
    for file in &places {
        holds(&file.display().to_string(), &std::fs::read(file).unwrap());
    }
    for (what, bytes) in &stage.outputs {
        holds(what, bytes);
    }
    assert!(stage.outputs.len() > 70, "{}", stage.outputs.len());
    for name in ["cmdline", "environ"] {
        // Only Linux has these files, and only root can read them.
        let Ok(bytes) = std::fs::read(format!("/proc/{}/{name}", engine.0.id())) else { continue };
        let bytes = String::from_utf8_lossy(&bytes).replace(RPC_KEY, "");
        holds(name, bytes.as_bytes());
    }
    let log = std::fs::read_to_string(stage.path("log")).unwrap();
    assert!(log.contains("agent server started"), "{log:.500}");
    assert_eq!(ids.len(), 2);
    for id in ids {
        assert!(!log.contains(&id), "the log tells the whole of {id}");
    }
}
