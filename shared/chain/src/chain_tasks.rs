//! Performs the actions of an outbox on a chain, for every host. Only signing is left to the host.

use alloy_primitives::{Address, B256};
use bursar_core::networks::{FeeModel, Gas};
use bursar_submit::fees;
use bursar_submit::{
    Action, Call, FoundReceipt, Input, OutboxKey, Quote, Raw, Rules, SendAnswer, SubmissionId,
};

use crate::final_count::{FinalCount, FinalCounts};
use crate::ports::{BlockTag, Chain, ChainFault, TxStatus};

/// Gas of an empty transfer on networks whose gas includes no data fee (`G_transaction` of the Yellow Paper).
const EMPTY_TRANSFER_GAS: u64 = 21_000;

/// Upper bound for the gas of an empty transfer on any network, data fee included.
const EMPTY_TRANSFER_GAS_MAX: u64 = 2_000_000;

/// Performs an action of an outbox, and returns its result if there is one.
///
/// Returns `None` if a query failed; a later block triggers the action again. Also returns `None` for
/// [`Action::Sign`], which the host performs, and for [`Action::Lookup`], which [`look_up`] performs.
pub async fn run(
    chain: &dyn Chain,
    key: &OutboxKey,
    gas: &Gas,
    action: &Action,
    rebroadcast: bool,
) -> Option<Input> {
    let done = match action {
        Action::Quote => quote(chain, key.signer, gas).await.map(Input::Quoted),
        Action::Send { id, raw } => {
            let answer = send(chain, raw, rebroadcast).await;
            Ok(Input::Answered { id: *id, answer })
        }
        // The host signs, and lookups are batched in [`look_up`].
        Action::Lookup { .. } | Action::Sign { .. } => return None,
    };
    match done {
        Ok(input) => Some(input),
        Err(fault) => {
            tracing::debug!(chain = %key.chain, %fault, "a task of an outbox failed");
            None
        }
    }
}

/// Queries the price of gas, the gas of an empty transfer, and the signer's transaction counts, all at once.
///
/// # Errors
/// No node answered, or no gas price can be computed from the answers.
pub async fn quote(chain: &dyn Chain, signer: Address, gas: &Gas) -> Result<Quote, ChainFault> {
    let (facts, plain_gas, pending, mined) = futures::future::join4(
        chain.fee_facts(),
        empty_transfer_gas(chain, signer, gas),
        chain.transaction_count(signer, BlockTag::Pending),
        chain.transaction_count(signer, BlockTag::Latest),
    )
    .await;
    let fee = fees::quote(gas, &facts?)
        .map_err(|fault| ChainFault::Rejected { code: 0, message: fault.to_string() })?;
    Ok(Quote { fee, plain_gas: plain_gas?, pending: pending?, mined: mined? })
}

/// Returns the gas of an empty transfer.
async fn empty_transfer_gas(
    chain: &dyn Chain,
    signer: Address,
    gas: &Gas,
) -> Result<u64, ChainFault> {
    let plain_gas = match gas.model {
        // Arbitrum includes the data fee in gas, so only the node knows the gas. The margin of a quarter covers later
        // changes of the data fee.
        FeeModel::Arbitrum => {
            let needed = chain.estimate_gas(signer, Call::empty(signer, 0)).await?;
            needed.saturating_add(needed / 4)
        }
        FeeModel::Eip1559 | FeeModel::OpStack | FeeModel::Legacy | FeeModel::Free => {
            EMPTY_TRANSFER_GAS
        }
    };
    if plain_gas > EMPTY_TRANSFER_GAS_MAX {
        let message =
            "the node reports an impossibly high amount of gas for an empty transfer".to_owned();
        return Err(ChainFault::Rejected { code: 0, message });
    }
    Ok(plain_gas)
}

/// Broadcasts a transaction and classifies the answer.
///
/// `rebroadcast` sends it to every node, because the node that accepted it first may not have propagated it.
pub async fn send(chain: &dyn Chain, raw: &Raw, rebroadcast: bool) -> SendAnswer {
    let bytes = raw.bytes.clone();
    let sent = if rebroadcast { chain.send_raw_everywhere(bytes) } else { chain.send_raw(bytes) };
    match sent.await {
        Ok(_hash) => SendAnswer::Accepted,
        Err(ChainFault::Rejected { message, .. }) => classify(&message),
        Err(_no_verdict) => SendAnswer::Unclear,
    }
}

