//! The costs that grow with the history: a wallet with a million payments, compared with
//! one that has a single payment.
//!
//! Both are separate processes on the same disk, driven in turns.
//! `cargo bench -p bursar-tests --bench history [payments]`; making the payments takes some minutes, and their folder
//! is kept in the target folder for the next run.

#[path = "history/ask.rs"]
mod ask;
#[path = "services/http.rs"]
mod http;
#[path = "history/oneshot.rs"]
mod oneshot;
#[path = "history/start.rs"]
mod start;
#[path = "history/wallet.rs"]
mod wallet;

use wallet::Wallet;

const PAYMENTS: usize = 1_000_000;

fn main() {
    let runtime = bursar_tests::bench::runtime();
    let given = std::env::args().skip(1).find(|name| !name.starts_with('-'));
    let payments = given.map_or(PAYMENTS, |text| text.parse().expect("a number of payments"));
    runtime.block_on(async {
        let few = Wallet::new("few").await;
        let mut many = Wallet::open_or_create(&format!("history-{payments}")).await;
        many.pay_until(payments).await;
        start::measure(&few, &many);
        start::measure_unlocked(&few, &many);
        let (few, many) = (few.start(true), many.start(true));
        start::memory_of("open and idle", &few, &many);
        oneshot::measure(&few, &many);
        ask::status(&few, &many).await;
        ask::sign(&few, &many).await;
        start::memory_of("after that", &few, &many);
    });
}
