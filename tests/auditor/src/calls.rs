//! Accepts calls and orders, and keeps all correct answers to each open one.

use crate::approvals;
use crate::clocks::Period;
use crate::config::{Out, World};
use crate::expect::{Asked, Expect, Open, Reply};
use crate::identity::{self, View, identity_of};
use crate::numbers;
use crate::orders::{self, Around};
use crate::repeats;
use crate::requests::{Rec, St};
use crate::seen::{Call, Order, Proof, Ticket};
use crate::{Auditor, Violation, violation};

/// The largest number of possible configurations that are kept apart.
const MOST_WORLDS: usize = 512;

/// Returns the configurations after one more open order, one for each way it may end.
fn after(world: &World, ticket: Ticket, order: &Order, around: Around<'_>) -> Vec<World> {
    let ends = orders::apply(&world.config, ticket, order, around).into_iter();
    ends.map(|(config, out)| {
        let mut applied = world.applied.clone();
        applied.insert(ticket, out);
        World { config, applied }
    })
    .collect()
}

/// An answer, and the index of the configuration and the allowance under which it is correct.
pub(crate) type Judged = (Expect, usize, Option<Period>);

impl Auditor {
    fn take(&mut self, ticket: Ticket, open: Open) -> Result<(), Violation> {
        if self.open.contains_key(&ticket) || self.dead.contains(&ticket) {
            return Err(violation("simulator", format!("ticket {ticket} was used twice")));
        }
        self.crowd();
        self.open.insert(ticket, open);
        Ok(())
    }

    /// Marks everything open as concurrent with something else.
    pub(crate) fn crowd(&mut self) {
        for open in self.open.values_mut() {
            open.alone = false;
        }
    }

    pub(crate) fn on_called(&mut self, ticket: Ticket, call: &Call) -> Result<(), Violation> {
        let asked = match call {
            Call::Sign(ask) => Asked::Sign(ask.clone()),
            Call::Poll { id } => Asked::Poll(id.clone()),
            Call::Standing { agent, proof } => {
                Asked::Standing { agent: agent.clone(), proof: proof.clone() }
            }
            Call::Report(report) => Asked::Report(report.clone()),
        };
        let mut open = Open::new(asked, self.seq);
        if let Call::Sign(ask) = call {
            let identity = identity_of(ask);
            let latest = self.book.by_identity.get(&identity).and_then(|l| l.last().copied());
            let now = self.time.instant();
            // A repeat does not share the request of a lost call if an id may already belong to that call. Nor if the
            // lost call may be an expired payment: then it may have taken its amount in addition to the repeat.
            let shared = |k: &u64| {
                let free = self.book.orphans_of(*k).next().is_none();
                self.book.recs.get(k).is_some_and(|r| {
                    r.may_be(&St::Nothing) && (!r.is_ghost() || (free && !r.may_be_spent(&now)))
                })
            };
            // Copies of one call share the request that any of them may create.
            let key = match latest.filter(shared) {
                Some(key) => key,
                None => {
                    let rec = Rec::new(ask.agent.clone(), identity, ask.request_url.clone());
                    self.book.add(rec, true)
                }
            };
            if let Some(rec) = self.book.recs.get_mut(&key) {
                rec.open.insert(ticket);
            }
            open.rec = Some(key);
        }
        self.take(ticket, open)
    }

    pub(crate) fn on_ordered(&mut self, ticket: Ticket, order: &Order) -> Result<(), Violation> {
        if let Order::Send(send) = order {
            let coin = self.worlds.first().and_then(|w| w.config.networks.get(&send.chain));
            let coin = coin.map(|n| n.stablecoin.clone()).unwrap_or_default();
            self.transfers.ordered(ticket, send, &coin);
        }
        self.take(ticket, Open::new(Asked::Order(order.clone()), self.seq))
    }

