//! Ledgers on USB.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_ledger::port::{BoxFuture, ConnectFault, Device, Devices};
use coins_ledger::transports::{HidDeviceId, HidTransport, NativeTransportError};
use hidapi::HidError;

use crate::connection::Connection;

type Open = HashMap<HidDeviceId, Arc<dyn Device>>;

/// The Ledgers on this machine's USB.
#[derive(Default)]
pub struct Usb {
    /// Stay open, because an answer may be missing. Held for a single look-up or while devices are opened.
    open: Arc<Mutex<Open>>,
}

impl fmt::Debug for Usb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Usb")
    }
}

impl Devices for Usb {
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        let open = Arc::clone(&self.open);
        Box::pin(async move {
            let connected = tokio::task::spawn_blocking(move || connect(&open)).await;
            connected.unwrap_or_else(|ended| Err(ConnectFault::Failed(ended.to_string())))
        })
    }
}

/// Opens new devices and forgets those that are gone. Succeeds if one device can be used, else returns the first fault.
fn connect(open: &Mutex<Open>) -> Result<Vec<Arc<dyn Device>>, ConnectFault> {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    let found = HidTransport::list().map_err(|error| fault_of(&error))?;
    open.retain(|id, device| found.contains(id) && !device.is_lost());
    let mut faults = Vec::new();
    for id in found {
        if open.contains_key(&id) {
            continue;
        }
        match HidTransport::open(&id) {
            Ok(transport) => {
                let device: Arc<dyn Device> = Arc::new(Connection::new(printable(&id), transport));
                open.insert(id, device);
            }
            Err(error) => faults.push(fault_of(&error)),
        }
    }
    match faults.into_iter().next() {
        Some(fault) if open.is_empty() => Err(fault),
        _any => Ok(open.values().cloned().collect()),
    }
}

/// Names a device for people. The serial number comes from the device, so characters that could act on a terminal are
/// replaced.
fn printable(id: &HidDeviceId) -> String {
    let shown = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    format!("Ledger {id}").chars().map(shown).take(64).collect()
}

fn fault_of(error: &NativeTransportError) -> ConnectFault {
    let cause = match error {
        NativeTransportError::CantOpen(cause) | NativeTransportError::Hid(cause) => cause,
        other => return ConnectFault::Failed(other.to_string()),
    };
    match cause {
        HidError::IoError { error } => match error.kind() {
            io::ErrorKind::PermissionDenied => ConnectFault::NoPermission,
            io::ErrorKind::ResourceBusy => ConnectFault::InUse,
            _other => ConnectFault::Failed(error.to_string()),
        },
        other => ConnectFault::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_and_another_program_have_faults_of_their_own() {
        let of = |kind: io::ErrorKind| {
            fault_of(&NativeTransportError::CantOpen(HidError::IoError { error: kind.into() }))
        };
        assert_eq!(of(io::ErrorKind::PermissionDenied), ConnectFault::NoPermission);
        assert_eq!(of(io::ErrorKind::ResourceBusy), ConnectFault::InUse);
        assert!(matches!(of(io::ErrorKind::NotFound), ConnectFault::Failed(_)));
    }

    #[tokio::test]
    async fn listing_without_a_device_finds_none() {
        assert!(Usb::default().connect().await.is_ok());
    }
}
