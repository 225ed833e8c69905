//! The observations of trades whose keys are on a hardware device.

use crate::basics::{Address, Atoms, Id, Micros};
use crate::observations::Answer;
use crate::trading::{SignedContent, Trade};

/// An observed event of a trade from a hardware address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceTradeObservation {
    /// The agent calls `POST /trade`. A repeat has the number of the first call, and is not shown.
    Called { call: u64, agent: String, trade: Trade },
    /// The journal has the permission to execute this request on disk. `request` answers this call.
    Allowed { request: Id, call: u64, from: Address },
    /// The journal has this step on disk: from now on the wallet may ask the device for it.
    Recorded(Box<DeviceStep>),
    /// The journal has the signature of this digest on disk.
    Signed { digest: String },
    /// The journal has the end of this request on disk. Its plan may still revoke an allowance.
    Ended { request: Id },
    /// The journal has the end of this request's plan on disk.
    Closed { request: Id },
    /// The transaction with this hash carries this signature of this digest. Its broadcast follows.
    Carried { hash: String, digest: String, signature: String },
    /// The agent was answered: to the call, to a repeat of it, or to a poll of the request `polled`.
    Answered(Box<DeviceTradeAnswer>),
}

/// What a person is asked to sign for a trade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStep {
    pub request: Id,
    pub signer: Address,
    pub digest: String,
    pub content: SignedContent,
}

/// An answer about a trade from a hardware address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTradeAnswer {
    /// The call that was answered; `None` for a poll.
    pub call: Option<u64>,
    /// The request that was polled; `None` for a call.
    pub polled: Option<Id>,
    pub answer: Answer,
    /// The least output that the answer states.
    pub least_out: Option<Atoms>,
    /// Whether nothing fails any more and enough time has passed for every request to end.
    pub settled: bool,
}

/// The limits of an agent that trades from a hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceTradeLimits {
    pub daily: Micros,
    pub per_trade: Micros,
    pub auto_below: Micros,
    pub max_slippage_bps: u32,
}
