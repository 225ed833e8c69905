//! The sandbox with the merchant of `examples/merchant`, as the README shows them.
//!
//! Official x402 packages sell by the meter, and the balances must add up.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use bursar_devnet::install::{Kit, chain_or_skip, packages};
use tempfile::TempDir;

/// The packages of the example, in the versions that the facilitator's tests use.
const PACKAGES: Kit = Kit {
    package: "the packages of tests/sdk",
    manifest: include_str!("../../tests/sdk/package.json"),
    lock: include_str!("../../tests/sdk/package-lock.json"),
    proof_file: "node_modules/x402/package.json",
};

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Returns the lines up to the one that starts with `end`.
#[expect(clippy::unwrap_used, clippy::panic, reason = "a helper stands outside #[test]")]
fn lines_until(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    end: &str,
) -> Vec<String> {
    let mut before = Vec::new();
    loop {
        let Some(line) = lines.next() else { panic!("{end:?} does not follow {before:?}") };
        let line = line.unwrap();
        if line.starts_with(end) {
            return before;
        }
        before.push(line);
    }
}

#[expect(clippy::unwrap_used, reason = "a helper stands outside #[test]")]
fn start(command: &mut Command) -> (Process, std::io::Lines<BufReader<ChildStdout>>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (Process(child), lines)
}

/// Copies the example into a folder with its packages.
#[expect(clippy::unwrap_used, reason = "a helper stands outside #[test]")]
fn example() -> TempDir {
    let kit = packages(&PACKAGES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/merchant");
    for script in ["accounts.mjs", "shop.mjs", "buyer.mjs", "package.json"] {
        fs::copy(source.join(script), folder.path().join(script)).unwrap();
    }
    symlink(kit.join("node_modules"), folder.path().join("node_modules")).unwrap();
    folder
}

/// Returns a free port whose successor is free too.
#[expect(clippy::unwrap_used, reason = "a helper stands outside #[test]")]
fn two_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// The commands of the README's third terminal.
fn commands() -> Vec<String> {
    let readme = include_str!("../../README.md");
    let (_before, section) = readme.split_once("## Sell by the meter").unwrap_or_default();
    let lines = section.lines().filter_map(|line| line.split_once('#').map(|(line, _note)| line));
    let is_command = |line: &&str| line.starts_with("node buyer.mjs") || line.starts_with("curl");
    lines.map(str::trim).filter(is_command).map(str::to_owned).collect()
}

#[test]
fn the_readmes_merchant_sells_by_the_meter_and_all_money_is_accounted_for() {
    let Some(anvil) = chain_or_skip() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar-demo"));
    let (mut sandbox, mut lines) = start(command.arg("sandbox").env("BURSAR_ANVIL", anvil));
    let printed = lines_until(&mut lines, "READY");
    let exports = printed.iter().filter_map(|line| line.strip_prefix("export "));
    let mut variables: Vec<_> = exports.filter_map(|line| line.split_once('=')).collect();
    assert_eq!(variables.len(), 4, "{printed:?}");

    let (folder, port) = (example(), two_ports());
    let url = format!("http://127.0.0.1:{port}");
    variables.push(("SHOP_URL", &url));
    let in_folder = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder.path()).envs(variables.iter().copied());
        command
    };
    let open_shop = || {
        let (shop, mut lines) = start(in_folder("node").arg("shop.mjs"));
        lines_until(&mut lines, "the shop:");
        shop
    };
    let mut shop = open_shop();

    let mut outputs = Vec::new();
    let commands = commands();
    assert_eq!(commands.len(), 7, "{commands:?}");
    for command in &commands {
        if command.contains("claim") {
            // The vouchers survive a kill and restart of the shop.
            shop.0.kill().unwrap();
            shop.0.wait().unwrap();
            shop = open_shop();
        }
        let command = command.replace("4022", &(port + 1).to_string());
        let done = in_folder("sh").arg("-c").arg(&command).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(
            done.status.success(),
            "{command}: {text}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        outputs.push(text);
    }
    for (output, parts) in outputs.iter().zip([
        &["buyer 10000000", "merchant 0", "escrow 0", "all 10000000"][..],
        &["receipt {\"success\":true", "\"amount\":\"10000\""],
        &["\"amount\":\"100000\"", "\"chargedCumulativeAmount\":\"40000\""],
        &["\"vouchers\":1", "\"transaction\":\"0x"],
        &["\"transaction\":\"0x"],
        &["\"success\":true", "\"amount\":\"60000\""],
        &["buyer 9950000", "merchant 50000", "escrow 0", "all 10000000"],
    ]) {
        for part in parts {
            assert!(output.contains(part), "{part:?} is missing in {output}");
        }
    }
    for (command, parts) in [
        (format!("curl -sX POST http://127.0.0.1:{}/claim", port + 1), "[]"),
        (format!("curl -sX POST http://127.0.0.1:{}/payout", port + 1), "duplicate_settlement"),
        ("node buyer.mjs refund".to_owned(), "refused "),
        ("node buyer.mjs text 501".to_owned(), "settlement_exceeds_amount"),
    ] {
        let done = in_folder("sh").arg("-c").arg(&command).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(text.contains(parts), "{command}: {text}");
        assert!(done.stderr.is_empty(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    }
    drop(shop);
    let stopped = Command::new("kill").args(["-INT", &sandbox.0.id().to_string()]).status();
    assert!(stopped.unwrap().success());
    assert!(sandbox.0.wait().unwrap().success(), "Ctrl-C ends it");
}
