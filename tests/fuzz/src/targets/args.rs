//! Command-line arguments of the three programs.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use bursar_tests::dice::Dice;

use super::http_facilitator::{self, Facilitator};
use super::http_proxy::{self, Proxy};
use super::wallet::{StateWatch, Wallet};
use crate::draw::{change_slightly, mutate_bytes, odd_number, odd_text, pick};
use crate::oracle::{check_command_end, check_envelope};
use crate::process::run;
use crate::programs::{FACILITATOR, PROXY, Programs, write_private};
use crate::report::escaped;
use crate::scene::{Outcome, Scene};

/// The exit codes that the manual of `bursar` lists.
pub(super) const WALLET_EXITS: &[i32] =
    &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 124, 130];
/// The exit codes of the services: 0, a failure, wrong arguments, and two for the store.
pub(super) const SERVICE_EXITS: &[i32] = &[0, 1, 2, 13, 15];

/// Number of consecutive refused commands after which the state is compared.
const REFUSALS_PER_COMPARISON: u64 = 4;

/// Valid command lines of the wallet's program. None of them stops agents, locks the wallet,
/// or runs until it is stopped.
pub(super) const WALLET_LINES: &[&str] = &[
    "wallet create again",
    "wallet status",
    "wallet backup new.backup",
    "wallet restore new.backup",
    "wallet recover main",
    "seed create --reveal",
    "seed list",
    "seed words S001 --reveal",
    "seed import --seed-file password",
    "address create more 7 --seed S001",
    "address list",
    "address ledger list --count 5",
    "address ledger add 0,1 far",
    "address rename pay fresh",
    "address export pay --reveal",
    "address delete unused --yes",
    "address balance pay",
    "address send nothing 0x209693Bc6afc0C5328bA36FaF03C514EF312287C 1 --network base --token USDC --confirm 1",
    "address sends",
    "address cancel 00000000",
    "balances --network base",
    "policy test p 1",
    "policy list",
    "policy show p",
    "policy create q --day 10 --txn 5 --auto 0.5 --allow-domains example.com --networks base",
    "policy edit p --day 110",
    "policy create t --trading --trade-max 10 --max-slip 3 --max-impact 5 --min-eth 0.001",
    "policy delete q --yes",
    "policy test p 40 --trade --impact 0.3",
    "agent register new --auth hmac",
    "agent list",
    "agent show bot",
    "agent commission bot p pay",
    "agent instructions signer",
    "agent edit bot --policy p",
    "agent resume bot",
    "agent renew bot",
    "agent delete nothing --confirm nothing",
    "server start",
    "server status",
    "requests --all",
    "approve 00000000 --yes",
    "deny 00000000 too dear",
    "history --since 2026-01-01 --limit 5",
    "history export new.csv",
    "activity --limit 3",
    "receipt 00000000",
    "config get server.listen",
    "config set server.autostart true",
    "config set networks.8453.rpc http://127.0.0.1:9",
    "config list",
    "network list",
    "network enable base",
    "network rpc base http://127.0.0.1:9",
    "quote pay 1 ETH USDC --network base",
    "allowances --network base",
    "venues --network base",
    "venue trust 0x0000000000000000000000000000000000000001 --network base",
    "positions",
    "position withdraw 0x0000000000000000000000000000000000000001 all --network base",
    "thaw",
    "status",
    "doctor",
    "audit verify --head 00",
    "audit verify",
    "completions bash",
    "help wallet",
    "status --check ready",
    "engine",
    "pay http://127.0.0.1:9/x --max 0.01",
];
const FACILITATOR_LINES: &[&str] = &[
    "run",
    "check",
    "status",
    "settings",
    "upto-contract",
    "key new new.json --password-file password",
    "help key",
    "--config facilitator.toml check",
    "--config facilitator.toml",
    "--config nothing.toml run",
    "--version",
];
const PROXY_LINES: &[&str] = &[
    "run",
    "check",
    "settings",
    "--config proxy.toml check",
    "--config proxy.toml",
    "--config nothing.toml run",
    "--version",
    "help run",
];
const OPTIONS: &[&str] = &[
    "--json",
    "-j",
    "--yes",
    "-y",
    "--no-input",
    "--quiet",
    "-q",
    "-v",
    "--verbose",
    "--reveal",
    "--help",
    "-h",
    "--",
    "-",
    "--data",
    "--data=x",
    "--password-fd",
    "--password-fd=0",
    "--password-fd=99",
    "--password-stdin",
    "--seed-stdin",
    "--password-file",
    "--observe",
    "--ascii",
    "--color=never",
    "--config",
    "--version",
    "-V",
    "--confirm",
    "--limit",
];
/// Commands that would install a service on this machine, start the demo, or run until they are stopped.
const FORBIDDEN: &[&str] = &["install-service", "uninstall-service", "demo", "watch"];

