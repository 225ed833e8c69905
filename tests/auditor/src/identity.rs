//! Authentication, repeats, and the correct answers to a `/sign` call.

use crate::book::Book;
use crate::clocks::{AllowancePeriod, Time};
use crate::config::Config;
use crate::expect::{Expect, RecordedId, Reply};
use crate::observations::{Ask, Micros, Proof, Ticket};
use crate::policy;
use crate::repeats::{is_in_force, is_settled, may_serve_url, repeat_answers};
use crate::requests::{Identity, RequestRecord, RequestState};

/// One possible state of the wallet, at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) config: &'a Config,
    pub(crate) time: &'a Time,
    pub(crate) book: &'a Book,
    pub(crate) disk_failed: Option<u64>,
    /// Whether the wallet doubts its journal. If so, it executes nothing without an approval.
    pub(crate) is_journal_doubted: bool,
    /// The most that may be left of the unattended day, in micro-dollars; `None` if that is not limited.
    pub(crate) unattended_left: Option<Micros>,
}

pub(crate) fn refuse(http: u16, code: &'static str) -> Expect {
    Expect::Refuse { http, code, recorded_id: RecordedId::Never }
}

pub(crate) fn no_proof() -> Vec<Expect> {
    // The wallet may report too many failed proofs with a separate code. An outside observer cannot count as the wallet
    // does.
    vec![refuse(401, "AUTH_FAILED"), refuse(429, "RATE_LIMIT_EXCEEDED")]
}

/// Checks the proof, and that the wallet is open. Fails with the correct answers to a failed check.
pub(crate) fn prove(v: View<'_>, agent: &str, proof: &Proof) -> Result<(), Vec<Expect>> {
    let Some(known) = v.config.agents.get(agent) else { return Err(no_proof()) };
    match proof {
        Proof::Hmac { timestamp_s, is_valid, .. } => {
            let age = v.time.instant().second().saturating_sub(*timestamp_s).saturating_abs();
            if known.is_bearer || !is_valid || age > 300 || !v.config.is_open {
                return Err(no_proof());
            }
        }
        Proof::Bearer { is_valid } => {
            if !known.is_bearer || !is_valid || known.is_token_unreturned {
                return Err(no_proof());
            }
            if !v.config.is_open {
                return Err(vec![refuse(503, "WALLET_LOCKED")]);
            }
        }
        Proof::Missing => return Err(no_proof()),
    }
    Ok(())
}

/// Checks whether the agent may spend. Fails with the code of the refusal.
pub(crate) fn check_may_spend(config: &Config, agent: &str) -> Result<(), &'static str> {
    let Some(known) = config.agents.get(agent) else { return Err("AGENT_NOT_COMMISSIONED") };
    if known.commission.is_none() {
        Err("AGENT_NOT_COMMISSIONED")
    } else if known.is_suspended {
        Err("AGENT_SUSPENDED")
    } else if config.is_frozen {
        Err("AGENTS_FROZEN")
    } else {
        Ok(())
    }
}

pub(crate) fn identity_of(ask: &Ask) -> Identity {
    match &ask.proof {
        Proof::Hmac { signature, .. } => {
            Identity::Hmac { agent: ask.agent.clone(), signature: signature.clone() }
        }
        Proof::Bearer { .. } | Proof::Missing => Identity::Bearer {
            agent: ask.agent.clone(),
            content: ask.content.clone(),
            key: ask.idempotency_key.clone(),
        },
    }
}

