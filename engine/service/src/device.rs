//! Hardware devices: finds the one that is ready, asks it for addresses and for signatures. Holds no connection while it
//! waits for anything but the device.

mod not_ready;
mod permit;
mod prompt;
mod ready;

pub(crate) use not_ready::{NotReady, Switch};
pub(crate) use prompt::{Prompt, PromptOutcome, ReceivedCommands};
pub(crate) use ready::{ReadyDevice, ReadyDevices, Turn, ready};
