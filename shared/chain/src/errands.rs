//! What a desk wants done, done at a chain: the same for every host. Signing is not among it: who holds the
//! key does that.

use alloy_primitives::{Address, B256};
use bursar_core::networks::{FeeModel, Gas};
use bursar_submit::fees;
use bursar_submit::{
    Action, Call, DeskKey, Found, Input, Quote, Raw, Rules, SendAnswer, SubmissionId,
};

use crate::ports::{BlockTag, Chain, ChainFault, TxStatus};

/// What a transfer of nothing costs where gas is nothing but gas (EIP-2028 and before).
const PLAIN_GAS: u64 = 21_000;

/// More than doing nothing costs anywhere, its data included.
const PLAIN_GAS_MAX: u64 = 2_000_000;

/// Does what a desk wants done. `None` where it comes to nothing now: a later block has it asked again.
/// [`Action::Sign`] and [`Action::Look`] come to nothing here.
pub async fn run(
    chain: &dyn Chain,
    key: &DeskKey,
    gas: &Gas,
    action: &Action,
    again: bool,
) -> Option<Input> {
    let done = match action {
        Action::Quote => quote(chain, key.signer, gas).await.map(Input::Quoted),
        Action::Send { id, raw } => {
            let answer = send(chain, raw, again).await;
            Ok(Input::Answered { id: *id, answer })
        }
        // Signing is the host's, and looks go together.
        Action::Look { .. } | Action::Sign { .. } => return None,
    };
    match done {
        Ok(input) => Some(input),
        Err(fault) => {
            tracing::debug!(chain = %key.chain, %fault, "a desk's errand came to nothing");
            None
        }
    }
}

/// What gas costs and which nonce is next.
///
/// # Errors
/// No node answered, or what it said makes no offer.
pub async fn quote(chain: &dyn Chain, signer: Address, gas: &Gas) -> Result<Quote, ChainFault> {
    let facts = chain.fee_facts().await?;
    let fee = fees::quote(gas, &facts)
        .map_err(|fault| ChainFault::Rejected { code: 0, message: fault.to_string() })?;
    let plain_gas = match gas.model {
        // Where the cost of the data is in the gas, only the node knows it. A margin, for it moves.
        FeeModel::Arbitrum => {
            let needed = chain.estimate_gas(signer, Call::nothing(signer, 0)).await?;
            needed.saturating_add(needed / 4)
        }
        FeeModel::Eip1559 | FeeModel::OpStack | FeeModel::Legacy | FeeModel::Free => PLAIN_GAS,
    };
    if plain_gas > PLAIN_GAS_MAX {
        let message =
            "the node says that doing nothing costs more gas than anything does".to_owned();
        return Err(ChainFault::Rejected { code: 0, message });
    }
    let pending = chain.transaction_count(signer, BlockTag::Pending).await?;
    let mined = chain.transaction_count(signer, BlockTag::Latest).await?;
    Ok(Quote { fee, plain_gas, pending, mined })
}

/// Broadcasts, and reads the answer as far as it can be read. `again` goes to every node: the one that took it
/// before may have told nobody.
pub async fn send(chain: &dyn Chain, raw: &Raw, again: bool) -> SendAnswer {
    let bytes = raw.bytes.clone();
    let sent = if again { chain.send_raw_everywhere(bytes) } else { chain.send_raw(bytes) };
    match sent.await {
        Ok(_hash) => SendAnswer::Accepted,
        Err(ChainFault::Rejected { message, .. }) => judged(&message),
        Err(_no_judgement) => SendAnswer::Unclear,
    }
}

/// The words of geth, Erigon, Nethermind, Besu, Nitro and anvil for what their pools say. Codes do not tell
/// these apart.
fn judged(message: &str) -> SendAnswer {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&["already known", "already imported", "alreadyknown"])
        || message.starts_with("known transaction")
    {
        SendAnswer::AlreadyKnown
    } else if says(&["nonce too low", "oldnonce", "nonce is too low", "invalid nonce"]) {
        SendAnswer::NonceTooLow
    } else if says(&[
        "underpriced",
        "fee too low",
        "feetoolow",
        "less than block base fee",
        "gas price below",
        "could not replace",
        "replacementnotallowed",
    ]) {
        SendAnswer::Underpriced
    } else if says(&[
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

/// What is looked for: a submission and everything that was broadcast for it.
pub type Wanted = (SubmissionId, Vec<B256>);

/// Looks for many submissions of one signer in as few questions as there can be. The head is read first, so
/// that a block that is made meanwhile makes nothing look deeper than it is.
///
/// # Errors
/// Nobody answered: a later block has it asked again.
pub async fn look(
    chain: &dyn Chain,
    signer: Address,
    rules: &Rules,
    wanted: &[Wanted],
) -> Result<Vec<Input>, ChainFault> {
    let head = chain.block_number().await?;
    let hashes: Vec<B256> = wanted.iter().flat_map(|(_id, hashes)| hashes).copied().collect();
    let receipts = chain.receipts(&hashes).await?;
    let found = |hash: &B256| {
        let found = receipts.iter().flatten().find(|receipt| receipt.tx_hash == *hash)?;
        Some(Found {
            hash: *hash,
            block: found.block_number,
            block_hash: found.block_hash,
            ok: found.status == TxStatus::Succeeded,
        })
    };
    let final_block = head.checked_sub(rules.confirmations.saturating_sub(1));
    let settled = match final_block {
        Some(block) => match chain.transaction_count(signer, BlockTag::Number(block)).await {
            Ok(count) => count,
            // A node that does not remember that block: nothing is final by its word, and all else that it
            // tells is news.
            Err(ChainFault::Rejected { .. }) => 0,
            Err(fault) => return Err(fault),
        },
        None => 0,
    };
    let mut seen = Vec::with_capacity(wanted.len());
    for (id, hashes) in wanted {
        // The newest is the most probable.
        let found = hashes.iter().rev().find_map(found);
        let known = match hashes.last() {
            Some(newest) if found.is_none() => chain.has_heard_of(*newest).await?,
            _mined => true,
        };
        seen.push(Input::Seen { id: *id, asked: hashes.len(), found, known, head, settled });
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_nodes_are_told_apart() {
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
            assert_eq!(judged(message), answer, "{message}");
        }
    }
}
