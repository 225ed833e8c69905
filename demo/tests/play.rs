//! Runs the whole demonstration as a user would.

use std::process::Command;

use bursar_devnet::install::chain_or_skip;

#[expect(clippy::unwrap_used, reason = "a helper stands outside #[test]")]
fn run_demo(anvil: &str) -> String {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_bursar-demo"));
    let output = demo.arg("--yes").env("BURSAR_ANVIL", anvil).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout
}

/// Expects 6,800 units for the small answer and 1,500,850 for the large one. The prices depend only on the request
/// bodies.
#[test]
fn the_demonstration_pays_once_automatically_and_once_by_approval() {
    let Some(anvil) = chain_or_skip() else { return };
    let output = run_demo(anvil.to_str().unwrap());
    let mut rest = output.as_str();
    for line in [
        "the agent's address has 20.000000 USDC, the seller 0.000000 USDC",
        "the model answered: x402 is a way to pay over HTTP",
        "the receipt: transaction 0x",
        "the agent's address has 19.993200 USDC, the seller 0.006800 USDC",
        "leaves     1.500850 USDC on Base (8453)",
        "--yes: approved",
        "the model answered: I am a toy",
        "the buyer authorized at most 0.050000 USDC",
        "the shop settled 0.010000 USDC for 100 characters",
        "the receipt: transaction 0x",
        "the buyer has 0.990000 USDC",
        "spent 1.50765 of 10.00 USD today",
        "the agent's address has 18.492350 USDC, the seller 1.517650 USDC",
        "chain and seal intact",
        "That was the whole loop.",
    ] {
        let at =
            rest.find(line).unwrap_or_else(|| panic!("{line:?} is not in its place in\n{output}"));
        rest = rest.get(at..).unwrap_or_default();
    }
}

#[test]
fn without_a_chain_the_demonstration_moves_no_money() {
    let output = run_demo("/nonexistent");
    assert!(output.contains("no money moves"), "{output}");
    assert!(
        output.contains("no money moved") && output.contains("That was the whole loop."),
        "{output}"
    );
    assert!(!output.contains("on the chain:"), "{output}");
}
