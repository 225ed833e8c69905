//! The calls that a node simulates, and their outcomes.

use alloy_primitives::{Address, Bytes, U256};
use bursar_submit::Call;

use super::mined::Log;

/// Calls of one account, to simulate in one block after the newest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationRequest {
    /// The account.
    pub from: Address,
    /// The calls, in sequence; a gas limit of zero leaves the limit to the node.
    pub calls: Vec<Call>,
    /// Read-only calls in the same block, after `calls`.
    pub reads: Vec<ReadCall>,
    /// The block to simulate; with `None`, the gas price is zero and the node may choose the newest block itself.
    pub block: Option<NextBlock>,
}

impl SimulationRequest {
    /// Creates a request without reads, in a block of the node's choice.
    pub fn of(from: Address, calls: Vec<Call>) -> Self {
        Self { from, calls, reads: Vec::new(), block: None }
    }
}

/// A call that only reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    pub to: Address,
    pub data: Bytes,
}

/// The block of a simulation, and the price of gas in it.
///
/// A contract that reads the block or the gas price then behaves as it will in the real transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextBlock {
    pub number: u64,
    /// Unix time in seconds.
    pub timestamp: u64,
    /// In wei; `None` on networks without a base fee, where some nodes simulate with a base fee of zero.
    pub base_fee: Option<u128>,
    /// The price that the calls pay for a unit of gas, in wei.
    pub gas_price: u128,
}

/// The outcome of a [`SimulationRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedBlock {
    /// One outcome for each call, in the order of the calls.
    pub calls: Vec<SimulatedCall>,
    /// One outcome for each read, in the order of the reads.
    pub reads: Vec<SimulatedCall>,
}

/// The simulated outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedCall {
    pub ok: bool,
    /// The return data, or the reason of the revert.
    pub data: Bytes,
    /// `None` if the method of simulation does not report it.
    pub gas_used: Option<u64>,
    /// The events; empty if the method of simulation does not report them.
    pub logs: Vec<Log>,
    /// The transfers of the native coin; empty if the method of simulation does not report them.
    pub native_transfers: Vec<Transfer>,
}

impl SimulatedCall {
    /// Creates the outcome of a method that reports neither gas nor events.
    pub fn without_details(ok: bool, data: Bytes) -> Self {
        Self { ok, data, gas_used: None, logs: Vec::new(), native_transfers: Vec::new() }
    }
}

/// A transfer of a token or of the native coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub from: Address,
    pub to: Address,
    /// In the smallest unit.
    pub value: U256,
}
