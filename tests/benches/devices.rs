//! `/sign` of software addresses while twenty payments wait for a Ledger, one of them on its screen. The same engine
//! without such payments is the reference.
//!
//! The ratio is the result. Run it with `cargo bench -p bursar-tests --bench devices`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use bursar_chain::clock::SystemClock;
use bursar_chain::icon_http::IconHttp;
use bursar_chain::registry_http::RegistryHttp;
use bursar_control::answers::Answer;
use bursar_device::emulator::Emulators;
use bursar_devnet::agent::Agent;
use bursar_engine::agent_api::router;
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::ports::{NoFailpoints, Ports, PriceSource, SystemDisk, SystemRandom};
use bursar_engine::rules::Rules;
use bursar_engine::service::data_dir::DataFolder;
use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::Device;
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::server::serve;
use bursar_tests::engine::{ask, lock_folder, test_edition};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator, PASSWORD};
use bursar_tui::link::Link;
use futures::future::join_all;

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
/// Number of payments that wait for the device.
const WAITING_PAYMENTS: usize = 20;
/// Number of pairs of rounds; it must be odd.
const ROUND_PAIRS: usize = 9;
/// Number of payments of a round, sent by [`CALLERS`] callers.
const PAYMENTS: usize = 1_600;
const CALLERS: usize = 8;

/// An engine with a software address and an address of a device.
struct BenchedEngine {
    engine: Engine,
    http: Router,
    software: Agent,
    device: Agent,
}

fn main() {
    bursar_tests::bench::runtime().block_on(async {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
        let alone = BenchedEngine::open(&home.path().join("alone")).await;
        let waiting = BenchedEngine::open(&home.path().join("waiting")).await;
        for number in 0..WAITING_PAYMENTS {
            let answer = waiting.pay(&waiting.device, number).await;
            assert_eq!(answer, 202, "it waits for the device");
        }
        let mut ratios = Vec::new();
        for pair in 0..ROUND_PAIRS {
            let first = 1_000 + pair * 2 * PAYMENTS;
            let without = alone.rate(first).await;
            let with = waiting.rate(first).await;
            ratios.push(with / without);
        }
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios.first().copied(), ratios.last().copied());
        println!(
            "/sign with {WAITING_PAYMENTS} payments waiting for a Ledger, of /sign without: {:.0} % (median of {ROUND_PAIRS}; {:.0} to {:.0} %)",
            100.0 * ratios[ROUND_PAIRS / 2],
            100.0 * low.unwrap_or_default(),
            100.0 * high.unwrap_or_default(),
        );
        alone.engine.stop().await;
        waiting.engine.stop().await;
    });
}

impl BenchedEngine {
    async fn open(path: &Path) -> Self {
        let app = EthereumApp::new(Seed::from_words(WORDS).expect("a seed"));
        let device = Arc::new(Device::new(app));
        device.change(|app| app.raw_messages = true);
        let at = serve(device, 0, 0).expect("ports").commands;
        let folder = DataFolder::open(path).expect("a folder");
        let settings = "[server]\nlisten = \"127.0.0.1:0\"\nrate_per_minute = 4000000000\n";
        std::fs::write(folder.file("settings.toml"), settings).expect("settings");
        let lock = lock_folder(&folder);
        let mut options = Options::new(folder, lock, test_edition(), Mode::Full);
        options.ports = Some(Ports {
            clock: Arc::new(SystemClock::new().expect("a zone")),
            random: Arc::new(SystemRandom),
            disk: Arc::new(SystemDisk),
            failpoints: Arc::new(NoFailpoints),
            chains: Default::default(),
            explorers: Default::default(),
            prices: PriceSource::default(),
            icons: Arc::new(IconHttp::new()),
            registry: Arc::new(RegistryHttp),
            devices: Some(Arc::new(Emulators::new(vec![at]))),
            signer: None,
            rules: Rules::default(),
        });
        let engine = Engine::open(options).await.expect("an engine");
        let mut operator = Operator::new(Link::over(engine.attach()), PASSWORD);
        for line in [
            "wallet create bench",
            "seed create",
            "address create pay 0",
            "address ledger add 0 safe",
            "policy create p --day 1000000 --txn 10 --auto 5",
        ] {
            operator.must(line).await;
        }
        let software = commission(&mut operator, "software", "pay").await;
        let device = commission(&mut operator, "device", "safe").await;
        let http = router(Arc::new(engine.api()));
        Self { engine, http, software, device }
    }

    /// Asks for a payment; returns the HTTP status.
    async fn pay(&self, agent: &Agent, number: usize) -> u16 {
        let now = jiff::Timestamp::now().as_second();
        let number = u64::try_from(number).expect("a number");
        let body = agent.ask(now, &offer(12_000, number), None).to_string();
        ask(self.http.clone(), "POST", "/sign", body.into_bytes()).await.0
    }

    /// Returns the payments per second of one round.
    async fn rate(&self, first: usize) -> f64 {
        let begun = Instant::now();
        let callers = (0..CALLERS).map(async |caller| {
            for number in 0..PAYMENTS / CALLERS {
                let number = first + caller * PAYMENTS / CALLERS + number;
                assert_eq!(self.pay(&self.software, number).await, 200);
            }
        });
        join_all(callers).await;
        f64::from(u32::try_from(PAYMENTS).expect("few")) / begun.elapsed().as_secs_f64()
    }
}

async fn commission(operator: &mut Operator, name: &str, label: &str) -> Agent {
    let created = operator.outcome(&format!("agent register {name} --auth bearer")).await;
    let Ok(Answer::Credentials(given)) = created.reply.result else {
        unreachable!("an agent was registered")
    };
    operator.must(&format!("agent commission {} p {label}", given.agent_id)).await;
    Agent::new(given.agent_id, created.secret.expect("a token"), true)
}
