//! Ledgers on USB.

use std::fs::OpenOptions;
use std::io;
use std::sync::Arc;

use bursar_ledger::port::{BoxFuture, ConnectFault, Device, Devices};
use coins_ledger::transports::{HidDeviceId, HidTransport, NativeTransportError};
use tokio::sync::Mutex;

use crate::connection::{Connection, UnansweredDevices};

/// The Ledgers on this machine's USB.
///
/// Each lookup opens the devices again, and they are closed when the command ends. An idle connection would receive
/// answers that belong to other programs, and on macOS it would keep these programs out.
#[derive(Debug, Default)]
pub struct Usb {
    unanswered_devices: UnansweredDevices<HidDeviceId>,
    /// Held by the lookup that runs. If USB hangs, every further lookup would block another thread.
    lookup_lock: Arc<Mutex<()>>,
}

impl Devices for Usb {
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        let (owing, looking) = (self.unanswered_devices.clone(), Arc::clone(&self.lookup_lock));
        Box::pin(async move {
            let Ok(only) = looking.try_lock_owned() else {
                return Err(ConnectFault::Failed("USB does not answer".to_owned()));
            };
            let looked = tokio::task::spawn_blocking(move || {
                let connected = connect(&owing);
                drop(only);
                connected
            });
            let connected = looked.await;
            connected.unwrap_or_else(|ended| Err(ConnectFault::Failed(ended.to_string())))
        })
    }
}

/// Opens every device. If none can be used, returns the first fault.
fn connect(owing: &UnansweredDevices<HidDeviceId>) -> Result<Vec<Arc<dyn Device>>, ConnectFault> {
    let found = HidTransport::list().map_err(|error| ConnectFault::Failed(error.to_string()))?;
    owing.retain(|id| found.contains(id));
    let (mut devices, mut first_fault) = (Vec::new(), None);
    for id in found {
        if let Some(device) = owing.get(&id) {
            devices.push(device);
            continue;
        }
        match HidTransport::open(&id) {
            Ok(transport) => {
                let name = printable(&id);
                devices
                    .push(Arc::new(Connection::new(id, name, transport, owing)) as Arc<dyn Device>);
            }
            Err(error) => first_fault = first_fault.or(Some(fault_of(&id, &error))),
        }
    }
    match first_fault {
        Some(fault) if devices.is_empty() => Err(fault),
        _any => Ok(devices),
    }
}

/// Names a device for people.
///
/// The serial number comes from the device, so characters that could control a terminal are replaced.
fn printable(id: &HidDeviceId) -> String {
    let shown = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    format!("Ledger {id}").chars().map(shown).take(64).collect()
}

fn fault_of(id: &HidDeviceId, error: &NativeTransportError) -> ConnectFault {
    // The library reports a refusal by the system only as text, so this opens the device once more to get the error.
    let opened =
        id.path().to_str().ok().map(|path| OpenOptions::new().read(true).write(true).open(path));
    match opened {
        Some(Err(refused)) => fault_of_system(&refused, error),
        _opened_or_unknown => ConnectFault::Failed(error.to_string()),
    }
}

fn fault_of_system(refused: &io::Error, error: &NativeTransportError) -> ConnectFault {
    match refused.kind() {
        io::ErrorKind::PermissionDenied => ConnectFault::NoPermission,
        io::ErrorKind::ResourceBusy => ConnectFault::InUse,
        _other => ConnectFault::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_and_another_program_have_faults_of_their_own() {
        let of = |kind: io::ErrorKind| {
            fault_of_system(&kind.into(), &NativeTransportError::DeviceNotFound)
        };
        assert_eq!(of(io::ErrorKind::PermissionDenied), ConnectFault::NoPermission);
        assert_eq!(of(io::ErrorKind::ResourceBusy), ConnectFault::InUse);
        assert!(matches!(of(io::ErrorKind::NotFound), ConnectFault::Failed(_)));
    }
}
