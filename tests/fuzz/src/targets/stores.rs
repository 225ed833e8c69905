//! Damaged files: the wallet's data folder and the stores of the services.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bursar_tests::dice::Dice;
use bursar_tests::files::copy_folder;
use bursar_tests::proxy::chat;
use serde_json::json;

use super::args::WALLET_EXITS;
use super::http_engine::{scene_dice, signed_fields};
use super::http_facilitator::{self, Facilitator, payment};
use super::http_proxy::{self, Proxy};
use super::wallet::{Wallet, offer};
use crate::draw::mutate_bytes;
use crate::http::{Request, exchange};
use crate::oracle::{
    check_command_end, check_engine_answer, check_envelope, check_facilitator_answer,
    check_proxy_answer,
};
use crate::process::{Service, run};
use crate::programs::{BURSAR, FACILITATOR, PROXY, Programs, keep_calls_local};
use crate::scene::{Outcome, Scene};
use crate::stub::Stub;

/// The page size of redb, in bytes.
const PAGE: usize = 4_096;
/// Exit codes that a service may have if its store is damaged.
const EXITS_WITH_DAMAGED_STORE: &[i32] = &[0, 13];

/// Damages a file, for example with parts of its earlier version `older`. Returns a description of the damage.
fn damage(dice: &mut Dice, file: &Path, older: Option<&Path>) -> String {
    let mut bytes = std::fs::read(file).expect("a file");
    let pages = (bytes.len() / PAGE).max(1);
    let page = |number: usize, length: usize| {
        let start = (number * PAGE).min(length);
        start..(start + PAGE).min(length)
    };
    let (one, two) = (page(dice.index(pages), bytes.len()), page(dice.index(pages), bytes.len()));
    let done = match dice.roll(9) {
        0 => {
            bytes.truncate(dice.index(bytes.len() + 1));
            format!("truncated to {} bytes", bytes.len())
        }
        1 => {
            bytes.truncate(page(dice.index(pages), bytes.len()).start);
            format!("truncated to {} bytes", bytes.len())
        }
        2 => {
            let more = dice.one_of(&[1, PAGE, 100_000]);
            bytes.extend(std::iter::repeat_n(dice.roll(256) as u8, more));
            format!("extended by {more} bytes")
        }
        3 if one.len() == two.len() => {
            let (first, second) = (bytes[one.clone()].to_vec(), bytes[two.clone()].to_vec());
            bytes[one.clone()].copy_from_slice(&second);
            bytes[two.clone()].copy_from_slice(&first);
            format!("pages at {} and {} swapped", one.start, two.start)
        }
        4 => {
            bytes[one.clone()].fill(dice.one_of(&[0, 0xff]));
            format!("page at {} overwritten", one.start)
        }
        5 if older.is_some() => {
            // Simulates a write that never reached the disk.
            let old = older.and_then(|older| std::fs::read(older).ok()).unwrap_or_default();
            let range = one.start..one.end.min(old.len()).max(one.start);
            if range.end <= old.len() {
                bytes[range.clone()].copy_from_slice(&old[range]);
            }
            format!("page at {} from an older file", one.start)
        }
        6 => {
            let at = dice.index(bytes.len().clamp(1, 320));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.roll(8);
            }
            format!("a bit at {at} of the header flipped")
        }
        7 if bytes.len() < 100_000 => {
            mutate_bytes(dice, &mut bytes);
            "bytes changed".into()
        }
        _flip => {
            let count = 1 + dice.index(40);
            // Most of a file is unused, so this draws used bytes more often.
            let used: Vec<usize> =
                (0..bytes.len()).step_by(61).filter(|at| bytes[*at] != 0).collect();
            for _ in 0..count {
                let at = if used.is_empty() || dice.chance(1, 4) {
                    dice.index(bytes.len().max(1))
                } else {
                    used[dice.index(used.len())]
                };
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.roll(8);
                }
            }
            format!("{count} bits flipped")
        }
    };
    std::fs::write(file, bytes).expect("written");
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{name}: {done}")
}

/// A wallet's data folder, a copy of which is damaged for each input.
struct Folder {
    home: tempfile::TempDir,
    program: PathBuf,
}