/// Mutates the words of a line, mostly those after the command.
fn mutate_words(dice: &mut Dice, words: &mut Vec<OsString>, lines: &[&str]) {
    for _ in 0..dice.one_of(&[0, 1, 1, 1, 1, 2, 3]) {
        let first = if dice.chance(3, 4) { words.len().min(2) } else { 0 };
        let at = first + dice.index(words.len() + 1 - first);
        match dice.roll(10) {
            0 => words.insert(at, odd_text(dice).into()),
            1 => words.insert(at, pick(dice, OPTIONS).into()),
            2 if at < words.len() => drop(words.remove(at)),
            3 if at < words.len() => words.insert(at, words[at].clone()),
            4 => {
                let other = pick(dice, lines).split_whitespace().map(OsString::from);
                words.splice(at..at, other);
            }
            5 if at < words.len() => {
                let mut bytes = words[at].as_bytes().to_vec();
                mutate_bytes(dice, &mut bytes);
                words[at] = OsString::from_vec(bytes);
            }
            6 if at < words.len() => words[at] = odd_number(dice).into(),
            7 if at < words.len() => words[at] = odd_text(dice).into(),
            8 => {
                words.extend((0..dice.one_of(&[3, 30, 900])).map(|n| OsString::from(n.to_string())))
            }
            _near => {
                if let Some(word) = words.get_mut(at) {
                    *word = change_slightly(dice, &word.to_string_lossy()).into();
                }
            }
        }
    }
}

/// Returns whether a word could lead out of the home folder, or is a command that no test may run.
fn is_forbidden(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    let text = String::from_utf8_lossy(bytes);
    let name = text.trim().to_ascii_lowercase();
    bytes.contains(&0)
        || text.contains("..")
        || text.contains('/') && !text.starts_with("http://127.0.0.1")
        || text.contains('~')
        || name.len() >= 2 && FORBIDDEN.iter().any(|command| command.starts_with(&name))
}

fn draw_words(dice: &mut Dice, lines: &[&str]) -> Vec<OsString> {
    loop {
        let mut words: Vec<OsString> =
            pick(dice, lines).split_whitespace().map(OsString::from).collect();
        mutate_words(dice, &mut words, lines);
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        if bytes < 200_000 && !words.iter().any(|word| is_forbidden(word)) {
            return words;
        }
    }
}

fn words_text(words: &[OsString]) -> String {
    words.iter().map(|word| format!("{:?} ", escaped(word.as_bytes()))).collect()
}

#[derive(Debug)]
struct WalletArguments {
    wallet: Wallet,
    state: StateWatch,
    folders: u64,
}

pub(super) fn open_bursar(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let wallet = Wallet::start(programs, 500)?;
    Ok(Box::new(WalletArguments {
        wallet,
        state: StateWatch::new(REFUSALS_PER_COMPARISON),
        folders: 0,
    }))
}

