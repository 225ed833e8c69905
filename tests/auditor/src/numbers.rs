//! An agent's standing, and its reports about payments.

use crate::clocks::AllowancePeriod;
use crate::expect::{Expect, Numbers};
use crate::identity::{View, check_may_spend, no_proof, prove, refuse};
use crate::observations::{Event, Proof, Report, Standing, Ticket};
use crate::requests::{RequestRecord, RequestState};
use std::collections::BTreeSet;

/// Returns the correct standing of an agent if this allowance is in force.
pub(crate) fn standing(
    v: View<'_>,
    agent: &str,
    proof: &Proof,
    p: Option<&AllowancePeriod>,
) -> Vec<Expect> {
    if let Err(instead) = prove(v, agent, proof) {
        return instead;
    }
    let suspended = v.config.agents.get(agent).is_some_and(|a| a.is_suspended);
    let (Some((_, policy)), Some(p)) = (v.config.policy_of(agent), p) else {
        return vec![Expect::Numbers(Numbers {
            suspended,
            commissioned: false,
            daily: 0,
            per_request: 0,
            auto_below: 0,
            pairs: Some(BTreeSet::from([(0, 0)])),
            bounds: [(0, 0); 2],
        })];
    };
    let mut pairs = v.book.possible_standings(agent, p, &v.time.instant());
    let mut bounds = v.book.spent_and_reserved_bounds(agent, p, &v.time.instant());
    // It is unknown which repeat belongs to which lost call, and each may have been authorized.
    if let Some(lost) = v.book.unanswered_micros.get(agent) {
        pairs = None;
        bounds[0].1 = bounds[0].1.saturating_add(*lost);
    }
    vec![Expect::Numbers(Numbers {
        suspended,
        commissioned: true,
        daily: policy.policy.daily,
        per_request: policy.policy.per_request,
        auto_below: policy.policy.auto_below,
        pairs,
        bounds,
    })]
}

/// Returns whether a standing is one of the correct ones.
pub(crate) fn standing_matches(n: &Numbers, s: &Standing) -> bool {
    if !n.commissioned {
        return s.status == "uncommissioned" && s.spent == 0 && s.reserved == 0;
    }
    let [spent, reserved] = n.bounds;
    let status = if n.suspended {
        "suspended"
    } else if s.spent >= n.daily {
        "limit_reached"
    } else {
        "active"
    };
    s.status == status
        && (s.daily, s.per_request, s.auto_below) == (n.daily, n.per_request, n.auto_below)
        && (spent.0..=spent.1).contains(&s.spent)
        && (reserved.0..=reserved.1).contains(&s.reserved)
        && n.pairs.as_ref().is_none_or(|p| p.contains(&(s.spent, s.reserved)))
}

/// Returns the stage to which a report alone moves a payment. Without a proof, a settlement is only a reason to look.
pub(crate) fn rank(report: &Report) -> u8 {
    match report.event {
        Event::Settled if report.proof == Proof::Missing => 1,
        Event::Submitted => 1,
        Event::Failed => 2,
        Event::Settled => 3,
    }
}

pub(crate) fn stage_rank(stage: &str) -> Option<u8> {
    match stage {
        "submitted" => Some(1),
        "failed" => Some(2),
        "settled" => Some(3),
        "verified" => Some(4),
        _ => None,
    }
}

/// Returns the stages that a payment may have after this report.
fn stages(rec: &RequestRecord, ticket: Ticket, report: &Report) -> BTreeSet<u8> {
    let mut from = BTreeSet::from([rec.stage]);
    // Reports without an answer may have been accepted.
    for (other, rank) in &rec.stage_maybe {
        if *other != ticket {
            let more: Vec<u8> = from.iter().map(|s| (*s).max(*rank)).collect();
            from.extend(more);
        }
    }
    let hash = rec.hash_reported || report.tx_hash.is_some();
    let mut out = BTreeSet::new();
    for s in from {
        out.insert(s.max(rank(report)));
        // A report without a proof changes nothing while the wallet looks for an earlier one's transaction.
        let may_look = rec.hash_reported || !rec.stage_maybe.is_empty();
        if rec.reports >= 8 || (report.proof == Proof::Missing && may_look) {
            out.insert(s);
        }
        // The wallet also looks up the transaction on the chain, and a failure that it finds there is final.
        if hash && !rec.is_redeemed && s <= 2 {
            out.insert(2);
        }
        if hash && rec.is_redeemed {
            out.insert(4);
        }
    }
    out.remove(&0);
    if !rec.is_redeemed {
        out.remove(&4);
    }
    out.into_iter().filter(|s| *s >= rec.stage).collect()
}

/// Returns the correct answers to a report.
pub(crate) fn report(v: View<'_>, report: &Report, ticket: Ticket) -> Vec<Expect> {
    if report.proof == Proof::Missing {
        return unproven_report(v, report, ticket);
    }
    if let Err(instead) = prove(v, &report.agent, &report.proof) {
        return instead;
    }
    let mut out = Vec::new();
    // The specification does not define whether an agent that may not pay may still report.
    if let Err(code) = check_may_spend(v.config, &report.agent) {
        out.push(refuse(403, code));
    }
    let Some(key) = v.book.by_id.get(&report.id) else {
        out.push(refuse(404, "TRANSACTION_NOT_FOUND"));
        return out;
    };
    let Some(rec) = v.book.records.get(key) else { return out };
    if rec.agent != report.agent || !rec.other_agents.is_empty() {
        out.push(refuse(403, "UNAUTHORIZED"));
    }
    if !rec.may_be_of(&report.agent) {
        return out;
    }
    let states = rec.states(None);
    let authorized = states.iter().any(|s| matches!(s, RequestState::Authorized { .. }));
    let only = states.iter().all(|s| matches!(s, RequestState::Authorized { .. }));
    if !only || rec.payment.is_none() {
        out.push(Expect::AnyRefusal);
    }
    // A crash may lose the record of a signature that has left the wallet, so the wallet may accept the report.
    if authorized {
        out.push(Expect::Stage { rec: *key, stages: stages(rec, ticket, report) });
    }
    out
}

/// Returns the correct answers to a report without a proof. One refusal hides every state of wallet, agents and payments.
fn unproven_report(v: View<'_>, report: &Report, ticket: Ticket) -> Vec<Expect> {
    let mut out = Vec::new();
    let may_work = v.config.is_open && check_may_spend(v.config, &report.agent).is_ok();
    let found = v.book.by_id.get(&report.id);
    let rec = found.and_then(|key| v.book.records.get(key).map(|rec| (*key, rec)));
    let Some((key, rec)) = rec.filter(|(_key, rec)| rec.may_be_of(&report.agent)) else {
        return no_proof();
    };
    if !may_work || rec.agent != report.agent || !rec.other_agents.is_empty() {
        out.extend(no_proof());
    }
    let states = rec.states(None);
    let authorized: Vec<bool> =
        states.iter().map(|state| matches!(state, RequestState::Authorized { .. })).collect();
    if authorized.contains(&false) || rec.payment.is_none() {
        out.push(Expect::AnyRefusal);
    }
    if may_work && authorized.contains(&true) {
        out.push(Expect::Stage { rec: key, stages: stages(rec, ticket, report) });
    }
    out
}
