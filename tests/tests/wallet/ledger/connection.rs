//! Connections to a simulated device: one exchange at a time, and no answer is taken for another command.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use bursar_core::derivation::{DerivationPath, Layout};
use bursar_core::networks::{ChainId, by_chain};
use bursar_device::emulator::Emulators;
use bursar_ledger::address::{self, Display};
use bursar_ledger::app;
use bursar_ledger::command::{Command, read_answer, read_empty};
use bursar_ledger::payment;
use bursar_ledger::port::{Device, Devices, ExchangeFault};
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::typed_data::ask_full;
use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::{self, Decision};
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::server::serve;
use bursar_x402::authorization::Authorization;
use bursar_x402::typed_data::TokenDomain;

use super::support::{SEED_WORDS, WAIT_TIMEOUT};

/// A simulated device, and the port that finds it.
struct Bench {
    device: Arc<device::Device>,
    devices: Emulators,
}

impl Bench {
    fn start() -> Self {
        let mut app = EthereumApp::new(Seed::from_words(SEED_WORDS).unwrap());
        app.blind_signing = true;
        let device = Arc::new(device::Device::new(app));
        let ports = serve(Arc::clone(&device), 0, 0).unwrap();
        Self { device, devices: Emulators::new(vec![ports.commands]) }
    }

    async fn connect(&self) -> Arc<dyn Device> {
        let devices = self.devices.connect().await.unwrap();
        assert_eq!(devices.len(), 1);
        Arc::clone(&devices[0])
    }

    /// Waits for the prompt without yielding to the runtime.
    async fn wait_for_prompt(&self) -> Vec<String> {
        let device = Arc::clone(&self.device);
        tokio::task::spawn_blocking(move || device.wait_for_prompt()).await.unwrap()
    }
}

fn path() -> DerivationPath {
    Layout::Live.template().unwrap().path(0).unwrap()
}

fn terms(signer: Address, value: u64) -> (TokenDomain, Authorization) {
    let terms = Authorization {
        from: signer,
        to: Address::repeat_byte(7),
        value: U256::from(value),
        valid_after: 0,
        valid_before: 1_900_000_000,
        nonce: B256::repeat_byte(9),
    };
    (TokenDomain::of_stablecoin(by_chain(ChainId(8453)).unwrap()), terms)
}

fn payment(signer: Address, value: u64) -> Vec<Command> {
    let (token, terms) = terms(signer, value);
    ask_full(&path(), &payment::typed_data(&token, &terms)).unwrap()
}

async fn address_of(device: &dyn Device) -> Result<Address, ExchangeFault> {
    let ask = address::ask(&path(), Display::Silent).unwrap();
    let answer = device.exchange(&ask).await?;
    Ok(address::read(read_answer(&answer).unwrap()).unwrap())
}

/// Fails the test if an exchange waits for a person, because no person comes.
async fn without_person<T>(exchange: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT_TIMEOUT, exchange).await.expect("it waits for the person")
}

/// Sends the commands of a request; returns its last answer.
async fn send(device: &dyn Device, commands: &[Command]) -> Result<Vec<u8>, ExchangeFault> {
    let (last, before) = commands.split_last().unwrap();
    for command in before {
        read_empty(&device.exchange(command).await?).unwrap();
    }
    device.exchange(last).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_signed_after_a_press() {
    let bench = Bench::start();
    let device = bench.connect().await;
    let answer = device.exchange(&app::ask_app()).await.unwrap();
    assert_eq!(app::read_app(read_answer(&answer).unwrap()).unwrap().name, "Ethereum");
    let answer = device.exchange(&app::ask_configuration()).await.unwrap();
    assert!(app::read_configuration(read_answer(&answer).unwrap()).unwrap().blind_signing);
    let signer = address_of(&*device).await.unwrap();

    let commands = payment(signer, 1_500_000);
    let (answer, pages) = tokio::join!(send(&*device, &commands), async {
        let pages = bench.wait_for_prompt().await;
        assert!(bench.device.press(Decision::Press));
        pages
    });
    let answer = answer.unwrap();
    let signature = DeviceSignature::read(read_answer(&answer).unwrap()).unwrap();
    let (token, terms) = terms(signer, 1_500_000);
    assert!(signature.verify(signer, token.digest(&terms)).is_ok());
    for shown in ["chainId | 8453", "value | 1500000", "validBefore | 1900000000"] {
        assert!(pages.iter().any(|page| page == shown), "{shown} is not on {pages:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_dropped_and_never_returned_for_another_command() {
    let bench = Bench::start();
    let device = bench.connect().await;
    let signer = address_of(&*device).await.unwrap();
    for decision in [Decision::Press, Decision::Refuse] {
        let (commands, prompted) = (payment(signer, 1), Arc::clone(&device));
        let request = tokio::spawn(async move { send(&*prompted, &commands).await });
        bench.wait_for_prompt().await;
        // The wallet gives up while the prompt is on the screen.
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        assert!(device.owes_answer());
        let asked = without_person(device.exchange(&app::ask_app())).await;
        assert_eq!(asked, Err(ExchangeFault::OwesAnswer));
        let again = without_person(bench.connect()).await;
        assert!(again.owes_answer(), "it is not opened a second time");
        assert_eq!(without_person(address_of(&*again)).await, Err(ExchangeFault::OwesAnswer));

        assert!(bench.device.press(decision));
        while device.owes_answer() {
            tokio::task::yield_now().await;
        }
        assert_eq!(address_of(&*device).await, Ok(signer));
        let log = bench.device.log();
        let commands = log.iter().filter(|line| line.starts_with("=>")).count();
        let answers = log.iter().filter(|line| line.starts_with("<=")).count();
        assert_eq!(commands, answers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cable_that_is_pulled_at_any_command_ends_the_connection_and_no_other() {
    let bench = Bench::start();
    bench.device.decide_itself(Some(Decision::Press));
    let signer = address_of(&*bench.connect().await).await.unwrap();
    let commands = payment(signer, 1);
    let mut whole = None;
    for number in 1..=commands.len() {
        for (before, after) in [(Some(number), None), (None, Some(number))] {
            let device = bench.connect().await;
            bench.device.cut(before.map(|n| n as u64), after.map(|n| n as u64));
            assert_eq!(send(&*device, &commands).await, Err(ExchangeFault::Disconnected));
            assert!(device.is_lost());
            assert_eq!(address_of(&*device).await, Err(ExchangeFault::Disconnected));
            // The socket of an emulator accepts connections even if its device is not plugged in.
            for gone in bench.devices.connect().await.unwrap() {
                assert_eq!(address_of(&*gone).await, Err(ExchangeFault::Disconnected));
            }
            bench.device.set_plugged(true);
            // After the device is plugged in again, the same terms give the same signature.
            let device = bench.connect().await;
            assert_eq!(address_of(&*device).await, Ok(signer));
            let answer = send(&*device, &commands).await.unwrap();
            assert_eq!(*whole.get_or_insert_with(|| answer.clone()), answer);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_callers_never_share_an_exchange() {
    let bench = Bench::start();
    let device = bench.connect().await;
    let (shown, request) = (address::ask(&path(), Display::Confirm).unwrap(), Arc::clone(&device));
    let first = tokio::spawn(async move { request.exchange(&shown).await });
    bench.wait_for_prompt().await;
    let second = without_person(address_of(&*device)).await;
    assert_eq!(second, Err(ExchangeFault::OwesAnswer));
    assert!(bench.device.press(Decision::Press));
    assert!(first.await.unwrap().is_ok());
    assert!(address_of(&*device).await.is_ok());
}
