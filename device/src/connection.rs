//! A connection to one device.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bursar_ledger::command::Command;
use bursar_ledger::port::{BoxFuture, Device, ExchangeFault};
use coins_ledger::transports::LedgerTransport;
use coins_ledger::{ApduCommand, Ledger, LedgerError};

/// The devices that may still send an answer to an earlier command.
///
/// Each connection stays open and takes no command, because another connection to the device could receive that
/// answer.
pub(crate) struct UnansweredDevices<K>(Arc<Mutex<HashMap<K, Arc<dyn Device>>>>);

impl<K> Default for UnansweredDevices<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for UnansweredDevices<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for UnansweredDevices<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owing")
    }
}

impl<K: Eq + Hash> UnansweredDevices<K> {
    fn lock_all(&self) -> MutexGuard<'_, HashMap<K, Arc<dyn Device>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection of a device that may still send an answer.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<dyn Device>> {
        self.lock_all().get(key).cloned()
    }

    /// Forgets the devices that are unplugged.
    pub(crate) fn retain(&self, is_plugged: impl Fn(&K) -> bool) {
        self.lock_all().retain(|key, _device| is_plugged(key));
    }
}

/// A connection over one of the library's transports.
///
/// Each exchange runs in its own task, without the library's timeout: after a timeout, the USB transport would return
/// a late answer to the next command. The task ends only with the answer, so that no answer is left behind if the
/// caller goes away.
pub(crate) struct Connection<K, T> {
    inner: Arc<Inner<K, T>>,
}

struct Inner<K, T> {
    key: K,
    name: String,
    unanswered_devices: UnansweredDevices<K>,
    owes_answer: AtomicBool,
    is_lost: AtomicBool,
    /// Locked by the task of the one running exchange.
    ledger: tokio::sync::Mutex<Ledger<T>>,
}

impl<K, T> Clone for Connection<K, T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K, T> fmt::Debug for Connection<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl<K, T> Connection<K, T> {
    /// Creates a connection over an open transport to the device with this key.
    pub(crate) fn new(key: K, name: String, transport: T, owing: &UnansweredDevices<K>) -> Self {
        let ledger = tokio::sync::Mutex::new(Ledger::from_transport(transport));
        let (owes_answer, is_lost, owing) =
            (AtomicBool::default(), AtomicBool::default(), owing.clone());
        Self {
            inner: Arc::new(Inner {
                key,
                name,
                unanswered_devices: owing,
                owes_answer,
                is_lost,
                ledger,
            }),
        }
    }
}

impl<K, T> Device for Connection<K, T>
where
    K: Eq + Hash + Clone + Send + Sync + 'static,
    T: LedgerTransport + Send + 'static,
{
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn exchange(&self, command: &Command) -> BoxFuture<'_, Result<Vec<u8>, ExchangeFault>> {
        let command = to_apdu_command(command);
        Box::pin(async move {
            let inner = &self.inner;
            if self.is_lost() {
                return Err(ExchangeFault::Disconnected);
            }
            let command = command.map_err(|_too_long| ExchangeFault::Disconnected)?;
            if inner.owes_answer.swap(true, Ordering::AcqRel) {
                return Err(ExchangeFault::OwesAnswer);
            }
            inner.unanswered_devices.lock_all().insert(inner.key.clone(), Arc::new(self.clone()));
            let running = Arc::clone(inner);
            let exchange = tokio::spawn(async move { running.run(command).await });
            // cancel-safe: the task reads the answer even if the caller has gone away.
            exchange.await.unwrap_or(Err(ExchangeFault::Disconnected))
        })
    }

    fn owes_answer(&self) -> bool {
        self.inner.owes_answer.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost.load(Ordering::Acquire)
    }
}

impl<K: Eq + Hash, T: LedgerTransport> Inner<K, T> {
    async fn run(&self, command: ApduCommand) -> Result<Vec<u8>, ExchangeFault> {
        let answer = answer_of(self.ledger.lock().await.exchange(command).await);
        match &answer {
            Ok(_bytes) => {
                self.unanswered_devices.lock_all().remove(&self.key);
                self.owes_answer.store(false, Ordering::Release);
            }
            // The device stays in the list, because it may still send the answer to another connection.
            Err(_lost) => self.is_lost.store(true, Ordering::Release),
        }
        answer
    }
}

/// Converts a command into the library's form.
fn to_apdu_command(command: &Command) -> Result<ApduCommand, LedgerError> {
    let [p1, p2] = command.parameters();
    let head = ApduCommand::builder().cla(command.class()).ins(command.instruction()).p1(p1).p2(p2);
    // Without data the library omits the length byte. `le(0)` appends a byte with the same place and value.
    let whole = if command.data().is_empty() { head.le(0) } else { head.data(command.data()) };
    whole.build()
}

/// Returns the bytes of an answer; any other result means that the connection is lost.
fn answer_of(
    answer: Result<coins_ledger::ApduAnswer, LedgerError>,
) -> Result<Vec<u8>, ExchangeFault> {
    match answer {
        Ok(answer) => Ok(answer.to_vec()),
        Err(LedgerError::BadRetcode(status)) => Ok(status.to_be_bytes().to_vec()),
        Err(error) => {
            tracing::debug!(%error, "the connection to a device is lost");
            Err(ExchangeFault::Disconnected)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use bursar_ledger::app;
    use coins_ledger::transports::DeviceIdentity;
    use coins_ledger::{ApduAnswer, ApduBuffer};

    use super::*;

    /// A transport whose exchanges succeed or fail in a given order; a failure means that the device is unplugged.
    struct Script(VecDeque<bool>);

    impl LedgerTransport for Script {
        fn identity(&self) -> Option<DeviceIdentity<'_>> {
            None
        }

        async fn exchange(
            &mut self,
            _packet: ApduCommand,
            timeout: Option<Duration>,
        ) -> Result<ApduAnswer, LedgerError> {
            assert_eq!(timeout, None, "the task waits for the answer");
            if !self.0.pop_front().expect("an expected command") {
                return Err(LedgerError::Timeout(Duration::ZERO));
            }
            let mut success = ApduBuffer::new();
            success.extend_from_slice(&[0x90, 0x00]).expect("it fits");
            ApduAnswer::from_answer(success)
        }
    }

    #[tokio::test]
    async fn a_device_whose_exchange_failed_stays_closed_to_other_connections() {
        let owing = UnansweredDevices::default();
        let script = Script([true, false].into());
        let connection = Connection::new(7, "Ledger 7".to_owned(), script, &owing);
        let command = app::ask_app();
        assert_eq!(connection.exchange(&command).await, Ok(vec![0x90, 0x00]));
        assert!(owing.get(&7).is_none(), "it has answered, so it may be opened again");
        assert!(!connection.owes_answer() && !connection.is_lost());

        assert_eq!(connection.exchange(&command).await, Err(ExchangeFault::Disconnected));
        // The answer may still arrive, and another connection could read it.
        let kept = owing.get(&7).expect("the lost device");
        assert!(kept.owes_answer() && kept.is_lost());
        assert_eq!(kept.exchange(&command).await, Err(ExchangeFault::Disconnected));
        owing.retain(|_key| false);
        assert!(owing.get(&7).is_none(), "it is unplugged");
    }
}
