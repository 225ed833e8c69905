//! The hardware devices of this machine.

use std::ffi::OsStr;
use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_engine::ports::Devices;

/// The variable with the loopback addresses of Ledger emulators, separated by commas; for developer builds.
const EMULATOR: &str = "BURSAR_LEDGER_EMULATOR";

/// Returns the Ledgers on USB, or in a developer build the emulators that the environment names.
///
/// `None` in a build without the feature `ledger`.
///
/// # Errors
/// The variable is invalid, or this build has no emulators and would use a real Ledger instead.
pub(crate) fn devices() -> Result<Option<Arc<dyn Devices>>, Fault> {
    chosen_devices(std::env::var_os(EMULATOR).as_deref())
}

fn chosen_devices(emulator: Option<&OsStr>) -> Result<Option<Arc<dyn Devices>>, Fault> {
    match emulator.filter(|text| !text.is_empty()) {
        Some(text) => emulators(&text.to_string_lossy()).map(Some),
        None => Ok(usb_devices()),
    }
}

#[cfg(feature = "emulator")]
fn emulators(text: &str) -> Result<Arc<dyn Devices>, Fault> {
    let found = bursar_device::emulator::Emulators::parse(text);
    let found = found.map_err(|why| Fault::because(Code::BadInput, format!("{EMULATOR}: {why}.")));
    Ok(Arc::new(found?))
}

#[cfg(not(feature = "emulator"))]
fn emulators(_text: &str) -> Result<Arc<dyn Devices>, Fault> {
    let why = format!(
        "This build cannot use a Ledger emulator: unset {EMULATOR}, or build with `--features emulator`."
    );
    Err(Fault::because(Code::LedgerSignNotAvailable, why))
}

fn usb_devices() -> Option<Arc<dyn Devices>> {
    #[cfg(feature = "ledger")]
    return Some(Arc::new(bursar_device::Usb::default()));
    #[cfg(not(feature = "ledger"))]
    return None;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_variable_the_devices_are_real() {
        for unset in [None, Some(OsStr::new(""))] {
            let devices = chosen_devices(unset).unwrap();
            assert_eq!(devices.is_some(), cfg!(feature = "ledger"));
            assert!(devices.is_none_or(|devices| devices.emulated_at().is_none()));
        }
    }

    #[cfg(not(feature = "emulator"))]
    #[test]
    fn a_default_build_refuses_to_start_for_an_emulator() {
        let fault = chosen_devices(Some(OsStr::new("127.0.0.1:9999"))).unwrap_err();
        assert_eq!((fault.code, fault.code.exit()), (Code::LedgerSignNotAvailable, 9));
        assert!(fault.message.contains("--features emulator"), "{fault}");
    }

    #[cfg(feature = "emulator")]
    #[test]
    fn a_developer_build_uses_emulators_of_this_machine_only() {
        let devices =
            chosen_devices(Some(OsStr::new("127.0.0.1:9999, [::1]:9998"))).unwrap().unwrap();
        assert_eq!(devices.emulated_at().as_deref(), Some("127.0.0.1:9999, [::1]:9998"));
        for text in ["192.0.2.1:9999", "0.0.0.0:9999", "127.0.0.1", "localhost:9999", ",", "x"] {
            let fault = chosen_devices(Some(OsStr::new(text))).unwrap_err();
            assert_eq!(fault.code, Code::BadInput, "{text}");
        }
    }
}
