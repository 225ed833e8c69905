//! Checks every answer to a call against the correct answers, and narrows the model accordingly.

use crate::book::bind_key;
use crate::clocks::AllowancePeriod;
use crate::compare::broken_rule;
use crate::expect::{Expect, Input, OpenCall, Reply};
use crate::identity::identity_of;
use crate::numbers;
use crate::observations::{Answer, Loan, Proof, Report, Ticket, Trade};
use crate::requests::{Identity, RequestRecord, RequestState};
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn check_answered(
        &mut self,
        ticket: Ticket,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let Some(open) = self.open.remove(&ticket) else {
            let what = format!("ticket {ticket} was answered {answer:?}, but it is not open");
            return Err(violation("answers", what));
        };
        self.mark_concurrent();
        if let Answer::Refused { code, .. } = answer
            && code == "JOURNAL_FAILED"
        {
            return self.journal_failed(ticket, &open);
        }
        if open.input.is_of_trades() {
            return self.on_plan_answered::<Trade>(ticket, &open, answer);
        }
        if open.input.is_of_loans() {
            return self.on_plan_answered::<Loan>(ticket, &open, answer);
        }
        let fits = open.correct_answers.iter().filter(|e| self.matches(e, answer, &open));
        let hits: Vec<Expect> = fits.cloned().collect();
        if hits.is_empty() {
            let what = format!(
                "{:?}, received at event {}, was answered {answer:?} at {:?}; expected: {}",
                open.input,
                open.seq,
                self.time.now,
                open.describe_expected()
            );
            return Err(violation(broken_rule(&open, answer), what));
        }
        if open.is_isolated {
            self.keep_explaining(ticket, &open, |me, e| me.matches(e, answer, &open));
        }
        self.count_hits(&hits, answer);
        match answer {
            Answer::Refused { http, code, id, .. } => {
                let is_refusal = |h: &Expect| match h {
                    Expect::Refuse { .. } => true,
                    Expect::Reply { reply, .. } => matches!(reply, Reply::SameRefusal { .. }),
                    _ => false,
                };
                if let (Input::Sign(ask), Some(id)) = (&open.input, id)
                    && hits.iter().any(is_refusal)
                    && !self.book.by_id.contains_key(id)
                {
                    self.record_refusal(&open, &ask.agent, *http, code, id);
                }
            }
            Answer::Standing(_) | Answer::Trade(_) | Answer::Loan(_) => {}
            Answer::Reported { stage } => {
                if let Input::Report(report) = &open.input {
                    self.record_report(ticket, report, stage, answer);
                }
            }
            Answer::Header { id, .. }
            | Answer::AlreadySigned { id }
            | Answer::Pending { id }
            | Answer::Executing { id }
            | Answer::Rejected { id, .. } => self.learn_state(&open, id, answer, &hits)?,
        }
        self.close_call(ticket, &open);
        if let (Input::Sign(ask), Answer::Header { .. }) = (&open.input, answer) {
            return self.check_limit(&ask.agent);
        }
        Ok(())
    }

    /// Raises each agent's largest daily limit to the one in force.
    pub(crate) fn note_limits(&mut self) {
        for possible in &self.possible_configs {
            for agent in possible.config.agents.keys() {
                let Some((_, record)) = possible.config.policy_of(agent) else { continue };
                let most = self.largest_limit.entry(agent.clone()).or_default();
                *most = record.policy.daily.max(*most);
            }
        }
    }

    /// Rule I-a: checks that the payments that surely left the wallet are within the daily limit, in whatever order the
    /// wallet decided concurrent calls.
    ///
    /// Compares with the largest daily limit that was ever in force.
    fn check_limit(&mut self, agent: &str) -> Result<(), Violation> {
        let now = self.time.instant();
        let most = self.largest_limit.get(agent).copied().unwrap_or(0);
        let commissions = self.possible_configs.iter().filter_map(|w| w.config.agents.get(agent));
        let periods: Vec<AllowancePeriod> = commissions
            .filter_map(|a| a.commission.as_ref())
            .flat_map(|m| m.periods.iter().flat_map(|p| p.after_check(&self.time)))
            .collect();
        let least =
            periods.iter().map(|p| self.book.used_by_others(agent, None, p, &now).spent.0).min();
        match least {
            Some(least) if least > most => Err(violation(
                "I-a",
                format!(
                    "{agent} was given payments of {least} micros; its limit was never above {most}"
                ),
            )),
            _within => Ok(()),
        }
    }

    /// Keeps only the configurations and allowances that explain the observation.
    pub(crate) fn keep_explaining(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        fit: impl Fn(&Self, &Expect) -> bool,
    ) {
        let agent = self.agent_of(open);
        let judged = self.judge_open(ticket, open);
        let hits: Vec<_> = judged.into_iter().filter(|(e, _, _)| fit(self, e)).collect();
        if hits.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for (at, possible) in self.possible_configs.iter().enumerate() {
            let mut periods = Vec::new();
            let mut any = false;
            for (_, _, p) in hits.iter().filter(|(_, w, _)| *w == at) {
                any = true;
                if let Some(p) = p
                    && !periods.contains(p)
                {
                    periods.push(p.clone());
                }
            }
            if !any {
                continue;
            }
            let mut possible = possible.clone();
            let commission = agent
                .as_ref()
                .and_then(|a| possible.config.agents.get_mut(a))
                .and_then(|a| a.commission.as_mut());
            // Only an answer that depends on the allowance shows which allowance is in force. A standing does not: the
            // wallet records the renewal that it shows only at the next check, and until then another time zone may
            // revert it.
            let allowance_checked = hits.iter().any(|(e, _, _)| {
                matches!(e, Expect::Act { .. } | Expect::Hold { .. } | Expect::Approved { .. })
                    || matches!(
                        e,
                        Expect::Refuse { code: "EXCEEDS_DAILY_LIMIT" | "LIMIT_REACHED", .. }
                    )
            });
            let sure = allowance_checked && !periods.is_empty() && self.disk_failed.is_none();
            if let Some(m) = commission.filter(|_| sure) {
                m.periods = periods;
            }
            left.push(possible);
        }
        self.possible_configs = left;
        self.merge_configs();
    }

    /// Narrows the state of a request by an answer about it.
    fn learn_state(
        &mut self,
        open: &OpenCall,
        id: &str,
        answer: &Answer,
        hits: &[Expect],
    ) -> Result<(), Violation> {
        let Some(key) = self.owner_of(open, id, answer, hits) else { return Ok(()) };
        let (seq, now) = (self.seq, self.time.instant());
        let fresh = hits.iter().any(|h| matches!(h, Expect::Act { .. } | Expect::Hold { .. }));
        let sure = fresh || open.is_isolated;
        if let Answer::Header { payment, .. } = answer {
            self.check_header(key, payment)?;
        }
        let Some(rec) = self.book.records.get_mut(&key) else { return Ok(()) };
        match answer {
            Answer::Header { .. } | Answer::AlreadySigned { .. } => {
                rec.narrow(seq, |s| matches!(s, RequestState::Authorized { .. }));
            }
            Answer::Executing { .. } => {
                let undecided = rec
                    .base
                    .iter()
                    .all(|s| !matches!(s, RequestState::Authorized { .. } | RequestState::Nothing));
                // While an approval is open, "executing" may mean that the approval is in flight.
                if !undecided {
                    rec.narrow(seq, |s| matches!(s, RequestState::Authorized { .. }));
                }
            }
            Answer::Pending { .. } => {
                rec.narrow(seq, |s| {
                    if sure { *s == RequestState::Held } else { *s != RequestState::Nothing }
                });
                if rec.states(None) == [&RequestState::Held] {
                    rec.authorizations.clear();
                }
            }
            Answer::Rejected { code: None, .. } => {
                rec.narrow(seq, |s| *s == RequestState::Denied);
            }
            Answer::Rejected { code: Some(code), .. } if code == "REQUEST_EXPIRED" => {
                if self.disk_failed.is_some() {
                    // The expiry was returned but not recorded: the amount may still be reserved, and the request held
                    // after the next start.
                    rec.narrow(seq, |s| matches!(s, RequestState::Held | RequestState::Expired));
                } else {
                    rec.set_state(RequestState::Expired);
                    if rec.ended.is_empty() {
                        rec.ended.push(now);
                    }
                }
            }
            Answer::Rejected { .. } => {
                rec.narrow(seq, |s| matches!(s, RequestState::Refused { .. }));
            }
            _ => {}
        }
        bind_key(&mut self.book.keys, &rec.identity);
        Ok(())
    }

    /// Returns the request to which an id belongs, as far as this answer shows.
    fn owner_of(
        &mut self,
        open: &OpenCall,
        id: &str,
        answer: &Answer,
        hits: &[Expect],
    ) -> Option<u64> {
        // An id that was never returned belongs to the request whose terms the payment matches.
        let pays = |rec: &u64| match (answer, self.book.records.get(rec)) {
            (Answer::Header { payment, .. }, Some(r)) => r.pays(payment),
            _ => true,
        };
        let mut by_hit = Vec::new();
        for hit in hits {
            let rec = match hit {
                Expect::Reply { rec, .. } => Some(*rec),
                _ => open.rec,
            };
            by_hit.extend(rec.filter(|rec| !by_hit.contains(rec)));
        }
        let known = self.book.by_id.get(id).copied();
        if let (Input::Sign(ask), Some(known)) = (&open.input, known) {
            let asks = self.book.by_identity.get(&identity_of(ask)).map_or(&[][..], Vec::as_slice);
            if let Some(owner) = self.book.owner_among(known, asks) {
                self.match_id(owner, known);
                return Some(owner);
            }
        }
        if known.is_some() {
            return known;
        }
        let (fit, other): (Vec<u64>, Vec<u64>) = by_hit.into_iter().partition(pays);
        let owners = if fit.is_empty() { other } else { fit };
        match (owners.as_slice(), &open.input) {
            ([], _) => None,
            ([_, _, ..], Input::Poll(_)) => {
                let key = self.book.add_unmatched_id(id, owners);
                if let (Some(rec), Some((_, digest))) = (
                    key.and_then(|key| self.book.records.get_mut(&key)),
                    self.unbound_payments.get(id),
                ) {
                    rec.digest = Some(digest.clone());
                }
                key
            }
            ([one, ..], _) => {
                self.bind(*one, id);
                Some(*one)
            }
        }
    }

    /// Merges the request of an unmatched id into the call to which it belongs.
    fn match_id(&mut self, ask: u64, unmatched: u64) {
        self.book.match_id(ask, unmatched);
        self.nonces.values_mut().filter(|key| **key == unmatched).for_each(|key| *key = ask);
        for (key, _then) in &mut self.maybe_written_requests {
            if *key == unmatched {
                *key = ask;
            }
        }
    }

    /// Assigns a new id to this request.
    pub(crate) fn bind(&mut self, key: u64, id: &str) {
        if let Some(rec) = self.book.records.get_mut(&key) {
            rec.id = Some(id.to_owned());
            self.book.by_id.insert(id.to_owned(), key);
        }
    }

    /// Records the refusal of a new request that the wallet recorded.
    fn record_refusal(&mut self, open: &OpenCall, agent: &str, http: u16, code: &str, id: &str) {
        let minute = self.time.latest_ms.div_euclid(60_000);
        let back = self.time.now.wall_ms < self.time.latest_ms;
        let (least, most) = self.refusals.entry((agent.to_owned(), minute)).or_default();
        // After the clock was set back, the refusal counts in another minute, and this minute's count may start over.
        *least = if back { 0 } else { least.saturating_add(1) };
        *most = most.saturating_add(1);
        let st = RequestState::Refused { http, code: code.to_owned() };
        let Some(first) = open.rec.and_then(|k| self.book.records.get(&k)) else { return };
        let hmac = matches!(first.identity, Identity::Hmac { .. });
        if hmac && first.id.is_none() {
            let key = open.rec.unwrap_or(u64::MAX);
            self.bind(key, id);
            if let Some(rec) = self.book.records.get_mut(&key) {
                rec.set_state(st);
            }
            return;
        }
        // The wallet never remembers a bearer agent's refusal: each one is a separate request.
        let mut rec =
            RequestRecord::new(agent.to_owned(), first.identity.clone(), first.request_url.clone());
        rec.id = Some(id.to_owned());
        rec.base = vec![st];
        self.book.add(rec, false);
    }

    fn record_report(&mut self, ticket: Ticket, report: &Report, stage: &str, answer: &Answer) {
        if let Proof::Hmac { signature, .. } = &report.proof {
            let key = (report.agent.clone(), signature.clone());
            self.reports.entry(key).or_insert_with(|| answer.clone());
        }
        let Some(rank) = numbers::stage_rank(stage) else { return };
        let Some(rec) = self.book.find_mut(&report.id) else { return };
        let own = numbers::rank(report);
        rec.stage_maybe.retain(|(t, _)| *t != ticket);
        rec.failure_reported |= own == 2 || rec.stage_maybe.iter().any(|(_, r)| *r == 2);
        rec.failed_by_lookup |= rank == 2 && !rec.failure_reported;
        rec.hash_reported |= report.tx_hash.is_some();
        rec.reports = rec.reports.saturating_add(1);
        rec.stage = rec.stage.max(rank);
    }

    /// Closes a call on which nothing depends any longer.
    pub(crate) fn close_call(&mut self, ticket: Ticket, open: &OpenCall) {
        for rec in self.book.records.values_mut() {
            rec.overlay.retain(|(t, _)| *t != ticket);
            // A refused report has no effect.
            if matches!(open.input, Input::Report(_)) {
                rec.stage_maybe.retain(|(t, _)| *t != ticket);
            }
        }
        let Some(key) = open.rec else { return };
        let Some(rec) = self.book.records.get_mut(&key) else { return };
        rec.open.remove(&ticket);
        let idle = rec.id.is_none() && rec.open.is_empty();
        if idle && (!rec.lost || rec.base == [RequestState::Nothing]) {
            self.book.remove(key);
        }
    }

    fn count_hits(&mut self, hits: &[Expect], answer: &Answer) {
        if let Answer::Refused { code, .. } = answer {
            self.count(crate::expect::refusal_tag(code));
        }
        let first = hits.first().map(|h| match h {
            Expect::Act { why, .. } | Expect::Hold { why, .. } | Expect::Reply { why, .. } => *why,
            Expect::Numbers(_) => "standing",
            Expect::Stage { .. } => "report",
            _ => "refused",
        });
        if let Some(first) = first {
            self.count(first);
        }
    }
}
