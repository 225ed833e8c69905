//! The chain and the facilitator on which seeds are played, with functions to read the chain and to act on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_core::networks::MULTICALL3;
use bursar_x402::channel::IBatchSettlement;
use serde_json::{Value, json};

use crate::facilitator::channel::ESCROW;
use crate::facilitator::channel_actors::Actors;
use crate::facilitator::channel_model::{ChainView, ChannelState, Mined, Totals};
use crate::facilitator::stage::Stage;

sol! {
    interface IToken {
        function balanceOf(address owner) external view returns (uint256);
    }
}

/// Interval between two tries of the same request.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of answers with an unknown outcome after which a request is not repeated.
const UNKNOWN_MAX: u32 = 200;

/// The amounts that the escrow owes to active seeds and to ended ones.
#[derive(Default)]
struct Debts {
    /// Increases with each change, so that a reader notices one.
    version: u64,
    active: BTreeMap<u64, (Vec<B256>, Vec<Address>)>,
    ended: U256,
}

/// A chain, a facilitator on it, and the debts of its escrow.
pub(crate) struct World {
    pub(crate) stage: Stage,
    // This lock is held only for a single change.
    debts: Mutex<Debts>,
    /// Number of steps of each kind, by how they ended.
    // This lock is held only for a single change.
    tally: Mutex<BTreeMap<String, u32>>,
}

impl World {
    pub(crate) fn new(stage: Stage) -> Self {
        Self { stage, debts: Mutex::default(), tally: Mutex::default() }
    }

