//! The operator's decisions about held requests.

use crate::clocks::{AllowancePeriod, Instant};
use crate::expect::Expect;
use crate::identity::{View, check_may_spend};
use crate::observations::Ticket;
use crate::policy::{Judgement, refuse_terms};
use crate::requests::{RequestRecord, RequestState};
use std::collections::BTreeSet;

/// The card that an operator approves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ApprovedCard<'a> {
    /// The digest of a card that was listed before.
    Named(&'a str),
    /// The card that the program read and showed for this approval, while no other call or order was open.
    Current,
    /// Like `Current`, but other open calls or orders may have changed the card.
    CurrentAmongConcurrent,
}

/// Returns whether the card that the operator saw differs from the current one: (surely, possibly).
fn card_changed(v: View<'_>, rec: &RequestRecord, card: ApprovedCard<'_>) -> (bool, bool) {
    let shown = match card {
        ApprovedCard::Named(shown) => shown,
        ApprovedCard::Current => return (false, false),
        ApprovedCard::CurrentAmongConcurrent => return (false, true),
    };
    let Some((uid, now)) = v.config.policy_of(&rec.agent) else { return (false, true) };
    let here = |c: &&crate::requests::Card| c.policy == uid && c.version == now.version;
    if let Some(current) = rec.cards.iter().find(here) {
        let changed = current.digest != shown;
        return (changed, changed);
    }
    // The card was listed only under another policy. If the policy has the same content again, both outcomes are
    // possible.
    match rec.cards.iter().find(|c| c.digest == shown) {
        Some(c) => (c.content != now.policy, true),
        None => (false, true),
    }
}

/// Returns the codes for a late decision, and whether the request may still be held.
fn too_late_codes(
    rec: &RequestRecord,
    ticket: Ticket,
    now: &Instant,
) -> (BTreeSet<&'static str>, bool) {
    let mut codes = BTreeSet::new();
    let mut may_be_held = false;
    for st in rec.states(Some(ticket)) {
        match st {
            RequestState::Nothing => {
                codes.insert("REQUEST_NOT_FOUND");
            }
            RequestState::Held => {
                let (sure, may) = rec.expired(now);
                if may {
                    codes.insert("REQUEST_EXPIRED");
                }
                may_be_held |= !sure;
            }
            RequestState::Expired => {
                codes.insert("REQUEST_EXPIRED");
            }
            RequestState::Authorized { .. }
            | RequestState::Denied
            | RequestState::Refused { .. } => {
                codes.insert("REQUEST_ALREADY_PROCESSED");
            }
        }
    }
    (codes, may_be_held)
}

pub(crate) fn deny(v: View<'_>, ticket: Ticket, rec: Option<&RequestRecord>) -> Vec<Expect> {
    let Some(rec) = rec else { return vec![Expect::Code("REQUEST_NOT_FOUND")] };
    let now = v.time.instant();
    let (codes, may_be_held) = too_late_codes(rec, ticket, &now);
    let mut out: Vec<Expect> = codes.into_iter().map(Expect::Code).collect();
    if may_be_held {
        out.push(Expect::Denied(now));
    }
    out
}

/// Returns every correct end of an approval, if this allowance is in force.
pub(crate) fn approve(
    v: View<'_>,
    ticket: Ticket,
    rec: Option<(u64, &RequestRecord)>,
    card: ApprovedCard<'_>,
    p: Option<&AllowancePeriod>,
    after_disk: bool,
) -> Vec<Expect> {
    let now = v.time.instant();
    let mut out = Vec::new();
    let mut sure = false;
    let mut code = |code, is: bool, out: &mut Vec<Expect>| {
        if is {
            out.push(Expect::Code(code));
            sure = true;
        }
    };
    code("WALLET_LOCKED", !v.config.is_open, &mut out);
    code("AGENTS_FROZEN", v.config.is_frozen, &mut out);
    let Some((key, rec)) = rec else {
        out.push(Expect::Code("REQUEST_NOT_FOUND"));
        return out;
    };
    let (codes, may_be_held) = too_late_codes(rec, ticket, &now);
    let over = !codes.is_empty();
    out.extend(codes.into_iter().map(Expect::Code));
    let (changed, may_change) = card_changed(v, rec, card);
    code("CARD_CHANGED", changed, &mut out);
    if may_change && !changed {
        out.push(Expect::Code("CARD_CHANGED"));
    }
    if !may_be_held {
        // If the request is already decided, only the checks that come before may give another code.
        if !over {
            out.push(Expect::Code("REQUEST_NOT_FOUND"));
        }
        return out;
    }
    let terms: Vec<_> = rec.holds.iter().map(|(t, _)| t.clone()).collect();
    for t in terms {
        if let Err(code) = check_may_spend(v.config, &rec.agent)
            && code != "AGENTS_FROZEN"
        {
            out.push(Expect::ApprovalFailed { http: 403, code });
            continue;
        }
        let (Some((_, policy)), Some(p)) = (v.config.policy_of(&rec.agent), p) else { continue };
        let used = v.book.used_by_others(&rec.agent, Some(key), p, &now);
        let mut j = Judgement::default();
        refuse_terms(&mut j, &t, v.config, policy, used);
        for r in &j.refusals {
            // A hold by the domain rule is not a refusal: this approval is the operator's decision about it.
            out.push(Expect::ApprovalFailed { http: r.http, code: r.code });
        }
        if !sure && !j.must_refuse() && !after_disk {
            out.push(Expect::Approved { at: now, terms: t });
        }
    }
    out
}
