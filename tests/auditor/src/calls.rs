//! Registers calls and orders, and keeps the correct answers to each open one.

use crate::approvals::{self, ApprovedCard};
use crate::clocks::AllowancePeriod;
use crate::config::{Config, OrderEnd, PossibleConfig};
use crate::expect::{Expect, Input, OpenCall, Reply};
use crate::identity::{self, View, identity_of};
use crate::numbers;
use crate::observations::{Call, Loan, Order, Proof, Ticket, Trade};
use crate::orders::{self, OrderContext};
use crate::repeats;
use crate::requests::{RequestRecord, RequestState};
use crate::{Auditor, Violation, violation};

/// The largest number of possible configurations that the auditor keeps.
const MAX_CONFIGS: usize = 512;

/// Returns the configurations in which one more open order was executed, one for each possible end of the order.
fn configs_after_order(
    possible: &PossibleConfig,
    ticket: Ticket,
    order: &Order,
    context: OrderContext<'_>,
) -> Vec<PossibleConfig> {
    let ends = orders::apply(&possible.config, ticket, order, context).into_iter();
    ends.map(|(config, out)| {
        let mut applied = possible.applied_orders.clone();
        applied.insert(ticket, out);
        PossibleConfig { config, applied_orders: applied }
    })
    .collect()
}

/// An answer, with the index of the configuration and the allowance for which it is correct.
pub(crate) type JudgedAnswer = (Expect, usize, Option<AllowancePeriod>);

impl Auditor {
    fn open_ticket(&mut self, ticket: Ticket, open: OpenCall) -> Result<(), Violation> {
        if self.open.contains_key(&ticket) || self.dead_tickets.contains(&ticket) {
            return Err(violation("simulator", format!("ticket {ticket} was used twice")));
        }
        self.mark_concurrent();
        self.open.insert(ticket, open);
        Ok(())
    }

    /// Marks every open call and order as concurrent with another one.
    pub(crate) fn mark_concurrent(&mut self) {
        for open in self.open.values_mut() {
            open.is_isolated = false;
        }
    }

    pub(crate) fn on_called(&mut self, ticket: Ticket, call: &Call) -> Result<(), Violation> {
        let asked = match call {
            Call::Sign(ask) => Input::Sign(ask.clone()),
            Call::Poll { id } => Input::Poll(id.clone()),
            Call::Standing { agent, proof } => {
                Input::Standing { agent: agent.clone(), proof: proof.clone() }
            }
            Call::Report(report) => Input::Report(report.clone()),
            Call::Trade(ask) => Input::Trade(ask.clone()),
            Call::PollTrade { id } => Input::PollTrade(id.clone()),
            Call::Loan(ask) => Input::Loan(ask.clone()),
            Call::PollLoan { id } => Input::PollLoan(id.clone()),
        };
        let mut open = OpenCall::new(asked, self.seq, self.time.instant());
        if let Call::Sign(ask) = call {
            let identity = identity_of(ask);
            let latest = self.book.by_identity.get(&identity).and_then(|l| l.last().copied());
            let now = self.time.instant();
            // A repeat does not share the request of a lost call if an id may already belong to that call, or if the
            // lost call may be an expired payment, whose amount then counts in addition to the repeat's.
            let shared = |k: &u64| {
                let free = self.book.unmatched_of(*k).next().is_none();
                self.book.records.get(k).is_some_and(|r| {
                    r.may_be(&RequestState::Nothing)
                        && (!r.is_lost_call() || (free && !r.may_have_expired(&now)))
                })
            };
            // Repeats of one call share the request that any of them may create.
            let key = match latest.filter(shared) {
                Some(key) => key,
                None => {
                    let rec =
                        RequestRecord::new(ask.agent.clone(), identity, ask.request_url.clone());
                    self.book.add(rec, true)
                }
            };
            if let Some(rec) = self.book.records.get_mut(&key) {
                rec.open.insert(ticket);
            }
            open.rec = Some(key);
        }
        if let Call::Trade(ask) = call {
            self.on_plan_called::<Trade>(ticket, ask.as_ref().into());
        }
        if let Call::Loan(ask) = call {
            self.on_plan_called::<Loan>(ticket, ask.as_ref().into());
        }
        self.open_ticket(ticket, open)
    }

