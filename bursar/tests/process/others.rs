//! `--json` for commands outside the shared grammar, and for `watch`, which runs until it is stopped.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use bursar_control::grammar::Order;
use serde_json::Value;

use crate::commands::{check_envelope, text};
use crate::stage::{Engine, Home, copy_program};

/// These commands are in `--help`, but are not valid console lines.
#[test]
fn programs_outside_the_grammar_return_an_envelope_too() {
    let home = Home::new();
    let data = home.data();
    let help = text(&home.command(&data, "--help").output().unwrap().stdout);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let listed = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed: BTreeSet<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    let tree = Order::tree();
    let mut known: BTreeSet<&str> = tree
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    known.extend(["engine", "pay", "demo", "completions", "help", "man", "schema", "version"]);
    known.extend(["install-service", "uninstall-service", "service"]);
    assert_eq!(listed, known);

    let run_json = |line: &str| home.command(&data, &format!("{line} --json")).output().unwrap();
    check_envelope("completions", &run_json("completions bash"), "").unwrap();
    check_envelope("completions", &run_json("completions cmd"), "BAD_INPUT").unwrap();
    let alone = home.dir.path().join("bursar");
    copy_program(&alone);
    let mut demo = Command::new(alone);
    demo.args(["--json", "demo"]).env("PATH", home.dir.path());
    check_envelope("demo", &demo.output().unwrap(), "NOTHING_FOUND").unwrap();
    check_envelope("install-service", &run_json("install-service --dry-run"), "").unwrap();
    check_envelope("service.status", &run_json("service status --user"), "NOTHING_FOUND").unwrap();

    let (engine, ready) = Engine::spawn(home.command(&data, "engine --json"));
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((&ready["command"], &ready["ok"]), (&Value::from("engine"), &Value::Bool(true)));
    let url = ready["data"]["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{ready}");
    check_envelope("engine", &run_json("engine"), "ENGINE_RUNNING").unwrap();
    let (exit, rest) = engine.stop_with(rustix::process::Signal::INT);
    assert_eq!((exit, rest.as_str()), (Some(130), ""), "one document, and no other");
}

/// A stream has no envelope: each line is an entry, and errors go to standard error.
#[test]
fn watch_writes_one_object_a_line_and_nothing_else() {
    let home = Home::new();
    let data = home.data();
    let down = home.command(&data, "watch --json").output().unwrap();
    assert_eq!((down.status.code(), text(&down.stdout).as_str()), (Some(3), ""));

    let (_engine, _address) = home.engine(&data);
    let too_far = home.command(&data, "watch --since 99 --json").output().unwrap();
    assert_eq!((too_far.status.code(), text(&too_far.stdout).as_str()), (Some(2), ""));
    // There is no wallet, so no password is needed.
    let mut watch = home.command(&data, "watch --since 0 --json");
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    home.must("freeze");
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    out.read_line(&mut lines).unwrap();
    home.must("config set server.lan_bearer refuse");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    out.read_to_string(&mut lines).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    for line in lines.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert!(entry["seq"].is_u64() && entry["kind"].is_string(), "{line}");
    }
    for stderr in [&down.stderr, &too_far.stderr, &ended.stderr] {
        let stderr = text(stderr);
        assert!(!stderr.is_empty() && !stderr.contains("{\""), "{stderr}");
    }
}

/// A fault that prevents an engine from starting is reported as one finding among the others.
#[test]
fn doctor_examines_a_folder_with_an_unreadable_journal() {
    let home = crate::stage::Home::new();
    let run = |line: &str| {
        let output = home.command(&home.data(), line).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(run("wallet create main").0, Some(0));
    std::fs::write(home.data().join("journal.redb"), "this was a journal once").unwrap();
    let (code, report) = run("doctor");
    assert_eq!(code, Some(1), "{report}");
    for line in ["disk space", "wallet", "journal", "wallet restore <file>"] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

/// Without system certificates the program opens no connections, but its wallet still works.
#[cfg(target_os = "linux")]
#[test]
fn missing_certificates_are_a_finding_and_the_wallet_works() {
    let home = crate::stage::Home::new();
    let run = |line: &str| {
        let mut command = home.command(&home.data(), line);
        command.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", home.data().join("none"));
        // Certificates are read only for an https endpoint.
        command.env("BURSAR_NETWORKS_8453_RPC", "https://127.0.0.1:9");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(run("wallet create main").0, Some(0));
    assert_eq!(run("seed create --reveal").0, Some(0));
    let (_code, report) = run("doctor");
    assert!(report.contains("ca-certificates"), "{report}");
}
