//! A node, a facilitator process on it, and payments that are signed before the measurement.

use std::path::Path;

use alloy_primitives::{Address, U256, address};
use bursar_core::networks::ChainId;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::{Payer, SignedPayment, TransferMethod};
use serde_json::json;

use crate::process::Process;

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

/// Returns payments of all payers in turn, each valid for at least an hour.
pub fn payments(chain: &Devnet, payers: &[Payer], count: usize) -> Vec<SignedPayment> {
    let one = |at: usize| {
        let payer = &payers[at % payers.len()];
        let mut terms = payer.terms(chain.network(), SHOP, 1_000);
        terms.valid_before_s += 3_600;
        payer.pay(TransferMethod::Eip3009, &terms)
    };
    (0..count).map(one).collect()
}

pub async fn fund(chain: &Devnet, home: &FacilitatorHome) {
    for signer in &home.signers {
        let gas = U256::from(10).pow(U256::from(22));
        chain.request("anvil_setBalance", json!([signer, gas])).await.expect("set");
    }
}

/// The facilitator program of this build.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_bursar-test-facilitator");

/// Starts a facilitator process.
pub fn start_facilitator(home: &FacilitatorHome) -> Process {
    Process::start(Path::new(PROGRAM), &home.settings())
}