    pub(crate) fn on_ordered(&mut self, ticket: Ticket, order: &Order) -> Result<(), Violation> {
        if let Order::Send(send) = order {
            let coin =
                self.possible_configs.first().and_then(|w| w.config.networks.get(&send.chain));
            let coin = coin.map(|n| n.stablecoin.clone()).unwrap_or_default();
            self.transfers.add_order(ticket, send, &coin);
        }
        match order {
            Order::Renew { agent } => self.renew_trade_periods(agent),
            Order::WithdrawPosition(asked) => self.on_withdrawal_ordered(ticket, asked),
            Order::WriteOff(off) => self.on_write_off_ordered(ticket, off),
            _ => {}
        }
        self.on_decision_ordered::<Trade>(ticket, order);
        self.on_decision_ordered::<Loan>(ticket, order);
        let input = Input::Order(order.clone());
        self.open_ticket(ticket, OpenCall::new(input, self.seq, self.time.instant()))
    }

    /// Adds the configurations in which open orders were executed, in every sequence.
    fn expand_configs(&mut self) {
        let orders: Vec<(Ticket, Order)> = self
            .open
            .iter()
            .filter_map(|(t, o)| match &o.input {
                Input::Order(order) if orders::is_config(order) => Some((*t, order.clone())),
                _ => None,
            })
            .collect();
        if orders.is_empty() {
            return;
        }
        let in_flight = |from: &str| {
            let (sure, may) = self.transfers.in_flight(from);
            (sure, may || self.plans_may_use(from))
        };
        let trading =
            |agent: &str| self.trades.book.may_live(agent) || self.loans.book.may_live(agent);
        let context = OrderContext {
            time: &self.time,
            book: &self.book,
            seq: self.seq,
            in_flight: &in_flight,
            lending: &self.lending_orders,
            may_have_running_plans: &trading,
        };
        let mut possible_configs = self.possible_configs.clone();
        let mut at = 0usize;
        while let Some(possible) = possible_configs.get(at).cloned() {
            at = at.saturating_add(1);
            for (ticket, order) in &orders {
                if possible.applied_orders.contains_key(ticket) {
                    continue;
                }
                for next in configs_after_order(&possible, *ticket, order, context) {
                    if possible_configs.len() < MAX_CONFIGS && !possible_configs.contains(&next) {
                        possible_configs.push(next);
                    }
                }
            }
        }
        self.possible_configs = possible_configs;
    }

    /// Executes this order in every configuration, because [`expand_configs`](Self::expand_configs) may have left some
    /// out.
    pub(crate) fn apply_late(&mut self, ticket: Ticket, order: &Order) {
        if self.possible_configs.len() < MAX_CONFIGS {
            return;
        }
        let in_flight = |from: &str| {
            let (sure, may) = self.transfers.in_flight(from);
            (sure, may || self.plans_may_use(from))
        };
        let trading =
            |agent: &str| self.trades.book.may_live(agent) || self.loans.book.may_live(agent);
        let context = OrderContext {
            time: &self.time,
            book: &self.book,
            seq: self.seq,
            in_flight: &in_flight,
            lending: &self.lending_orders,
            may_have_running_plans: &trading,
        };
        let before =
            self.possible_configs.iter().filter(|w| !w.applied_orders.contains_key(&ticket));
        let mut late: Vec<PossibleConfig> = before
            .flat_map(|possible| configs_after_order(possible, ticket, order, context))
            .collect();
        self.possible_configs.append(&mut late);
        self.merge_configs();
    }

    /// Merges configurations that have become equal.
    pub(crate) fn merge_configs(&mut self) {
        let mut left: Vec<PossibleConfig> = Vec::new();
        for w in self.possible_configs.drain(..) {
            if !left.contains(&w) {
                left.push(w);
            }
        }
        self.possible_configs = left;
    }

