//! Checks every answer to a call against the correct ones, and narrows the model accordingly.

use crate::book::bind_key;
use crate::clocks::Period;
use crate::expect::{Asked, Expect, Open, Reply};
use crate::fits::blame;
use crate::identity::identity_of;
use crate::numbers;
use crate::requests::{Identity, Rec, St};
use crate::seen::{Answer, Proof, Report, Ticket};
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_answered(&mut self, ticket: Ticket, answer: &Answer) -> Result<(), Violation> {
        let Some(open) = self.open.remove(&ticket) else {
            let what = format!("ticket {ticket} was answered {answer:?}, but it is not open");
            return Err(violation("answers", what));
        };
        self.crowd();
        if let Answer::Refused { code, .. } = answer
            && code == "JOURNAL_FAILED"
        {
            return self.journal_failed(ticket, &open);
        }
        let hits: Vec<Expect> =
            open.right.iter().filter(|e| self.fits(e, answer, &open)).cloned().collect();
        if hits.is_empty() {
            let what = format!(
                "{:?}, asked at event {}, was answered {answer:?} at {:?}; right would be: {}",
                open.asked,
                open.seq,
                self.time.now,
                open.expects()
            );
            return Err(violation(blame(&open, answer), what));
        }
        if open.alone {
            self.prune(ticket, &open, |me, e| me.fits(e, answer, &open));
        }
        self.tally(&hits, answer);
        match answer {
            Answer::Refused { http, code, id, .. } => {
                if let Asked::Sign(ask) = &open.asked {
                    let again = |h: &Expect| match h {
                        Expect::Refuse { .. } => true,
                        Expect::Reply { reply, .. } => matches!(reply, Reply::Again { .. }),
                        _ => false,
                    };
                    if let Some(id) = id
                        && hits.iter().any(again)
                        && !self.book.by_id.contains_key(id)
                    {
                        self.refused(&open, &ask.agent, *http, code, id);
                    }
                }
            }
            Answer::Standing(_) => {}
            Answer::Reported { stage } => {
                if let Asked::Report(report) = &open.asked {
                    self.reported(ticket, report, stage, answer);
                }
            }
            Answer::Header { id, .. }
            | Answer::AlreadySigned { id }
            | Answer::Pending { id }
            | Answer::Executing { id }
            | Answer::Rejected { id, .. } => self.told(&open, id, answer, &hits)?,
        }
        self.close(ticket, &open);
        if let (Asked::Sign(ask), Answer::Header { .. }) = (&open.asked, answer) {
            return self.within_the_limit(&ask.agent);
        }
        Ok(())
    }

    /// Updates the largest daily limits.
    pub(crate) fn note_limits(&mut self) {
        for world in &self.worlds {
            for agent in world.config.agents.keys() {
                let Some((_, record)) = world.config.policy_of(agent) else { continue };
                let most = self.largest_limit.entry(agent.clone()).or_default();
                *most = record.policy.daily.max(*most);
            }
        }
    }

    /// Rule I-a, in whatever order concurrent calls were decided: the payments that surely left are within the daily
    /// limit.
    ///
    /// Compares with the largest limit that was ever in force.
    fn within_the_limit(&mut self, agent: &str) -> Result<(), Violation> {
        let now = self.time.instant();
        let most = self.largest_limit.get(agent).copied().unwrap_or(0);
        let commissions = self.worlds.iter().filter_map(|w| w.config.agents.get(agent));
        let periods: Vec<Period> = commissions
            .filter_map(|a| a.commission.as_ref())
            .flat_map(|m| m.periods.iter().flat_map(|p| p.looked(&self.time)))
            .collect();
        let least = periods.iter().map(|p| self.book.used(agent, None, p, &now).spent.0).min();
        match least {
            Some(least) if least > most => Err(violation(
                "I-a",
                format!(
                    "{agent} was given payments of {least} micros; its limit never was above {most}"
                ),
            )),
            _within => Ok(()),
        }
    }

    /// Keeps only the configurations and allowances that explain the observation.
    pub(crate) fn prune(
        &mut self,
        ticket: Ticket,
        open: &Open,
        fit: impl Fn(&Self, &Expect) -> bool,
    ) {
        let agent = self.agent_of(open);
        let judged = self.judge_open(ticket, open);
        let hits: Vec<_> = judged.into_iter().filter(|(e, _, _)| fit(self, e)).collect();
        if hits.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for (at, world) in self.worlds.iter().enumerate() {
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
            let mut world = world.clone();
            let commission = agent
                .as_ref()
                .and_then(|a| world.config.agents.get_mut(a))
                .and_then(|a| a.commission.as_mut());
            // An answer that did not depend on the allowance says nothing about it. A standing says nothing either: the
            // renewal that it shows is recorded by the next check, and until then another time zone reverts it.
            let looked = hits.iter().any(|(e, _, _)| {
                matches!(e, Expect::Act { .. } | Expect::Hold { .. } | Expect::Approved { .. })
                    || matches!(
                        e,
                        Expect::Refuse { code: "EXCEEDS_DAILY_LIMIT" | "LIMIT_REACHED", .. }
                    )
            });
            let sure = looked && !periods.is_empty() && self.disk_failed.is_none();
            if let Some(m) = commission.filter(|_| sure) {
                m.periods = periods;
            }
            left.push(world);
        }
        self.worlds = left;
        self.merge_worlds();
    }

    /// Learns the state of a request from an answer about it.
    fn told(
        &mut self,
        open: &Open,
        id: &str,
        answer: &Answer,
        hits: &[Expect],
    ) -> Result<(), Violation> {
        let Some(key) = self.whose(open, id, answer, hits) else { return Ok(()) };
        let (seq, now) = (self.seq, self.time.instant());
        let fresh = hits.iter().any(|h| matches!(h, Expect::Act { .. } | Expect::Hold { .. }));
        let sure = fresh || open.alone;
        if let Answer::Header { payment, .. } = answer {
            self.give_header(key, payment)?;
        }
        let Some(rec) = self.book.recs.get_mut(&key) else { return Ok(()) };
        match answer {
            Answer::Header { .. } | Answer::AlreadySigned { .. } => {
                rec.narrow(seq, |s| matches!(s, St::Auth { .. }));
            }
            Answer::Executing { .. } => {
                let undecided =
                    rec.base.iter().all(|s| !matches!(s, St::Auth { .. } | St::Nothing));
                // While an approval is open, "executing" may mean that the approval is in flight.
                if !undecided {
                    rec.narrow(seq, |s| matches!(s, St::Auth { .. }));
                }
            }
            Answer::Pending { .. } => {
                rec.narrow(seq, |s| if sure { *s == St::Held } else { *s != St::Nothing });
                if rec.states(None) == [&St::Held] {
                    rec.acts.clear();
                }
            }
            Answer::Rejected { code: None, .. } => {
                rec.narrow(seq, |s| *s == St::Denied);
            }
            Answer::Rejected { code: Some(code), .. } if code == "REQUEST_EXPIRED" => {
                if self.disk_failed.is_some() {
                    // Returned but not recorded: it may still be reserved, and held again after the next start.
                    rec.narrow(seq, |s| matches!(s, St::Held | St::Expired));
                } else {
                    rec.settle(St::Expired);
                    if rec.ended.is_empty() {
                        rec.ended.push(now);
                    }
                }
            }
            Answer::Rejected { .. } => {
                rec.narrow(seq, |s| matches!(s, St::Refused { .. }));
            }
            _ => {}
        }
        bind_key(&mut self.book.keys, &rec.identity);
        Ok(())
    }

    /// Returns the request that an id belongs to, as far as this answer shows.
    fn whose(&mut self, open: &Open, id: &str, answer: &Answer, hits: &[Expect]) -> Option<u64> {
        // An id that was never returned belongs to the request whose terms the payment has.
        let pays = |rec: &u64| match (answer, self.book.recs.get(rec)) {
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
        if let (Asked::Sign(ask), Some(known)) = (&open.asked, known) {
            let asks = self.book.by_identity.get(&identity_of(ask)).map_or(&[][..], Vec::as_slice);
            if let Some(owner) = self.book.owner_among(known, asks) {
                self.unite(owner, known);
                return Some(owner);
            }
        }
        if known.is_some() {
            return known;
        }
        let (fit, other): (Vec<u64>, Vec<u64>) = by_hit.into_iter().partition(pays);
        let owners = if fit.is_empty() { other } else { fit };
        match (owners.as_slice(), &open.asked) {
            ([], _) => None,
            ([_, _, ..], Asked::Poll(_)) => {
                let key = self.book.adopt(id, owners);
                if let (Some(rec), Some((_, digest))) =
                    (key.and_then(|key| self.book.recs.get_mut(&key)), self.unbound.get(id))
                {
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

    /// Merges an orphan into the call that it turned out to belong to.
    fn unite(&mut self, ask: u64, orphan: u64) {
        self.book.unite(ask, orphan);
        self.nonces.values_mut().filter(|key| **key == orphan).for_each(|key| *key = ask);
        for (key, _then) in &mut self.perhaps_written {
            if *key == orphan {
                *key = ask;
            }
        }
    }

    /// Assigns a new id to this request.
    pub(crate) fn bind(&mut self, key: u64, id: &str) {
        if let Some(rec) = self.book.recs.get_mut(&key) {
            rec.id = Some(id.to_owned());
            self.book.by_id.insert(id.to_owned(), key);
        }
    }

    /// Records the refusal of a new request, where the refusal has a record.
    fn refused(&mut self, open: &Open, agent: &str, http: u16, code: &str, id: &str) {
        let minute = self.time.latest_ms.div_euclid(60_000);
        let back = self.time.now.wall_ms < self.time.latest_ms;
        let (least, most) = self.refusals.entry((agent.to_owned(), minute)).or_default();
        // After the clock was set back, it counts in another minute, and this minute's count may start over.
        *least = if back { 0 } else { least.saturating_add(1) };
        *most = most.saturating_add(1);
        let st = St::Refused { http, code: code.to_owned() };
        let Some(first) = open.rec.and_then(|k| self.book.recs.get(&k)) else { return };
        let hmac = matches!(first.identity, Identity::Hmac { .. });
        if hmac && first.id.is_none() {
            let key = open.rec.unwrap_or(u64::MAX);
            self.bind(key, id);
            if let Some(rec) = self.book.recs.get_mut(&key) {
                rec.settle(st);
            }
            return;
        }
        // A refusal of a bearer agent is never remembered: each one is a separate request.
        let mut rec = Rec::new(agent.to_owned(), first.identity.clone(), first.request_url.clone());
        rec.id = Some(id.to_owned());
        rec.base = vec![st];
        self.book.add(rec, false);
    }

    fn reported(&mut self, ticket: Ticket, report: &Report, stage: &str, answer: &Answer) {
        if let Proof::Hmac { signature, .. } = &report.proof {
            let key = (report.agent.clone(), signature.clone());
            self.reports.entry(key).or_insert_with(|| answer.clone());
        }
        let Some(rank) = numbers::stage_rank(stage) else { return };
        let Some(rec) = self.book.find_mut(&report.id) else { return };
        let own = numbers::rank(report.event);
        rec.stage_maybe.retain(|(t, _)| *t != ticket);
        rec.failed_told |= own == 2 || rec.stage_maybe.iter().any(|(_, r)| *r == 2);
        rec.failed_by_look |= rank == 2 && !rec.failed_told;
        rec.hash_told |= report.tx_hash.is_some();
        rec.reports = rec.reports.saturating_add(1);
        rec.stage = rec.stage.max(rank);
    }

    /// Closes the call: nothing depends on it any longer.
    pub(crate) fn close(&mut self, ticket: Ticket, open: &Open) {
        for rec in self.book.recs.values_mut() {
            rec.overlay.retain(|(t, _)| *t != ticket);
            // A refused report has no effect.
            if matches!(open.asked, Asked::Report(_)) {
                rec.stage_maybe.retain(|(t, _)| *t != ticket);
            }
        }
        let Some(key) = open.rec else { return };
        let Some(rec) = self.book.recs.get_mut(&key) else { return };
        rec.open.remove(&ticket);
        let idle = rec.id.is_none() && rec.open.is_empty();
        if idle && (!rec.lost || rec.base == [St::Nothing]) {
            self.book.remove(key);
        }
    }

    fn tally(&mut self, hits: &[Expect], answer: &Answer) {
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
