//! Settings files of the three programs.

use std::process::Command;

use bursar_tests::dice::Dice;

use super::args::{SERVICE_EXITS, WALLET_EXITS};
use super::{http_facilitator, http_proxy};
use crate::draw::{change_slightly, mutate_bytes, odd_number, odd_text, pick};
use crate::oracle::{check_command_end, check_envelope};
use crate::process::run;
use crate::programs::{BURSAR, FACILITATOR, PROXY, Programs, keep_calls_local, write_private};
use crate::report::escaped;
use crate::scene::{Outcome, Scene};

/// A valid settings file of the wallet with every possible key.
const WALLET_FILE: &str = "[server]\nlisten = \"127.0.0.1:0\"\nrate_per_minute = 300\nsignature_window_s = 300\n\
    autostart = true\n[networks.8453]\nrpc = [\"http://127.0.0.1:9\"]\nsubmit_rpc = [\"http://127.0.0.1:9\"]\n\
    explorer = \"none\"\n[prices]\nurl = \"none\"\n[payments]\nverify_settlements = true\n[console]\nnotify = \"all\"\n\
    time = \"utc\"\n";
/// Additional keys of the facilitator: before the table of the network, and inside it.
const FACILITATOR_KEYS: (&str, &str) = (
    "batch_calls = 50\nbatch_window_ms = 50\nin_flight = 16\nretention_days = 400\nlog_format = \"text\"\n\
     repeats = \"duplicate\"\nforeign_settlements = \"duplicate\"\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
     pay_to = [\"0x00000000000000000000000000000000000000aa\"]\napi_keys = [{ name = \"shop\", sha256 = \
     \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\", \
     receivers = [\"0x00000000000000000000000000000000000000aa\"] }]\n",
    "max_gas_price_gwei = \"0.5\"\nmin_signer_balance = \"0.005\"\nconfirmations = 2\ntokens = []\n\
     gas_cap_contract = 600000\nblock_gas_share_percent = 25\nmax_gas_share_percent = 20\nnative_usd = \"3500\"\n\
     gas_budget_percent = 50\neip6492_factories = []\neip2612_gas_sponsoring = true\nallow_plain_http = false\n",
);
/// Additional keys of the proxy, before its table of models.
const PROXY_KEYS: &str = "completion_tokens = 1024\nmax_completion_tokens = 32768\nbody_bytes = 1048576\n\
    max_timeout_seconds = 600\nin_flight = 1024\nnetwork = \"eip155:8453\"\nlog_format = \"json\"\n\
    trusted_proxies = [\"127.0.0.1\"]\ncors_origins = [\"https://app.example\"]\nprice_per_1k_tokens = \"0.001\"\n\
    public_url = \"https://llm.example\"\nother_models = false\ndefault_model = \"toy\"\n\
    bound_field = \"max_tokens\"\nextra_fields = [\"x\"]\nmax_prompt_tokens = 1000\nasset_transfer = \"eip3009\"\n";

/// Values that TOML allows, or that only look valid.
const ODD_VALUES: &[&str] = &[
    "\"\"",
    "''",
    "0",
    "-1",
    "1.5",
    "true",
    "[]",
    "{}",
    "[[]]",
    "{ a = 1 }",
    "\"off\"",
    "\"none\"",
    "nan",
    "-inf",
    "0x7f",
    "0o7",
    "0b1",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "9223372036854775807",
    "9223372036854775808",
    "\"\\u0000\"",
    "\"\\u001b[31m\"",
    "\"\"\"\nx\n\"\"\"",
    "[1, \"a\"]",
    "\"127.0.0.1:99999\"",
    "\"[::1]:0\"",
    "\"0.0.0.0:0\"",
    "\"http://\"",
    "\"ftp://127.0.0.1\"",
    "[\"\", \"\"]",
    "1e999",
    "+0",
    "_",
    "",
    "\"x",
    "[\"x\"",
];

/// Mutates the lines of a settings file.
fn mutate_text(dice: &mut Dice, valid: &str) -> Vec<u8> {
    let mut lines: Vec<String> = valid.lines().map(str::to_owned).collect();
    for _ in 0..dice.one_of(&[1, 1, 1, 2, 4]) {
        let at = dice.index(lines.len().max(1));
        let Some(line) = lines.get(at).cloned() else { break };
        let (key, value) = line.split_once(" = ").unwrap_or((&line, ""));
        match dice.roll(12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, line),
            2 => lines[at] = format!("{} = {value}", change_slightly(dice, key)),
            3 => lines[at] = format!("{key} = {}", 1 + dice.roll(2_000)),
            4 => lines[at] = format!("{key} = {}", pick(dice, ODD_VALUES)),
            5 => lines[at] = format!("{key} = {}", odd_number(dice)),
            6 => lines[at] = format!("{key} = {:?}", odd_text(dice)),
            7 => lines[at] = change_slightly(dice, &line),
            8 => lines.insert(at, format!("[{}]", odd_text(dice))),
            9 => {
                let depth = dice.one_of(&[2, 50, 127, 128, 5_000]);
                lines[at] = format!("{key} = {}{}", "[".repeat(depth), "]".repeat(depth));
            }
            10 => {
                let other = dice.index(lines.len());
                lines.swap(at, other);
            }
            _many => lines.extend((0..dice.one_of(&[10, 2_000])).map(|n| format!("key{n} = {n}"))),
        }
    }
    let end = if dice.chance(1, 10) { "\r\n" } else { "\n" };
    let mut bytes = (lines.join(end) + end).into_bytes();
    if dice.chance(1, 6) {
        mutate_bytes(dice, &mut bytes);
    }
    if dice.chance(1, 20) {
        bytes.splice(0..0, *b"\xef\xbb\xbf");
    }
    bytes
}

