//! The devices that are ready for commands.

use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::derivation::DerivationPath;
use bursar_core::fault::Fault;
use bursar_ledger::address::{self, Display};
use bursar_ledger::app::{self, Configuration, TypedDataForm};
use bursar_ledger::command::{AnswerFault, Command, RequestTooLong, read_answer};
use bursar_ledger::port::{Device, Devices, ExchangeFault};
use bursar_ledger::status::Meaning;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::not_ready::{NotReady, Switch};

/// The time that a device has to answer a command for which it asks no person.
pub(super) const ANSWER_MS: u64 = 5_000;
/// The time that a person has to compare an address on the device.
const CONFIRM_MS: u64 = 120_000;

/// One command or prompt at a time uses the devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

/// The devices that are ready, for one command. They are closed when it ends.
#[derive(Debug)]
pub(crate) struct ReadyDevices {
    pub(crate) all: Vec<ReadyDevice>,
    /// Why another connected device is not ready; `None` if all connected devices are ready.
    pub(crate) other_problem: Option<NotReady>,
    _turn: OwnedMutexGuard<()>,
}

/// A device whose Ethereum app is open.
#[derive(Debug)]
pub(crate) struct ReadyDevice {
    pub(super) device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
}

/// Waits for the turn, and returns the devices that are ready.
///
/// # Errors
/// The reason why no device is ready.
pub(crate) async fn ready(
    devices: Option<&Arc<dyn Devices>>,
    turn: &Turn,
    clock: &Arc<dyn Clock>,
) -> Result<ReadyDevices, NotReady> {
    let devices = devices.ok_or(NotReady::NoSupport)?;
    let until = clock.mono_ms().saturating_add(ANSWER_MS);
    // cancel-safe: both branches only wait.
    let turn = tokio::select! {
        biased;
        turn = Arc::clone(&turn.0).lock_owned() => turn,
        () = clock.sleep_until(until) => return Err(NotReady::Busy),
    };
    let until = clock.mono_ms().saturating_add(ANSWER_MS);
    // cancel-safe: devices that are opened too late are closed.
    let connected = tokio::select! {
        biased;
        connected = devices.connect() => connected?,
        () = clock.sleep_until(until) => return Err(NotReady::UsbSilent),
    };
    let (mut all, mut other) = (Vec::new(), None);
    for device in connected {
        let device = ReadyDevice { device, clock: Arc::clone(clock) };
        match device.check_app().await {
            Ok(()) => all.push(device),
            Err(why) => other = other.or(Some(why)),
        }
    }
    if all.is_empty() {
        return Err(other.unwrap_or(NotReady::NoDevice));
    }
    Ok(ReadyDevices { all, other_problem: other, _turn: turn })
}

impl ReadyDevices {
    /// Returns the position of the device that derives `address` at `path`.
    ///
    /// # Errors
    /// No device that is ready derives it.
    pub(crate) async fn with_address(
        &self,
        path: &DerivationPath,
        address: Address,
    ) -> Result<usize, NotReady> {
        let mut why = self.other_problem.clone();
        for (index, device) in self.all.iter().enumerate() {
            match device.address(path).await {
                Ok(found) if found == address => return Ok(index),
                Ok(_another) => why = why.or(Some(NotReady::OtherSeed)),
                Err(fault) => why = why.or(Some(fault)),
            }
        }
        Err(why.unwrap_or(NotReady::OtherSeed))
    }
}

