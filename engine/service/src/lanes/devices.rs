//! The queue of the hardware devices: payments, plans and transactions whose key is in a device wait here until the
//! device is ready, and are shown to the person one at a time. An entry that waits for its device holds no connection.

mod prompter;
mod queue;
mod status;
mod switches;
mod turns;

pub(crate) use queue::{new, waiting_payments};
pub(crate) use status::{DeviceStatus, Waiter};
pub(crate) use turns::{PlanTurn, Retries, Turns};
