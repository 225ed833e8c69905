//! `bursar-pay` next to `bursar`: whose folder is whose, and what each program has.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::stage::{Engine, PASSWORD, bursar, silent, write_private_file};

/// A copy of `bursar-pay` in a separate folder.
struct Stick {
    dir: tempfile::TempDir,
}

impl Stick {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let copied =
            Command::new("cp").arg(env!("CARGO_BIN_EXE_bursar-pay")).arg(dir.path()).status();
        assert!(copied.unwrap().success());
        write_private_file(&dir.path().join("password"), PASSWORD);
        Self { dir }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("bursar-pay-data")
    }

    /// Builds a command of this copy, with endpoints on which nothing listens.
    fn command(&self, program: &Path, line: &str) -> Command {
        let mut command = silent(program, line);
        command
            .env("BURSAR_PASSWORD_FILE", self.dir.path().join("password"))
            .env("BURSAR_SERVER_LISTEN", "127.0.0.1:0")
            .env("BURSAR_NETWORKS_8453_RPC", "http://127.0.0.1:9")
            .env("BURSAR_NETWORKS_8453_EXPLORER", "none")
            .env("BURSAR_NETWORKS_1187947933_RPC", "http://127.0.0.1:9");
        command
    }

    fn run(&self, line: &str) -> (i32, Value) {
        let program = self.dir.path().join("bursar-pay");
        ended(self.command(&program, &format!("{line} --json")))
    }

    fn must(&self, line: &str) -> Value {
        let (exit, answer) = self.run(line);
        assert_eq!(exit, 0, "{line}: {answer}");
        answer["data"].clone()
    }
}

fn ended(mut command: Command) -> (i32, Value) {
    let Output { status, stdout, .. } = command.output().unwrap();
    (status.code().unwrap(), serde_json::from_slice(&stdout).unwrap())
}

#[test]
fn row_instance_rule_a_second_engine_names_the_first_and_no_other_edition_uses_the_folder() {
    let stick = Stick::new();
    stick.must("wallet create main");
    assert!(stick.data().join("journal.redb").exists());
    // Through two links, and with a variable that names another folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let (first, second) = (elsewhere.path().join("one"), elsewhere.path().join("two"));
    std::os::unix::fs::symlink(stick.dir.path().join("bursar-pay"), &first).unwrap();
    std::os::unix::fs::symlink(&first, &second).unwrap();
    let mut linked = stick.command(&second, "status");
    let Output { stdout, stderr, .. } =
        linked.env("BURSAR_DATA_DIR", elsewhere.path()).output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(out.contains(stick.data().to_str().unwrap()) && out.contains("main"), "{out}");
    assert!(err.contains("BURSAR_DATA_DIR is ignored"), "{err}");
    // `bursar` refuses it, with and without an engine.
    let refused = |data: &Path| ended(bursar(data, "wallet status --json"));
    let (exit, answer) = refused(&stick.data());
    assert_eq!((exit, &answer["error"]["code"]), (10, &Value::from("WRONG_EDITION")), "{answer}");
    let program = stick.dir.path().join("bursar-pay");
    let (engine, ready) = Engine::spawn(stick.command(&program, "--headless"));
    assert!(ready.starts_with("READY http://127.0.0.1:"), "{ready}");
    let (exit, answer) = refused(&stick.data());
    assert_eq!((exit, &answer["error"]["code"]), (10, &Value::from("WRONG_EDITION")), "{answer}");
    assert_eq!(stick.must("status")["wallet"]["name"], "main", "a command attaches");
    // A second engine names the first.
    let (exit, answer) = stick.run("--headless");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(exit == 10 && message.contains(&format!("process {}", engine.0.id())), "{answer}");
}

#[test]
fn a_backup_of_another_edition_is_refused_and_changes_nothing() {
    let stick = Stick::new();
    stick.must("wallet create main");
    let backup = stick.dir.path().join("main.backup");
    stick.must(&format!("wallet backup {}", backup.display()));
    let other = tempfile::tempdir().unwrap();
    let data = other.path().join("data");
    let restore = format!("wallet restore {} --yes --json", backup.display());
    let mut command = bursar(&data, &restore);
    command.env("BURSAR_PASSWORD_FILE", stick.dir.path().join("password"));
    let (exit, answer) = ended(command);
    assert_eq!((exit, &answer["error"]["code"]), (10, &Value::from("WRONG_EDITION")), "{answer}");
    assert!(!data.join("wallets").join("main.wallet").exists());
    // A folder of the same edition accepts it.
    let again = Stick::new();
    again.must(&format!("wallet restore {}", backup.display()));
    assert_eq!(again.must("wallet status")["name"], "main");
}

/// Starts a session, and returns it with the text that it printed before it rejected a line that is not a command.
fn session(mut command: Command) -> (Engine, String) {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    child.stdin.as_mut().unwrap().write_all(b"no-such-command\n").unwrap();
    let (mut printed, mut line) = (String::new(), String::new());
    let mut out = BufReader::new(child.stdout.take().unwrap());
    while !line.contains("no-such-command") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the session ended: {printed}");
        printed.push_str(&line);
    }
    (Engine(child), printed)
}