impl ReadyDevice {
    /// Returns the device, so that the caller can check later whether it has answered.
    pub(crate) fn handle(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device)
    }

    /// Whether the answer to a command is missing.
    pub(crate) fn owes_answer(&self) -> bool {
        self.device.owes_answer()
    }

    /// Returns model and serial number, for people.
    pub(crate) fn name(&self) -> &str {
        self.device.name()
    }

    /// Checks that every answer so far belonged to this program's command.
    ///
    /// If another program used the device meanwhile, or an answer to an earlier program came late, every answer
    /// belongs to the command before it. The answer to this check then has the wrong form.
    ///
    /// # Errors
    /// Nothing that the device answered may be used.
    pub(crate) async fn check_answers(&self) -> Result<(), NotReady> {
        let name = self.name().to_owned();
        self.check_app().await.map_err(|_other_form| NotReady::Mixed { name })
    }

    /// Checks that the Ethereum app is open.
    pub(super) async fn check_app(&self) -> Result<(), NotReady> {
        let app = self.ask(&app::ask_app(), ANSWER_MS, app::read_app).await?;
        let name = self.name().to_owned();
        match app.name.as_str() {
            app::ETHEREUM_NAME => Ok(()),
            app::DASHBOARD_NAME => Err(NotReady::NoApp { name }),
            other => Err(NotReady::OtherApp { name, app: other.to_owned() }),
        }
    }

    /// Returns the version and the settings of the Ethereum app.
    ///
    /// # Errors
    /// The device does not answer as expected.
    pub(crate) async fn configuration(&self) -> Result<Configuration, NotReady> {
        self.ask(&app::ask_configuration(), ANSWER_MS, app::read_configuration).await
    }

    /// Returns the address at a path without showing it on the device.
    ///
    /// # Errors
    /// The device refuses the path, or does not answer as expected.
    pub(crate) async fn address(&self, path: &DerivationPath) -> Result<Address, NotReady> {
        let ask = address::ask(path, Display::Silent).map_err(NotReady::from)?;
        self.ask(&ask, ANSWER_MS, address::read).await
    }

    /// Shows the address at a path on the device, and returns it if the person confirms it there.
    ///
    /// # Errors
    /// `LEDGER_REJECTED`, or why the device did not answer.
    pub(crate) async fn confirm_address(&self, path: &DerivationPath) -> Result<Address, Fault> {
        let ask = address::ask(path, Display::Confirm).map_err(NotReady::from)?;
        let answer = self.exchange(&ask, CONFIRM_MS).await?;
        match read_answer(&answer).and_then(address::read) {
            Ok(address) => Ok(address),
            Err(AnswerFault::Status(status)) if status.meaning() == Meaning::Refused => {
                Err(Fault::because(Code::LedgerRejected, status.to_string()))
            }
            Err(fault) => Err(self.unexpected_answer(fault).into()),
        }
    }

    async fn ask<T>(
        &self,
        command: &Command,
        patience_ms: u64,
        read: impl FnOnce(&[u8]) -> Result<T, AnswerFault>,
    ) -> Result<T, NotReady> {
        let answer = self.exchange(command, patience_ms).await?;
        read_answer(&answer).and_then(read).map_err(|fault| self.unexpected_answer(fault))
    }

    pub(super) async fn exchange(
        &self,
        command: &Command,
        patience_ms: u64,
    ) -> Result<Vec<u8>, NotReady> {
        let until = self.clock.mono_ms().saturating_add(patience_ms);
        // cancel-safe: the device's connection reads and drops a late answer.
        let answer = tokio::select! {
            biased;
            answer = self.device.exchange(command) => answer,
            () = self.clock.sleep_until(until) => {
                return Err(NotReady::Silent { name: self.name().to_owned() });
            }
        };
        answer.map_err(|fault| self.exchange_problem(&fault))
    }

    pub(super) fn exchange_problem(&self, fault: &ExchangeFault) -> NotReady {
        let name = self.name().to_owned();
        match fault {
            ExchangeFault::OwesAnswer => NotReady::OwesAnswer { name },
            ExchangeFault::Disconnected => NotReady::Lost { name },
        }
    }

    pub(super) fn unexpected_answer(&self, fault: AnswerFault) -> NotReady {
        let name = self.name().to_owned();
        let status = match fault {
            AnswerFault::Malformed => return NotReady::Unexpected { text: fault.to_string() },
            AnswerFault::Status(status) => status,
        };
        match status.meaning() {
            Meaning::Locked => NotReady::Locked { name },
            Meaning::AppNotOpen => NotReady::NoApp { name },
            Meaning::PathRefused => NotReady::PathRefused { text: fault.to_string() },
            Meaning::Success
            | Meaning::Refused
            | Meaning::AppTooOld
            | Meaning::SwitchOff
            | Meaning::Failed => NotReady::Unexpected { text: fault.to_string() },
        }
    }
}

/// Checks that the app of a device can show typed data with its current configuration.
///
/// # Errors
/// The app is too old, or it accepts only hashes and blind signing is off.
pub(crate) fn check_typed_data(
    device: &ReadyDevice,
    configuration: &Configuration,
) -> Result<TypedDataForm, NotReady> {
    let name = device.name().to_owned();
    match configuration.typed_data() {
        Some(TypedDataForm::Hashes) if !configuration.blind_signing => {
            Err(NotReady::SwitchOff { name, switch: Switch::BlindSigning })
        }
        Some(form) => Ok(form),
        None => Err(NotReady::TooOld { name }),
    }
}

impl From<RequestTooLong> for NotReady {
    fn from(fault: RequestTooLong) -> Self {
        Self::PathRefused { text: format!("{fault}.") }
    }
}
