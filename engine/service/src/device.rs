//! Hardware devices: finds the one that is ready, and asks it for addresses. Holds no connection while it waits for
//! anything but the device.

use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::derivation::DerivationPath;
use bursar_core::fault::Fault;
use bursar_ledger::address::{self, Display};
use bursar_ledger::app;
use bursar_ledger::command::{AnswerFault, Command, TooLong, read_answer};
use bursar_ledger::port::{Device, Devices, ExchangeFault};
use bursar_ledger::status::Meaning;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// How long a device may take to answer a command that asks no person.
const ANSWER_MS: u64 = 5_000;
/// How long a person may take to compare an address on the device.
const CONFIRM_MS: u64 = 120_000;

/// One command at a time uses the devices.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

/// The devices that are ready, for one command. They are closed when it ends.
#[derive(Debug)]
pub(crate) struct ReadyDevices {
    pub(crate) all: Vec<ReadyDevice>,
    _turn: OwnedMutexGuard<()>,
}

/// A device whose Ethereum app is open.
#[derive(Debug)]
pub(crate) struct ReadyDevice {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
}

/// Waits for the turn, and returns the devices that are ready.
///
/// # Errors
/// `LEDGER_SIGN_NOT_AVAILABLE` in a build without support, `BUSY` if another command uses the devices,
/// `LEDGER_DISCONNECTED` with what to do if no device is ready.
pub(crate) async fn ready(
    devices: Option<&Arc<dyn Devices>>,
    turn: &Turn,
    clock: &Arc<dyn Clock>,
) -> Result<ReadyDevices, Fault> {
    let devices = devices.ok_or_else(|| {
        let why = "This build has no support for Ledgers: build it with the feature `ledger`.";
        Fault::because(Code::LedgerSignNotAvailable, why)
    })?;
    let until = clock.mono_ms().saturating_add(ANSWER_MS);
    // cancel-safe: it only waits.
    let turn = tokio::select! {
        biased;
        turn = Arc::clone(&turn.0).lock_owned() => turn,
        () = clock.sleep_until(until) => {
            let why = "Another command uses the Ledger: try again when it has ended.";
            return Err(Fault::because(Code::Busy, why));
        }
    };
    let until = clock.mono_ms().saturating_add(ANSWER_MS);
    // cancel-safe: devices that are opened too late are closed.
    let connected = tokio::select! {
        biased;
        connected = devices.connect() => connected.map_err(|fault| {
            Fault::because(Code::LedgerDisconnected, fault.to_string())
        })?,
        () = clock.sleep_until(until) => {
            let why = "This machine's USB does not answer: plug the Ledger into another port.";
            return Err(Fault::because(Code::LedgerDisconnected, why));
        }
    };
    let (mut all, mut first_fault) = (Vec::new(), None);
    for device in connected {
        let device = ReadyDevice { device, clock: Arc::clone(clock) };
        match device.check_app().await {
            Ok(()) => all.push(device),
            Err(fault) => first_fault = first_fault.or(Some(fault)),
        }
    }
    if all.is_empty() {
        return Err(first_fault.unwrap_or(Fault::new(Code::LedgerDisconnected)));
    }
    Ok(ReadyDevices { all, _turn: turn })
}

impl ReadyDevice {
    /// Returns model and serial number, for people.
    pub(crate) fn name(&self) -> &str {
        self.device.name()
    }

    /// Checks that every answer so far was one to this program. If another program used the device meanwhile, or an answer
    /// to an earlier program came late, each answer was that to the command before, and this one has another form.
    ///
    /// # Errors
    /// `LEDGER_ERROR`: nothing that the device answered may be used.
    pub(crate) async fn check_answers(&self) -> Result<(), Fault> {
        self.check_app().await.map_err(|_other_form| {
            let why = format!(
                "The answers of the {} got mixed up with those to another program: close that program, finish what the \
                 device shows, and try again.",
                self.name()
            );
            Fault::because(Code::LedgerError, why)
        })
    }

    /// Checks that the Ethereum app is open.
    async fn check_app(&self) -> Result<(), Fault> {
        let app = self.ask(&app::ask_app(), ANSWER_MS, app::read_app).await?;
        if app.name == app::ETHEREUM_NAME {
            return Ok(());
        }
        let open = match app.name.as_str() {
            app::DASHBOARD_NAME => "no app is open".to_owned(),
            other => format!("the app {other} is open"),
        };
        let why = format!("On the {} {open}: open its Ethereum app.", self.name());
        Err(Fault::because(Code::LedgerDisconnected, why))
    }

    /// Returns the address at a path without showing it on the device.
    ///
    /// # Errors
    /// `BAD_INPUT` for a path that the device refuses, `LEDGER_DISCONNECTED`, `LEDGER_ERROR`.
    pub(crate) async fn address(&self, path: &DerivationPath) -> Result<Address, Fault> {
        let ask = address::ask(path, Display::Silent).map_err(too_long)?;
        self.ask(&ask, ANSWER_MS, address::read).await
    }

    /// Shows the address at a path on the device, and returns it if the person confirms it there.
    ///
    /// # Errors
    /// `LEDGER_REJECTED`, and those of [`ReadyDevice::address`].
    pub(crate) async fn confirm_address(&self, path: &DerivationPath) -> Result<Address, Fault> {
        let ask = address::ask(path, Display::Confirm).map_err(too_long)?;
        self.ask(&ask, CONFIRM_MS, address::read).await
    }

    async fn ask<T>(
        &self,
        command: &Command,
        patience_ms: u64,
        read: impl FnOnce(&[u8]) -> Result<T, AnswerFault>,
    ) -> Result<T, Fault> {
        let until = self.clock.mono_ms().saturating_add(patience_ms);
        // cancel-safe: the device's connection reads and drops a late answer.
        let answer = tokio::select! {
            biased;
            answer = self.device.exchange(command) => answer,
            () = self.clock.sleep_until(until) => return Err(self.silent()),
        };
        let answer = answer.map_err(|fault| self.unanswered(&fault))?;
        read_answer(&answer).and_then(read).map_err(|fault| self.refused(fault))
    }

    fn silent(&self) -> Fault {
        let why = format!(
            "The {} does not answer: finish or reject what it shows, or plug it in again.",
            self.name()
        );
        Fault::because(Code::LedgerDisconnected, why)
    }

    fn unanswered(&self, fault: &ExchangeFault) -> Fault {
        let why = match fault {
            ExchangeFault::OwesAnswer => {
                format!("The {} still shows an earlier request: reject it there.", self.name())
            }
            ExchangeFault::Disconnected => {
                format!("The connection to the {} is lost: plug it in again.", self.name())
            }
        };
        Fault::because(Code::LedgerDisconnected, why)
    }

    fn refused(&self, fault: AnswerFault) -> Fault {
        let code = match fault {
            AnswerFault::Malformed => Code::LedgerError,
            AnswerFault::Status(status) => match status.meaning() {
                Meaning::Refused => Code::LedgerRejected,
                Meaning::Locked | Meaning::AppNotOpen => Code::LedgerDisconnected,
                Meaning::PathRefused => Code::BadInput,
                Meaning::Success | Meaning::AppTooOld | Meaning::SwitchOff | Meaning::Failed => {
                    Code::LedgerError
                }
            },
        };
        Fault::because(code, fault.to_string())
    }
}

fn too_long(fault: TooLong) -> Fault {
    Fault::because(Code::BadInput, format!("{fault}."))
}
