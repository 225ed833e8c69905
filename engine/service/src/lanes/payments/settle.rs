//! Looks up reported settlements on the chain: a successful transaction counts only if it contains this exact payment.
//! Retries with growing pauses up to a time limit, also after a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{B256, U256, b256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault, Receipt, TxStatus};
use bursar_core::ids::RequestId;
use bursar_core::networks::by_chain;
use bursar_domain::Action;
use bursar_domain::settlement::{Check, Claim, Settlement};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::core::handle::Handle;
use crate::ports::Ports;

/// Pause before the first lookup, in milliseconds: nodes need a moment to receive a new block.
const FIRST_PAUSE_MS: u64 = 1_000;
/// The longest pause between two lookups, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 10 * 60 * 1000;
/// Maximum number of concurrent lookups.
const CONCURRENT_LOOKUPS_MAX: usize = 8;

/// keccak256 of `Transfer(address,address,uint256)` (ERC-20).
const TRANSFER: B256 = b256!("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// keccak256 of `AuthorizationUsed(address,bytes32)` (EIP-3009).
const AUTHORIZATION_USED: B256 =
    b256!("0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5");

/// Selector of `authorizationState(address,bytes32)` (EIP-3009).
const AUTHORIZATION_STATE: [u8; 4] = [0xe9, 0x4a, 0x01, 0x02];

/// When to look up a settlement next.
#[derive(Debug, Clone, Copy)]
struct Plan {
    tx_hash: B256,
    due_ms: u64,
    pause_ms: u64,
}

/// Looks up pending settlements until the engine stops.
pub async fn follow(core: Handle, ports: Ports, stopping: CancellationToken) {
    let mut views = core.watch();
    let mut plans: BTreeMap<RequestId, Plan> = BTreeMap::new();
    loop {
        let settling = Arc::clone(&views.borrow_and_update().state.settling);
        let now_ms = ports.clock.mono_ms();
        update_plans(&mut plans, &settling, now_ms);
        let due: Vec<Arc<Settlement>> = plans
            .iter()
            .filter(|(_id, plan)| plan.due_ms <= now_ms)
            .filter_map(|(id, _plan)| settling.get(id).map(Arc::clone))
            .collect();
        futures::stream::iter(&due)
            .for_each_concurrent(CONCURRENT_LOOKUPS_MAX, |settlement| {
                look_up(&core, &ports, settlement)
            })
            .await;
        for settlement in &due {
            if let Some(plan) = plans.get_mut(&settlement.id) {
                plan.pause_ms = plan.pause_ms.saturating_mul(2).min(LONGEST_PAUSE_MS);
                plan.due_ms = now_ms.saturating_add(plan.pause_ms);
            }
        }
        let next_ms = plans.values().map(|plan| plan.due_ms).min().unwrap_or(u64::MAX);
        // cancel-safe: all branches only wait.
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = ports.clock.sleep_until(next_ms) => {}
        }
    }
}

/// Drops plans of settlements that are no longer pending. Restarts a plan whose settlement now names another
/// transaction.
fn update_plans(
    plans: &mut BTreeMap<RequestId, Plan>,
    settling: &BTreeMap<RequestId, Arc<Settlement>>,
    now_ms: u64,
) {
    plans.retain(|id, plan| {
        settling.get(id).is_some_and(|settlement| settlement.tx_hash == Some(plan.tx_hash))
    });
    for settlement in settling.values() {
        if let Some(tx_hash) = settlement.tx_hash {
            let due_ms = now_ms.saturating_add(FIRST_PAUSE_MS);
            let plan = Plan { tx_hash, due_ms, pause_ms: FIRST_PAUSE_MS };
            plans.entry(settlement.id).or_insert(plan);
        }
    }
}

/// Looks up one settlement. Reports to the core only a final result.
async fn look_up(core: &Handle, ports: &Ports, settlement: &Settlement) {
    let Some(tx_hash) = settlement.tx_hash else { return };
    let claim = &settlement.claim;
    let found = match ports.chains.get(&claim.chain) {
        Some(chain) => verdict(&*chain, tx_hash, claim).await,
        None => Err("no endpoint is configured".to_owned()),
    };
    if let Err(fault) = &found {
        tracing::debug!(request = %settlement.id.short(), fault, "a settlement could not be looked up");
    }
    let given_up = settlement.has_timed_out(core.now().utc);
    let Some(found) = result_to_record(found, given_up) else { return };
    if let Err(fault) = core.act(Action::Checked { id: settlement.id, tx_hash, found }).await {
        tracing::warn!(code = %fault.code, "the result of a settlement lookup was not recorded");
    }
}

