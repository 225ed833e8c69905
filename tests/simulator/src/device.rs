//! The hardware device of a world. It outlives every process, and shows the auditor its prompts and a person's
//! decisions.

use std::sync::{Arc, Mutex, OnceLock};

use bursar_auditor::observations::{DeviceObservation, Observation};
use bursar_device::emulator::SimulatedDevice;
use bursar_ledger_device::app::EthereumApp;
use bursar_ledger_device::device::{Call, Decision, Device, Progress};
use bursar_ledger_device::key::Seed;
use tokio::sync::oneshot;

use crate::faults::PlantedBug;
use crate::orders::PHRASE;
use crate::tape::Tape;

const OTHER_PHRASE: &str =
    "legal winner thank year wave sausage worth useful legal winner thank yellow";

/// A device with one app, the person who uses it, and the commands in flight.
#[derive(Debug)]
pub(crate) struct WorldDevice {
    device: Device,
    tape: Tape,
    plant: Option<PlantedBug>,
    /// Whether the person wants the device to sign calls of contracts.
    trades: bool,
    calls: Mutex<Vec<SentCommand>>,
    /// The number of the newest prompt that the auditor was shown.
    shown: Mutex<u64>,
    /// The first answer with an address.
    address_answer: Mutex<Option<Vec<u8>>>,
    /// The number of commands before the device is swapped for one with another seed.
    commands_until_swap: Mutex<Option<u64>>,
}

/// A command in flight.
#[derive(Debug)]
struct SentCommand {
    command: Vec<u8>,
    call: Call,
    answer: oneshot::Sender<Vec<u8>>,
    /// The digest of the prompt that the command caused.
    digest: Option<String>,
}

/// Returns the seed of the enrolled device, or of another one. Cached, because deriving it is slow.
fn seed(is_other: bool) -> Seed {
    static SEEDS: OnceLock<[Seed; 2]> = OnceLock::new();
    let of = |phrase| Seed::from_words(phrase).expect("the words of a seed");
    SEEDS.get_or_init(|| [of(PHRASE), of(OTHER_PHRASE)])[usize::from(is_other)].clone()
}

