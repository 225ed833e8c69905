//! Hardware devices: finds those that are ready, and asks them for addresses and signatures. A connection is open
//! only while the wallet waits for the device.

mod not_ready;
mod permit;
mod prompt;
mod ready;

pub(crate) use not_ready::{NotReady, Switch};
pub(crate) use prompt::{Prompt, PromptOutcome, ReceivedCommands};
pub(crate) use ready::{ReadyDevice, ReadyDevices, Turn, ready};
