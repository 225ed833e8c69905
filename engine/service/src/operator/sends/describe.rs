//! Describes the current state of a send for replies.

use bursar_control::answers::SendAnswer;
use bursar_core::networks::by_chain;
use bursar_core::status::SendStatus;
use bursar_core::text;
use bursar_domain::State;
use bursar_domain::outboxes::SendRecord;
use bursar_submit::{ChainState, Outcome, Submission};

use crate::operator::entries::outboxes::{outcome_text, trouble_text};

pub(crate) fn send(state: &State, record: &SendRecord) -> SendAnswer {
    let send = &record.send;
    let outbox = state.outboxes.get(&send.key());
    let open = outbox.open.get(&send.submission());
    let (status, told) = match (&record.ended, open) {
        (Some((outcome, _at)), _) => (end_status(outcome), outcome_text(outcome)),
        (None, Some(one)) => open_status(one),
        (None, None) => (SendStatus::Waiting, "queued".to_owned()),
    };
    let mined = record.ended.as_ref().and_then(|(outcome, _at)| match outcome {
        Outcome::Succeeded { hash, block }
        | Outcome::Reverted { hash, block }
        | Outcome::Cancelled { hash, block } => Some((*hash, *block)),
        Outcome::Dropped | Outcome::NonceTaken => None,
    });
    let newest = open.and_then(Submission::newest).map(|(_at, _tried, raw)| raw.hash);
    let row = by_chain(send.chain);
    SendAnswer {
        id: send.id.to_string(),
        at: text::utc(record.at),
        status,
        told,
        summary: send.amount_text(),
        amount: send.described_amount(),
        token_address: send.token.map(|token| token.to_checksum(None)),
        label: send.label.as_str().to_owned(),
        from: send.from.to_checksum(None),
        to: send.to.to_checksum(None),
        network: row.map_or_else(|| send.chain.to_string(), |row| row.title.to_owned()),
        caip2: row.map_or_else(|| format!("eip155:{}", send.chain), |row| row.caip2()),
        nonce: open.and_then(|one| one.nonce),
        tx_hash: mined
            .map(|(hash, _block)| hash)
            .or(newest)
            .or(record.last_tx)
            .map(|hash| hash.to_string()),
        block: mined.map(|(_hash, block)| block),
    }
}

fn end_status(outcome: &Outcome) -> SendStatus {
    match outcome {
        Outcome::Succeeded { .. } => SendStatus::Done,
        Outcome::Reverted { .. } => SendStatus::Failed,
        Outcome::Cancelled { .. } => SendStatus::Cancelled,
        Outcome::Dropped => SendStatus::Dropped,
        Outcome::NonceTaken => SendStatus::Unknown,
    }
}

fn open_status(one: &Submission) -> (SendStatus, String) {
    let trouble = one.trouble.map(|trouble| format!(": {}", trouble_text(Some(trouble))));
    let trouble = trouble.unwrap_or_default();
    match &one.chain_state {
        ChainState::Included(included) if !included.ok => (
            SendStatus::Included,
            format!("reverted in block {}: no money moved; not final yet", included.block),
        ),
        ChainState::Included(included) => {
            (SendStatus::Included, format!("in block {}, not final yet", included.block))
        }
        ChainState::Missed { .. } => (
            SendStatus::Sent,
            "its nonce seems to be used by another transaction; checking again".to_owned(),
        ),
        ChainState::Pending if one.cancel => {
            (SendStatus::Sent, format!("being cancelled; it can still be mined first{trouble}"))
        }
        ChainState::Pending if one.is_signed() => {
            (SendStatus::Sent, format!("sent, not in a block yet{trouble}"))
        }
        ChainState::Pending if one.nonce.is_some() => {
            (SendStatus::Waiting, format!("being signed{trouble}"))
        }
        ChainState::Pending => (SendStatus::Waiting, format!("reading the price of gas{trouble}")),
    }
}
