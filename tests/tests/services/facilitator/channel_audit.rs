//! Audits the transactions of a facilitator's signers: each call of the escrow must have done its job, unless a
//! simultaneous action could spoil it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_core::networks::MULTICALL3;
use bursar_x402::channel::{ChannelConfig, EscrowDomain, IBatchSettlement};
use serde_json::{Value, json};

use crate::facilitator::channel::ESCROW;
use crate::facilitator::channel_actions::Action;
use crate::facilitator::channel_actors::Actors;
use crate::facilitator::channel_model::{Model, Row};
use crate::facilitator::channel_requests::Request;
use crate::facilitator::channel_world::World;

/// The number of calls to the escrow that a simultaneous action could spoil, by channel or receiver.
#[derive(Debug, Default)]
pub(crate) struct SpoilableCalls(Mutex<BTreeMap<B256, u32>>);

impl SpoilableCalls {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<B256, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows three spoilt calls for a request of a pair, because a job is tried at most three times.
    pub(crate) fn allow(&self, actors: &Actors, model: &Model, action: &Action) {
        let Action::Settle { request, .. } = action else { return };
        let id = |channel: usize| actors.channels[channel].id;
        let of_rows = |rows: &[Row]| rows.iter().map(|row| id(row.channel)).collect::<Vec<_>>();
        let keys = match request {
            Request::Deposit { number, .. } => vec![id(model.authorizations[*number].channel)],
            Request::Claim(batch) => of_rows(&batch.rows),
            Request::Sweep(receiver) => vec![actors.receiver(*receiver).into_word()],
            Request::Refund(refund) => vec![id(refund.channel)],
        };
        let mut held = self.lock();
        for key in keys {
            *held.entry(key).or_default() += 3;
        }
    }

    /// Returns whether a simultaneous action explains a call without effect, and uses up one allowance.
    fn explains(&self, key: B256) -> bool {
        let mut held = self.lock();
        let Some(left) = held.get_mut(&key).filter(|left| **left > 0) else { return false };
        *left -= 1;
        true
    }
}

/// The proof of a call to the escrow: this event, with one of these values as its first topic.
struct CallProof {
    event: B256,
    keys: Vec<B256>,
}

/// Audits the blocks after `from`. Returns the newest block and the number of the signers' calls.
///
/// # Errors
/// Names a call without effect that no simultaneous action explains.
pub(crate) async fn audit(
    world: &World,
    races: &SpoilableCalls,
    from: u64,
) -> Result<(u64, usize), String> {
    let newest = world.request("eth_blockNumber", json!([])).await;
    let newest = newest.as_str().expect("text").trim_start_matches("0x").to_owned();
    let newest = u64::from_str_radix(&newest, 16).expect("a number");
    let mut calls = 0;
    for number in from + 1..=newest {
        let block =
            world.request("eth_getBlockByNumber", json!([format!("0x{number:x}"), true])).await;
        for sent in block["transactions"].as_array().expect("transactions") {
            let signers = &world.stage.home.signers;
            if signers.iter().any(|signer| json!(signer) == sent["from"]) {
                calls += audit_transaction(world, races, sent).await?;
            }
        }
    }
    Ok((newest, calls))
}

async fn audit_transaction(
    world: &World,
    races: &SpoilableCalls,
    sent: &Value,
) -> Result<usize, String> {
    let to: Address = serde_json::from_value(sent["to"].clone()).expect("an address");
    let data: Bytes = serde_json::from_value(sent["input"].clone()).expect("bytes");
    let domain = EscrowDomain::new(world.stage.network().chain, ESCROW);
    let calls: Vec<Bytes> = if to == MULTICALL3 {
        let all = IMulticall3::aggregate3Call::abi_decode(&data).expect("a batch").calls;
        all.into_iter().filter(|call| call.target == ESCROW).map(|call| call.callData).collect()
    } else if to == ESCROW {
        vec![data]
    } else {
        Vec::new()
    };
    let receipt = world.request("eth_getTransactionReceipt", json!([sent["hash"]])).await;
    let topics = |log: &Value| -> Vec<B256> {
        serde_json::from_value(log["topics"].clone()).expect("topics")
    };
    let logs = receipt["logs"].as_array().expect("events");
    let mut events: Vec<Vec<B256>> =
        logs.iter().filter(|log| log["address"] == json!(ESCROW)).map(topics).collect();
    for call in &calls {
        let Some(claim) = proof_of_call(&domain, call) else { continue };
        let is_own = |event: &Vec<B256>| event[0] == claim.event && claim.keys.contains(&event[1]);
        match events.iter().position(is_own) {
            Some(found) => drop(events.remove(found)),
            None if claim.keys.iter().any(|key| races.explains(*key)) => {}
            None => {
                let hash = &sent["hash"];
                return Err(format!("a call of {hash} for {:?} did nothing", claim.keys));
            }
        }
    }
    Ok(calls.len())
}

/// Returns the event that proves a call, or `None` if the facilitator never makes such a call.
fn proof_of_call(domain: &EscrowDomain, data: &[u8]) -> Option<CallProof> {
    use IBatchSettlement as I;
    let id = |config: I::ChannelConfig| domain.channel_id(&ChannelConfig::from(config));
    if let Ok(call) = I::depositCall::abi_decode(data) {
        return Some(CallProof {
            event: I::Deposited::SIGNATURE_HASH,
            keys: vec![id(call.config)],
        });
    }
    if let Ok(call) = I::claimWithSignatureCall::abi_decode(data) {
        let keys = call.voucherClaims.into_iter().map(|row| id(row.voucher.channel)).collect();
        return Some(CallProof { event: I::Claimed::SIGNATURE_HASH, keys });
    }
    if let Ok(call) = I::settleCall::abi_decode(data) {
        return Some(CallProof {
            event: I::Settled::SIGNATURE_HASH,
            keys: vec![call.receiver.into_word()],
        });
    }
    if let Ok(call) = I::refundWithSignatureCall::abi_decode(data) {
        return Some(CallProof { event: I::Refunded::SIGNATURE_HASH, keys: vec![id(call.config)] });
    }
    let call = I::multicallCall::abi_decode(data).ok()?;
    proof_of_call(domain, call.data.last()?)
}
