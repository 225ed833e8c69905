//! A node, a facilitator as a process on it, and payments that are signed before the clock runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use alloy_primitives::{Address, U256, address};
use bursar_core::networks::ChainId;
use bursar_demo::devnet::Devnet;
use bursar_demo::devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::Home;
use bursar_tests::payer::{Paid, Payer, Way};
use serde_json::json;

pub const SHOP: Address = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");

pub async fn chain() -> Devnet {
    full_chain_or_skip(ChainId(8453)).await.expect("anvil: cargo xtask devnet installs it")
}

pub async fn payers(chain: &Devnet, count: usize) -> Vec<Payer> {
    let mut payers = Vec::with_capacity(count);
    for _one in 0..count {
        let payer = Payer::random();
        chain.mint(payer.address(), 1_000_000_000_000).await.expect("minted");
        payers.push(payer);
    }
    chain.mint(SHOP, 1).await.expect("minted");
    payers
}

/// Payments of all payers in turn, each good for an hour.
pub fn payments(chain: &Devnet, payers: &[Payer], count: usize) -> Vec<Paid> {
    let one = |at: usize| {
        let payer = &payers[at % payers.len()];
        let mut due = payer.owes(chain.network(), SHOP, 1_000);
        due.before += 3_600;
        payer.pay(Way::Eip3009, &due)
    };
    (0..count).map(one).collect()
}

/// A facilitator as a process.
pub struct Process {
    child: Child,
    /// Host and port.
    pub address: String,
}

impl Process {
    pub fn start(home: &Home) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_bursar-test-facilitator"));
        let mut command = Command::new(program);
        command.arg("--config").arg(home.settings()).env("RUST_LOG", "warn");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("READY http://").expect("ready").to_owned();
        Self { child, address }
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("Linux")
    }

    /// Time on processors so far.
    pub fn cpu(&self) -> Duration {
        let stat = self.proc("stat");
        let fields: Vec<&str> =
            stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // USER_HZ is 100 everywhere.
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory now and at its most, in MiB.
    pub fn memory(&self) -> (f64, f64) {
        let status = self.proc("status");
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
            let kib: f64 = line.split_whitespace().nth(1).expect("a number").parse().unwrap();
            kib / 1024.0
        };
        (of("VmRSS:"), of("VmHWM:"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

pub async fn fund(chain: &Devnet, home: &Home) {
    for signer in &home.signers {
        let gas = U256::from(10).pow(U256::from(22));
        chain.request("anvil_setBalance", json!([signer, gas])).await.expect("set");
    }
}
