//! Reactions to the result of a lookup on the chain.

use bursar_core::time::Utc;

use crate::actions::{resend, sign, withdraw};
use crate::event::{Event, Outcome};
use crate::input::{Action, FoundReceipt, Rules, Step};
use crate::on_quote::{has_passed, needs_quote};
use crate::outbox::{Attempt, ChainState, Included, Kind, Outbox, Submission, SubmissionId};

/// How long, in milliseconds, lookups must report a used nonce before we treat the nonce as taken. A number of blocks
/// alone would be too short a time on a chain that makes ten blocks per second.
const NONCE_TAKEN_MS: i64 = 60_000;

/// The result of [`Action::Lookup`].
pub(crate) struct LookupResult {
    pub(crate) attempts_asked: usize,
    pub(crate) found: Option<FoundReceipt>,
    pub(crate) known: bool,
    pub(crate) head: u64,
    pub(crate) settled_nonces: u64,
}

pub(crate) fn advance(
    outbox: &Outbox,
    rules: &Rules,
    at: Utc,
    id: SubmissionId,
    lookup: &LookupResult,
) -> Step {
    let Some(one) = outbox.open.get(&id).filter(|one| one.is_signed()) else {
        return Step::default();
    };
    match lookup.found.and_then(|found| attempt_of_receipt(one, &found)) {
        Some((included, tried)) => advance_mined(rules, id, one, included, tried, lookup),
        None => advance_unmined(rules, at, id, one, lookup),
    }
}

/// Finds the attempt of a receipt. A receipt counts only for bytes that we persisted.
fn attempt_of_receipt<'a>(
    one: &'a Submission,
    found: &FoundReceipt,
) -> Option<(Included, &'a Attempt)> {
    let mut tried = one.attempts.iter().enumerate();
    let (attempt, tried) =
        tried.find(|(_at, tried)| tried.raw.as_ref().is_some_and(|raw| raw.hash == found.hash))?;
    let included =
        Included { attempt, block: found.block, block_hash: found.block_hash, ok: found.ok };
    Some((included, tried))
}

fn advance_mined(
    rules: &Rules,
    id: SubmissionId,
    one: &Submission,
    included: Included,
    tried: &Attempt,
    lookup: &LookupResult,
) -> Step {
    let mut step = Step::default();
    if one.chain_state != ChainState::Included(included) {
        // One lookup never makes an outcome final: the nodes behind one address may differ, which a second lookup
        // reveals.
        step.events.push(Event::Included { id, included });
        return step;
    }
    let depth = lookup.head.saturating_add(1).saturating_sub(included.block);
    // The transaction count as of a final block must confirm the receipt.
    let is_counted = one.nonce.is_some_and(|nonce| lookup.settled_nonces > nonce);
    if depth >= rules.confirmations
        && is_counted
        && let Some(raw) = &tried.raw
    {
        let (hash, block) = (raw.hash, included.block);
        let outcome = match tried.kind {
            Kind::Empty { .. } => Outcome::Cancelled { hash, block },
            Kind::Call if included.ok => Outcome::Succeeded { hash, block },
            Kind::Call => Outcome::Reverted { hash, block },
        };
        step.events.push(Event::Finished { id, outcome });
    }
    step
}

fn advance_unmined(
    rules: &Rules,
    at: Utc,
    id: SubmissionId,
    one: &Submission,
    lookup: &LookupResult,
) -> Step {
    let mut step = Step::default();
    let signed = one.attempts.iter().filter(|tried| tried.raw.is_some()).count();
    if lookup.attempts_asked != signed {
        return step;
    }
    let head = lookup.head;
    let used = one.nonce.is_some_and(|nonce| lookup.settled_nonces > nonce);
    match (&one.chain_state, used) {
        // A node may report the count before it knows each transaction, so a second lookup some blocks later must
        // also report the nonce as used. A later lookup with a lower head replaces the first one.
        (ChainState::Missed { head: since, at: then }, true) if head >= *since => {
            let long_enough = has_passed(NONCE_TAKEN_MS, *then, at);
            if long_enough && head.saturating_sub(*since) >= rules.confirmations {
                step.events.push(Event::Finished { id, outcome: Outcome::NonceTaken });
            }
        }
        (_place, true) => step.events.push(Event::Missed { id, head, at }),
        // A lagging node may not know the block yet. Only a node past that block shows that the block is gone.
        (ChainState::Included(included), false) if head <= included.block => {
            step.actions.extend(resend(id, one, at));
        }
        (ChainState::Included(_) | ChainState::Missed { .. }, false) => {
            step.events.push(Event::BackToPending { id });
            step.actions.extend(sign(id, one));
            step.actions.extend(resend(id, one, at));
        }
        (ChainState::Pending, false) => {
            let withdrawn = if lookup.known { None } else { withdraw(id, one, at) };
            if !lookup.known {
                step.actions.extend(resend(id, one, at));
            }
            if withdrawn.is_some() || needs_quote(one, rules, at) {
                step.actions.push(Action::Quote);
            }
            step.events.extend(withdrawn);
        }
    }
    step
}
