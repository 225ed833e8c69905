//! `event → state`. Total and deterministic: an event for a missing submission or attempt has no effect.

use crate::event::{Event, Outcome};
use crate::outbox::{Attempt, ChainState, Included, Outbox, Submission};

/// Applies an event to an outbox; nothing else changes an outbox.
pub fn apply(outbox: &mut Outbox, event: &Event) {
    match event {
        Event::Opened { id, call, ceiling, filler, until } => {
            let turn = outbox.turns;
            outbox.turns = turn.saturating_add(1);
            outbox.open.entry(*id).or_insert_with(|| Submission {
                call: call.clone(),
                ceiling: *ceiling,
                until: *until,
                turn,
                filler: *filler,
                nonce: None,
                attempts: Vec::new(),
                chain_state: ChainState::Pending,
                cancel: false,
                trouble: None,
            });
            return;
        }
        Event::Finished { id, outcome } => {
            let ended = outbox.open.remove(id);
            let mined = matches!(
                outcome,
                Outcome::Succeeded { .. } | Outcome::Reverted { .. } | Outcome::Cancelled { .. }
            );
            if let Some(nonce) = ended.and_then(|one| one.nonce)
                && mined
            {
                outbox.floor = outbox.floor.max(nonce.saturating_add(1));
            }
            return;
        }
        Event::Reserved { .. }
        | Event::Authorized { .. }
        | Event::Signed { .. }
        | Event::Declined { .. }
        | Event::CancelWanted { .. }
        | Event::Included { .. }
        | Event::Missed { .. }
        | Event::CeilingLowered { .. }
        | Event::BackToPending { .. }
        | Event::Troubled { .. } => {}
    }
    let Some(one) = outbox.open.get_mut(&event.submission()) else { return };
    match event {
        Event::Opened { .. } | Event::Finished { .. } => {}
        Event::Reserved { nonce, .. } => {
            one.nonce.get_or_insert(*nonce);
        }
        Event::Authorized { kind, fees, digest, at, .. } => one.attempts.push(Attempt {
            kind: *kind,
            fees: *fees,
            digest: *digest,
            at: *at,
            raw: None,
            declined: false,
        }),
        Event::Signed { attempt, raw, .. } => {
            if let Some(tried) = one.attempts.get_mut(*attempt) {
                tried.raw.get_or_insert_with(|| raw.clone());
            }
        }
        Event::Declined { attempt, .. } => {
            if let Some(tried) = one.attempts.get_mut(*attempt) {
                tried.declined = true;
            }
        }
        Event::CancelWanted { .. } => one.cancel = true,
        Event::Included { included, .. } => {
            let Included { attempt, .. } = included;
            if one.attempts.get(*attempt).is_some() {
                one.chain_state = ChainState::Included(*included);
                one.trouble = None;
            }
        }
        Event::Missed { head, at, .. } => {
            one.chain_state = ChainState::Missed { head: *head, at: *at }
        }
        Event::CeilingLowered { ceiling, .. } => one.ceiling = *ceiling,
        Event::BackToPending { .. } => one.chain_state = ChainState::Pending,
        Event::Troubled { trouble, .. } => one.trouble = *trouble,
    }
}
