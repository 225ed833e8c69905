//! The port to the devices of a machine. The real side is in `bursar-device`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::command::Command;

/// A future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why devices cannot be found or opened.
///
/// The text is a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFault {
    #[error(
        "This account may not use the Ledger: install the udev rule that `doctor` prints, then plug the Ledger in again."
    )]
    NoPermission,
    #[error("Another program uses the Ledger: close it.")]
    InUse,
    #[error("The Ledgers of this machine cannot be listed or opened: {0}.")]
    Failed(String),
}

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeFault {
    /// The answer to an earlier command, whose caller has gone away, is still missing.
    #[error("the answer to an earlier command is missing")]
    OwesAnswer,
    /// The connection is lost: the device was unplugged, or the machine's USB failed.
    #[error("the connection is lost")]
    Disconnected,
}

/// The devices of a machine.
pub trait Devices: Send + Sync + fmt::Debug {
    /// Opens every device that is plugged in now; dropping a device closes it. A device whose answer is missing stays
    /// open and is returned again.
    fn connect(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn Device>>, ConnectFault>>;

    /// Returns the location of the emulators, as text for people; `None` if the devices are real.
    fn emulated_at(&self) -> Option<String> {
        None
    }
}

/// A connected device.
pub trait Device: Send + Sync + fmt::Debug {
    /// Returns the model and serial number, for people.
    fn name(&self) -> &str;

    /// Sends a command and returns its answer: data and status word.
    ///
    /// A caller that drops the future does not withdraw the command. Its answer is read and dropped; until then the
    /// device takes no other command. So no answer is ever returned for another command.
    fn exchange(&self, command: &Command) -> BoxFuture<'_, Result<Vec<u8>, ExchangeFault>>;

    /// Returns whether the answer to a command is missing, including a command whose caller has gone away.
    fn owes_answer(&self) -> bool;

    /// Returns whether the connection is permanently lost. A device that is plugged in again is a new [`Device`].
    fn is_lost(&self) -> bool;
}
