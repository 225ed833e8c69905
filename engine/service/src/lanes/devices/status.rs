//! The current state of the device queue, for the operator.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::Address;
use bursar_core::ids::RequestId;
use bursar_submit::SubmissionId;

use crate::device::NotReady;
use crate::journal::Subject;

/// The state of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeviceStatus {
    pub(crate) prompting: Option<ShownPrompt>,
    /// Why the device of an address was not ready at the last try.
    pub(crate) not_ready: BTreeMap<Address, NotReady>,
    /// The setting that was switched off at the last try. Another waiter of the address may not need it.
    pub(crate) switch_off: BTreeMap<(Address, Waiter), NotReady>,
    /// The device that still shows a prompt which the wallet gave up: model and serial number.
    pub(crate) abandoned_device: Option<String>,
    /// The transactions and permits in the queue, the oldest first.
    pub(crate) transactions: Vec<(Subject, Address)>,
    /// The plans that wait for their turn, the oldest first.
    pub(crate) plans: Vec<(RequestId, Address)>,
    /// The latest attempts of transactions that a person refused on a device.
    pub(crate) refused_attempts: VecDeque<(SubmissionId, usize)>,
}

/// The kinds of entries that wait for a device. For each address, the oldest entry of each kind is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiter {
    Transaction,
    Plan,
    Payment,
}

/// Maximum number of refused transactions to remember, for the commands that wait for their outcome.
const REFUSED_ATTEMPTS_MAX: usize = 32;

impl DeviceStatus {
    /// Returns why the oldest waiter of an address was not shown at the last try.
    pub(crate) fn not_shown_reason(&self, address: Address, waiter: Waiter) -> Option<&NotReady> {
        self.switch_off.get(&(address, waiter)).or_else(|| self.not_ready.get(&address))
    }

    /// Sets why a waiter was not shown. A reason other than a setting that is off applies to all waiters of the
    /// address.
    pub(super) fn set(&mut self, address: Address, waiter: Waiter, why: NotReady) {
        if why.lacks_switch() {
            self.not_ready.remove(&address);
            self.switch_off.insert((address, waiter), why);
        } else {
            self.switch_off.retain(|(of, _waiter), _why| *of != address);
            self.not_ready.insert(address, why);
        }
    }

    /// Notes that the device of an address is ready for a waiter.
    pub(super) fn set_ready(&mut self, address: Address, waiter: Waiter) {
        self.not_ready.remove(&address);
        self.switch_off.remove(&(address, waiter));
    }

    /// Notes that a person refused a transaction.
    pub(super) fn set_refused(&mut self, subject: Subject) {
        if let Subject::Attempt { submission, attempt } = subject {
            self.refused_attempts.push_back((submission, attempt));
            if self.refused_attempts.len() > REFUSED_ATTEMPTS_MAX {
                self.refused_attempts.pop_front();
            }
        }
    }
}

/// The prompt that a device shows now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownPrompt {
    pub(crate) subject: Subject,
    /// Model and serial number.
    pub(crate) device: String,
}
