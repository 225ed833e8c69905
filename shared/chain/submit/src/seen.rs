//! What the chain says of a submission.

use bursar_core::time::Utc;

use crate::actions::{resend, sign, withdraw};
use crate::desk::{Attempt, Desk, Included, Kind, Place, Submission, SubmissionId};
use crate::event::{Event, Outcome};
use crate::input::{Action, Found, Rules, Step};
use crate::quoted::{has_passed, is_due};

/// How long nobody may find any of ours in the place of a used nonce, before that is believed: blocks alone
/// are too quick where ten of them take a second.
const DISPLACED_MS: i64 = 60_000;

/// An answer to [`Action::Look`].
pub(crate) struct Look {
    pub(crate) asked: usize,
    pub(crate) found: Option<Found>,
    pub(crate) known: bool,
    pub(crate) head: u64,
    pub(crate) settled: u64,
}

pub(crate) fn seen(desk: &Desk, rules: &Rules, at: Utc, id: SubmissionId, look: &Look) -> Step {
    let Some(one) = desk.open.get(&id).filter(|one| one.is_signed()) else {
        return Step::default();
    };
    match look.found.and_then(|found| ours(one, &found)) {
        Some((included, tried)) => in_block(rules, id, one, included, tried, look),
        None => in_no_block(rules, at, id, one, look),
    }
}

/// A receipt counts only for bytes that were kept.
fn ours<'a>(one: &'a Submission, found: &Found) -> Option<(Included, &'a Attempt)> {
    let mut tried = one.attempts.iter().enumerate();
    let (attempt, tried) =
        tried.find(|(_at, tried)| tried.raw.as_ref().is_some_and(|raw| raw.hash == found.hash))?;
    let included =
        Included { attempt, block: found.block, block_hash: found.block_hash, ok: found.ok };
    Some((included, tried))
}

fn in_block(
    rules: &Rules,
    id: SubmissionId,
    one: &Submission,
    included: Included,
    tried: &Attempt,
    look: &Look,
) -> Step {
    let mut step = Step::default();
    if one.place != Place::Included(included) {
        // Never final at first sight: nodes that stand behind one address may differ, and another look finds
        // out.
        step.events.push(Event::Included { id, included });
        return step;
    }
    let depth = look.head.saturating_add(1).saturating_sub(included.block);
    // The count as of a final block has to say the same as the receipt.
    let counted = one.nonce.is_some_and(|nonce| look.settled > nonce);
    if depth >= rules.confirmations
        && counted
        && let Some(raw) = &tried.raw
    {
        let (hash, block) = (raw.hash, included.block);
        let outcome = match tried.kind {
            Kind::Nothing { .. } => Outcome::Cancelled { hash, block },
            Kind::Whole if included.ok => Outcome::Succeeded { hash, block },
            Kind::Whole => Outcome::Reverted { hash, block },
        };
        step.events.push(Event::Finished { id, outcome });
    }
    step
}

fn in_no_block(rules: &Rules, at: Utc, id: SubmissionId, one: &Submission, look: &Look) -> Step {
    let mut step = Step::default();
    let signed = one.attempts.iter().filter(|tried| tried.raw.is_some()).count();
    if look.asked != signed {
        return step;
    }
    let head = look.head;
    let used = one.nonce.is_some_and(|nonce| look.settled > nonce);
    match (&one.place, used) {
        // A node may know how many there were before it knows of each: a second look, some blocks on, has
        // to say the same. Where the block of the first does not exist yet, this is the first.
        (Place::Missed { head: since, at: then }, true) if head >= *since => {
            let long = has_passed(DISPLACED_MS, *then, at);
            if long && head.saturating_sub(*since) >= rules.confirmations {
                step.events.push(Event::Finished { id, outcome: Outcome::Displaced });
            }
        }
        (_place, true) => step.events.push(Event::Missed { id, head, at }),
        // A node that lags does not know the block yet: only from one that is past it, it is news.
        (Place::Included(included), false) if head <= included.block => {
            step.actions.extend(resend(id, one, at));
        }
        (Place::Included(_) | Place::Missed { .. }, false) => {
            step.events.push(Event::WaitsAgain { id });
            step.actions.extend(sign(id, one));
            step.actions.extend(resend(id, one, at));
        }
        (Place::Waiting, false) => {
            let withdrawn = if look.known { None } else { withdraw(id, one, at) };
            if !look.known {
                step.actions.extend(resend(id, one, at));
            }
            if withdrawn.is_some() || is_due(one, rules, at) {
                step.actions.push(Action::Quote);
            }
            step.events.extend(withdrawn);
        }
    }
    step
}
