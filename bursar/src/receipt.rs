//! `bursar receipt verify`: checks the proof of a receipt, without an engine, a data folder or a network.

use std::sync::Arc;

use bursar_control::answers::{Answer, ProofCheckAnswer};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text;
use bursar_engine::edition::Edition;
use bursar_engine::journal::hash_hex;
use bursar_engine::proofs::{self, BYTES_MAX, Checked};

use crate::cli::GlobalOptions;
use crate::document;

const COMMAND: &str = "receipt.verify";

/// Checks the file, or standard input for `-`, and returns the exit code.
pub(crate) fn verify(global: &GlobalOptions, file: &str, head: Option<&str>) -> u8 {
    document::report(COMMAND, global, check(global, file, head))
}

fn check(global: &GlobalOptions, file: &str, head: Option<&str>) -> Result<Answer, Fault> {
    let wanted = head.map(proofs::parse_head).transpose()?;
    let bytes = document::read(file, BYTES_MAX)?;
    let checked = proofs::check(&bytes, wanted, Arc::clone(&Edition::of(global.edition).rules));
    let checked = checked.map_err(|unreadable| {
        let message = format!("{} is not a proof: {unreadable}.", text::snippet(file));
        Fault::because(Code::BadInput, message)
    })?;
    Ok(Answer::ProofCheck(Box::new(answer(checked, wanted.is_some()))))
}

fn answer(checked: Checked, has_head: bool) -> ProofCheckAnswer {
    let anchor = checked.anchor.as_ref().map(|(_seq, at, anchor)| (*at, *anchor));
    let mut notes = Vec::new();
    if let Some((_at, anchor)) = anchor {
        notes.extend(anchor.accepted.map(|entry| {
            format!("the operator accepted the journal as it was at entry {entry}: earlier entries rest on that")
        }));
        notes.extend(anchor.restored.map(|entry| {
            format!("the journal was restored from a backup at entry {entry}: what the backup lacked is lost")
        }));
    }
    let good = checked.defects.is_empty();
    let signer = checked.signer.map(|signer| signer.to_checksum(None));
    let receipt = checked.receipt.as_ref().map(|receipt| receipt.to_compact());
    ProofCheckAnswer {
        good,
        meaning: meaning(good, signer.as_deref(), has_head),
        defects: checked.defects,
        signer,
        head: hash_hex(&checked.head),
        entries: checked.entries,
        through: anchor.map(|(_at, anchor)| anchor.through),
        anchored: anchor.map(|(at, _anchor)| text::utc(at)),
        notes,
        // Our own text is JSON.
        receipt: receipt.and_then(|receipt| serde_json::from_str(&receipt).ok()),
    }
}

fn meaning(good: bool, signer: Option<&str>, has_head: bool) -> String {
    if !good {
        return "This proof proves nothing: do not rely on its receipt.".to_owned();
    }
    let mut sentences = Vec::new();
    if let Some(signer) = signer {
        sentences.push(format!(
            "The key of {signer} signed that these are all entries of its wallet about this request up to the anchor. \
             Compare that address with the one you know: anyone can sign for an address of their own."
        ));
    }
    if has_head {
        sentences.push("They have not been changed since the head was noted.".to_owned());
    }
    sentences.push(
        "Names of agent and mandate are the signer's word, and so is a check on the chain: look the transaction up yourself."
            .to_owned(),
    );
    sentences.join(" ")
}