/// A program that reads one settings file.
struct Settings {
    home: tempfile::TempDir,
    /// The name of the file in `home`.
    file: &'static str,
    valid: String,
    lines: &'static [&'static str],
    exits: &'static [i32],
    make: Box<dyn Fn(&std::path::Path) -> Command>,
    /// Keys that point to another machine by default, each with the variable and the value
    /// that replace a missing key.
    defaults: &'static [(&'static str, &'static str, &'static str)],
}

pub(super) fn open_bursar(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let home = tempfile::tempdir().expect("a folder");
    let program = programs.command(BURSAR, home.path()).get_program().to_owned();
    let make = move |home: &std::path::Path| {
        let mut command = Command::new(&program);
        command
            .env_clear()
            .current_dir(home)
            .env("HOME", home)
            .env("BURSAR_DATA_DIR", home.join("data"));
        keep_calls_local(&mut command, "http://127.0.0.1:9".as_ref());
        command
    };
    let made = run(with_words(make(home.path()), "--json status"), home.path(), b"");
    let data = home.path().join("data");
    if !data.exists() {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&data)
            .map_err(|error| format!("{error} {made:?}"))?;
    }
    Ok(Box::new(Settings {
        home,
        file: "data/settings.toml",
        valid: WALLET_FILE.to_owned(),
        lines: &[
            "--json config list",
            "--json status",
            "--json doctor",
            "--json config get server.listen",
            "engine",
        ],
        exits: WALLET_EXITS,
        make: Box::new(make),
        defaults: &[],
    }))
}

pub(super) fn open_facilitator(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let home = tempfile::tempdir().expect("a folder");
    http_facilitator::write_settings(home.path(), "http://127.0.0.1:9");
    let valid = std::fs::read_to_string(home.path().join("facilitator.toml")).expect("written");
    let (general, network) = FACILITATOR_KEYS;
    let valid = format!("{general}{valid}{network}");
    let defaults = &[("rpc", "RPC_URL_8453", "http://127.0.0.1:9")];
    Ok(Box::new(settings_scene(programs, home, FACILITATOR, "facilitator.toml", valid, defaults)))
}

pub(super) fn open_proxy(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let home = tempfile::tempdir().expect("a folder");
    http_proxy::write_settings(home.path(), ["http://127.0.0.1:9"; 3]);
    let valid = std::fs::read_to_string(home.path().join("proxy.toml")).expect("written");
    let valid = format!("{PROXY_KEYS}{valid}");
    let defaults = &[
        ("upstream_url", "UPSTREAM_URL", "http://127.0.0.1:9/v1"),
        ("rpc", "RPC_URL", "http://127.0.0.1:9"),
        ("facilitator_url", "FACILITATOR_URL", "http://127.0.0.1:9"),
    ];
    Ok(Box::new(settings_scene(programs, home, PROXY, "proxy.toml", valid, defaults)))
}

fn settings_scene(
    programs: &Programs,
    home: tempfile::TempDir,
    name: &'static str,
    file: &'static str,
    valid: String,
    defaults: &'static [(&'static str, &'static str, &'static str)],
) -> Settings {
    let program = programs.command(name, home.path()).get_program().to_owned();
    let make = move |home: &std::path::Path| {
        let mut command = Command::new(&program);
        command
            .env_clear()
            .current_dir(home)
            .env("HOME", home)
            .arg("--config")
            .arg(home.join(file));
        command
    };
    let (lines, make) = (&["run", "run", "check"][..], Box::new(make));
    Settings { home, file, valid, lines, exits: SERVICE_EXITS, make, defaults }
}

fn with_words(mut command: Command, line: &str) -> Command {
    command.args(line.split_whitespace());
    command
}

impl Settings {
    fn run(&self, line: &str, text: &[u8]) -> crate::process::ProgramEnd {
        write_private(&self.home.path().join(self.file), text);
        let mut command = with_words((self.make)(self.home.path()), line);
        let shown = String::from_utf8_lossy(text);
        for (key, variable, value) in self.defaults {
            // If the line with a key was lost, the variable keeps the program from calling another machine.
            if !shown.lines().any(|line| line.starts_with(&format!("{key} = "))) {
                command.env(variable, value);
            }
        }
        run(command, self.home.path(), b"")
    }
}

impl Scene for Settings {
    fn send_valid(&mut self) -> Result<(), String> {
        let line = if self.exits == WALLET_EXITS { "engine" } else { "run" };
        let ended = self.run(line, self.valid.as_bytes());
        match (ended.was_ready, ended.code()) {
            (true, Ok(0)) => Ok(()),
            _other => Err(format!("{line} with the valid file: {ended:?}")),
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let line = dice.one_of(self.lines);
        let text = mutate_text(dice, &self.valid);
        let ended = self.run(line, &text);
        let mut outcome =
            Outcome { input: format!("{line} with {}", escaped(&text)), ..Outcome::default() };
        outcome.class = check_command_end(&ended, self.exits, &mut outcome.violated);
        if line.starts_with("--json") {
            check_envelope(&ended, &mut outcome.violated);
        }
        outcome
    }
}