pub(super) fn open_engine(programs: &Programs, _seed: u64) -> Result<Box<dyn Scene>, String> {
    let wallet = Wallet::start_product(programs)?;
    for number in 0..3 {
        let url = format!("https://api.example.com/{number}");
        let fields =
            json!({ "x402_data": offer(1_000 + 900_000 * number, &url), "request_url": url });
        let body = signed_fields(&wallet.bearer, "/sign", &fields);
        exchange(wallet.engine.address, &Request::post("/sign", body).encode(), false)?;
    }
    let home = wallet.stop()?;
    let program = programs.command(BURSAR, home.path()).get_program().into();
    Ok(Box::new(Folder { home, program }))
}

impl Folder {
    /// Copies the data folder and returns the copy.
    fn copy(&self) -> PathBuf {
        let copy = self.home.path().join("copy");
        let _missing = std::fs::remove_dir_all(&copy);
        copy_folder(&self.home.path().join("data"), &copy);
        copy
    }

    fn command(&self, data: &Path) -> Command {
        let (mut command, home) = (Command::new(&self.program), self.home.path());
        command.env_clear().current_dir(home).env("HOME", home).env("BURSAR_DATA_DIR", data);
        keep_calls_local(&mut command, "http://127.0.0.1:9".as_ref());
        command.env("BURSAR_PASSWORD_FILE", home.join("password"));
        command
    }

    fn start(&self, data: &Path) -> Result<Service, crate::process::ProgramEnd> {
        let mut command = self.command(data);
        command.arg("engine");
        Service::try_start(command, &self.home.path().join("engine.log"))
    }
}

