//! What the queue of the devices does now, for the operator.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use bursar_core::ids::RequestId;

use crate::device::NotReady;
use crate::journal::Subject;

/// The state of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeviceStatus {
    pub(crate) prompting: Option<Prompting>,
    /// Why the device of an address was not ready at the last try.
    pub(crate) not_ready: BTreeMap<Address, NotReady>,
    /// The device that still shows a prompt which the wallet gave up: model and serial number.
    pub(crate) abandoned: Option<String>,
    /// The transactions and permits in the queue, the oldest first.
    pub(crate) transactions: Vec<(Subject, Address)>,
    /// The plans that wait for their turn, the oldest first.
    pub(crate) plans: Vec<(RequestId, Address)>,
}

/// The prompt that a device shows now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompting {
    pub(crate) subject: Subject,
    /// Model and serial number.
    pub(crate) device: String,
}
