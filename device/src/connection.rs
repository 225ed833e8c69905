//! A connection to one device.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bursar_ledger::port::{BoxFuture, Device, ExchangeFault};
use coins_ledger::transports::LedgerTransport;
use coins_ledger::{ApduCommand, Ledger, LedgerError};
use tokio::sync::Mutex;

/// A connection over one of the library's transports.
///
/// An exchange runs in its own task and without a time limit of the library: its USB transport would return a late
/// answer to the next command. The task ends only with the answer, so a caller that goes away leaves no answer behind.
pub(crate) struct Connection<T> {
    name: String,
    /// Locked by the task of an exchange until its answer is read.
    ledger: Arc<Mutex<Ledger<T>>>,
    is_lost: Arc<AtomicBool>,
}

impl<T> fmt::Debug for Connection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T> Connection<T> {
    /// Uses an open transport.
    pub(crate) fn new(name: String, transport: T) -> Self {
        let ledger = Ledger::from_transport(transport);
        Self { name, ledger: Arc::new(Mutex::new(ledger)), is_lost: Arc::default() }
    }
}

impl<T: LedgerTransport + Send + 'static> Device for Connection<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn exchange(&self, command: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, ExchangeFault>> {
        Box::pin(async move {
            if self.is_lost() {
                return Err(ExchangeFault::Disconnected);
            }
            let free = Arc::clone(&self.ledger).try_lock_owned();
            let mut ledger = free.map_err(|_busy| ExchangeFault::OwesAnswer)?;
            let command = command_of(&command).ok_or(ExchangeFault::Disconnected)?;
            let is_lost = Arc::clone(&self.is_lost);
            let exchange = tokio::spawn(async move {
                let answer = answer_of(ledger.exchange(command).await);
                if answer.is_err() {
                    is_lost.store(true, Ordering::Release);
                }
                answer
            });
            // cancel-safe: the task reads the answer even if nobody waits for it.
            exchange.await.unwrap_or(Err(ExchangeFault::Disconnected))
        })
    }

    fn owes_answer(&self) -> bool {
        self.ledger.try_lock().is_err()
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// Converts a command; `None` if its length byte does not fit its data.
fn command_of(bytes: &[u8]) -> Option<ApduCommand> {
    let (&[class, instruction, p1, p2, length], data) = bytes.split_first_chunk::<5>()?;
    let head = ApduCommand::builder().cla(class).ins(instruction).p1(p1).p2(p2);
    // Without data the library leaves the length byte out; as its last byte it has the same place and value.
    let command = if data.is_empty() { head.le(0) } else { head.data(data) };
    (data.len() == usize::from(length)).then(|| command.build().ok())?
}

/// Returns the bytes of an answer, or that the connection is lost.
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