impl Scene for Folder {
    fn send_valid(&mut self) -> Result<(), String> {
        let data = self.copy();
        let service = self.start(&data).map_err(|ended| format!("the intact folder: {ended:?}"))?;
        let request = Request::get("/health").encode();
        let reply = exchange(service.address, &request, false)?;
        let ended = service.stop();
        match (reply.map(|reply| reply.status), ended.code()) {
            (Some(200), Ok(0)) => Ok(()),
            other => Err(format!("the intact folder: {other:?}")),
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let data = self.copy();
        let names = ["journal.redb", "journal-history.redb", "wallets/main.wallet"];
        let files = names.map(|name| data.join(name));
        let files: Vec<_> = files.iter().filter(|file| file.exists()).collect();
        let file = dice.one_of(&files);
        let mut outcome = Outcome { input: damage(dice, file, None), ..Outcome::default() };
        let violated = &mut outcome.violated;
        if dice.chance(1, 2) {
            let lines = [
                "audit verify",
                "wallet status",
                "status",
                "doctor",
                "history",
                "activity",
                "agent list",
            ];
            let line = dice.one_of(&lines);
            let mut command = self.command(&data);
            command.arg("--json").args(line.split_whitespace());
            let ended = run(command, self.home.path(), b"");
            outcome.input = format!("{line} after {}", outcome.input);
            outcome.class = check_command_end(&ended, WALLET_EXITS, violated);
            check_envelope(&ended, violated);
            return outcome;
        }
        match self.start(&data) {
            Err(ended) => {
                // If an engine cannot start, it must not exit with 3, which means that no engine runs.
                let exits: Vec<i32> =
                    WALLET_EXITS.iter().copied().filter(|code| *code != 3).collect();
                outcome.class = check_command_end(&ended, &exits, violated);
            }
            Ok(mut service) => {
                for path in ["/health", "/receipt/6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f"] {
                    let reply = exchange(service.address, &Request::get(path).encode(), false);
                    match reply {
                        Ok(Some(reply)) => drop(check_engine_answer(&reply, violated)),
                        other => violated.push(format!("{path}: {other:?}")),
                    }
                }
                violated.extend(service.health_fault());
                outcome.class = check_command_end(&service.stop(), WALLET_EXITS, violated);
            }
        }
        outcome
    }
}

/// A service's store, a copy of which is damaged for each input.
struct Store {
    home: tempfile::TempDir,
    program: PathBuf,
    config: &'static str,
    store: &'static str,
    /// Requests whose sales or payments are in the store.
    requests: Vec<Request>,
    /// Checks an answer of the service.
    check: fn(&crate::http::Reply, &mut Vec<String>) -> String,
    _surroundings: Vec<Stub>,
}

pub(super) fn open_facilitator(programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let mut own = scene_dice(seed, "stores-facilitator");
    let Facilitator { service, node, home, .. } = Facilitator::start(programs)?;
    let mut requests = Vec::new();
    for _ in 0..4 {
        let paid = payment(&mut own, bursar_tests::payer::TransferMethod::Eip3009);
        let request = Request::post("/settle", paid.body(2));
        exchange(service.address, &request.encode(), false)?;
        requests.push(request);
    }
    drop(service.stop());
    http_facilitator::write_settings(home.path(), &node.url);
    let program = programs.command(FACILITATOR, home.path()).get_program().into();
    let (config, store) = ("facilitator.toml", "facilitator.redb");
    let store = Store {
        home,
        program,
        config,
        store,
        requests,
        check: check_facilitator_answer,
        _surroundings: vec![node],
    };
    store.save_intact_copy()?;
    Ok(Box::new(store))
}

pub(super) fn open_proxy(programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let mut own = scene_dice(seed, "stores-proxy");
    let proxy = Proxy::start(programs)?;
    let mut requests = Vec::new();
    for number in 0..6 {
        if number == 3 {
            // Keeps the file as it is between two sales: its pages later simulate lost writes.
            let store = proxy.home.path().join("proxy.redb");
            std::fs::copy(&store, store.with_extension("older")).expect("copied");
        }
        let request = proxy.pay_for(&mut own, &chat(&format!("question {number}")), 2)?;
        let reply = proxy.ask(&request)?;
        if reply.status != 200 {
            return Err(format!("a sale failed: {reply:?}"));
        }
        requests.push(request);
    }
    let Proxy { service, upstream, facilitator, node, home } = proxy;
    drop(service.stop());
    let program = programs.command(PROXY, home.path()).get_program().into();
    http_proxy::write_settings(home.path(), [&upstream.url, &facilitator.url, &node.url]);
    let (config, store) = ("proxy.toml", "proxy.redb");
    let check = |reply: &crate::http::Reply, violated: &mut Vec<String>| {
        check_proxy_answer(reply, false, violated)
    };
    let surroundings = vec![upstream, facilitator, node];
    let store =
        Store { home, program, config, store, requests, check, _surroundings: surroundings };
    store.save_intact_copy()?;
    Ok(Box::new(store))
}

impl Store {
    /// Keeps a copy of the intact store under another name.
    fn save_intact_copy(&self) -> Result<(), String> {
        let file = self.home.path().join(self.store);
        let kept = std::fs::copy(&file, file.with_extension("intact"));
        kept.map(drop).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn restore(&self) -> PathBuf {
        let file = self.home.path().join(self.store);
        std::fs::copy(file.with_extension("intact"), &file).expect("copied");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("closed");
        file
    }

    /// Starts the service, repeats the requests of the store, and stops it.
    fn run(&self, violated: &mut Vec<String>) -> String {
        let home = self.home.path();
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(home).env("HOME", home).env("RUST_LOG", "warn");
        command.arg("--config").arg(home.join(self.config));
        let mut service = match Service::try_start(command, &home.join("service.log")) {
            Ok(service) => service,
            Err(ended) => return check_command_end(&ended, EXITS_WITH_DAMAGED_STORE, violated),
        };
        let mut classes = Vec::new();
        for request in &self.requests {
            match exchange(service.address, &request.encode(), false) {
                Ok(Some(reply)) => classes.push((self.check)(&reply, violated)),
                // A service that finds damage may exit with 13.
                _none if service.has_ended_by(13) => break,
                other => violated.push(format!("no answer: {other:?}")),
            }
            if let Some(fault) = service.health_fault().filter(|_fault| !service.has_ended_by(13)) {
                violated.push(fault);
                return "ended".into();
            }
        }
        let ended = check_command_end(&service.stop(), EXITS_WITH_DAMAGED_STORE, violated);
        classes.dedup();
        format!("{ended} after {}", classes.join("+"))
    }
}

impl Scene for Store {
    fn send_valid(&mut self) -> Result<(), String> {
        self.restore();
        let mut violated = Vec::new();
        let class = self.run(&mut violated);
        if violated.is_empty() && class.starts_with("ready") {
            Ok(())
        } else {
            Err(format!("the intact store: {class}: {violated:?}"))
        }
    }

    fn send_mutated(&mut self, dice: &mut Dice) -> Outcome {
        let file = self.restore();
        let older = file.with_extension("older");
        let older = older.exists().then_some(older);
        let mut outcome =
            Outcome { input: damage(dice, &file, older.as_deref()), ..Outcome::default() };
        outcome.class = self.run(&mut outcome.violated);
        outcome
    }
}
