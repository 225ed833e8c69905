//! Runs every command with `--json` in every state: each returns one envelope and the matching exit code.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bursar_control::grammar::Order;
use serde_json::Value;

use crate::stage::{Engine, Home, PASSWORD, write_private_file};
use crate::table::TABLE;

/// For each fault in the table, the exit code that the manual guarantees to scripts.
const EXIT_CODES: &[(&str, i32)] = &[
    ("BAD_INPUT", 2),
    ("ENGINE_DOWN", 3),
    ("WALLET_LOCKED", 4),
    ("WRONG_PASSWORD", 5),
    ("NOTHING_FOUND", 7),
    ("REQUEST_NOT_FOUND", 7),
    ("CONFIRMATION_NEEDED", 8),
    ("ENGINE_RUNNING", 10),
    ("IN_USE", 10),
    ("NAME_TAKEN", 10),
    ("WALLET_EXISTS", 10),
];

/// One command with its expected results in four states.
#[derive(Debug)]
pub(crate) struct Row {
    /// The name in the envelope.
    pub(crate) name: &'static str,
    /// A line that succeeds; empty if no line can succeed on the stage.
    pub(crate) succeeding_line: &'static str,
    /// A line that fails.
    pub(crate) failing_line: &'static str,
    /// The code with which `bad` fails.
    pub(crate) failing_code: &'static str,
    /// The code of `fine` while the wallet is locked; empty if it succeeds.
    pub(crate) code_if_locked: &'static str,
    /// The code of `fine` without an engine and a password; empty if it succeeds.
    pub(crate) code_without_engine: &'static str,
}

impl Row {
    /// Returns the line to run if only the state matters.
    fn line(&self) -> &'static str {
        if self.succeeding_line.is_empty() { self.failing_line } else { self.succeeding_line }
    }
}

/// Collects the commands of the grammar by their names in the envelope.
fn collect_commands(tree: &clap::Command, above: &str, found: &mut BTreeSet<String>) {
    for command in tree.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("{above}{}", command.get_name());
        if !command.is_subcommand_required_set() {
            found.insert(name.clone());
        }
        collect_commands(command, &format!("{name}."), found);
    }
}

/// Returns a mandate of another issuer.
fn signed_mandate() -> String {
    let vectors = include_str!("../../../shared/mandate/tests/vectors/mandates.jsonl");
    let first: Value = serde_json::from_str(vectors.lines().next().unwrap()).unwrap();
    first["mandate"].to_string()
}

struct Stage {
    home: Home,
    words: BTreeMap<&'static str, String>,
}