    /// Lets every open order happen, in every sequence, or not happen yet.
    fn spread(&mut self) {
        let orders: Vec<(Ticket, Order)> = self
            .open
            .iter()
            .filter_map(|(t, o)| match &o.asked {
                Asked::Order(order) if orders::is_config(order) => Some((*t, order.clone())),
                _ => None,
            })
            .collect();
        if orders.is_empty() {
            return;
        }
        let moving = |from: &str| self.transfers.moving(from);
        let around = Around { time: &self.time, book: &self.book, seq: self.seq, moving: &moving };
        let mut worlds = self.worlds.clone();
        let mut at = 0usize;
        while let Some(world) = worlds.get(at).cloned() {
            at = at.saturating_add(1);
            for (ticket, order) in &orders {
                if world.applied.contains_key(ticket) {
                    continue;
                }
                for next in after(&world, *ticket, order, around) {
                    if worlds.len() < MOST_WORLDS && !worlds.contains(&next) {
                        worlds.push(next);
                    }
                }
            }
        }
        self.worlds = worlds;
    }

    /// Lets this order happen now in every configuration, if [`spread`](Self::spread) may have left some out.
    pub(crate) fn happen(&mut self, ticket: Ticket, order: &Order) {
        if self.worlds.len() < MOST_WORLDS {
            return;
        }
        let moving = |from: &str| self.transfers.moving(from);
        let around = Around { time: &self.time, book: &self.book, seq: self.seq, moving: &moving };
        let before = self.worlds.iter().filter(|w| !w.applied.contains_key(&ticket));
        let mut late: Vec<World> =
            before.flat_map(|world| after(world, ticket, order, around)).collect();
        self.worlds.append(&mut late);
        self.merge_worlds();
    }

    /// Merges configurations that have become equal.
    pub(crate) fn merge_worlds(&mut self) {
        let mut left: Vec<World> = Vec::new();
        for w in self.worlds.drain(..) {
            if !left.contains(&w) {
                left.push(w);
            }
        }
        self.worlds = left;
    }

    /// Judges every open call and order again.
    pub(crate) fn judge_all(&mut self) {
        // The possible effects of one change what is correct for another, so repeat until nothing is new.
        for _ in 0..8 {
            self.spread();
            let mut news = false;
            let tickets: Vec<Ticket> = self.open.keys().copied().collect();
            for ticket in tickets {
                for (expect, _, _) in self.judge(ticket) {
                    self.foresee(ticket, &expect);
                    if let Some(open) = self.open.get_mut(&ticket)
                        && !open.right.contains(&expect)
                    {
                        open.right.push(expect);
                        news = true;
                    }
                }
            }
            if !news {
                return;
            }
        }
    }

    /// Returns everything that is correct for this ticket now.
    pub(crate) fn judge(&self, ticket: Ticket) -> Vec<Judged> {
        let Some(open) = self.open.get(&ticket) else { return Vec::new() };
        self.judge_open(ticket, open)
    }

    pub(crate) fn judge_open(&self, ticket: Ticket, open: &Open) -> Vec<Judged> {
        let mut out: Vec<Judged> = Vec::new();
        for (at, world) in self.worlds.iter().enumerate() {
            let v = View {
                config: &world.config,
                time: &self.time,
                book: &self.book,
                disk_failed: self.disk_failed,
            };
            for p in self.looked(world, self.agent_of(open).as_deref()) {
                let right = self.judge_in(v, ticket, open, p.as_ref());
                out.extend(right.into_iter().map(|e| (e, at, p.clone())));
            }
        }
        out
    }

    /// Returns the agent whose allowance the wallet checks for this call or order.
    pub(crate) fn agent_of(&self, open: &Open) -> Option<String> {
        match &open.asked {
            Asked::Sign(ask) => Some(ask.agent.clone()),
            Asked::Standing { agent, .. } => Some(agent.clone()),
            Asked::Order(Order::Approve { id, .. }) => self.book.find(id).map(|r| r.agent.clone()),
            _ => None,
        }
    }

    fn looked(&self, world: &World, agent: Option<&str>) -> Vec<Option<Period>> {
        let commission =
            agent.and_then(|a| world.config.agents.get(a)).and_then(|a| a.commission.as_ref());
        let Some(commission) = commission else { return vec![None] };
        let mut all = Vec::new();
        if self.disk_failed.is_some() {
            // A renewal that cannot be written may or may not be in force.
            all.clone_from(&commission.periods);
        }
        for p in commission.periods.iter().flat_map(|p| p.looked(&self.time)) {
            crate::clocks::add_period(&mut all, p, self.last_auth);
        }
        all.into_iter().map(Some).collect()
    }