/// Classifies a node's mempool error by its text. Knows the texts of geth, Erigon, Nethermind, Besu, Nitro and
/// anvil, whose error codes do not distinguish these errors.
fn classify(message: &str) -> SendAnswer {
    let message = message.to_ascii_lowercase();
    let has_any = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has_any(&["already known", "already imported", "alreadyknown"])
        || message.starts_with("known transaction")
    {
        SendAnswer::AlreadyKnown
    } else if has_any(&["nonce too low", "oldnonce", "nonce is too low", "invalid nonce"]) {
        SendAnswer::NonceTooLow
    } else if has_any(&[
        "underpriced",
        "fee too low",
        "feetoolow",
        "less than block base fee",
        "gas price below",
        "could not replace",
        "replacementnotallowed",
    ]) {
        SendAnswer::Underpriced
    } else if has_any(&[
        "insufficient funds",
        "insufficientfunds",
        "insufficient balance",
        "upfront cost",
    ]) {
        SendAnswer::Unfunded
    } else {
        SendAnswer::Refused
    }
}

/// A submission to look up, and the hashes of its signed attempts.
pub type LookupRequest = (SubmissionId, Vec<B256>);

/// Queries the chain for many submissions of one signer with few requests.
///
/// It reads the head first, so a block that arrives meanwhile cannot make a receipt look deeper than it is. It also
/// returns the signer's transaction count as of the newest final block. While that count is unknown, no submission
/// becomes final, but the other results are valid.
///
/// # Errors
/// No node answered; a later block triggers the lookup again.
pub async fn look_up(
    chain: &dyn Chain,
    signer: Address,
    rules: &Rules,
    lookups: &[LookupRequest],
    counts: &mut FinalCounts,
) -> Result<(Vec<Input>, FinalCount), ChainFault> {
    let head = chain.block_number().await?;
    let hashes: Vec<B256> = lookups.iter().flat_map(|(_id, hashes)| hashes).copied().collect();
    let receipts = chain.receipts(&hashes).await?;
    let found = |hash: &B256| {
        let found = receipts.iter().flatten().find(|receipt| receipt.tx_hash == *hash)?;
        Some(FoundReceipt {
            hash: *hash,
            block: found.block_number,
            block_hash: found.block_hash,
            ok: found.status == TxStatus::Succeeded,
        })
    };
    let final_block = head.checked_sub(rules.confirmations.saturating_sub(1));
    let count = match final_block {
        Some(block) => counts.at(chain, signer, head, block).await?,
        None => FinalCount::Awaited,
    };
    let settled = match count {
        FinalCount::Known(count) => count,
        FinalCount::Awaited | FinalCount::Unknown => 0,
    };
    let mut results = Vec::with_capacity(lookups.len());
    for (id, hashes) in lookups {
        // Search from the newest attempt, which is the most likely to be mined.
        let found = hashes.iter().rev().find_map(found);
        let known = match hashes.last() {
            Some(newest) if found.is_none() => chain.is_known(*newest).await?,
            _mined => true,
        };
        results.push(Input::LookedUp { id: *id, asked: hashes.len(), found, known, head, settled });
    }
    Ok((results, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_error_messages_are_classified() {
        for (message, answer) in [
            ("already known", SendAnswer::AlreadyKnown),
            ("transaction already imported", SendAnswer::AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", SendAnswer::NonceTooLow),
            ("OldNonce, Current nonce: 3", SendAnswer::NonceTooLow),
            ("replacement transaction underpriced", SendAnswer::Underpriced),
            ("max fee per gas less than block base fee", SendAnswer::Underpriced),
            ("Insufficient funds for gas * price + value", SendAnswer::Unfunded),
            ("intrinsic gas too low", SendAnswer::Refused),
            ("unknown transaction type", SendAnswer::Refused),
            ("FeeTooLow, EffectivePriorityFeePerGas too low", SendAnswer::Underpriced),
            ("InsufficientFunds, Account balance: 0", SendAnswer::Unfunded),
            ("", SendAnswer::Refused),
        ] {
            assert_eq!(classify(message), answer, "{message}");
        }
    }
}