    fn debts(&self) -> std::sync::MutexGuard<'_, Debts> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a step that ended as the model expects.
    pub(crate) fn count(&self, step: String) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner).entry(step).or_default() += 1;
    }

    /// Returns the number of steps of each kind, by how they ended.
    pub(crate) fn tally(&self) -> BTreeMap<String, u32> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds the channels of a seed to the escrow's debts.
    pub(crate) fn add_seed(&self, seed: u64, actors: &Actors, receivers: usize) {
        let channels = actors.channels.iter().map(|channel| channel.id).collect();
        let receivers = (0..receivers).map(|number| actors.receiver(number)).collect();
        let mut debts = self.debts();
        debts.version += 1;
        debts.active.insert(seed, (channels, receivers));
    }

    /// Replaces a seed's channels by the amount that the seed leaves in the escrow.
    pub(crate) fn remove_seed(&self, seed: u64, view: &ChainView) {
        let mut debts = self.debts();
        debts.version += 1;
        debts.active.remove(&seed);
        debts.ended += view.escrow_debt();
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        self.stage.chain.request(method, params).await.unwrap_or_else(|error| {
            panic!("{method}: {error}");
        })
    }

    /// Calls view functions in one block.
    async fn read(&self, calls: Vec<(Address, Vec<u8>)>) -> Vec<Bytes> {
        let calls = calls.into_iter().map(|(target, data)| IMulticall3::Call3 {
            target,
            allowFailure: false,
            callData: data.into(),
        });
        let data = Bytes::from(IMulticall3::aggregate3Call { calls: calls.collect() }.abi_encode());
        let call = json!({ "to": MULTICALL3, "data": data, "gas": "0x1c9c380" });
        let answer = self.request("eth_call", json!([call, "latest"])).await;
        let answer: Bytes = serde_json::from_value(answer).expect("bytes");
        let results = IMulticall3::aggregate3Call::abi_decode_returns(&answer).expect("results");
        results.into_iter().map(|result| result.returnData).collect()
    }

    /// Reads the state of a seed's accounts, and compares the escrow's tokens with its debts.
    ///
    /// # Errors
    /// The escrow holds more or less than it owes.
    pub(crate) async fn observe(
        &self,
        actors: &Actors,
        receivers: usize,
        stranger: Address,
    ) -> Result<ChainView, String> {
        loop {
            let (version, active, ended) = {
                let debts = self.debts();
                (debts.version, debts.active.clone(), debts.ended)
            };
            let (mut calls, own) =
                (self.own_calls(actors, receivers, stranger), actors.channels.len());
            let debts_from = calls.len();
            calls.push(self.balance_call(ESCROW));
            for (channels, receivers) in active.values() {
                calls.extend(channels.iter().map(|id| channel_call(*id)));
                calls.extend(receivers.iter().map(|receiver| self.totals_call(*receiver)));
            }
            let mut answers = self.read(calls).await;
            let debts = answers.split_off(debts_from);
            let held = number(&debts[0]);
            let mut owed = ended;
            let mut debts = debts[1..].iter();
            for _debt in active
                .values()
                .flat_map(|(one, other)| std::iter::repeat_n((), one.len() + other.len()))
            {
                // Each answer has two totals, and the escrow owes their difference.
                let (all, part) = decode_pair(debts.next().expect("an answer"));
                owed += U256::from(all.max(part) - all.min(part));
            }
            if held == owed {
                return Ok(view_of(&answers, own, actors.payers.len(), receivers));
            }
            if self.debts().version == version {
                return Err(format!("the escrow holds {held} and owes {owed}"));
            }
        }
    }

    fn own_calls(
        &self,
        actors: &Actors,
        receivers: usize,
        stranger: Address,
    ) -> Vec<(Address, Vec<u8>)> {
        let mut calls = Vec::new();
        for channel in &actors.channels {
            let channel_id = channel.id;
            calls.push(channel_call(channel_id));
            let pending = IBatchSettlement::pendingWithdrawalsCall { channelId: channel_id };
            calls.push((ESCROW, pending.abi_encode()));
            let nonce = IBatchSettlement::refundNonceCall { channelId: channel_id };
            calls.push((ESCROW, nonce.abi_encode()));
        }
        let receivers = || (0..receivers).map(|number| actors.receiver(number));
        calls.extend(receivers().map(|receiver| self.totals_call(receiver)));
        calls.extend(actors.payers.iter().map(|payer| self.balance_call(payer.address())));
        calls.extend(receivers().map(|receiver| self.balance_call(receiver)));
        calls.push(self.balance_call(stranger));
        calls
    }

    fn balance_call(&self, owner: Address) -> (Address, Vec<u8>) {
        (self.stage.coin(), IToken::balanceOfCall { owner }.abi_encode())
    }

    fn totals_call(&self, receiver: Address) -> (Address, Vec<u8>) {
        let token = self.stage.coin();
        (ESCROW, IBatchSettlement::receiversCall { receiver, token }.abi_encode())
    }

    /// Sends a call of the escrow, which may revert, and waits for its block.
    pub(crate) async fn send(&self, from: Address, data: Bytes) -> Mined {
        let gas = "0x989680";
        let sent = json!([{ "from": from, "to": ESCROW, "data": data, "gas": gas }]);
        let hash = self.request("eth_sendTransaction", sent).await;
        let receipt = loop {
            let receipt = self.request("eth_getTransactionReceipt", json!([hash])).await;
            if !receipt.is_null() {
                break receipt;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        let block = self.request("eth_getBlockByHash", json!([receipt["blockHash"], false])).await;
        let integer = |value: &Value| -> u64 {
            serde_json::from_value::<U64>(value.clone()).expect("a number").to()
        };
        Mined {
            ok: receipt["status"] == "0x1",
            hash: serde_json::from_value(hash).expect("a hash"),
            block: integer(&block["number"]),
            time_s: integer(&block["timestamp"]),
        }
    }

    /// Posts a request to the facilitator. Repeats it while its outcome is unknown, and gives up if no
    /// node ever shows the outcome.
    pub(crate) async fn post(&self, path: &str, body: &Value, key: Option<&str>) -> (u16, Value) {
        let mut unknown = 0;
        loop {
            let (status, answer) = match key {
                Some(key) => self.stage.facilitator.post_with_key(path, body, key).await,
                None => self.stage.facilitator.post(path, body).await,
            };
            unknown += u32::from(status == 503);
            if answer["errorReason"] != "settlement_pending" && status != 503
                || unknown > UNKNOWN_MAX
            {
                return (status, answer);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn channel_call(id: B256) -> (Address, Vec<u8>) {
    (ESCROW, IBatchSettlement::channelsCall { channelId: id }.abi_encode())
}

fn number(answer: &Bytes) -> U256 {
    U256::from_be_slice(answer)
}

/// Reads an answer of two numbers.
fn decode_pair(answer: &Bytes) -> (u128, u128) {
    let (one, other) = answer.split_at(32);
    (U256::from_be_slice(one).to(), U256::from_be_slice(other).to())
}

fn view_of(answers: &[Bytes], channels: usize, payers: usize, receivers: usize) -> ChainView {
    let mut answers = answers.iter();
    let mut next = || answers.next().expect("an answer");
    let channels = (0..channels).map(|_channel| {
        let ((balance, claimed), (pending, initiated), nonce) =
            (decode_pair(next()), decode_pair(next()), number(next()));
        let initiated_s = u64::try_from(initiated).expect("40 bits");
        ChannelState { balance, claimed, pending, initiated_s, nonce: nonce.to() }
    });
    let channels = channels.collect();
    let totals = (0..receivers).map(|_receiver| {
        let (claimed, settled) = decode_pair(next());
        Totals { claimed, settled }
    });
    let totals = totals.collect();
    let mut tokens = |count: usize| (0..count).map(|_owner| number(next()).to()).collect();
    let (payer_tokens, receiver_tokens): (Vec<u128>, Vec<u128>) =
        (tokens(payers), tokens(receivers));
    let stranger_tokens = number(next()).to();
    ChainView { channels, receivers: totals, payer_tokens, receiver_tokens, stranger_tokens }
}
