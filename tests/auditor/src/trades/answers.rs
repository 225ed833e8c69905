//! Checks the answers to `POST /trade` and to polls.

use super::OpenTrade;
use super::authority::rule_of;
use super::judge::Verdict;
use crate::basics::{Id, Ticket};
use crate::expect::{Input, OpenCall};
use crate::observations::Answer;
use crate::trade_book::{Authorization, TradeIdentity, TradeRecord};
use crate::trading::{Trade, TradeAnswer, TradeState};
use crate::{Auditor, Violation, violation};

/// The `reason_code` of a refusal for the daily volume.
const EXCEEDS_VOLUME: &str = "EXCEEDS_DAILY_VOLUME";

/// Returns the phase of a state: 0 pending, 1 executing, 2 ended.
pub(crate) fn phase(state: &TradeState) -> u8 {
    match state {
        TradeState::Pending => 0,
        TradeState::Executing => 1,
        TradeState::Executed { .. } | TradeState::Rejected { .. } | TradeState::Failed { .. } => 2,
    }
}

fn journal_failed(state: &TradeState) -> bool {
    let failed = |code: &Option<String>| code.as_deref() == Some("JOURNAL_FAILED");
    match state {
        TradeState::Rejected { code, reason_code } => failed(code) || failed(reason_code),
        TradeState::Failed { code } => failed(code),
        _ => false,
    }
}

