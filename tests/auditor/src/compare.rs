//! Compares an answer with a correct one.

use crate::Auditor;
use crate::expect::{Expect, Input, OpenCall, RecordedId, Reply};
use crate::numbers;
use crate::observations::Answer;

/// The largest number of refusals that the wallet records for one agent in one clock minute.
const MAX_REFUSALS: u32 = 30;

impl Auditor {
    fn id_matches(&self, key: Option<u64>, id: &str) -> bool {
        let Some(key) = key else { return false };
        match self.book.by_id.get(id) {
            Some(there) => *there == key || self.book.may_own(key, *there),
            None => self.book.records.get(&key).is_some_and(|r| r.id.is_none()),
        }
    }

    fn refusals_now(&self, agent: &str) -> (u32, u32) {
        let minute = self.time.latest_ms.div_euclid(60_000);
        if self.time.now.wall_ms < self.time.latest_ms {
            // The clock was set back, so it is unknown in which minute the wallet counts.
            let mine = self.refusals.iter().filter(|((a, _), _)| a == agent);
            return (0, mine.map(|(_, (_, most))| *most).fold(0, u32::saturating_add));
        }
        self.refusals.get(&(agent.to_owned(), minute)).copied().unwrap_or_default()
    }

    pub(crate) fn matches(&self, expect: &Expect, answer: &Answer, open: &OpenCall) -> bool {
        match (expect, answer) {
            (
                Expect::Refuse { http, code, recorded_id },
                Answer::Refused { http: h, code: c, id, .. },
            ) => {
                h == http
                    && c == code
                    && self.recorded_id_matches(*recorded_id, id.as_deref(), open)
            }
            (Expect::Act { .. }, Answer::Header { id, .. } | Answer::Executing { id })
            | (Expect::Hold { .. }, Answer::Pending { id }) => self.id_matches(open.rec, id),
            (Expect::Reply { rec, reply, .. }, _) => self.reply_matches(*rec, reply, answer, open),
            (Expect::Numbers(n), Answer::Standing(s)) => numbers::standing_matches(n, s),
            (Expect::Stage { stages, .. }, Answer::Reported { stage }) => {
                numbers::stage_rank(stage).is_some_and(|r| stages.contains(&r))
            }
            (Expect::AnyRefusal, Answer::Refused { http, .. }) => (400..500).contains(http),
            _ => false,
        }
    }

    fn recorded_id_matches(
        &self,
        recorded_id: RecordedId,
        id: Option<&str>,
        open: &OpenCall,
    ) -> bool {
        let Input::Sign(ask) = &open.input else { return id.is_none() };
        let (least, most) = self.refusals_now(&ask.agent);
        // Lost calls may have been refused and recorded too.
        let lost = self.lost_asks.get(&ask.agent).copied().unwrap_or(0);
        let maybe_many = most.saturating_add(lost) >= MAX_REFUSALS;
        match (recorded_id, id) {
            (RecordedId::Never, id) => id.is_none(),
            (RecordedId::Any, Some(id)) => !self.book.by_id.contains_key(id),
            (RecordedId::Any, None) => true,
            (RecordedId::UnlessRefusedTooOften(early), None) => {
                early || maybe_many || self.disk_failed.is_some()
            }
            (RecordedId::UnlessRefusedTooOften(_), Some(id)) => {
                let many = least >= MAX_REFUSALS && open.is_isolated;
                !(self.book.by_id.contains_key(id) || many)
            }
        }
    }

    fn reply_matches(&self, rec: u64, reply: &Reply, answer: &Answer, open: &OpenCall) -> bool {
        let key = Some(rec);
        // The answer to a poll must have the id that the agent polled.
        if let (
            Input::Poll(asked),
            Answer::Header { id, .. }
            | Answer::Pending { id }
            | Answer::Executing { id }
            | Answer::AlreadySigned { id }
            | Answer::Rejected { id, .. },
        ) = (&open.input, answer)
            && asked != id
        {
            return false;
        }
        match (reply, answer) {
            (Reply::Header, Answer::Header { id, .. })
            | (Reply::Pending, Answer::Pending { id })
            | (Reply::Executing, Answer::Executing { id })
            | (Reply::AlreadySigned, Answer::AlreadySigned { id }) => self.id_matches(key, id),
            (Reply::Rejected(c), Answer::Rejected { id, code }) => {
                c == code && self.id_matches(key, id)
            }
            (Reply::SameRefusal { http, code }, Answer::Refused { http: h, code: c, id, .. }) => {
                h == http && c == code && id.as_ref().is_some_and(|id| self.id_matches(key, id))
            }
            (Reply::Settled, Answer::Refused { http: 409, code, previous, .. }) => {
                code == "PAYMENT_ALREADY_SETTLED"
                    && previous.as_ref().is_some_and(|id| self.id_matches(key, id))
            }
            (Reply::Expired, Answer::Refused { http: 409, code, previous, .. }) => {
                code == "PAYMENT_EXPIRED"
                    && previous.as_ref().is_none_or(|id| self.id_matches(key, id))
            }
            _ => false,
        }
    }
}

/// Returns the rule that an answer breaks when it matches no correct answer.
pub(crate) fn broken_rule(open: &OpenCall, answer: &Answer) -> &'static str {
    let stored = open.correct_answers.iter().any(|e| matches!(e, Expect::Reply { .. }));
    let given = matches!(answer, Answer::Header { .. } | Answer::Executing { .. });
    let has = |f: &dyn Fn(&Expect) -> bool| open.correct_answers.iter().any(f);
    match &open.input {
        Input::Poll(_) | Input::PollTrade(_) | Input::PollLoan(_) => "I-p",
        Input::Standing { .. } => "I-d",
        Input::Report(_) => "reports",
        _ if stored => "same ask, same answer",
        _ if given && has(&|e| matches!(e, Expect::Hold { .. })) => "I-j",
        _ if has(&|e| {
            matches!(e, Expect::Refuse { code: "EXCEEDS_DAILY_LIMIT" | "LIMIT_REACHED", .. })
        }) =>
        {
            "I-a"
        }
        _ if given
            && has(&|e| {
                matches!(e, Expect::Refuse { http: 403, recorded_id: RecordedId::Never, .. })
            }) =>
        {
            "I-i"
        }
        _ => "judgement",
    }
}
