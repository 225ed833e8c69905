//! Devices behind the socket of Ledger's emulator (speculos), for tests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_ledger::port::{BoxFuture, ConnectFault, Device, Devices};
use coins_ledger::Model;
use coins_ledger::transports::SpeculosTransport;

use crate::connection::Connection;

/// Emulators at these addresses.
#[derive(Debug)]
pub struct Emulators {
    addresses: Vec<SocketAddr>,
    open: Mutex<Vec<(SocketAddr, Arc<dyn Device>)>>,
}

impl Emulators {
    /// Uses the emulators at these addresses, whether they run or not.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, open: Mutex::default() }
    }

    fn known(&self, address: SocketAddr) -> Option<Arc<dyn Device>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_at, device)| !device.is_lost());
        let known = open.iter().find(|(at, _device)| *at == address);
        known.map(|(_at, device)| Arc::clone(device))
    }
}

impl Devices for Emulators {
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        Box::pin(async move {
            let mut devices = Vec::new();
            for address in &self.addresses {
                if let Some(device) = self.known(*address) {
                    devices.push(device);
                    continue;
                }
                // An emulator that does not run is a device that is not plugged in.
                let Ok(transport) = SpeculosTransport::connect(address, Model::Flex).await else {
                    continue;
                };
                let name = format!("Ledger Flex ({})", address.port());
                let device: Arc<dyn Device> = Arc::new(Connection::new(name, transport));
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                open.push((*address, Arc::clone(&device)));
                devices.push(device);
            }
            Ok(devices)
        })
    }
}