impl Auditor {
    pub(crate) fn on_trade_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        answer: &Answer,
    ) -> Result<(), Violation> {
        match &open.input {
            Input::PollTrade(id) => self.poll_answered(ticket, open, id, answer)?,
            Input::Trade(_) => self.trade_answered(ticket, open, answer)?,
            _ => {}
        }
        self.trades.open.remove(&ticket);
        self.trades.arrived.remove(&ticket);
        for rec in self.trades.book.recs.values_mut() {
            rec.open.remove(&ticket);
            rec.authorizations.retain(|auth| auth.ticket != ticket || auth.closed.is_some());
        }
        Ok(())
    }

    fn trade_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let Some(call) = self.trades.open.get(&ticket).cloned() else { return Ok(()) };
        match answer {
            Answer::Trade(answer) => self.result_answered(ticket, open, &call, answer),
            Answer::Refused { http, code, .. } => self.error_answered(open, &call, *http, code),
            _ => Err(self.trade_violation(call.rec, "answers", &format!("answered {answer:?}"))),
        }
    }

    /// Checks an answer that is not a result object.
    fn error_answered(
        &mut self,
        open: &OpenCall,
        call: &OpenTrade,
        http: u16,
        code: &str,
    ) -> Result<(), Violation> {
        self.count(crate::expect::refusal_tag(code));
        let known = call.errors.iter().any(|(h, c)| *h == http && *c == code);
        let authority = matches!(http, 401 | 403 | 503);
        let conflict = code == "IDEMPOTENCY_CONFLICT" && !self.key_conflict(call).is_empty();
        if known || http == 429 || conflict {
            return Ok(());
        }
        if authority || code == "IDEMPOTENCY_CONFLICT" {
            let what =
                format!("{:?} was answered {http} {code}; expected {:?}", open.input, call.errors);
            return Err(violation("answers", what));
        }
        self.check_refusal(open, call, code)
    }

    /// Returns the trades of the same agent whose idempotency key this call uses for another content.
    fn key_conflict(&self, call: &OpenTrade) -> Vec<&TradeRecord> {
        let Some(key) = &call.ask.idempotency_key else { return Vec::new() };
        let other = |r: &&TradeRecord| match &r.identity {
            TradeIdentity::Keyed { agent, key: k, content } => {
                *agent == call.ask.agent && k == key && *content != call.ask.content
            }
            _ => false,
        };
        self.trades.book.recs.values().filter(other).collect()
    }

    /// Checks a result object that answers a call.
    fn result_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenTrade,
        answer: &TradeAnswer,
    ) -> Result<(), Violation> {
        let key = call.rec;
        if journal_failed(&answer.state) {
            if self.disk_failed.is_none() {
                let what = "it was answered JOURNAL_FAILED, but the disk works";
                return Err(self.trade_violation(key, "disk", what));
            }
            // The request was not written, or is on disk without confirmation.
            self.lose_trade_call(ticket);
            return Ok(());
        }
        if call.snapshots.is_empty() {
            let what = format!("answered {answer:?}; expected {:?}", call.errors);
            return Err(self.trade_violation(key, "I-i", &what));
        }
        if let Some(earlier) = self.earlier_trade(key, answer.id.as_ref()) {
            self.check_merged(ticket, earlier)?;
            return self.check_state(earlier, open, call.seq, &answer.state);
        }
        let call = &self.new_ask(ticket, call, answer.id.as_ref());
        let key = call.rec;
        self.note_automatic(call);
        self.bind_answer(key, answer.id.as_ref())?;
        if let Some(rec) = self.trades.book.recs.get_mut(&key).filter(|rec| rec.unrecorded) {
            (rec.refused, rec.unrecorded) = (None, false);
        }
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        if let Some(first) = &rec.refused {
            if *first != answer.state {
                let what = format!("refused with {first:?} before, and answered {answer:?} now");
                return Err(self.trade_violation(key, "same ask, same answer", &what));
            }
            return Ok(());
        }
        let repeat = rec.accepted;
        let lives = |r: &&TradeRecord| r.accepted && r.end.is_none() && !r.may_have_failed();
        if !repeat && self.key_conflict(call).iter().any(lives) {
            let what = "its idempotency key belongs to another trade";
            return Err(self.trade_violation(key, "same ask, same answer", what));
        }
        if repeat {
            self.check_merged(ticket, key)?;
            return self.check_state(key, open, call.seq, &answer.state);
        }
        self.first_answer(ticket, open, call, &answer.state)
    }

    /// Returns the earlier trade of the same identity that an answer is about.
    fn earlier_trade(&self, key: u64, id: Option<&Id>) -> Option<u64> {
        let identity = &self.trades.book.recs.get(&key)?.identity;
        let (earlier, rec) = self.trades.book.find(id?)?;
        let bearer = identity.is_of_bearer();
        (bearer && earlier != key && rec.identity == *identity).then_some(earlier)
    }

    /// Checks that a call was rightly merged with a trade: that its content is not free again.
    fn check_merged(&self, ticket: Ticket, key: u64) -> Result<(), Violation> {
        let Some(arrived) = self.trades.arrived.get(&ticket) else { return Ok(()) };
        let content = self.trades.book.recs.get(&key).is_some_and(|r| r.identity.is_content());
        let first = self.trades.book.first_call(key, &self.time);
        if content && first.is_some_and(|first| first.is_surely_over(arrived)) {
            let what = "it was executed, and its content is answered again after ten minutes";
            return Err(self.trade_violation(key, "repeats", what));
        }
        Ok(())
    }

    /// Makes a new trade of a bearer agent's repeat, if the earlier one may have failed and has another id.
    fn new_ask(&mut self, ticket: Ticket, call: &OpenTrade, id: Option<&Id>) -> OpenTrade {
        let mut call = call.clone();
        let own = self.trades.book.recs.get(&call.rec).and_then(|rec| rec.id.as_ref());
        let is_rejected = self.trade_is_rejected(call.rec);
        if own == id || !(is_rejected || self.trade_may_be_over(call.rec)) {
            return call;
        }
        if let Some(rec) = self.trades.book.recs.get_mut(&call.rec).filter(|_rec| is_rejected) {
            rec.reject();
        }
        call.rec = self.trade_apart(call.rec, &[ticket]);
        call
    }

    /// Returns the trade that a step is signed for: a new one, if the id of the request shows that an open repeat of this
    /// trade became one.
    pub(super) fn signed_repeat(&mut self, key: u64, request: Option<&Id>) -> u64 {
        let Some(rec) = self.trades.book.recs.get(&key) else { return key };
        let (Some(own), Some(request)) = (&rec.id, request) else { return key };
        let tickets: Vec<Ticket> = rec.open.iter().copied().collect();
        // The id may also be that of another trade of the same tokens, whose answer is still open.
        let terms = |r: &TradeRecord| {
            let Trade { chain, token_in, token_out, amount_in, .. } = r.trade.clone();
            (chain, token_in, token_out, amount_in)
        };
        let alike = |r: &TradeRecord| r.id.is_none() && r.may_live() && terms(r) == terms(rec);
        let is_other = own != request && !self.trades.book.recs.values().any(alike);
        if !is_other || tickets.is_empty() || !self.trade_is_rejected(key) {
            return key;
        }
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            rec.reject();
        }
        self.trade_apart(key, &tickets)
    }

    /// Makes a new trade of the other open calls of a bearer agent's trade that was refused: a refusal ends it, so the
    /// wallet may judge them as a new one.
    fn free_refused_trade(&mut self, key: u64, refused: Ticket) {
        let Some(rec) = self.trades.book.recs.get(&key) else { return };
        let others: Vec<Ticket> = rec.open.iter().copied().filter(|one| *one != refused).collect();
        if !others.is_empty() && self.trade_may_be_over(key) {
            self.trade_apart(key, &others);
        }
    }

    /// Returns whether the id of a new trade shows that the plan of this trade was rejected.
    fn trade_is_rejected(&self, key: u64) -> bool {
        let content = self.trades.book.recs.get(&key).is_some_and(|rec| rec.identity.is_content());
        let first = self.trades.book.first_call(key, &self.time);
        content && first.is_some_and(|first| first.may_be_rejected())
    }

    /// Returns whether the wallet may judge a repeat of a bearer agent's trade as a new one.
    fn trade_may_be_over(&self, key: u64) -> bool {
        let Some(rec) = self.trades.book.recs.get(&key) else { return false };
        if rec.identity.is_content() {
            let first = self.trades.book.first_call(key, &self.time);
            return first.is_some_and(|first| first.may_be_over(&self.time));
        }
        // Refused calls of bearer agents are not remembered: a copy has its own record.
        let over_by_key = rec.refused.is_some() || (rec.accepted && rec.may_have_failed());
        rec.identity.is_of_bearer() && over_by_key
    }

    /// Moves open calls of a trade to a new trade of the same identity, and returns it.
    fn trade_apart(&mut self, key: u64, tickets: &[Ticket]) -> u64 {
        let Some(rec) = self.trades.book.recs.get_mut(&key) else { return key };
        rec.open.retain(|one| !tickets.contains(one));
        rec.authorizations.retain(|auth| !tickets.contains(&auth.ticket) || auth.closed.is_some());
        let (agent, identity) = (rec.agent.clone(), rec.identity.clone());
        let calls = tickets.iter().filter_map(|ticket| self.trades.open.get(ticket));
        let seq = calls.map(|call| call.seq).min().unwrap_or(self.seq);
        let mut next = TradeRecord::new(agent, identity, rec.trade.clone(), seq);
        next.open.extend(tickets);
        for ticket in tickets {
            let Some(call) = self.trades.open.get(ticket) else { continue };
            if let Some(opened) = self.trades.arrived.get(ticket) {
                let by_call = Authorization::by_order(*ticket, call.seq, *opened);
                next.authorizations.push(Authorization { by_call: true, ..by_call });
            }
        }
        let apart = self.trades.book.add(next);
        for ticket in tickets {
            let Some(call) = self.trades.open.get_mut(ticket) else { continue };
            call.rec = apart;
            let call = call.clone();
            for snapshot in &call.snapshots {
                self.note_snapshot(&call, snapshot);
            }
        }
        apart
    }

    /// Binds the id of an answer to its trade.
    fn bind_answer(&mut self, key: u64, id: Option<&Id>) -> Result<(), Violation> {
        let Some(id) = id else { return Ok(()) };
        let there = self.trades.book.by_id.get(id).copied();
        let own = self.trades.book.recs.get(&key).and_then(|r| r.id.clone());
        if there.is_some_and(|there| there != key) || own.as_ref().is_some_and(|own| own != id) {
            let what = format!("answered with the id {id}; its own is {own:?}");
            return Err(self.trade_violation(key, "same ask, same answer", &what));
        }
        if own.is_none() {
            self.trades.book.loose_ids.remove(id);
            self.trades.book.bind(key, id);
        }
        Ok(())
    }

    /// Judges the first answer about a trade: refused, held, or executed.
    fn first_answer(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenTrade,
        state: &TradeState,
    ) -> Result<(), Violation> {
        let (key, seq, now) = (call.rec, self.seq, self.time.instant());
        let begun = self.trades.book.slots.of(key).next().is_some();
        // An earlier call that got no answer may have been accepted.
        let lost = self.trades.book.recs.get(&key).is_some_and(|rec| rec.lost);
        let refused = matches!(state, TradeState::Rejected { .. } | TradeState::Failed { .. });
        if refused && !begun && !lost {
            if let TradeState::Rejected { code: None, reason_code } = state {
                self.check_refusal(open, call, reason_code.as_deref().unwrap_or_default())?;
            }
            let mut recorded = None;
            if let Some(rec) = self.trades.book.recs.get_mut(&key) {
                rec.refused = Some(state.clone());
                rec.unrecorded = rec.id.is_none();
                recorded = rec.id.is_some().then(|| rec.agent.clone());
                let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
                mine.for_each(|auth| auth.closed = Some(now));
            }
            if let Some(agent) = recorded {
                // Recorded refusals of both lanes may share one bound.
                let minute = self.time.latest_ms.div_euclid(60_000);
                let (_, most) = self.refusals.entry((agent, minute)).or_default();
                *most = most.saturating_add(1);
            }
            self.free_refused_trade(key, ticket);
            self.count("trade: refused");
            return Ok(());
        }
        if !lost {
            self.check_acceptance(call, state)?;
            let periods = call.periods.clone();
            self.trades.book.periods.insert(call.ask.agent.clone(), periods);
        }
        let going = phase(state) > 0;
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            rec.accepted = true;
            rec.until = Some(seq);
            if going {
                let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
                mine.for_each(|auth| auth.closed = Some(now));
            } else {
                rec.authorizations.retain(|auth| auth.ticket != ticket);
            }
        }
        self.count(if going { "trade: automatic" } else { "trade: held" });
        self.check_state(key, open, call.seq, state)
    }

    /// Checks that a trade was rightly accepted.
    fn check_acceptance(&mut self, call: &OpenTrade, state: &TradeState) -> Result<(), Violation> {
        let (key, verdicts) = (call.rec, self.verdicts(call));
        let begun = self.trades.book.slots.of(key).next().is_some();
        if begun && self.trades.book.recs.get(&key).is_some_and(|rec| rec.automatic) {
            // The wallet decided before its first step, which was judged then.
            return Ok(());
        }
        let fits = |v: &Verdict| v.must_refuse.is_none() && !v.volume_must;
        if !verdicts.iter().any(fits) {
            let why = verdicts.iter().find_map(|v| v.must_refuse);
            let rule = if why.is_some() { "refusals" } else { "volume" };
            let what = format!(
                "it was answered {state:?}, but {}",
                why.unwrap_or("it exceeds the daily volume")
            );
            return Err(self.trade_violation(key, rule, &what));
        }
        // A trade that failed before any signature was not executed.
        let going = matches!(state, TradeState::Executing | TradeState::Executed { .. });
        let free = |v: &Verdict| v.must_hold.is_none() && !v.volume_must;
        let automatic = self.trades.book.recs.get(&key).is_some_and(|rec| rec.automatic);
        if going && !automatic && !verdicts.iter().any(free) {
            let why =
                verdicts.iter().find_map(|v| v.must_hold).unwrap_or("it exceeds the daily volume");
            let what = format!("it was answered {state:?} without an approval, but {why}");
            return Err(self.trade_violation(key, rule_of(why), &what));
        }
        Ok(())
    }

    /// Checks that a trade was rightly refused, where the specification is definite.
    fn check_refusal(
        &self,
        open: &OpenCall,
        call: &OpenTrade,
        reason: &str,
    ) -> Result<(), Violation> {
        let verdicts = self.verdicts(call);
        if reason == EXCEEDS_VOLUME && !verdicts.iter().any(|v| v.volume_may) {
            let used: Vec<_> = call.snapshots.iter().map(|s| s.used).collect();
            let what = format!("it was refused for the daily volume, of which {used:?} is used");
            return Err(self.trade_violation(call.rec, "volume", &what));
        }
        let decided = open.isolated && self.disk_failed.is_none() && !verdicts.is_empty();
        if decided && verdicts.iter().all(|v| v.must_accept) {
            let what = format!("it was refused ({reason}) although nothing is a reason to");
            return Err(self.trade_violation(call.rec, "refusals", &what));
        }
        Ok(())
    }

    fn poll_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        id: &Id,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let known = self.trades.book.by_id.get(id).copied();
        match (known, answer) {
            (_, Answer::Refused { http: 429, .. }) => Ok(()),
            (Some(key), Answer::Refused { .. }) => {
                let rec = self.trades.book.recs.get(&key);
                if rec.is_some_and(|rec| rec.refused.is_some()) {
                    // The specification is ambiguous about whether refusals of calls can be polled.
                    return Ok(());
                }
                let what = format!("a poll was answered {answer:?}");
                Err(self.trade_violation(key, "I-p", &what))
            }
            (None, Answer::Refused { code, .. }) if code == "REQUEST_NOT_FOUND" => Ok(()),
            (_, Answer::Trade(TradeAnswer { id: told, .. }))
                if told.as_ref().is_some_and(|told| told != id) =>
            {
                Err(violation("I-p", format!("a poll of {id} was answered {answer:?}")))
            }
            (Some(key), Answer::Trade(TradeAnswer { state, .. })) => {
                let arrived = self.trades.arrived.get(&ticket).copied();
                if let Some(rec) = self.trades.book.recs.get_mut(&key) {
                    rec.last_poll = arrived.filter(|_| phase(state) < 2);
                }
                self.check_state(key, open, open.seq, state)
            }
            (None, Answer::Trade(TradeAnswer { state, .. })) => self.claim_poll(open, id, state),
            _ => Err(violation("I-p", format!("a poll of {id} was answered {answer:?}"))),
        }
    }

    /// Finds the trade of an id that was never returned: that of a call without an answer.
    fn claim_poll(
        &mut self,
        open: &OpenCall,
        id: &Id,
        state: &TradeState,
    ) -> Result<(), Violation> {
        if self.trades.book.loose_ids.contains(id) {
            return Ok(());
        }
        let lost = |r: &TradeRecord| r.id.is_none() && (r.lost || !r.open.is_empty());
        let recs = self.trades.book.recs.iter();
        let found: Vec<u64> = recs.filter(|(_, r)| lost(r)).map(|(key, _)| *key).collect();
        match found.as_slice() {
            [] => {
                let what = format!("{id} was never returned, and a poll is answered {state:?}");
                Err(violation("I-m", what))
            }
            [key] => {
                self.trades.book.bind(*key, id);
                self.check_state(*key, open, open.seq, state)
            }
            _ => {
                self.trades.book.loose_ids.insert(id.clone());
                Ok(())
            }
        }
    }
}
