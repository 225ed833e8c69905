//! Simulated Ledgers for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::{Decision, Device};
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::server::serve;

/// Timeout of a wait for a prompt or an answer.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The seed of a test's device.
pub const SEED_WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

/// Plugs in a device with blind signing off and "Raw messages" on.
pub fn plug_in(words: &str) -> (Arc<Device>, SocketAddr) {
    let seed = Seed::from_words(words).expect("the words of a seed");
    let device = Arc::new(Device::new(EthereumApp::new(seed)));
    device.change(|app| app.raw_messages = true);
    let ports = serve(Arc::clone(&device), 0, 0).expect("two ports");
    (device, ports.commands)
}

/// Plugs in a device with blind signing on, so that it also signs contract calls.
pub fn plug_in_blind(words: &str) -> (Arc<Device>, SocketAddr) {
    let (device, at) = plug_in(words);
    device.change(|app| app.blind_signing = true);
    (device, at)
}

/// Returns the number of prompts that a device has shown.
pub fn prompts(device: &Device) -> usize {
    device.log().iter().filter(|line| line.contains("asked:")).count()
}

/// Waits for a prompt, decides it, and waits for the device's answer; returns the text of the prompt.
///
/// # Panics
/// No prompt appears in time.
pub async fn decide(device: &Device, decision: Decision) -> Vec<String> {
    let shown = wait_for("a prompt", || device.screen()).await;
    assert!(device.press(decision), "the prompt is gone");
    wait_for("an answer", || (device.screen().as_ref() != Some(&shown)).then_some(())).await;
    shown
}

/// Waits until `found` returns something.
///
/// # Panics
/// `found` returns nothing in time.
pub async fn wait_for<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