/// Returns the result to record; `None` if a later lookup may find more.
fn result_to_record(found: Result<Option<Check>, String>, given_up: bool) -> Option<Check> {
    match found {
        Ok(Some(found)) => Some(found),
        Ok(None) => given_up.then_some(Check::NotFound),
        Err(_fault) => given_up.then_some(Check::Unavailable),
    }
}

/// Returns the chain's result; `None` while the transaction is unknown or its revert is not final.
async fn verdict(chain: &dyn Chain, tx_hash: B256, claim: &Claim) -> Result<Option<Check>, String> {
    let text = |fault: ChainFault| fault.to_string();
    let Some(receipt) = chain.receipt(tx_hash).await.map_err(text)? else { return Ok(None) };
    let block = receipt.block_number;
    if receipt.status == TxStatus::Succeeded {
        let holds = holds_payment(&receipt, claim);
        return Ok(Some(if holds { Check::Verified { block } } else { Check::Mismatch { block } }));
    }
    // Another transaction may have made the payment.
    if is_used(chain, claim).await? {
        return Ok(Some(Check::Mismatch { block }));
    }
    let head = chain.block_number().await.map_err(text)?;
    let depth = head.saturating_sub(block).saturating_add(1);
    let is_final = by_chain(claim.chain).is_some_and(|network| depth >= network.gas.confirmations);
    Ok(is_final.then_some(Check::Reverted { block }))
}

/// Returns whether an authorization with our nonce was used or cancelled (EIP-3009 `authorizationState`).
async fn is_used(chain: &dyn Chain, claim: &Claim) -> Result<bool, String> {
    let mut call = Vec::with_capacity(68);
    call.extend_from_slice(&AUTHORIZATION_STATE);
    call.extend_from_slice(claim.from.into_word().as_slice());
    call.extend_from_slice(claim.nonce.as_slice());
    let answer = chain.call(claim.asset, call.into(), BlockTag::Latest).await;
    let answer = answer.map_err(|fault| fault.to_string())?;
    match <[u8; 32]>::try_from(answer.as_ref()).map(U256::from_be_bytes) {
        Ok(word) if word == U256::ZERO => Ok(false),
        Ok(word) if word == U256::ONE => Ok(true),
        Ok(_no_bool) => Err("authorizationState did not return a bool".to_owned()),
        Err(_no_word) => Err("authorizationState did not return one word".to_owned()),
    }
}