impl Stage {
    /// Creates a wallet with two objects of most kinds and two pending requests. No engine runs.
    fn new() -> Self {
        let mut home = Home::new();
        let (engine, address) = home.engine(&home.data());
        home.create_wallet();
        for line in [
            "address create spare 1",
            "address create unused 2",
            "policy create unused",
            "agent register idle",
            "agent register old",
            "network disable 4663",
        ] {
            home.must(line);
        }
        let mut words = BTreeMap::new();
        words.insert("{first}", home.ask(&address));
        words.insert("{second}", home.ask(&address));
        drop(engine);
        words.insert("{payee}", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C".to_owned());
        let phrase = format!("{}about", "abandon ".repeat(11));
        for (name, text) in [("{phrase}", phrase.as_str()), ("{wrong}", "none of these")] {
            let file = home.dir.path().join(name.trim_matches(['{', '}']));
            write_private_file(&file, text);
            words.insert(name, file.display().to_string());
        }
        let mandate = home.dir.path().join("mandate.json");
        std::fs::write(&mandate, signed_mandate()).unwrap();
        words.insert("{mandate}", mandate.display().to_string());
        Self { home, words }
    }

    /// Copies the data folder.
    fn copy(&self, name: &str) -> std::path::PathBuf {
        let to = self.home.dir.path().join(name);
        let copied = Command::new("cp").arg("-a").arg(self.home.data()).arg(&to).status().unwrap();
        assert!(copied.success());
        to
    }

    fn command(&self, data: &Path, line: &str) -> Command {
        let mut line = line.to_owned();
        for (word, meaning) in &self.words {
            line = line.replace(word, meaning);
        }
        let new = data.with_extension("csv");
        self.home.command(data, &format!("{} --json", line.replace("{new}", new.to_str().unwrap())))
    }

    /// Runs a command and checks all its output. Returns a description of the first violation.
    fn check(&self, data: &Path, line: &str, name: &str, wanted: &str) -> Option<String> {
        self.check_output(self.command(data, line), name, wanted)
    }

    fn check_output(&self, mut command: Command, name: &str, wanted: &str) -> Option<String> {
        let asked: Vec<String> =
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let asked = asked.join(" ");
        let twice = asked.contains("--password-stdin");
        command.stdin(if twice { Stdio::piped() } else { Stdio::null() });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if let Some(mut stdin) = child.stdin.take() {
            write!(stdin, "{PASSWORD}\n{PASSWORD}\n").unwrap();
        }
        let output = child.wait_with_output().unwrap();
        check_envelope(name, &output, wanted).err().map(|why| format!("{asked}: {why}"))
    }

    /// Runs each command with an open wallet: once to succeed and once to fail.
    fn check_open(&self) -> Vec<String> {
        let data = self.home.data();
        // This folder has no wallet.
        let empty = self.home.dir.path().join("empty");
        let mut wrong = vec![self.check(&empty, "wallet create main", "wallet.create", "")];
        let (_engine, _address) = self.home.engine(&data);
        for row in TABLE {
            if !row.succeeding_line.is_empty() {
                wrong.push(self.check(&data, row.succeeding_line, row.name, ""));
            }
            wrong.push(self.check(&data, row.failing_line, row.name, row.failing_code));
        }
        wrong.into_iter().flatten().collect()
    }

    fn check_locked(&self, data: &Path) -> Vec<String> {
        let mut command = self.home.command(data, "engine");
        command.env_remove("BURSAR_PASSWORD_FILE");
        let (_engine, _ready) = Engine::spawn(command);
        let check = |row: &Row| self.check(data, row.line(), row.name, row.code_if_locked);
        TABLE.iter().filter_map(check).collect()
    }

    /// Runs each command without an engine and without a password, so that it cannot run its own engine.
    fn check_without_engine(&self, data: &Path) -> Vec<String> {
        let check = |row: &Row| {
            let mut command = self.command(data, row.line());
            command.env_remove("BURSAR_PASSWORD_FILE");
            self.check_output(command, row.name, row.code_without_engine)
        };
        TABLE.iter().filter_map(check).collect()
    }
}

/// Checks the rules of the envelope.
pub(crate) fn check_envelope(name: &str, output: &Output, wanted: &str) -> Result<(), String> {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let exit = output.status.code().ok_or("ended by a signal")?;
    let document: Value = match serde_json::from_str(&out) {
        Ok(document) if out.lines().count() == 1 && out.ends_with('\n') => document,
        _other => return Err(format!("not one document: {out:?} {err}")),
    };
    let rule = |holds: bool, rule: &str| {
        if holds { Ok(()) } else { Err(format!("{rule}, exit {exit}: {document} {err}")) }
    };
    let fields: BTreeSet<&str> =
        document.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let envelope = BTreeSet::from(["v", "ok", "command", "data", "warnings", "error"]);
    rule(fields == envelope && document["v"] == 2, "the envelope")?;
    crate::schemas::check(&document)?;
    // If the arguments could not be parsed, the envelope names no command.
    let nameless = document["error"]["exit"] == 2 && document["command"].is_null();
    rule(document["command"] == name || nameless, "the name")?;
    rule(document["warnings"].is_array(), "the warnings")?;
    rule(serde_json::from_str::<Value>(&err).is_err() && !err.contains("{\""), "no JSON beside")?;
    if document["ok"] == true {
        rule(document["error"].is_null() && !document["data"].is_null(), "success")?;
        rule(wanted.is_empty(), "should fail")?;
        // Some commands also report a state with their exit code.
        let tells = match name {
            "status" => [0, 3, 4].contains(&exit),
            _other => exit == 0,
        };
        return rule(tells, "exit of a success");
    }
    let error = &document["error"];
    // These commands also have data where a check failed or no node answered.
    let fell_short = match name {
        "doctor" => error["code"] == "CHECKS_FAILED",
        "balances" | "address.balance" | "allowances" | "venues" | "positions" => {
            error["code"] == "CHAIN_UNAVAILABLE"
        }
        _other => false,
    };
    if fell_short && wanted.is_empty() {
        return rule(document["data"].is_object() && error["exit"] == exit, "failure with data");
    }
    rule(document["ok"] == false && document["data"].is_null(), "failure")?;
    rule(error["code"] == wanted, "another end was expected")?;
    rule(
        error["exit"] == exit && EXIT_CODES.contains(&(wanted, exit)),
        "the exit code of the fault",
    )?;
    rule(error["message"].as_str().is_some_and(|text| !text.is_empty()), "a message")?;
    rule(error["retryable"].is_boolean() && error.get("hint").is_some(), "hint and retryable")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_table_names_every_command_of_the_grammar_once() {
    let mut grammar = BTreeSet::new();
    collect_commands(&Order::tree(), "", &mut grammar);
    // `watch` runs until it is stopped, so it has a separate test.
    assert!(grammar.remove("watch"));
    let table: Vec<String> = TABLE.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(table.iter().cloned().collect::<BTreeSet<_>>(), grammar);
    assert_eq!(table.len(), grammar.len(), "one row for each");
}

#[test]
fn every_command_answers_with_one_envelope_in_every_state() {
    let stage = &Stage::new();
    let (locked, down) = (stage.copy("locked"), stage.copy("down"));
    let wrong = std::thread::scope(|scope| {
        let others = [
            scope.spawn(|| stage.check_locked(&locked)),
            scope.spawn(|| stage.check_without_engine(&down)),
        ];
        let mut wrong = stage.check_open();
        wrong.extend(others.into_iter().flat_map(|other| other.join().unwrap()));
        wrong
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unknown_option_returns_one_envelope_and_creates_nothing() {
    let home = Home::new();
    let mut grammar = BTreeSet::new();
    collect_commands(&Order::tree(), "", &mut grammar);
    grammar.extend(["engine", "completions bash"].map(str::to_owned));
    for name in grammar {
        let line = format!("{} --no-such-option --json", name.replace('.', " "));
        let output = home.command(&home.data(), &line).output().unwrap();
        check_envelope(&name, &output, "BAD_INPUT").unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(2), String::new()),
            "{name}"
        );
    }
    assert!(!home.data().exists());
}