    fn judge_in(
        &self,
        v: View<'_>,
        ticket: Ticket,
        open: &Open,
        p: Option<&Period>,
    ) -> Vec<Expect> {
        let mut out = self.judge_known(v, ticket, open, p);
        let proof = match &open.asked {
            Asked::Sign(ask) => Some(&ask.proof),
            Asked::Standing { proof, .. } => Some(proof),
            Asked::Report(report) => Some(&report.proof),
            Asked::Poll(_) | Asked::Order(_) => None,
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
        open: &Open,
        p: Option<&Period>,
    ) -> Vec<Expect> {
        let after_disk = self.disk_failed.is_some_and(|at| open.seq > at);
        match &open.asked {
            Asked::Sign(ask) => {
                identity::sign(v, ask, open.rec.unwrap_or(u64::MAX), ticket, open.seq, p)
            }
            Asked::Poll(id) => match self.book.by_id.get(id) {
                Some(key) => match self.book.recs.get(key) {
                    Some(rec) => repeats::poll(v, *key, rec),
                    None => Vec::new(),
                },
                None => self.poll_unknown(v, id),
            },
            Asked::Standing { agent, proof } => numbers::standing(v, agent, proof, p),
            Asked::Report(report) => {
                let mut out = numbers::report(v, report, ticket);
                if let Proof::Hmac { signature, .. } = &report.proof
                    && let Some(crate::seen::Answer::Reported { stage }) =
                        self.reports.get(&(report.agent.clone(), signature.clone()))
                    && let (Some(rank), Some(key)) =
                        (numbers::stage_rank(stage), self.book.by_id.get(&report.id))
                {
                    out.push(Expect::Stage { rec: *key, stages: [rank].into() });
                }
                out
            }
            Asked::Order(Order::List) => vec![Expect::Listed],
            Asked::Order(Order::Deny { id }) => approvals::deny(v, ticket, self.book.find(id)),
            Asked::Order(Order::Approve { id, card }) => {
                let found = self.book.by_id.get(id);
                let rec = found.and_then(|k| self.book.recs.get(k).map(|r| (*k, r)));
                let mut out = approvals::approve(v, ticket, rec, card.as_ref(), p, after_disk);
                for (key, rec) in rec.into_iter() {
                    for agent in &rec.others {
                        let of = Rec { agent: agent.clone(), ..rec.clone() };
                        let rec = Some((key, &of));
                        out.extend(approvals::approve(
                            v,
                            ticket,
                            rec,
                            card.as_ref(),
                            p,
                            after_disk,
                        ));
                    }
                }
                out
            }
            Asked::Order(Order::Send(send)) => {
                let account = v.config.account_named(&send.label);
                let account = account.and_then(|a| v.config.accounts.get(&a));
                match account {
                    Some(a) if v.config.open => vec![Expect::Sendable(a.address.clone())],
                    _ => Vec::new(),
                }
            }
            Asked::Order(_) => Vec::new(),
        }
    }

    /// Returns the correct answers for an id that was never returned: it may be that of a call without an answer.
    fn poll_unknown(&self, v: View<'_>, id: &str) -> Vec<Expect> {
        let signed = self.unbound.contains_key(id);
        // A signed request is known to the wallet, even after a crash.
        let mut out = Vec::new();
        if !signed {
            out.push(identity::refuse(404, "REQUEST_NOT_FOUND"));
        }
        for (key, rec) in &self.book.recs {
            if rec.id.is_none() && (rec.lost || !rec.open.is_empty()) {
                out.extend(repeats::poll(v, *key, rec));
                let authorized = rec.stands(None).any(|s| matches!(s, St::Auth { .. }));
                if signed && authorized {
                    let why = "poll: signed, and never told";
                    out.push(Expect::Reply { rec: *key, reply: Reply::Header, why });
                }
            }
        }
        out
    }

    /// Returns the ways in which an open order may have ended, for error messages.
    pub(crate) fn outs(&self, ticket: Ticket) -> Vec<Out> {
        let mut outs: Vec<Out> = Vec::new();
        for out in self.worlds.iter().filter_map(|w| w.applied.get(&ticket)) {
            if !outs.contains(out) {
                outs.push(out.clone());
            }
        }
        outs
    }
}
