//! Tests of behaviour that only a whole process shows: exit codes, output streams, the READY line, the lock, signals.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

#[cfg(target_os = "linux")]
mod backups;
mod certificates;
mod commands;
mod deciders;
mod desk;
mod editions;
mod hostile;
#[cfg(target_os = "linux")]
mod logs;
#[cfg(target_os = "linux")]
mod manager;
mod memory;
mod others;
mod pay;
mod pay_never;
mod pay_wallets;
mod payer;
#[cfg(target_os = "linux")]
mod schemas;
mod service_files;
mod shop;
mod stage;
mod table;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use stage::{Engine, Home, bursar, copy_program, run};

#[test]
fn usage_errors_are_one_object_when_json_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    for line in ["--json", "agnet list --json", "-j wallet", "engine --what --json"] {
        let (exit, out, err) = run(data.path(), line);
        assert_eq!((exit, err.as_str()), (2, ""), "{line}");
        let envelope: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(envelope["error"]["code"], "BAD_INPUT", "{line}");
        assert_eq!(envelope["error"]["exit"], 2, "{line}");
    }
    for line in ["", "agnet list", "wallet"] {
        let (exit, out, err) = run(data.path(), line);
        assert_eq!((exit, out.as_str()), (2, ""), "{line}");
        assert!(err.contains("bursar"), "{line}: {err}");
    }
}

#[test]
fn disallowed_explorer_is_refused_without_showing_its_key() {
    let data = tempfile::tempdir().unwrap();
    let name = "BURSAR_NETWORKS_8453_EXPLORER";
    for url in ["http://192.0.2.1/KEY?apikey=KEY", "https://KEY@a.test", "KEY", "ftp://a.test/KEY"]
    {
        let output = bursar(data.path(), "status").env(name, url).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("8453") && !said.contains("KEY"), "{said}");
    }
}

/// If no endpoint is set, the default is a public host, which tests must not call.
#[test]
fn endpoints_of_these_tests_stay_on_this_machine() {
    let home = Home::new();
    let told = home.must("config list");
    let settings = told["settings"].as_array().unwrap();
    let value = |key: String| {
        let found = settings.iter().find(|setting| setting["key"] == key.as_str());
        found.unwrap_or_else(|| panic!("{key}"))["value"].clone()
    };
    let mut enabled = 0;
    for row in bursar_core::networks::NETWORKS {
        let of = |field: &str| value(format!("networks.{}.{field}", row.chain));
        assert_eq!(of("explorer"), Value::Null, "{}", row.title);
        if of("enabled") == true {
            enabled += 1;
            for url in of("rpc").as_array().unwrap() {
                assert!(url.as_str().unwrap().starts_with("http://127.0.0.1:"), "{url}");
            }
        }
    }
    assert_eq!(enabled, 2);
}

#[test]
fn command_without_an_engine_runs_its_own_or_reports_engine_down() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("new");
    let (exit, out, _) = run(&folder, "status --json");
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, &envelope["ok"]), (3, &Value::Bool(true)));
    for line in
        ["approve 0123abcd", "deny 0123abcd", "server stop", "balances", "address balance research"]
    {
        let (exit, out, err) = run(&folder, line);
        assert_eq!((exit, out.as_str()), (3, ""), "{line}");
        assert!(err.contains("bursar engine"), "{err}");
    }
    let (exit, _, err) = run(&folder, "wallet create main");
    assert_eq!(exit, 8);
    assert!(err.contains("--password-file"), "{err}");
}

#[test]
fn doctor_creates_nothing_and_exports_follow_the_current_folder() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("new");
    let (exit, out, _) = run(&folder, "doctor --json");
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, &envelope["ok"]), (0, &Value::Bool(true)), "{out}");
    assert!(!folder.exists());

    let (exit, _, err) = run(&folder, "config set server.autostart false");
    assert_eq!(exit, 0, "{err}");
    assert_eq!(run(&folder, "history --status failed").0, 0);
    let export = || {
        let mut command = bursar(&folder, "history export ./a.csv");
        command.current_dir(home.path()).output().unwrap()
    };
    let first = export();
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(std::fs::read_to_string(home.path().join("a.csv")).unwrap().starts_with("id,created"));
    assert_eq!(export().status.code(), Some(10), "nothing is overwritten");
    let mut inside = bursar(&folder, "history export a.csv");
    assert_eq!(inside.current_dir(&folder).status().unwrap().code(), Some(2));

    // `doctor` reports faults and does not change anything.
    std::fs::write(folder.join("settings.toml"), "x = 1").unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o750)).unwrap();
    let (exit, out, _) = run(&folder, "doctor");
    assert_eq!(exit, 1);
    assert!(out.contains("chmod 700") && out.contains("unknown field"), "{out}");
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[test]
fn password_file_readable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("password");
    std::fs::write(&file, "hunter2!x\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let folder = data.path().join("data");
    let line = format!("wallet create main --password-file {}", file.display());
    let (exit, _, err) = run(&folder, &line);
    assert_eq!(exit, 13);
    assert!(err.contains("chmod 600"), "{err}");
    let (exit, out, err) = run(&folder, &line.replace("wallet create main", "engine --no-server"));
    assert_eq!((exit, out.as_str()), (13, ""));
    assert!(err.contains("chmod 600"), "{err}");
    assert!(run(&folder, "wallet status").1.contains("no wallet"));
}

