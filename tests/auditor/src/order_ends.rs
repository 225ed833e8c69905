//! Checks the end of every order against the specification.

use crate::config::OrderEnd;
use crate::expect::{Expect, Input, OpenCall, refusal_tag};
use crate::observations::{End, Id, Listed, Loan, Order, Ticket, Trade};
use crate::orders;
use crate::policy::Terms;
use crate::requests::{Card, RequestRecord, RequestState};
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_order_ended(&mut self, ticket: Ticket, end: &End) -> Result<(), Violation> {
        let Some(open) = self.open.remove(&ticket) else {
            let what = format!("ticket {ticket} ended as {end:?}, but it is not open");
            return Err(violation("orders", what));
        };
        self.mark_concurrent();
        if let End::Refused { code } = end {
            if code == "JOURNAL_FAILED" {
                return self.journal_failed(ticket, &open);
            }
            self.count(refusal_tag(code));
        }
        let Input::Order(order) = &open.input else {
            return Err(violation("simulator", format!("ticket {ticket} is a call, not an order")));
        };
        match order {
            Order::List => self.check_list(&open, end)?,
            Order::Approve { id, .. } | Order::Deny { id } if self.loans.book.knows_id(id) => {
                self.plan_decided::<Loan>(ticket, &open, order, end)?;
            }
            Order::WithdrawPosition(_) => self.check_withdrawal_end(ticket, order, end)?,
            Order::Approve { id, .. } | Order::Deny { id } if self.trades.book.knows_id(id) => {
                self.plan_decided::<Trade>(ticket, &open, order, end)?;
            }
            Order::Approve { id, .. } | Order::Deny { id } => {
                self.check_decision(ticket, &open, id, end)?;
            }
            Order::Send(_) => {
                let sent = !matches!(end, End::Refused { .. });
                self.transfers.end_order(ticket, sent).map_err(|what| {
                    violation("transactions", format!("{order:?} ended as {end:?}: {what}"))
                })?;
            }
            Order::Renew { agent } => {
                self.renew_trade_periods(agent);
                self.config_order_ended(ticket, order, end)?;
            }
            order if orders::is_config(order) => {
                self.config_order_ended(ticket, order, end)?;
                self.end_write_off(ticket, order, end);
            }
            _ => {}
        }
        self.note_limits();
        self.close_call(ticket, &open);
        Ok(())
    }

    fn config_order_ended(
        &mut self,
        ticket: Ticket,
        order: &Order,
        end: &End,
    ) -> Result<(), Violation> {
        let fits = |out: &OrderEnd| match (out, end) {
            (OrderEnd::Done, End::Done)
            | (OrderEnd::Registered, End::Registered { .. })
            | (OrderEnd::Added, End::Added { .. }) => true,
            (OrderEnd::Code(c), End::Refused { code }) => c == code,
            _ => false,
        };
        self.apply_late(ticket, order);
        let right = self.possible_order_ends(ticket);
        self.possible_configs.retain(|w| w.applied_orders.get(&ticket).is_some_and(fits));
        if self.possible_configs.is_empty() {
            let what = format!("{order:?} ended as {end:?}; expected: {right:?}");
            return Err(violation("orders", what));
        }
        match end {
            End::Registered { agent } => self.record_registration(ticket, agent)?,
            End::Added { address } => {
                let address = address.to_lowercase();
                for w in &mut self.possible_configs {
                    if let Some(account) = w.config.accounts.get_mut(&ticket) {
                        account.address = Some(address.clone());
                    }
                }
            }
            End::Refused { .. } => {}
            _ => self.count(done_tag(order)),
        }
        for w in &mut self.possible_configs {
            w.applied_orders.remove(&ticket);
            if let Order::ReplaceToken { agent } = order
                && *end == End::Done
                && let Some(code) = w.config.agent_code(agent)
                && let Some(agent) = w.config.agents.get_mut(&code)
            {
                agent.is_token_unreturned = false;
            }
        }
        self.merge_configs();
        Ok(())
    }

    fn record_registration(&mut self, ticket: Ticket, code: &str) -> Result<(), Violation> {
        for w in &mut self.possible_configs {
            if w.config.deleted_agents.contains(code) || w.config.agents.contains_key(code) {
                let what = format!("the code {code} was issued a second time");
                return Err(violation("orders", what));
            }
            if let Some(agent) = w.config.agents.remove(&format!("?{ticket}")) {
                w.config.agents.insert(code.to_owned(), agent);
            }
        }
        self.count("registration");
        Ok(())
    }

    fn check_decision(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        id: &Id,
        end: &End,
    ) -> Result<(), Violation> {
        let fits = |e: &Expect| match (e, end) {
            (Expect::Approved { .. }, End::Decided { status }) => {
                status == "signed" || status == "executing"
            }
            (Expect::Denied(_), End::Decided { status }) => status == "denied",
            (
                Expect::ApprovalFailed { code, .. } | Expect::Code(code),
                End::Refused { code: c },
            ) => c == code,
            _ => false,
        };
        let hits: Vec<Expect> = open.correct_answers.iter().filter(|e| fits(e)).cloned().collect();
        let rec = self.book.find(id);
        if hits.is_empty() {
            let states = rec.map(|r| (r.states(Some(ticket)), r.holds.clone()));
            let expired = open.correct_answers.contains(&Expect::Code("REQUEST_EXPIRED"));
            let given = matches!(end, End::Decided { status } if status != "denied");
            let rule = if expired && given { "I-e" } else { "approvals" };
            let what = format!(
                "{:?} ended as {end:?} at {:?}; the states of the request: {states:?}; expected: {}",
                open.input,
                self.time.now,
                open.describe_expected()
            );
            return Err(violation(rule, what));
        }
        if let End::Decided { status } = end
            && status == "signed"
            && rec.is_none_or(|r| r.digest.is_none())
        {
            let what = format!("{id} was reported as signed, but no key signed it");
            return Err(violation("I-m", what));
        }
        if open.is_isolated {
            self.keep_explaining(ticket, open, |_, e| fits(e));
        }
        if let Some(tag) = self.apply_decision(open, id, end, &hits) {
            self.count(tag);
        }
        Ok(())
    }

    /// Changes the state of the request as this end shows it. Returns the rule that was applied.
    fn apply_decision(
        &mut self,
        open: &OpenCall,
        id: &Id,
        end: &End,
        hits: &[Expect],
    ) -> Option<&'static str> {
        let (seq, now) = (self.seq, self.time.instant());
        let rec = self.book.find_mut(id)?;
        match end {
            End::Decided { status } if status == "denied" => {
                rec.set_state(RequestState::Denied);
                Some("denial")
            }
            End::Decided { .. } => {
                rec.set_state(RequestState::Authorized { lo: open.seq, hi: seq });
                Some("approval")
            }
            End::Refused { code } if code == "REQUEST_EXPIRED" && open.is_isolated => {
                rec.set_state(RequestState::Expired);
                if rec.ended.is_empty() {
                    rec.ended.push(now);
                }
                Some("too late for a decision")
            }
            _ => {
                let (http, code) = hits.iter().find_map(|h| match h {
                    Expect::ApprovalFailed { http, code } => Some((*http, *code)),
                    _ => None,
                })?;
                rec.set_state(RequestState::Refused { http, code: code.to_owned() });
                Some("approval refused permanently")
            }
        }
    }

    fn check_list(&mut self, open: &OpenCall, end: &End) -> Result<(), Violation> {
        let End::Held(list) = end else {
            return Err(violation("orders", format!("a list of held requests ended as {end:?}")));
        };
        self.plans_listed(open, list)?;
        let now = self.time.instant();
        for listed in list.iter().filter(|listed| !listed.trade) {
            let (id, digest) = (&listed.id, &listed.card);
            if !self.book.by_id.contains_key(id) {
                self.claim_listed(listed)?;
            }
            let seq = self.seq;
            let Some(rec) = self.book.find_mut(id) else { continue };
            // The list may still contain an expired request.
            let late = rec.may_be(&RequestState::Expired) && rec.ended.is_empty();
            if open.is_isolated && !late && !rec.narrow(seq, |s| *s == RequestState::Held) {
                let states = rec.states(None);
                let what =
                    format!("{id} is listed as held, but its possible states are {states:?}");
                return Err(violation("I-p", what));
            }
            if open.is_isolated {
                self.card(id, digest)?;
            }
        }
        if open.is_isolated {
            for rec in self.book.records.values_mut() {
                let Some(id) = rec.id.clone().filter(|id| !list.iter().any(|l| l.id == *id)) else {
                    continue;
                };
                if rec.states(None) == [&RequestState::Held] && !rec.expired(&now).1 {
                    let what =
                        format!("{id} is held (as of {:?}), but it is not listed", rec.holds);
                    return Err(violation("I-p", what));
                }
            }
        }
        self.count("list");
        Ok(())
    }

    fn claim_listed(&mut self, listed: &Listed) -> Result<(), Violation> {
        let id = &listed.id;
        let alike = |t: &Terms| t.amount == listed.amount && t.asset == listed.asset;
        let may = |r: &RequestRecord| {
            r.id.is_none()
                && r.agent == listed.agent
                && r.may_be(&RequestState::Held)
                && r.holds.iter().any(|(t, _)| alike(t))
        };
        let found: Vec<u64> =
            self.book.records.iter().filter(|(_, r)| may(r)).map(|(k, _)| *k).collect();
        match found.as_slice() {
            [] => Err(violation(
                "I-m",
                format!("{id} is listed, but every call that may be held already has another id"),
            )),
            [key] => {
                self.bind(*key, id);
                Ok(())
            }
            several => {
                let key = self.book.add_unmatched_id(id, several.to_vec());
                if let Some(rec) = key.and_then(|key| self.book.records.get_mut(&key)) {
                    rec.holds.retain(|(terms, _)| alike(terms));
                }
                Ok(())
            }
        }
    }

    /// Checks a card's digest: it is the same for one policy version, and differs between policies with different
    /// content.
    fn card(&mut self, id: &str, digest: &str) -> Result<(), Violation> {
        let of_one = |r: &&RequestRecord| r.other_agents.is_empty();
        let Some(agent) = self.book.find(id).filter(of_one).map(|r| r.agent.clone()) else {
            return Ok(());
        };
        let mut policies = self.possible_configs.iter().map(|w| w.config.policy_of(&agent));
        let Some(Some((policy, p))) = policies.next() else { return Ok(()) };
        if policies.any(|other| other != Some((policy, p))) {
            return Ok(());
        }
        let (version, content) = (p.version, p.policy.clone());
        let Some(rec) = self.book.find_mut(id) else { return Ok(()) };
        for c in &rec.cards {
            let same = c.policy == policy && c.version == version;
            if (same && c.digest != digest) || (!same && c.digest == digest && c.content != content)
            {
                let what = format!(
                    "the card of {id} was {} under version {} of its policy and is {digest} under version {version}",
                    c.digest, c.version
                );
                return Err(violation("card", what));
            }
        }
        rec.cards.push(Card { policy, version, content, digest: digest.to_owned() });
        Ok(())
    }
}

fn done_tag(order: &Order) -> &'static str {
    match order {
        Order::OpenWallet { .. } => "order: open wallet",
        Order::OpenUnattended => "order: open unattended",
        Order::UnattendedDaily { .. } => "order: limit unattended days",
        Order::LockWallet => "order: lock wallet",
        Order::Freeze => "order: freeze",
        Order::Thaw { .. } => "order: thaw",
        Order::Commission { .. } => "order: commission",
        Order::Suspend { .. } => "order: suspend",
        Order::Resume { .. } => "order: resume",
        Order::Renew { .. } => "renewal by the operator",
        Order::EditPolicy { .. } => "order: edit policy",
        Order::DeleteAgent { .. } => "order: delete agent",
        Order::SwitchNetwork { .. } => "order: switch network",
        _ => "order: another",
    }
}