fn hex_of(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Returns a signature as a payment header contains it. The device answers `v`, `r` and `s`.
fn signature(answer: &[u8]) -> String {
    let (v, rest) = answer.split_first().expect("an answer");
    hex_of(&[rest, &[*v]].concat())
}

/// Returns the address in an answer to the command that asks for one. It follows the public key, as hex digits.
fn derived_address(command: &[u8], data: &[u8]) -> Option<String> {
    let digits = data.get(67..107).filter(|_digits| command.starts_with(&[0xE0, 0x02]))?;
    Some(format!("0x{}", String::from_utf8_lossy(digits).to_lowercase()))
}

impl WorldDevice {
    /// Creates a device. If `trades` is true, its settings let it sign calls of contracts too.
    pub(crate) fn new(tape: &Tape, plant: Option<PlantedBug>, trades: bool) -> Arc<Self> {
        let device = Device::new(EthereumApp::new(seed(false)));
        device.change(|app| (app.raw_messages, app.blind_signing) = (true, trades));
        Arc::new(Self {
            device,
            tape: tape.clone(),
            plant,
            trades,
            calls: Mutex::default(),
            shown: Mutex::default(),
            address_answer: Mutex::default(),
            commands_until_swap: Mutex::default(),
        })
    }

    /// Lets a person decide about the prompt on the screen, if there is one.
    pub(crate) fn press(&self, decision: Decision) {
        if let Some(signed) = self.device.signs() {
            let digest = hex_of(&signed.digest);
            let agrees = decision == Decision::Press;
            let signature = agrees.then(|| signature(&signed.answer));
            let signer = format!("{:#x}", signed.signer);
            self.tape.write_audited(Observation::Device(DeviceObservation::Pressed {
                signer,
                digest,
                signature,
            }));
        }
        self.device.press(decision);
        self.advance_calls();
    }

    pub(crate) fn set_plugged(&self, is_plugged: bool) {
        self.device.set_plugged(is_plugged);
        self.advance_calls();
    }

    pub(crate) fn set_locked(&self, is_locked: bool) {
        self.device.set_locked(is_locked);
        self.advance_calls();
    }

    /// Opens another app, or the Ethereum app again.
    pub(crate) fn set_other_app(&self, is_other: bool) {
        self.device.open(is_other.then(|| ("Bitcoin".to_owned(), "2.0".to_owned())));
    }

    /// Turns the setting that lets the device show typed data on or off.
    pub(crate) fn set_switch(&self, is_on: bool) {
        self.device.change(|app| app.raw_messages = is_on);
    }

    /// Turns the setting that lets the device sign calls of contracts on or off.
    pub(crate) fn set_blind_signing(&self, is_on: bool) {
        self.device.change(|app| app.blind_signing = is_on);
    }

    /// Returns whether a prompt for a signature is on the screen.
    pub(crate) fn has_prompt(&self) -> bool {
        self.device.signs().is_some()
    }

    /// Swaps the device for one with another seed, or back.
    pub(crate) fn swap(&self, is_other: bool) {
        self.device.change(|app| app.seed = seed(is_other));
    }

    /// Swaps the device before the n-th command from now.
    pub(crate) fn swap_at(&self, command: u64) {
        *self.commands_until_swap.lock().unwrap() = Some(command);
    }

    /// Pulls the cable at the n-th command from now: before the device handles it, or before it answers.
    pub(crate) fn pull_cable_at(&self, before: Option<u64>, after: Option<u64>) {
        self.device.cut(before, after);
    }

    /// Lets a person approve the prompt, and pulls the cable before the answer.
    pub(crate) fn press_and_pull(&self) {
        self.pull_cable_at(None, Some(1));
        self.press(Decision::Press);
        self.pull_cable_at(None, None);
    }

    /// Ends all trouble.
    pub(crate) fn end_trouble(&self) {
        *self.commands_until_swap.lock().unwrap() = None;
        self.pull_cable_at(None, None);
        self.set_plugged(true);
        self.set_locked(false);
        self.set_other_app(false);
        self.set_switch(true);
        self.set_blind_signing(self.trades);
        self.swap(false);
    }

    /// Planted bug: answers with the enrolled address for every device, so that the wallet's check has no effect.
    fn pretended_address(&self, command: &[u8]) -> Option<Vec<u8>> {
        let asks = command.starts_with(&[0xE0, 0x02]);
        if self.plant != Some(PlantedBug::NotDerived) || !asks || self.plug_number().is_none() {
            return None;
        }
        let Progress::Answered(data, status) = self.device.advance(&mut self.device.call(command))
        else {
            return None;
        };
        let answer = [&data[..], &status.to_be_bytes()].concat();
        let Some(address) = derived_address(command, &data) else { return Some(answer) };
        self.tape.write_audited(Observation::Device(DeviceObservation::Derived { address }));
        Some(self.address_answer.lock().unwrap().get_or_insert(answer).clone())
    }

    /// Planted bug: changes the call data of a transaction.
    fn changed_command(&self, command: &[u8]) -> Vec<u8> {
        let mut command = command.to_vec();
        let is_transaction = command.starts_with(&[0xE0, 0x04]);
        if self.plant == Some(PlantedBug::StepChanged)
            && is_transaction
            // An empty access list follows the call data.
            && let [.., last, 0xC0] = command.as_mut_slice()
        {
            *last ^= 1;
        }
        command
    }

    /// Returns whether a command other than a prompt waits for its answer.
    pub(crate) fn is_silent(&self) -> bool {
        self.calls.lock().unwrap().iter().any(|sent| sent.digest.is_none())
    }

    fn count_down(&self) {
        let mut left = self.commands_until_swap.lock().unwrap();
        *left = left.map(|left| left.saturating_sub(1));
        if left.take_if(|left| *left == 0).is_some() {
            self.swap(true);
        }
    }

    /// Advances all commands in flight as far as possible.
    fn advance_calls(&self) {
        let mut calls = self.calls.lock().unwrap();
        loop {
            let before = calls.len();
            let mut waiting = Vec::new();
            for mut sent in calls.drain(..) {
                match self.device.advance(&mut sent.call) {
                    Progress::Waits => {
                        self.show(&mut sent);
                        waiting.push(sent);
                    }
                    Progress::Cut => {}
                    Progress::Answered(data, status) => {
                        if let Some(address) = derived_address(&sent.command, &data) {
                            self.tape.write_audited(Observation::Device(
                                DeviceObservation::Derived { address },
                            ));
                        }
                        let answer = [&data[..], &status.to_be_bytes()].concat();
                        let is_read = sent.answer.send(answer).is_ok();
                        if let Some(digest) = sent.digest.filter(|_digest| is_read) {
                            self.tape.write_audited(Observation::Device(
                                DeviceObservation::AnswerRead { digest },
                            ));
                        }
                    }
                }
            }
            *calls = waiting;
            if calls.len() == before {
                return;
            }
        }
    }

    /// Shows the auditor the prompt that this command has just caused.
    fn show(&self, sent: &mut SentCommand) {
        let Some(signed) = self.device.signs() else { return };
        let mut shown = self.shown.lock().unwrap();
        if signed.prompt <= *shown {
            return;
        }
        *shown = signed.prompt;
        let digest = hex_of(&signed.digest);
        sent.digest = Some(digest.clone());
        let signer = format!("{:#x}", signed.signer);
        self.tape
            .write_audited(Observation::Device(DeviceObservation::Prompted { signer, digest }));
    }
}

impl SimulatedDevice for WorldDevice {
    fn plug_number(&self) -> Option<u64> {
        self.device.is_plugged().then(|| self.device.unplugged())
    }

    fn send(&self, command: &[u8]) -> oneshot::Receiver<Vec<u8>> {
        let (answer, answered) = oneshot::channel();
        // A dead process sends nothing.
        if !self.tape.is_dead() {
            if let Some(answer_now) = self.pretended_address(command) {
                let _gone = answer.send(answer_now);
                return answered;
            }
            self.count_down();
            let command = self.changed_command(command);
            let call = self.device.call(&command);
            self.calls.lock().unwrap().push(SentCommand { command, call, answer, digest: None });
            self.advance_calls();
        }
        answered
    }
}
