//! The possible effects of a call or order while it is open.

use crate::Auditor;
use crate::book::bind_key;
use crate::expect::{Expect, Input, RecordedId};
use crate::numbers;
use crate::observations::{Order, Ticket};
use crate::requests::{Identity, RequestState};

impl Auditor {
    /// Adds the possible effects of this expected answer to the model.
    pub(crate) fn foresee(&mut self, ticket: Ticket, expect: &Expect) {
        let Some(open) = self.open.get(&ticket) else { return };
        let seq = open.seq;
        let auth = RequestState::Authorized { lo: seq, hi: u64::MAX };
        let key = match &open.input {
            Input::Sign(_) => open.rec,
            Input::Order(Order::Approve { id, .. } | Order::Deny { id }) => {
                self.book.by_id.get(id).copied()
            }
            Input::Report(r) => self.book.by_id.get(&r.id).copied(),
            _ => None,
        };
        let rank = match &open.input {
            Input::Report(r) => numbers::rank(r),
            _ => 0,
        };
        if let Expect::Sendable(from) = expect {
            self.transfers.note_possible_sender(ticket, from.as_deref());
        }
        let Some(rec) = key.and_then(|k| self.book.records.get_mut(&k)) else { return };
        match expect {
            Expect::Act { terms, at, .. } | Expect::Approved { terms, at } => {
                if rec.payment.is_none() {
                    let one = (terms.clone(), *at);
                    if !rec.authorizations.contains(&one) {
                        rec.authorizations.push(one);
                    }
                }
                bind_key(&mut self.book.keys, &rec.identity);
                rec.add_possible(ticket, auth);
                self.last_auth = self.last_auth.max(seq);
            }
            Expect::Hold { terms, at, .. } => {
                let one = (terms.clone(), *at);
                if !rec.holds.contains(&one) {
                    rec.holds.push(one);
                }
                bind_key(&mut self.book.keys, &rec.identity);
                rec.add_possible(ticket, RequestState::Held);
            }
            // The wallet repeats a refusal only to a signed call.
            Expect::Refuse { http, code, recorded_id: RecordedId::UnlessRefusedTooOften(_) }
                if matches!(rec.identity, Identity::Hmac { .. }) =>
            {
                rec.add_possible(
                    ticket,
                    RequestState::Refused { http: *http, code: (*code).to_owned() },
                );
            }
            Expect::Denied(at) => {
                if !rec.denials.contains(at) {
                    rec.denials.push(*at);
                }
                rec.add_possible(ticket, RequestState::Denied);
            }
            Expect::ApprovalFailed { http, code } => {
                rec.add_possible(
                    ticket,
                    RequestState::Refused { http: *http, code: (*code).to_owned() },
                );
            }
            Expect::Stage { .. } if !rec.stage_maybe.contains(&(ticket, rank)) => {
                rec.stage_maybe.push((ticket, rank));
            }
            _ => {}
        }
    }
}
