//! Devices behind the socket of Ledger's emulator (speculos), for tests.

use std::net::SocketAddr;
use std::sync::Arc;

use bursar_ledger::port::{BoxFuture, ConnectFault, Device, Devices};
use coins_ledger::Model;
use coins_ledger::transports::SpeculosTransport;

use crate::connection::{Connection, Owing};

/// Emulators at these addresses.
#[derive(Debug)]
pub struct Emulators {
    addresses: Vec<SocketAddr>,
    owing: Owing<SocketAddr>,
}

impl Emulators {
    /// Uses the emulators at these addresses, whether they run or not.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, owing: Owing::default() }
    }
}

impl Devices for Emulators {
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        Box::pin(async move {
            // An emulator has no id that changes when it is plugged in again.
            let is_lost =
                |at: &SocketAddr| self.owing.get(at).is_some_and(|device| device.is_lost());
            let lost: Vec<SocketAddr> = self.addresses.iter().copied().filter(is_lost).collect();
            self.owing.retain(|at| !lost.contains(at));
            let mut devices = Vec::new();
            for address in &self.addresses {
                if let Some(device) = self.owing.get(address) {
                    devices.push(device);
                    continue;
                }
                // An emulator that does not run is a device that is not plugged in.
                let Ok(transport) = SpeculosTransport::connect(address, Model::Flex).await else {
                    continue;
                };
                let name = format!("Ledger Flex ({})", address.port());
                let connection = Connection::new(*address, name, transport, &self.owing);
                devices.push(Arc::new(connection) as Arc<dyn Device>);
            }
            Ok(devices)
        })
    }
}
