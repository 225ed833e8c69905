//! The operator's decisions about trades.

use super::authority::UNSIGNED_MS;
use super::judge::Verdict;
use crate::basics::{Id, Ticket};
use crate::expect::OpenCall;
use crate::observations::{End, Listed, Order};
use crate::trade_book::{Authorization, Denial, Snapshot, TradeRecord};
use crate::{Auditor, Violation, violation};

impl Auditor {
    /// Notes an order about a trade.
    pub(crate) fn on_trade_ordered(&mut self, ticket: Ticket, order: &Order) {
        let (seq, opened) = (self.seq, self.time.instant());
        self.trades.arrived.insert(ticket, opened);
        if let Order::Renew { agent } = order {
            self.renew_trade_periods(agent);
        }
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return };
        let approve = matches!(order, Order::Approve { .. });
        let known = self.trades.book.by_id.get(id).copied();
        let loose = self.trades.book.loose_ids.contains(id);
        for (key, rec) in &mut self.trades.book.recs {
            let maybe = loose && rec.id.is_none() && rec.lost;
            if known != Some(*key) && !maybe {
                continue;
            }
            if approve {
                rec.authorizations.push(Authorization::by_order(ticket, seq, opened));
            } else {
                rec.denials.push((ticket, Denial::Open));
            }
        }
    }

    /// Notes the states in which approvals may apply the policy again, until the first step is signed.
    pub(crate) fn watch_approvals(&mut self) {
        let now = self.time.instant();
        let open = |key: u64, r: &TradeRecord| {
            let recent = |a: &Authorization| {
                a.closed.is_none_or(|at| at.elapsed(&now).1.is_some_and(|ms| ms <= UNSIGNED_MS))
            };
            let approvals = r.authorizations.iter().filter(|a| !a.by_call && !a.killed);
            let mut approvals = approvals.filter(|a| recent(a));
            let begun = self.trades.book.slots.of(key).next().is_some();
            approvals.next().filter(|_| r.may_live() && !begun).map(|auth| auth.seq)
        };
        let recs = self.trades.book.recs.iter();
        let keys: Vec<(u64, u64)> =
            recs.filter_map(|(key, r)| open(*key, r).map(|seq| (*key, seq))).collect();
        for (key, seq) in keys {
            let Some(rec) = self.trades.book.recs.get(&key) else { continue };
            let periods = self.trade_periods(&rec.agent);
            let used = self.trades.book.used(&rec.agent, key, &periods, &now);
            let (crowded, doubted) = (false, self.doubted);
            let newest_s = self.trades.market.newest_time_s(rec.trade.chain).unwrap_or(0);
            let configs = self.possible_configs.iter().map(|w| w.config.clone());
            let snapshots: Vec<Snapshot> = configs
                .map(|config| {
                    // An approval is not limited by the unattended day.
                    let unattended_left = None;
                    Snapshot { config, now, used, crowded, doubted, unattended_left, newest_s }
                })
                .collect();
            let noted: Vec<(Verdict, Option<String>)> =
                snapshots.iter().filter_map(|s| self.verdict_in(key, seq, s)).collect();
            let Some(rec) = self.trades.book.recs.get_mut(&key) else { continue };
            for (verdict, payer) in noted {
                rec.payers.extend(payer);
                rec.include_value(verdict.value);
            }
            for auth in rec.authorizations.iter_mut().filter(|a| !a.by_call && !a.killed) {
                for snapshot in &snapshots {
                    if !auth.snapshots.contains(snapshot) {
                        auth.snapshots.push(snapshot.clone());
                    }
                }
            }
        }
    }

    /// Checks how an approval or a denial of a trade ended.
    pub(crate) fn trade_decided(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        order: &Order,
        end: &End,
    ) -> Result<(), Violation> {
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return Ok(()) };
        let Some(key) = self.trades.book.by_id.get(id).copied() else { return Ok(()) };
        let approve = matches!(order, Order::Approve { .. });
        let opened = self.trades.arrived.get(&ticket).copied();
        if let (Some(rec), Some(opened)) = (self.trades.book.recs.get_mut(&key), opened)
            && approve
            && !rec.authorizations.iter().any(|auth| auth.ticket == ticket)
        {
            // The id of the request was returned while the order was open.
            rec.authorizations.push(Authorization::by_order(ticket, open.seq, opened));
        }
        match end {
            End::Decided { status } if approve => self.approved(key, ticket, open, status)?,
            End::Decided { .. } => self.trade_denied(key, ticket, open)?,
            End::Refused { code } => self.decision_refused(key, ticket, open, code)?,
            _ => {
                let what = format!("{order:?} ended as {end:?}");
                return Err(self.trade_violation(key, "orders", &what));
            }
        }
        self.trades.arrived.remove(&ticket);
        if let (Order::Approve { card: Some(card), .. }, End::Decided { .. }) = (order, end) {
            self.check_shown_card(key, card)?;
        }
        Ok(())
    }

    fn approved(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        status: &str,
    ) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let arrived = rec.authorizations.iter().find(|auth| auth.ticket == ticket);
        let arrived = arrived.map(|auth| auth.opened);
        if rec.until.is_some() && arrived.is_some_and(|at| rec.expired(&at).0) {
            let what = "it was approved after 15 minutes";
            return Err(self.trade_violation(key, "I-e", what));
        }
        if rec.phase_at(open.seq) > 0 || rec.denied() {
            let what = "it was approved although it had been decided";
            return Err(self.trade_violation(key, "approvals", what));
        }
        let agent = rec.agent.clone();
        if open.isolated && self.forbids(Some(&agent)).is_some() {
            let what = "it was approved although nothing may be signed for the agent";
            return Err(self.trade_violation(key, "approvals", what));
        }
        let (seq, now) = (self.seq, self.time.instant());
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
            mine.for_each(|auth| auth.closed = Some(now));
            // A rejected approval is final too, but its end shows only in a poll.
            if status == "executing" || status == "signed" {
                rec.history.push((seq, 1));
            }
        }
        self.count("trade: approved");
        Ok(())
    }

    fn trade_denied(&mut self, key: u64, ticket: Ticket, open: &OpenCall) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        if rec.phase_at(open.seq) > 0 || self.trades.book.slots.of(key).next().is_some() {
            let what = "it was denied although it is executed, or has ended";
            return Err(self.trade_violation(key, "approvals", what));
        }
        let seq = self.seq;
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            for (of, denial) in &mut rec.denials {
                if *of == ticket {
                    *denial = Denial::Done;
                }
            }
            rec.kill();
            rec.history.push((seq, 2));
        }
        self.count("trade: denied");
        Ok(())
    }

    fn decision_refused(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        code: &str,
    ) -> Result<(), Violation> {
        let now = self.time.instant();
        let Some(rec) = self.trades.book.recs.get_mut(&key) else { return Ok(()) };
        rec.denials.retain(|(of, _)| *of != ticket);
        let mut before = rec.clone();
        before.authorizations.retain(|auth| auth.ticket != ticket);
        let held = before.surely_held(&now) && open.isolated;
        // These codes change nothing. Any other code may close the trade.
        let open_still = ["CARD_CHANGED", "WALLET_LOCKED", "AGENTS_FROZEN", "JOURNAL_FAILED"];
        let closed = !open_still.contains(&code);
        rec.maybe_closed |= closed;
        // Until the refusal the trade was executing.
        rec.authorizations.retain(|auth| auth.ticket != ticket || closed);
        let refused = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
        refused.for_each(|auth| auth.killed = true);
        let rule = match code {
            "REQUEST_NOT_FOUND" => Some("I-p"),
            "REQUEST_EXPIRED" => held.then_some("I-e"),
            "REQUEST_ALREADY_PROCESSED" => held.then_some("approvals"),
            _ => None,
        };
        match rule {
            Some(rule) => {
                let what = format!("the decision was refused with {code}");
                Err(self.trade_violation(key, rule, &what))
            }
            None => Ok(()),
        }
    }

    /// Checks the trades in a list of held requests.
    pub(crate) fn trades_listed(
        &mut self,
        open: &OpenCall,
        list: &[Listed],
    ) -> Result<(), Violation> {
        let now = self.time.instant();
        for listed in list.iter().filter(|listed| listed.trade) {
            let id = &listed.id;
            if self.loans.book.knows(id) {
                continue;
            }
            if !self.trades.book.knows(id) {
                self.claim_listed_trade(listed)?;
            }
            let Some((key, rec)) = self.trades.book.find(id) else { continue };
            let ended = rec.phase_at(open.seq) > 0;
            if open.isolated && ended {
                let what = "it is listed as held, but it was decided";
                return Err(self.trade_violation(key, "I-p", what));
            }
            if open.isolated {
                self.trade_card(key, &listed.card)?;
            }
        }
        let here = |id: &Option<Id>| list.iter().any(|l| Some(&l.id) == id.as_ref());
        for (key, rec) in &self.trades.book.recs {
            if open.isolated && rec.surely_held(&now) && rec.id.is_some() && !here(&rec.id) {
                return Err(self.trade_violation(*key, "I-p", "it is held, but it is not listed"));
            }
        }
        Ok(())
    }

    /// Finds the trade of an id that was never returned.
    fn claim_listed_trade(&mut self, listed: &Listed) -> Result<(), Violation> {
        let now = self.time.instant();
        let may = |r: &TradeRecord| {
            r.id.is_none() && r.agent == listed.agent && (r.lost || r.may_be_held(&now))
        };
        let recs = self.trades.book.recs.iter();
        let found: Vec<u64> = recs.filter(|(_, r)| may(r)).map(|(key, _)| *key).collect();
        match found.as_slice() {
            [] => {
                let what = format!("{} is listed, but no call may be held under it", listed.id);
                Err(violation("I-m", what))
            }
            [key] => {
                self.trades.book.bind(*key, &listed.id);
                Ok(())
            }
            _ => {
                self.trades.book.loose_ids.insert(listed.id.clone());
                Ok(())
            }
        }
    }

    /// Checks a card's digest: the same under one version of the policy.
    fn trade_card(&mut self, key: u64, digest: &str) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let mut all = self.possible_configs.iter().map(|w| w.config.policy_of(&rec.agent));
        let Some(Some((policy, first))) = all.next() else { return Ok(()) };
        if all.any(|other| other != Some((policy, first))) {
            return Ok(());
        }
        let here = (policy, first.version, digest.to_owned());
        let changed = |c: &&(Ticket, u64, String)| (c.0, c.1) == (here.0, here.1) && c.2 != here.2;
        if let Some(before) = rec.cards.iter().find(changed) {
            let what = format!("its card was {before:?}, and is {here:?} under the same policy");
            return Err(self.trade_violation(key, "card", &what));
        }
        if let Some(rec) = self.trades.book.recs.get_mut(&key) {
            rec.cards.push(here);
        }
        Ok(())
    }

    /// Checks that the card which the operator approved is the current one.
    fn check_shown_card(&self, key: u64, shown: &str) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.recs.get(&key) else { return Ok(()) };
        let current = |w: &crate::config::PossibleConfig| {
            let policy = w.config.policy_of(&rec.agent).map(|(uid, p)| (uid, p.version));
            rec.cards.iter().any(|c| Some((c.0, c.1)) == policy && c.2 != shown)
        };
        if !self.possible_configs.is_empty() && self.possible_configs.iter().all(current) {
            let what = format!("it was approved by the card {shown}, which is not the current one");
            return Err(self.trade_violation(key, "card", &what));
        }
        Ok(())
    }
}