    /// Judges every open call and order again.
    pub(crate) fn judge_open_again(&mut self) {
        // A possible effect of one call or order changes the correct answers to another, so repeat until nothing
        // changes.
        for _ in 0..8 {
            self.expand_configs();
            self.watch_unattended();
            let mut changed = false;
            let tickets: Vec<Ticket> = self.open.keys().copied().collect();
            for ticket in tickets {
                for (expect, _, _) in self.judge(ticket) {
                    self.foresee(ticket, &expect);
                    if let Some(open) = self.open.get_mut(&ticket)
                        && !open.correct_answers.contains(&expect)
                    {
                        open.correct_answers.push(expect);
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Returns all answers to this ticket that are correct now.
    pub(crate) fn judge(&self, ticket: Ticket) -> Vec<JudgedAnswer> {
        let Some(open) = self.open.get(&ticket) else { return Vec::new() };
        self.judge_open(ticket, open)
    }

    /// Returns the present state of the wallet in one possible configuration.
    pub(crate) fn view<'a>(&'a self, config: &'a Config) -> View<'a> {
        View {
            config,
            time: &self.time,
            book: &self.book,
            disk_failed: self.disk_failed,
            is_journal_doubted: self.is_journal_doubted,
            unattended_left: self.unattended_left(config),
        }
    }

    pub(crate) fn judge_open(&self, ticket: Ticket, open: &OpenCall) -> Vec<JudgedAnswer> {
        let mut out: Vec<JudgedAnswer> = Vec::new();
        for (at, possible) in self.possible_configs.iter().enumerate() {
            let v = self.view(&possible.config);
            for p in self.possible_periods(possible, self.agent_of(open).as_deref()) {
                let right = self.judge_in(v, ticket, open, p.as_ref());
                out.extend(right.into_iter().map(|e| (e, at, p.clone())));
            }
        }
        out
    }

    /// Returns the agent whose allowance the wallet checks for this call or order.
    pub(crate) fn agent_of(&self, open: &OpenCall) -> Option<String> {
        match &open.input {
            Input::Sign(ask) => Some(ask.agent.clone()),
            Input::Standing { agent, .. } => Some(agent.clone()),
            Input::Order(Order::Approve { id, .. }) => self.book.find(id).map(|r| r.agent.clone()),
            _ => None,
        }
    }

    fn possible_periods(
        &self,
        possible: &PossibleConfig,
        agent: Option<&str>,
    ) -> Vec<Option<AllowancePeriod>> {
        let commission =
            agent.and_then(|a| possible.config.agents.get(a)).and_then(|a| a.commission.as_ref());
        let Some(commission) = commission else { return vec![None] };
        let mut all = Vec::new();
        if self.disk_failed.is_some() {
            // If the disk has failed, a renewal may or may not be in force.
            all.clone_from(&commission.periods);
        }
        for p in commission.periods.iter().flat_map(|p| p.after_check(&self.time)) {
            crate::clocks::add_period(&mut all, p, self.last_auth);
        }
        all.into_iter().map(Some).collect()
    }

    fn judge_in(
        &self,
        v: View<'_>,
        ticket: Ticket,
        open: &OpenCall,
        p: Option<&AllowancePeriod>,
    ) -> Vec<Expect> {
        let mut out = self.judge_known(v, ticket, open, p);
        let proof = match &open.input {
            Input::Sign(ask) => Some(&ask.proof),
            Input::Standing { proof, .. } => Some(proof),
            Input::Report(report) => Some(&report.proof),
            Input::Trade(ask) => Some(&ask.proof),
            Input::Loan(ask) => Some(&ask.proof),
            Input::Poll(_) | Input::PollTrade(_) | Input::PollLoan(_) | Input::Order(_) => None,
        };
        if let Some(Proof::Hmac { timestamp_s, .. }) = proof
            && v.time.may_be_forgotten(*timestamp_s)
        {
            out.extend(identity::no_proof());
        }
        out
    }

    fn judge_known(
        &self,
        v: View<'_>,
        ticket: Ticket,
        open: &OpenCall,
        p: Option<&AllowancePeriod>,
    ) -> Vec<Expect> {
        let after_disk = self.disk_failed.is_some_and(|at| open.seq > at);
        match &open.input {
            Input::Sign(ask) => {
                identity::sign(v, ask, open.rec.unwrap_or(u64::MAX), ticket, open.seq, p)
            }
            Input::Poll(id) => match self.book.by_id.get(id) {
                Some(key) => match self.book.records.get(key) {
                    Some(rec) => repeats::poll(v, *key, rec),
                    None => Vec::new(),
                },
                None => self.poll_unknown(v, id),
            },
            Input::Standing { agent, proof } => numbers::standing(v, agent, proof, p),
            Input::Report(report) => {
                let mut out = numbers::report(v, report, ticket);
                if let Proof::Hmac { signature, .. } = &report.proof
                    && let Some(crate::observations::Answer::Reported { stage }) =
                        self.reports.get(&(report.agent.clone(), signature.clone()))
                    && let (Some(rank), Some(key)) =
                        (numbers::stage_rank(stage), self.book.by_id.get(&report.id))
                {
                    out.push(Expect::Stage { rec: *key, stages: [rank].into() });
                }
                out
            }
            Input::Order(Order::List) => vec![Expect::HeldRequests],
            Input::Order(Order::Deny { id }) => approvals::deny(v, ticket, self.book.find(id)),
            Input::Order(Order::Approve { id, card }) => {
                let found = self.book.by_id.get(id);
                let rec = found.and_then(|k| self.book.records.get(k).map(|r| (*k, r)));
                let alone = open.is_isolated && self.open.len() <= 1;
                let card = match card {
                    Some(card) => ApprovedCard::Named(card),
                    None if alone => ApprovedCard::Current,
                    None => ApprovedCard::CurrentAmongConcurrent,
                };
                let mut out = approvals::approve(v, ticket, rec, card, p, after_disk);
                for (key, rec) in rec.into_iter() {
                    for agent in &rec.other_agents {
                        let of = RequestRecord { agent: agent.clone(), ..rec.clone() };
                        let rec = Some((key, &of));
                        out.extend(approvals::approve(v, ticket, rec, card, p, after_disk));
                    }
                }
                out
            }
            Input::Order(Order::Send(send)) => {
                let account = v.config.account_named(&send.label);
                let account = account.and_then(|a| v.config.accounts.get(&a));
                match account {
                    Some(a) if v.config.is_open => vec![Expect::Sendable(a.address.clone())],
                    _ => Vec::new(),
                }
            }
            Input::Trade(_)
            | Input::PollTrade(_)
            | Input::Loan(_)
            | Input::PollLoan(_)
            | Input::Order(_) => Vec::new(),
        }
    }

    /// Returns the correct answers for an id that was never returned, but may belong to a call without an answer.
    fn poll_unknown(&self, v: View<'_>, id: &str) -> Vec<Expect> {
        let signed = self.unbound_payments.contains_key(id);
        // The wallet knows a signed request even after a crash.
        let mut out = Vec::new();
        if !signed {
            out.push(identity::refuse(404, "REQUEST_NOT_FOUND"));
        }
        for (key, rec) in &self.book.records {
            if rec.id.is_none() && (rec.lost || !rec.open.is_empty()) {
                out.extend(repeats::poll(v, *key, rec));
                let authorized =
                    rec.possible_states(None).any(|s| matches!(s, RequestState::Authorized { .. }));
                if signed && authorized {
                    let why = "poll: signed, and never told";
                    out.push(Expect::Reply { rec: *key, reply: Reply::Header, why });
                }
            }
        }
        out
    }

    /// Returns the possible ends of an open order, for error messages.
    pub(crate) fn possible_order_ends(&self, ticket: Ticket) -> Vec<OrderEnd> {
        let mut possible_ends: Vec<OrderEnd> = Vec::new();
        for out in self.possible_configs.iter().filter_map(|w| w.applied_orders.get(&ticket)) {
            if !possible_ends.contains(out) {
                possible_ends.push(out.clone());
            }
        }
        possible_ends
    }
}