impl Scene for WalletArguments {
    fn send_valid(&mut self) -> Result<(), String> {
        let listed = self.wallet.must("agent list")?;
        if listed.to_string().contains("bot") { Ok(()) } else { Err(listed.to_string()) }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let mut words = draw_words(dice, WALLET_LINES);
        let json = dice.chance(3, 4);
        if json {
            words.insert(0, "--json".into());
        }
        let mut command = self.wallet.command();
        // An empty folder has neither a wallet nor an engine.
        let empty = dice.chance(1, 4).then(|| {
            self.folders += 1;
            self.wallet.home().join(format!("empty{}", self.folders))
        });
        if let Some(empty) = &empty {
            command.env("BURSAR_DATA_DIR", empty).env("BURSAR_PASSWORD_FILE", "");
        }
        command.args(&words).env("RUST_BACKTRACE", "0");
        let input = b"correct horse battery\ncorrect horse battery\n";
        let ended = run(command, self.wallet.home(), input);
        let at = if empty.is_some() { "(no engine) " } else { "" };
        let mut outcome =
            Outcome { input: format!("{at}{}", words_text(&words)), ..Outcome::default() };
        let violated = &mut outcome.violated;
        outcome.class = check_command_end(&ended, WALLET_EXITS, violated);
        let asks_help = words.iter().any(|word| {
            let text = word.to_string_lossy();
            ["help", "completions"].contains(&text.as_ref())
                || text.starts_with("--h")
                || text.starts_with("--ver")
                || text.starts_with('-') && !text.starts_with("--") && text.contains(['h', 'V'])
        });
        if json && !ended.was_ready && !(asks_help && ended.code() == Ok(0)) {
            check_envelope(&ended, violated);
        }
        violated.extend(self.wallet.engine.health_fault());
        if empty.is_none() {
            violated.extend(self.state.compare_after(&self.wallet, ended.code() == Ok(0)));
        }
        if let Some(empty) = &empty {
            let _never_made = std::fs::remove_dir_all(empty);
        }
        outcome
    }

    fn is_alive(&mut self) -> bool {
        self.wallet.engine.health_fault().is_none()
    }
}

/// The arguments of a service. Its environment also contains valid settings, so that no line
/// makes it call other machines.
struct ServiceArguments {
    name: &'static str,
    lines: &'static [&'static str],
    home: tempfile::TempDir,
    /// The servers that the settings name; dropped together with this value.
    _surroundings: Box<dyn std::any::Any>,
    make: Box<dyn Fn(&Path) -> Command>,
}

pub(super) fn open_facilitator(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let running = Facilitator::start(programs)?;
    let home = tempfile::tempdir().expect("a folder");
    http_facilitator::write_settings(home.path(), &running.node.url);
    let make = maker(programs, FACILITATOR, "FACILITATOR_CONFIG", "facilitator.toml");
    let lines = FACILITATOR_LINES;
    Ok(service(FACILITATOR, lines, home, Box::new(running), make))
}

pub(super) fn open_proxy(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let running = Proxy::start(programs)?;
    let home = tempfile::tempdir().expect("a folder");
    let urls = [&running.upstream.url[..], &running.facilitator.url, &running.node.url];
    http_proxy::write_settings(home.path(), urls);
    let make = maker(programs, PROXY, "PROXY_CONFIG", "proxy.toml");
    Ok(service(PROXY, PROXY_LINES, home, Box::new(running), make))
}

fn maker(
    programs: &Programs,
    name: &'static str,
    variable: &'static str,
    file: &'static str,
) -> Box<dyn Fn(&Path) -> Command> {
    let program = programs.command(name, Path::new(".")).get_program().to_owned();
    Box::new(move |home| {
        let mut command = Command::new(&program);
        command.env_clear().current_dir(home).env("HOME", home).env(variable, home.join(file));
        command
    })
}

fn service(
    name: &'static str,
    lines: &'static [&'static str],
    home: tempfile::TempDir,
    surroundings: Box<dyn std::any::Any>,
    make: Box<dyn Fn(&Path) -> Command>,
) -> Box<dyn Scene> {
    write_private(&home.path().join("password"), b"correct horse battery");
    Box::new(ServiceArguments { name, lines, home, _surroundings: surroundings, make })
}

impl Scene for ServiceArguments {
    fn send_valid(&mut self) -> Result<(), String> {
        let ended = run((self.make)(self.home.path()), self.home.path(), b"");
        match (ended.was_ready, ended.code()) {
            (true, Ok(0)) => Ok(()),
            _other => Err(format!("{} without arguments: {ended:?}", self.name)),
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let words = draw_words(dice, self.lines);
        let mut command = (self.make)(self.home.path());
        command.args(&words);
        let ended = run(command, self.home.path(), b"");
        let mut outcome = Outcome { input: words_text(&words), ..Outcome::default() };
        outcome.class = check_command_end(&ended, SERVICE_EXITS, &mut outcome.violated);
        outcome
    }
}
