//! Executes calls on a state, with their events and transfers of the native coin.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{Revert, SolCall, SolError, SolEvent};
use bursar_chain::ports::{Log, Transfer};
use bursar_core::networks::MULTICALL3;

use super::abi;
use super::contracts::Contracts;
use super::state::State;

/// The data of a revert.
pub(crate) type Reverted = Bytes;

/// The environment in which a call runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env {
    pub(crate) contracts: Contracts,
    /// Unix seconds.
    pub(crate) time: u64,
}

/// One message call.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) value: U256,
    pub(super) data: Bytes,
}

/// An execution of calls on a state.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(super) env: Env,
    pub(super) state: &'a mut State,
    pub(crate) logs: Vec<Log>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) gas: u64,
}

/// Returns the revert data for a reason in text.
pub(super) fn revert_reason(text: &str) -> Reverted {
    Revert::from(text).abi_encode().into()
}

/// Returns the revert data for a contract's error.
pub(super) fn revert_error(error: &impl SolError) -> Reverted {
    error.abi_encode().into()
}

/// Decodes arguments. Invalid ones revert without a reason.
pub(super) fn arguments<C: SolCall>(data: &[u8]) -> Result<C, Reverted> {
    C::abi_decode_validate(data).map_err(|_invalid| Bytes::new())
}

pub(super) fn is_call<C: SolCall>(data: &[u8]) -> bool {
    data.first_chunk::<4>() == Some(&C::SELECTOR)
}

pub(super) fn word(value: U256) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes::<32>())
}

impl<'a> Machine<'a> {
    pub(crate) fn new(env: Env, state: &'a mut State) -> Self {
        Self { env, state, logs: Vec::new(), transfers: Vec::new(), gas: 0 }
    }

    /// Runs a call. If it reverts, only its gas remains counted.
    pub(crate) fn run(
        &mut self,
        from: Address,
        to: Address,
        value: U256,
        data: &Bytes,
    ) -> Result<Bytes, Reverted> {
        let before = self.state.clone();
        let (logs, transfers) = (self.logs.len(), self.transfers.len());
        let message = Message { from, to, value, data: data.clone() };
        let done = self.message(&message);
        if done.is_err() {
            *self.state = before;
            self.logs.truncate(logs);
            self.transfers.truncate(transfers);
        }
        done
    }

    fn message(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        self.pay(message.from, message.to, message.value)?;
        self.dispatch(message)
    }

    fn dispatch(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let exchange = self.env.contracts.exchange;
        let to = message.to;
        if to == MULTICALL3 {
            return self.multicall(message);
        }
        if self.state.tokens.contains_key(&to) {
            return self.token(message);
        }
        if to == exchange.permit2 {
            return self.permit2(message);
        }
        if to == exchange.v3.router {
            return self.router3(message);
        }
        if to == exchange.v4.router {
            return self.universal(message);
        }
        match self.lending(message) {
            Some(done) => done,
            None => self.view(message),
        }
    }

    /// Transfers native coins.
    pub(super) fn pay(&mut self, from: Address, to: Address, value: U256) -> Result<(), Reverted> {
        if value.is_zero() {
            return Ok(());
        }
        let left = self.state.native_of(from).checked_sub(value).ok_or_else(Bytes::new)?;
        self.state.native.insert(from, left);
        let there = self.state.native_of(to) + value;
        self.state.native.insert(to, there);
        self.transfers.push(Transfer { from, to, value });
        Ok(())
    }

    pub(super) fn emit(&mut self, address: Address, event: &impl SolEvent) {
        let log = event.encode_log_data();
        self.logs.push(Log { address, topics: log.topics().to_vec(), data: log.data });
    }

    fn multicall(&mut self, message: &Message) -> Result<Bytes, Reverted> {
        let data = &message.data[..];
        if is_call::<abi::Many::getCurrentBlockTimestampCall>(data) {
            return Ok(word(U256::from(self.env.time)));
        }
        if is_call::<abi::Many::getEthBalanceCall>(data) {
            let who = arguments::<abi::Many::getEthBalanceCall>(data)?.addr;
            return Ok(word(self.state.native_of(who)));
        }
        if is_call::<abi::Many::aggregate3Call>(data) {
            let calls = arguments::<abi::Many::aggregate3Call>(data)?.calls;
            let calls = calls.into_iter().map(|one| abi::Many::OneWithValue {
                target: one.target,
                allowFailure: one.allowFailure,
                value: U256::ZERO,
                callData: one.callData,
            });
            return self.run_each(MULTICALL3, calls.collect());
        }
        Err(Bytes::new())
    }

    /// Runs Multicall3's `aggregate3Value` as `account`, as a state override does.
    pub(crate) fn multicall_as(
        &mut self,
        account: Address,
        data: &Bytes,
    ) -> Result<Bytes, Reverted> {
        if is_call::<abi::Many::aggregate3ValueCall>(data) {
            let calls = arguments::<abi::Many::aggregate3ValueCall>(data)?.calls;
            return self.run_each(account, calls);
        }
        Err(Bytes::new())
    }

    fn run_each(
        &mut self,
        from: Address,
        calls: Vec<abi::Many::OneWithValue>,
    ) -> Result<Bytes, Reverted> {
        let mut outcomes = Vec::with_capacity(calls.len());
        for one in calls {
            let read = is_view(&self.env.contracts, one.target, &one.callData)
                || self.is_lending_view(one.target, &one.callData);
            let done = if read {
                // Reads change nothing, so they run without a copy of the state.
                let message =
                    Message { from, to: one.target, value: U256::ZERO, data: one.callData.clone() };
                self.dispatch(&message)
            } else {
                self.run(from, one.target, one.value, &one.callData)
            };
            outcomes.push(match done {
                Ok(data) => abi::Many::Outcome { success: true, returnData: data },
                Err(data) if one.allowFailure => {
                    abi::Many::Outcome { success: false, returnData: data }
                }
                Err(data) => return Err(data),
            });
        }
        Ok(abi::Many::aggregate3Call::abi_encode_returns(&outcomes).into())
    }
}

/// Returns whether a call only reads.
fn is_view(contracts: &Contracts, to: Address, data: &[u8]) -> bool {
    let exchange = contracts.exchange;
    let quoters = [exchange.v3.quoter, exchange.v4.quoter, exchange.v4.state_view];
    quoters.contains(&to)
        || to == MULTICALL3
        || is_call::<abi::Erc20::balanceOfCall>(data)
        || is_call::<abi::Erc20::allowanceCall>(data)
        || is_call::<abi::Permit2::allowanceCall>(data)
        || is_call::<abi::Factory3::getPoolCall>(data)
        || is_call::<abi::Pool3::slot0Call>(data)
        || is_call::<abi::Pool3::liquidityCall>(data)
        || is_call::<abi::Feed::latestRoundDataCall>(data)
}