#[test]
fn row_instance_rule_twenty_sessions_that_start_together_share_one_engine() {
    let stick = Stick::new();
    stick.must("wallet create main");
    let program = stick.dir.path().join("bursar-pay");
    let sessions: Vec<(Engine, String)> = std::thread::scope(|scope| {
        let start = |_n| scope.spawn(|| session(stick.command(&program, "--plain")));
        let started: Vec<_> = (0..20).map(start).collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let owners =
        sessions.iter().filter(|(_session, text)| text.contains("The engine runs in this console"));
    assert_eq!(owners.count(), 1);
    for (_session, text) in &sessions {
        assert!(text.contains("main") && !text.contains("bursar "), "{text}");
    }
}

#[test]
fn row_instance_rule_two_folders_are_two_engines_with_their_own_ports() {
    let sticks = [Stick::new(), Stick::new()];
    let engines = sticks.each_ref().map(|stick| {
        let program = stick.dir.path().join("bursar-pay");
        let mut command = stick.command(&program, "--headless");
        // The default port, which the first of them or another program uses.
        command.env_remove("BURSAR_SERVER_LISTEN");
        Engine::spawn(command)
    });
    let urls = engines.each_ref().map(|(_engine, ready)| ready.trim_start_matches("READY ").trim());
    assert_ne!(urls[0], urls[1]);
    for (stick, url) in sticks.iter().zip(urls) {
        assert_eq!(stick.must("server status")["url"], url);
    }
}

/// Its author has not read the wallet's code (`tests/agents/appendix.py`).
#[test]
fn an_agent_written_from_the_specification_alone_pays_by_its_rules() {
    let stick = Stick::new();
    stick.must("wallet create main");
    let program = stick.dir.path().join("bursar-pay");
    let nowhere = |command: &mut Command| {
        for network in [84532, 1, 11155111, 324705682] {
            let name = format!("BURSAR_NETWORKS_{network}_RPC");
            command.env(name, "http://127.0.0.1:9");
        }
    };
    let mut start = stick.command(&program, "--headless");
    nowhere(&mut start);
    let (_engine, ready) = Engine::spawn(start);
    for line in ["seed create --reveal", "address create research 0", "address create second 1"] {
        stick.must(line);
    }
    let mut agent = stick.command(Path::new("python3"), "");
    nowhere(&mut agent);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/agents/appendix.py");
    let password = stick.dir.path().join("password");
    agent.arg(script).env("WALLET_URL", ready.trim_start_matches("READY ").trim());
    agent.env("OPERATOR_PROGRAM", &program).env("OPERATOR_PASSWORD_FILE", password);
    let Output { status, stdout, stderr } = agent.output().expect("python3");
    let [report, trouble] =
        [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success() && report.contains(" checks, 0 failed"), "{report}{trouble}");
}

#[test]
fn a_folder_that_moves_while_its_engine_runs_is_reported_until_the_engine_has_ended() {
    let stick = Stick::new();
    let program = stick.dir.path().join("bursar-pay");
    let (before, after) = (stick.data(), stick.dir.path().join("after"));
    stick.must("wallet create main");
    let engine = Engine::spawn(stick.command(&program, "--headless")).0;
    std::fs::rename(&before, &after).unwrap();
    let there = |line: &str| {
        let mut command = stick.command(&program, &format!("{line} --json"));
        command.arg("--data").arg(&after);
        ended(command)
    };
    for line in ["status", "policy create careful", "wallet lock"] {
        let (exit, answer) = there(line);
        let message = answer["error"]["message"].as_str().unwrap();
        let moved = format!("was moved here from {}", before.display());
        assert!(exit == 13 && message.contains(&moved), "{line}: {exit} {message}");
    }
    assert!(!before.exists(), "nothing appears at the former place");
    drop(engine);
    assert_eq!(there("policy create careful").0, 0);
}

#[test]
fn commands_and_options_of_other_lanes_do_not_exist() {
    let stick = Stick::new();
    for line in [
        "venues",
        "engine",
        "install-service",
        "policy create p --trading",
        "history --lane trades",
    ] {
        let (exit, answer) = stick.run(line);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(exit == 2 && message.contains("bursar-pay has no"), "{line}: {answer}");
    }
    // Their help and their schemas do not exist either.
    for line in [
        "venues --help",
        "help venues",
        "schema venues",
        "help install-service",
        "position withdraw --help",
    ] {
        let (exit, answer) = stick.run(line);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(exit != 0 && message.contains("bursar-pay has no"), "{line}: {answer}");
    }
    let program = stick.dir.path().join("bursar-pay");
    let Output { stdout, .. } = stick.command(&program, "help options").output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(text.contains("next to this program") && !text.contains("BURSAR_DATA_DIR"), "{text}");
    for line in ["--help", "help policy create", "help", "help quickstart", "help scripting"] {
        let Output { stdout, .. } = stick.command(&program, line).output().unwrap();
        let text = String::from_utf8(stdout).unwrap();
        assert!(text.contains("bursar-pay") && !text.contains("  bursar "), "{line}: {text}");
        assert!(!text.contains("--trading") && !text.contains("venues"), "{line}: {text}");
    }
}
