//! The correct answers about an existing request, to a poll or a repeated call.

use crate::clocks::{HOLD_MS, Instant};
use crate::domains;
use crate::expect::{Expect, RecordedId, Reply};
use crate::identity::View;
use crate::observations::{Ask, Ticket};
use crate::requests::{Identity, RequestRecord, RequestState};

/// Returns whether the request is surely held, or its payment surely valid.
pub(crate) fn is_in_force(v: View<'_>, rec: &RequestRecord) -> bool {
    let now = v.time.instant();
    !rec.has_lapsed
        && rec.possible_states(None).all(|s| match s {
            RequestState::Held => !rec.expired(&now).1,
            RequestState::Authorized { .. } => {
                rec.valid_before().is_some_and(|(least, _)| now.second() < least)
            }
            _ => false,
        })
}

/// Returns the correct answers about an authorized payment.
fn authorized_replies(v: View<'_>, rec: &RequestRecord) -> Vec<Reply> {
    let now = v.time.instant().second();
    let mut out = Vec::new();
    let (least, most) = rec.valid_before().unwrap_or((i64::MIN, i64::MAX));
    if now < most {
        if rec.payment.is_some() || rec.digest.is_some() {
            out.push(Reply::Header);
        }
        // If the signature was never returned, it may not be on disk yet.
        if rec.payment.is_none() || rec.died {
            out.push(Reply::Executing);
        }
    }
    if now >= least {
        out.push(Reply::AlreadySigned);
    }
    out
}

fn denied_reply() -> Reply {
    Reply::Rejected(Some("REQUEST_DENIED".to_owned()))
}

/// Returns the correct answers to a poll of a request.
pub(crate) fn poll(v: View<'_>, key: u64, rec: &RequestRecord) -> Vec<Expect> {
    let now = v.time.instant();
    let mut out = Vec::new();
    let mut say = |reply: Reply, why| {
        let one = Expect::Reply { rec: key, reply, why };
        if !out.contains(&one) {
            out.push(one);
        }
    };
    let expired = || Reply::Rejected(Some("REQUEST_EXPIRED".to_owned()));
    for st in rec.states(None) {
        match st {
            RequestState::Nothing => {}
            RequestState::Held => {
                let (sure, may) = rec.expired(&now);
                if !sure {
                    say(Reply::Pending, "poll: waits");
                }
                if may {
                    say(expired(), "poll: expired");
                }
            }
            RequestState::Authorized { .. } => {
                for reply in authorized_replies(v, rec) {
                    say(reply, "poll: authorized");
                }
            }
            RequestState::Denied => say(denied_reply(), "poll: denied"),
            RequestState::Expired => say(expired(), "poll: expired"),
            RequestState::Refused { code, .. } => {
                say(Reply::Rejected(Some(code.clone())), "poll: refused")
            }
        }
    }
    out
}

/// Returns whether the last of these ends is surely more than 15 minutes ago.
fn is_past(ended: &[Instant], now: &Instant) -> bool {
    let past = |at: &Instant| at.elapsed_by_both(now).into_iter().all(|ms| ms > HOLD_MS);
    !ended.is_empty() && ended.iter().all(past)
}

/// Returns whether the payment was settled: (surely, possibly).
pub(crate) fn is_settled(rec: &RequestRecord) -> (bool, bool) {
    let sure = rec.stage >= 3;
    let reported = rec.stage_maybe.iter().any(|(_, stage)| *stage >= 3);
    (sure, sure || reported || (rec.hash_reported && rec.is_redeemed))
}

/// Returns the correct answers to a repeated call, and whether it may be judged as a new request.
pub(crate) fn repeat_answers(
    v: View<'_>,
    key: u64,
    rec: &RequestRecord,
    except: Ticket,
) -> (Vec<Expect>, bool) {
    let now = v.time.instant();
    let hmac = matches!(rec.identity, Identity::Hmac { .. });
    let (mut out, mut as_new) = (Vec::new(), false);
    let mut say = |reply: Reply, why| out.push(Expect::Reply { rec: key, reply, why });
    let states = rec.states(Some(except));
    for st in states {
        match st {
            RequestState::Nothing => as_new = true,
            RequestState::Authorized { .. } => {
                let (sure, may) = is_settled(rec);
                if may {
                    say(Reply::Settled, "repeat: settled");
                }
                if sure {
                    continue;
                }
                // The payment has expired once. A later request may have replaced it before the clock was set back.
                as_new |= rec.has_lapsed && !hmac;
                for reply in authorized_replies(v, rec) {
                    match reply {
                        Reply::AlreadySigned if hmac => {
                            say(Reply::Expired, "repeat: no longer valid")
                        }
                        Reply::AlreadySigned => as_new = true,
                        other => say(other, "repeat: authorized"),
                    }
                }
                // The wallet may make the signature only for this call.
                if now.second() < rec.valid_before().map_or(i64::MAX, |(_, most)| most) {
                    say(Reply::Header, "repeat: the same header");
                }
            }
            RequestState::Denied => {
                if hmac || !is_past(&rec.denials, &now) {
                    say(denied_reply(), "repeat: denied");
                }
                as_new |= !hmac && rec.may_be_replaced;
            }
            RequestState::Held if !rec.expired(&now).1 => say(Reply::Pending, "repeat: held"),
            RequestState::Held | RequestState::Expired => {
                if *st == RequestState::Held && !rec.expired(&now).0 {
                    say(Reply::Pending, "repeat: held");
                }
                // The wallet recorded the expiry when it first returned it, or at any time before.
                let mut ends = rec.ended.clone();
                ends.extend(rec.expired_since);
                let past = !rec.ended.is_empty() && is_past(&ends, &now);
                if hmac || !past {
                    say(Reply::Rejected(Some("REQUEST_EXPIRED".to_owned())), "repeat: expired");
                }
                as_new |= !hmac && rec.may_be_replaced;
            }
            RequestState::Refused { http, code } => {
                if hmac {
                    say(Reply::SameRefusal { http: *http, code: code.clone() }, "repeat: refused");
                }
                // The wallet remembers a request that was refused at its approval as a held one.
                if !rec.holds.is_empty() {
                    say(Reply::Rejected(Some(code.clone())), "repeat: refused at approval");
                }
                as_new |= !hmac;
            }
        }
    }
    (out, as_new)
}

/// Returns whether the wallet may answer a call with this URL. A URL other than the first must pass the domain rule.
pub(crate) fn may_serve_url(
    v: View<'_>,
    ask: &Ask,
    rec: &RequestRecord,
    out: &mut Vec<Expect>,
) -> bool {
    if ask.request_url == rec.request_url {
        return true;
    }
    let Some((_, p)) = v.config.policy_of(&ask.agent) else { return true };
    let first =
        rec.holds.first().or(rec.authorizations.first()).map(|(t, _)| t.resource_url.clone());
    let resource = first.unwrap_or_else(|| ask.offers.first().and_then(|o| o.resource_url.clone()));
    let ruling = domains::judge_urls(
        ask.request_url.as_deref(),
        resource.as_deref(),
        &p.policy.allowed_domains,
        &p.policy.blocked_domains,
    );
    if ruling.deny {
        for code in ["DOMAIN_NOT_ALLOWED", "DOMAIN_URL_REQUIRED"] {
            if code == "DOMAIN_NOT_ALLOWED" || ruling.may_lack_url {
                out.push(Expect::Refuse { http: 403, code, recorded_id: RecordedId::Any });
            }
        }
    }
    ruling.allow || ruling.hold
}