/// Returns every correct answer to this `/sign` call, if this allowance is in force.
pub(crate) fn sign(
    v: View<'_>,
    ask: &Ask,
    rec: u64,
    ticket: Ticket,
    seq: u64,
    p: Option<&AllowancePeriod>,
) -> Vec<Expect> {
    if let Err(instead) = prove(v, &ask.agent, &ask.proof) {
        return instead;
    }
    if let Err(code) = check_may_spend(v.config, &ask.agent) {
        return vec![refuse(403, code)];
    }
    let mut out = Vec::new();
    let identity = identity_of(ask);
    if let (Identity::Bearer { agent, content, .. }, Some(key)) = (&identity, &ask.idempotency_key)
        && let Some(bound) = v.book.keys.get(&(agent.clone(), key.clone()))
        && bound.iter().any(|c| c != content)
    {
        let recorded_id = RecordedId::Any;
        out.push(Expect::Refuse { http: 409, code: "IDEMPOTENCY_CONFLICT", recorded_id });
        let other = |r: &RequestRecord| match &r.identity {
            Identity::Bearer { agent: a, content: c, key: k } => {
                a == agent && c != content && k.as_ref() == Some(key)
            }
            Identity::Hmac { .. } => false,
        };
        if v.book.records.values().any(|r| other(r) && is_in_force(v, r)) {
            // The wallet refuses an offer that cannot be paid before it looks for an earlier call.
            let mut as_new = Vec::new();
            new_request_answers(v, ask, rec, seq, p, &mut as_new);
            out.extend(as_new.into_iter().filter_map(|expect| match expect {
                Expect::Refuse {
                    http,
                    code,
                    recorded_id: RecordedId::UnlessRefusedTooOften(true),
                } => Some(Expect::Refuse { http, code, recorded_id: RecordedId::Never }),
                _other => None,
            }));
            return out;
        }
    }
    let list = v.book.by_identity.get(&identity).cloned().unwrap_or_default();
    let mut as_new = true;
    let mut newest_found = false;
    for key in list.iter().rev() {
        let Some(known) = v.book.records.get(key) else { continue };
        if newest_found {
            // If an older request was settled, its payment also answers all newer calls.
            let (sure, may) = is_settled(known);
            if may && may_serve_url(v, ask, known, &mut out) {
                let reply = Reply::Settled;
                out.push(Expect::Reply { rec: *key, reply, why: "repeat: settled before" });
            }
            as_new &= !sure;
            for (unmatched, rec) in v.book.unmatched_of(*key) {
                if is_settled(rec).1 && may_serve_url(v, ask, known, &mut out) {
                    let (reply, why) = (Reply::Settled, "repeat: settled before");
                    out.push(Expect::Reply { rec: unmatched, reply, why });
                }
            }
            continue;
        }
        let (mut replies, again) = repeat_answers(v, *key, known, ticket);
        for (unmatched, rec) in v.book.unmatched_of(*key) {
            replies.extend(repeat_answers(v, unmatched, rec, ticket).0);
        }
        if !replies.is_empty() && !may_serve_url(v, ask, known, &mut out) {
            replies.clear();
        }
        out.extend(replies);
        as_new = again;
        if !again {
            break;
        }
        // The newest request that the wallet surely recorded decides.
        newest_found = !known.possible_states(Some(ticket)).any(|st| *st == RequestState::Nothing);
    }
    if as_new {
        new_request_answers(v, ask, rec, seq, p, &mut out);
    }
    out
}

fn new_request_answers(
    v: View<'_>,
    ask: &Ask,
    rec: u64,
    seq: u64,
    p: Option<&AllowancePeriod>,
    out: &mut Vec<Expect>,
) {
    let (Some((_, policy)), Some(p)) = (v.config.policy_of(&ask.agent), p) else { return };
    let account = v.config.agents.get(&ask.agent).and_then(|a| a.commission.as_ref());
    let payer =
        account.and_then(|m| v.config.accounts.get(&m.account)).and_then(|a| a.address.clone());
    let now = v.time.instant();
    let used = v.book.used_by_others(&ask.agent, Some(rec), p, &now);
    let held = v.book.held_counts(&ask.agent, Some(rec), &now);
    let off = v.time.may_be_off_chain();
    let mut j = policy::judge(ask, v.config, policy, payer, used, held, off);
    let micros = j.terms.as_ref().map_or(0, |terms| terms.micros);
    let asks = match v.unattended_left {
        _ if v.is_journal_doubted => Some(("hold: the journal is not trusted", true)),
        // The amount left may be lower than `left`, so the wallet may hold the payment in any case.
        Some(left) => Some(("hold: the unattended day", micros > left)),
        None => None,
    };
    if let (Some((why, must)), true) = (asks, j.act.is_some()) {
        j.act = j.act.filter(|_why| !must);
        j.hold = j.hold.or(Some(why));
        if held.agent.1 >= policy::HELD_MAX.0 || held.all.1 >= policy::HELD_MAX.1 {
            j.refuse(429, "TOO_MANY_PENDING", false);
        }
    }
    for r in &j.refusals {
        let early = [
            "INVALID_X402_FORMAT",
            "INVALID_PAYMENT_DATA",
            "UNKNOWN_NETWORK",
            "UNSUPPORTED_SCHEME",
        ];
        let recorded_id = RecordedId::UnlessRefusedTooOften(early.contains(&r.code));
        out.push(Expect::Refuse { http: r.http, code: r.code, recorded_id });
    }
    // After the disk has failed, the wallet decides nothing new.
    if v.disk_failed.is_some_and(|at| seq > at) {
        return;
    }
    if let Some(terms) = &j.terms {
        if let Some(why) = j.act {
            out.push(Expect::Act { terms: terms.clone(), at: now, why });
        }
        if let Some(why) = j.hold {
            out.push(Expect::Hold { terms: terms.clone(), at: now, why });
        }
    }
}
