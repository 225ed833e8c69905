//! Proofs of receipts: what was written, and what a check found.

use bursar_control::answers::{ProofAnswer, ProofCheckAnswer};

use super::receipt;
use crate::oneshot::sheet::{Sheet, quote_shell_word};

pub(super) fn written(to: &mut Sheet, proof: &ProofAnswer) {
    let signer = proof.signer.clone().unwrap_or_else(|| "nothing".to_owned());
    to.rows(&[
        ("written", proof.file.clone()),
        ("request", proof.request.clone()),
        ("entries", numbers(&proof.entries)),
        ("signed by", signer),
        ("head", proof.head.clone()),
    ]);
    to.line("The reader can note the head: later proofs of older receipts can rest on it.");
    to.next("Check it with", &format!("bursar receipt verify {}", quote_shell_word(&proof.file)));
}

pub(super) fn check(to: &mut Sheet, check: &ProofCheckAnswer) {
    let own = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let verdict = if check.good { "good" } else { "NOT GOOD" };
    to.rows(&[
        ("proof", verdict.to_owned()),
        ("signed by", own(&check.signer)),
        ("head", check.head.clone()),
        ("anchored", own(&check.anchored)),
        ("entries", numbers(&check.entries)),
    ]);
    for line in check.defects.iter().chain(&check.notes) {
        to.line(&format!("- {line}"));
    }
    to.line(&check.meaning);
    if let Some(form) = check.receipt.as_ref().filter(|_any| check.good) {
        to.blank();
        receipt::form(to, form);
    }
}

fn numbers(entries: &[u64]) -> String {
    entries.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
