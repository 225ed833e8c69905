//! Devices with keys in software, for tests and developer builds.
//!
//! They are behind the socket of Ledger's emulator (speculos), or in this process.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bursar_ledger::port::{BoxFuture, ConnectFault, Device, Devices};
use coins_ledger::Model;
use coins_ledger::common::{ApduAnswer, ApduBuffer, ApduCommand};
use coins_ledger::errors::LedgerError;
use coins_ledger::transports::{DeviceIdentity, LedgerTransport, SpeculosTransport};
use tokio::sync::oneshot;

use crate::connection::{Connection, UnansweredDevices};

/// Ledger emulators at fixed addresses.
#[derive(Debug)]
pub struct Emulators {
    addresses: Vec<SocketAddr>,
    unanswered_devices: UnansweredDevices<SocketAddr>,
}

impl Emulators {
    /// Creates the list of emulators, whether or not they run now.
    pub fn new(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, unanswered_devices: UnansweredDevices::default() }
    }

    /// Creates the list of emulators from a comma-separated list of addresses.
    ///
    /// An emulator does not protect its keys, so it must be on this machine.
    ///
    /// # Errors
    /// The reason why the list is not valid, as the end of a sentence.
    pub fn parse(list: &str) -> Result<Self, String> {
        let one = |text: &str| match text.trim().parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(address),
            Ok(address) => Err(format!("{address} is not an address of this machine")),
            Err(_bad) => Err(format!("{:?} is not an address like 127.0.0.1:9999", text.trim())),
        };
        Ok(Self::new(list.split(',').map(one).collect::<Result<_, _>>()?))
    }
}

impl Devices for Emulators {
    fn emulated_at(&self) -> Option<String> {
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        Some(addresses.join(", "))
    }

    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        Box::pin(async move {
            // A restarted emulator has the same address, so lost ones are removed here; a real device gets a new id.
            let is_lost = |at: &SocketAddr| {
                self.unanswered_devices.get(at).is_some_and(|device| device.is_lost())
            };
            let lost: Vec<SocketAddr> = self.addresses.iter().copied().filter(is_lost).collect();
            self.unanswered_devices.retain(|at| !lost.contains(at));
            let mut devices = Vec::new();
            for address in &self.addresses {
                if let Some(device) = self.unanswered_devices.get(address) {
                    devices.push(device);
                    continue;
                }
                // An emulator that does not run counts as a device that is not plugged in.
                let Ok(transport) = SpeculosTransport::connect(address, Model::Flex).await else {
                    continue;
                };
                let name = format!("Ledger Flex emulator ({})", address.port());
                let connection =
                    Connection::new(*address, name, transport, &self.unanswered_devices);
                devices.push(Arc::new(connection) as Arc<dyn Device>);
            }
            Ok(devices)
        })
    }
}

/// A simulated device in this process.
pub trait SimulatedDevice: Send + Sync + fmt::Debug {
    /// Returns a number that changes each time the cable is pulled; `None` while the device is not plugged in.
    fn plug_number(&self) -> Option<u64>;

    /// Sends a command to the device.
    ///
    /// The answer contains data and status word. If the cable is pulled first, the sender is dropped.
    fn send(&self, command: &[u8]) -> oneshot::Receiver<Vec<u8>>;
}

/// A simulated device in this process, behind the same connection as a real one.
#[derive(Debug)]
pub struct InProcess {
    device: Arc<dyn SimulatedDevice>,
    unanswered_devices: UnansweredDevices<u64>,
}

/// The cable to a simulated device.
struct Cable(Arc<dyn SimulatedDevice>);

impl InProcess {
    /// Creates the connection, whether or not the device is plugged in now.
    pub fn new(device: Arc<dyn SimulatedDevice>) -> Self {
        Self { device, unanswered_devices: UnansweredDevices::default() }
    }
}

impl Devices for InProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>> {
        let plugged = self.device.plug_number();
        self.unanswered_devices.retain(|key| Some(*key) == plugged);
        let device = plugged.map(|plugged| match self.unanswered_devices.get(&plugged) {
            Some(device) => device,
            None => {
                let cable = Cable(Arc::clone(&self.device));
                let name = "Ledger Flex (0001)".to_owned();
                Arc::new(Connection::new(plugged, name, cable, &self.unanswered_devices))
                    as Arc<dyn Device>
            }
        });
        Box::pin(std::future::ready(Ok(device.into_iter().collect())))
    }
}

impl LedgerTransport for Cable {
    fn identity(&self) -> Option<DeviceIdentity<'_>> {
        None
    }

    async fn exchange(
        &mut self,
        packet: ApduCommand,
        _timeout: Option<Duration>,
    ) -> Result<ApduAnswer, LedgerError> {
        let pulled = |_gone| LedgerError::Transport("the cable was pulled".into());
        let answer = self.0.send(packet.as_bytes()).await.map_err(pulled)?;
        let mut bytes = ApduBuffer::new();
        bytes.extend_from_slice(&answer).map_err(|error| LedgerError::Transport(error.into()))?;
        ApduAnswer::from_answer(bytes)
    }
}