/// Returns whether a transaction is this payment. The token's own events must show that the payer's authorization
/// with our nonce was used, and that the amount went to the payee.
fn holds_payment(receipt: &Receipt, claim: &Claim) -> bool {
    let ours = receipt.logs.iter().filter(|log| log.address == claim.asset);
    let (mut used, mut moved) = (false, false);
    for log in ours {
        match log.topics.as_slice() {
            [event, authorizer, nonce] if *event == AUTHORIZATION_USED => {
                used |= *authorizer == claim.from.into_word() && *nonce == claim.nonce;
            }
            [event, from, to] if *event == TRANSFER => {
                moved |= *from == claim.from.into_word()
                    && *to == claim.to.into_word()
                    && log.data.as_ref() == claim.value.to_be_bytes::<32>();
            }
            _other => {}
        }
    }
    used && moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes, keccak256};
    use bursar_chain::ports::{ChainReply, Log};
    use bursar_core::networks::NETWORKS;

    fn claim() -> Claim {
        Claim {
            chain: NETWORKS[0].chain,
            asset: Address::repeat_byte(1),
            from: Address::repeat_byte(2),
            to: Address::repeat_byte(3),
            value: U256::from(12_000),
            nonce: B256::repeat_byte(4),
            valid_before: 1_000,
        }
    }

    fn receipt(claim: &Claim) -> Receipt {
        let used = Log {
            address: claim.asset,
            topics: vec![AUTHORIZATION_USED, claim.from.into_word(), claim.nonce],
            data: Bytes::new(),
        };
        let moved = Log {
            address: claim.asset,
            topics: vec![TRANSFER, claim.from.into_word(), claim.to.into_word()],
            data: claim.value.to_be_bytes::<32>().into(),
        };
        Receipt { logs: vec![used, moved], ..sample() }
    }

    fn sample() -> Receipt {
        Receipt {
            tx_hash: B256::repeat_byte(9),
            status: TxStatus::Succeeded,
            block_number: 7,
            block_hash: B256::repeat_byte(7),
            logs: Vec::new(),
            paid_fee: None,
        }
    }

    #[test]
    fn the_topics_are_those_of_the_standards() {
        assert_eq!(keccak256("Transfer(address,address,uint256)"), TRANSFER);
        assert_eq!(keccak256("AuthorizationUsed(address,bytes32)"), AUTHORIZATION_USED);
        let state = keccak256("authorizationState(address,bytes32)");
        assert_eq!(state[..4], AUTHORIZATION_STATE);
    }

    #[test]
    fn t_05_only_this_very_payment_is_verified() {
        let claim = claim();
        assert!(holds_payment(&receipt(&claim), &claim));
        let others: [fn(&mut Claim); 5] = [
            |c| c.asset = Address::repeat_byte(7),
            |c| c.from = Address::repeat_byte(7),
            |c| c.to = Address::repeat_byte(7),
            |c| c.value += U256::from(1),
            |c| c.nonce = B256::repeat_byte(7),
        ];
        for change in others {
            let mut other = claim.clone();
            change(&mut other);
            assert!(!holds_payment(&receipt(&other), &claim));
        }
        for missing in 0..2 {
            let mut half = receipt(&claim);
            half.logs.remove(missing);
            assert!(!holds_payment(&half, &claim));
        }
        assert!(!holds_payment(&sample(), &claim));
    }

    /// A chain with one receipt, one authorization state and a head.
    #[derive(Debug)]
    struct ScriptedChain {
        receipt: Option<Receipt>,
        state: Result<Bytes, ChainFault>,
        head: u64,
    }

    impl Chain for ScriptedChain {
        fn call(&self, to: Address, data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
            assert_eq!((to, data.len()), (claim().asset, 68));
            Box::pin(async { self.state.clone() })
        }

        fn receipt(&self, _hash: B256) -> ChainReply<'_, Option<Receipt>> {
            Box::pin(async { Ok(self.receipt.clone()) })
        }

        fn block_number(&self) -> ChainReply<'_, u64> {
            Box::pin(async { Ok(self.head) })
        }
    }

    #[test]
    fn silence_and_ignorance_count_only_when_the_search_is_given_up() {
        let failed = || Err("no endpoint answered".to_owned());
        assert_eq!(result_to_record(Ok(None), false), None);
        assert_eq!(result_to_record(Ok(None), true), Some(Check::NotFound));
        assert_eq!(result_to_record(failed(), false), None);
        assert_eq!(result_to_record(failed(), true), Some(Check::Unavailable));
        for given_up in [false, true] {
            let found = Check::Mismatch { block: 7 };
            assert_eq!(result_to_record(Ok(Some(found.clone())), given_up), Some(found));
        }
    }

    #[tokio::test]
    async fn t_46_a_revert_ends_a_payment_once_its_block_is_final() {
        let claim = claim();
        let reverted = Receipt { status: TxStatus::Reverted, ..sample() };
        let word = |last: u8| Ok(Bytes::from(B256::with_last_byte(last)));
        let gone = || Err(ChainFault::Unavailable { tried: Vec::new() });
        let depth = NETWORKS[0].gas.confirmations;
        // The reverted transaction is in block 7, which counts as the first confirmation.
        let last = 7 + depth - 1;
        for (state, head, found) in [
            // Another transaction made the payment.
            (word(1), 7, Ok(Some(Check::Mismatch { block: 7 }))),
            (word(1), last, Ok(Some(Check::Mismatch { block: 7 }))),
            // The block may still be removed.
            (word(0), last - 1, Ok(None)),
            (word(0), last, Ok(Some(Check::Reverted { block: 7 }))),
            // The answer about the nonce is not usable.
            (word(2), last, Err(())),
            (Ok(Bytes::new()), last, Err(())),
            (gone(), last, Err(())),
        ] {
            let chain = ScriptedChain { receipt: Some(reverted.clone()), state, head };
            let verdict = verdict(&chain, reverted.tx_hash, &claim).await;
            assert_eq!(verdict.map_err(|_text| ()), found, "{chain:?}");
        }
        let unknown = ScriptedChain { receipt: None, state: word(1), head: last };
        assert_eq!(verdict(&unknown, reverted.tx_hash, &claim).await, Ok(None));
    }
}