#[test]
fn engine_prints_ready_once_serves_commands_and_stops_on_a_signal() {
    let data = tempfile::tempdir().unwrap();
    let (engine, line) = Engine::start(data.path(), "--listen 127.0.0.1:0");
    let url = line.strip_prefix("READY ").unwrap().trim_end();
    assert!(url.starts_with("http://127.0.0.1:") && !url.ends_with(":0"), "{line}");

    let (exit, out, _) = run(data.path(), "server status --json");
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((exit, &envelope["data"]["url"]), (0, &Value::from(url)));
    assert_eq!(run(data.path(), "status").0, 4);

    let (exit, out, err) = run(data.path(), "engine");
    assert_eq!((exit, out.as_str()), (10, ""));
    assert!(err.contains(data.path().to_str().unwrap()), "{err}");

    assert_eq!(engine.stop_with(rustix::process::Signal::TERM), (Some(0), String::new()));
    assert_eq!(run(data.path(), "status").0, 3);

    let (engine, line) = Engine::start(data.path(), "--no-server");
    assert_eq!(line, "READY\n");
    assert_eq!(engine.stop_with(rustix::process::Signal::INT), (Some(130), String::new()));
}

/// Builds a command that runs the engine under the given limits of open files.
#[cfg(target_os = "linux")]
fn engine_with_limits(data: &Path, limits: &str) -> Command {
    let engine = bursar(data, "engine --no-server");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limits} && exec \"$@\""), "sh"]);
    shell.arg(engine.get_program()).args(engine.get_args()).stdin(Stdio::null());
    for (name, value) in engine.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[cfg(target_os = "linux")]
#[test]
fn engine_raises_its_file_limit_and_gains_no_privileges() {
    let data = tempfile::tempdir().unwrap();
    let (engine, line) = Engine::spawn(engine_with_limits(data.path(), "-S -n 256"));
    assert_eq!(line, "READY\n");
    let told = |file: &str, name: &str| {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", engine.0.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let needed = bursar_core::limits::OPEN_FILES_NEEDED.to_string();
    assert_eq!(told("limits", "Max open files"), needed);
    assert_eq!(told("limits", "Max core file size"), "0");
    assert_eq!(told("status", "NoNewPrivs:"), "1");
    drop(engine);
    // If the limit cannot be raised, the engine starts and warns.
    let mut child = engine_with_limits(data.path(), "-n 256")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "READY\n");
    child.kill().unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("limit of open files") && said.contains("ulimit -n"), "{said}");
}

#[test]
fn activity_shows_that_an_engine_was_killed() {
    let mut home = Home::new();
    home.create_wallet();
    let kinds = |limit: usize| -> Vec<String> {
        let told = home.must(&format!("activity --raw --limit {limit}"));
        let rows = told["entries"].as_array().unwrap().iter();
        rows.map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
    };
    let (killed, _address) = home.engine(&home.data());
    drop(killed);
    let (stopped, _address) = home.engine(&home.data());
    stopped.stop_with(rustix::process::Signal::TERM);
    // A command that runs its own engine does not serve agents and records no start. The first unattended start
    // begins a day of the limit of unattended days.
    let expected = [
        "wallet.locked",
        "wallet.unlocked",
        "engine.started",
        "unattended.day_started",
        "wallet.unlocked",
        "engine.started",
    ];
    assert_eq!(kinds(6), expected);
    assert_eq!(kinds(6), expected);
}

#[test]
fn demo_is_a_separate_program() {
    let data = tempfile::tempdir().unwrap();
    // The program is alone in a folder, and PATH contains nothing else.
    let alone = data.path().join("bursar");
    copy_program(&alone);
    let Output { status, stderr, .. } =
        Command::new(&alone).arg("demo").env("PATH", data.path()).output().unwrap();
    assert_eq!(status.code(), Some(7));
    assert!(String::from_utf8_lossy(&stderr).contains("cargo install --path demo"));

    let demo = data.path().join("bursar-demo");
    std::os::unix::fs::symlink("/bin/sh", demo).unwrap();
    let status = Command::new(&alone).args(["demo", "-c", "exit 42"]).status().unwrap();
    assert_eq!(status.code(), Some(42));
}

#[test]
fn piped_commands_run_up_to_the_first_failure() {
    use std::io::Write;
    let home = Home::new();
    let session = |lines: &str| {
        let mut command = home.command(&home.data(), "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    };
    let (exit, out, err) =
        session("wallet create main\n\n# two policies\npolicy create one --txn 1\npolicy list\n");
    assert_eq!(exit, 0, "{err}");
    assert!(out.contains("main") && out.contains("one"), "{out}");
    let (exit, _out, err) =
        session("policy create two --txn 1\npolicy show nothing\npolicy create three --txn 1\n");
    assert_eq!(exit, 7, "{err}");
    let policies = home.must("policy list").to_string();
    assert!(policies.contains("two") && !policies.contains("three"), "{policies}");
    let (exit, _out, err) = session("agnet list\n");
    assert_eq!(exit, 2, "{err}");
    assert!(err.contains("agnet"), "{err}");
}
