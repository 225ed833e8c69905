//! Describes transaction events for the activity list.

use bursar_core::networks::by_chain;
use bursar_core::status::EntryKind;
use bursar_submit::{Event, Kind, OutboxKey, Outcome, Trouble};

/// Returns the kind and the text of an outbox entry.
pub(super) fn describe(key: &OutboxKey, event: &Event) -> (EntryKind, String) {
    let network = by_chain(key.chain).map_or("an unknown network", |row| row.title);
    let id: String = event.submission().to_string().chars().take(8).collect();
    let (kind, detail) = match event {
        Event::Opened { filler: true, .. } => {
            (EntryKind::TxFiller, "fills a missing nonce".to_owned())
        }
        Event::Opened { .. } => (EntryKind::TxOpened, String::new()),
        Event::Reserved { nonce, .. } => (EntryKind::TxNonce, format!("nonce {nonce}")),
        Event::Authorized { kind, fees, .. } => {
            let what = match kind {
                Kind::Call => "",
                Kind::Empty { .. } => " to cancel it",
            };
            (
                EntryKind::TxAuthorized,
                format!("at most {} wei per unit of gas{what}", fees.max_price()),
            )
        }
        Event::Signed { raw, .. } => (EntryKind::TxSigned, format!("tx {}", raw.hash)),
        Event::Declined { .. } => (EntryKind::TxDeclined, "the signer refused".to_owned()),
        Event::CancelWanted { .. } => (EntryKind::TxCancelWanted, String::new()),
        Event::Included { included, .. } => {
            (EntryKind::TxIncluded, format!("block {}", included.block))
        }
        Event::Missed { .. } => {
            (EntryKind::TxMissed, "its nonce seems to be used by another transaction".to_owned())
        }
        Event::CeilingLowered { .. } => {
            (EntryKind::TxBounded, "its gas price is not raised further".to_owned())
        }
        Event::BackToPending { .. } => {
            (EntryKind::TxWaitsAgain, "no block contains it: pending again".to_owned())
        }
        Event::Troubled { trouble, .. } => {
            (EntryKind::TxTrouble, trouble_text(*trouble).to_owned())
        }
        Event::Finished { outcome, .. } => (EntryKind::TxFinished, outcome_text(outcome)),
    };
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    (kind, format!("{id} on {network}{detail}"))
}

/// Returns the reason why a transaction makes no progress, as shown to people.
pub(crate) fn trouble_text(trouble: Option<Trouble>) -> &'static str {
    match trouble {
        None => "it is progressing again",
        Some(Trouble::TooExpensive) => "gas costs more than its limit",
        Some(Trouble::Underpriced) => "the network requires a higher gas price",
        Some(Trouble::Unfunded) => "the address cannot pay for gas and value",
        Some(Trouble::Refused) => "a node refused it",
        Some(Trouble::NonceJump) => "a node reports an implausible nonce",
    }
}

/// Returns the result of a transaction, for people.
pub(crate) fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded { hash, block } => format!("done in block {block}, tx {hash}"),
        Outcome::Reverted { hash, block } => {
            format!("failed in block {block}: no money moved, gas was paid, tx {hash}")
        }
        Outcome::Cancelled { hash, block } => {
            format!("cancelled: replaced by tx {hash} in block {block}")
        }
        Outcome::Dropped => "dropped: nothing was sent".to_owned(),
        Outcome::NonceTaken => {
            "unknown: the network reports another program's transaction with its nonce".to_owned()
        }
    }
}
