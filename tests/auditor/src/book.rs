//! All requests, and what they take of an allowance together.

use crate::clocks::{Instant, Period};
use crate::policy::{Used, Waiting};
use crate::requests::{Identity, Rec, St};
use crate::seen::Id;
use std::collections::{BTreeMap, BTreeSet};

/// The least and the most of what may be.
#[derive(Debug, Clone, Copy)]
struct Ends(u64, u64);

impl Default for Ends {
    fn default() -> Self {
        Self(u64::MAX, 0)
    }
}

impl Ends {
    fn meet(&mut self, one: u64) {
        *self = Self(self.0.min(one), self.1.max(one));
    }

    /// Added to others.
    fn beside(self, others: (u64, u64)) -> (u64, u64) {
        beside((self.0, self.1), others)
    }
}

fn beside(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0.saturating_add(other.0), one.1.saturating_add(other.1))
}

/// All requests, found by id and by what makes them the same.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) recs: BTreeMap<u64, Rec>,
    next: u64,
    pub(crate) by_id: BTreeMap<Id, u64>,
    pub(crate) by_identity: BTreeMap<Identity, Vec<u64>>,
    /// Content that a key of a bearer agent was bound to.
    pub(crate) keys: Keys,
    /// What the asks of an agent that had no answer may have taken, all of them together.
    pub(crate) lost: BTreeMap<String, u64>,
}

/// A key of a bearer agent is bound to the content that it came with first.
pub(crate) fn bind_key(keys: &mut Keys, identity: &Identity) {
    if let Identity::Bearer { agent, content, key: Some(key) } = identity {
        keys.entry((agent.clone(), key.clone())).or_default().insert(content.clone());
    }
}

pub(crate) type Keys = BTreeMap<(String, String), BTreeSet<String>>;

impl Book {
    pub(crate) fn add(&mut self, rec: Rec, indexed: bool) -> u64 {
        let key = self.next;
        self.next = self.next.saturating_add(1);
        if indexed {
            self.by_identity.entry(rec.identity.clone()).or_default().push(key);
        }
        if let Some(id) = &rec.id {
            self.by_id.insert(id.clone(), key);
        }
        self.recs.insert(key, rec);
        key
    }

    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(rec) = self.recs.remove(&key)
            && let Some(list) = self.by_identity.get_mut(&rec.identity)
        {
            list.retain(|k| *k != key);
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Rec> {
        self.recs.get(self.by_id.get(id)?)
    }

    pub(crate) fn find_mut(&mut self, id: &str) -> Option<&mut Rec> {
        self.recs.get_mut(self.by_id.get(id)?)
    }

    /// What was told of one request is true of the other, and the reverse.
    pub(crate) fn change_places(&mut self, one: u64, other: u64) {
        let (Some(mut a), Some(b)) = (self.recs.remove(&one), self.recs.get_mut(&other)) else {
            return;
        };
        std::mem::swap(&mut a.base, &mut b.base);
        std::mem::swap(&mut a.digest, &mut b.digest);
        std::mem::swap(&mut a.payment, &mut b.payment);
        self.recs.insert(one, a);
    }

    /// What the agent's other requests take of an allowance.
    pub(crate) fn used(&self, agent: &str, but: Option<u64>, p: &Period, now: &Instant) -> Used {
        let mut used = Used::default();
        for (key, rec) in &self.recs {
            if rec.agent != agent || Some(*key) == but {
                continue;
            }
            let (mut spent, mut total) = (Ends::default(), Ends::default());
            rec.takes(p, now, false, |(s, r)| {
                spent.meet(s);
                total.meet(s.saturating_add(r));
            });
            used.spent = spent.beside(used.spent);
            used.total = total.beside(used.total);
        }
        used
    }

    /// Every pair (spent, reserved) that the agent's numbers may show.
    pub(crate) fn numbers(
        &self,
        agent: &str,
        p: &Period,
        now: &Instant,
    ) -> Option<BTreeSet<(u64, u64)>> {
        // What is sure is added up by itself; only the rest multiplies.
        let mut sure = (0u64, 0u64);
        let mut sums = BTreeSet::from([(0u64, 0u64)]);
        let mut takes = Vec::new();
        for rec in self.recs.values().filter(|r| r.agent == agent) {
            takes.clear();
            rec.takes(p, now, true, |pair| {
                if !takes.contains(&pair) {
                    takes.push(pair);
                }
            });
            if let [only] = takes.as_slice() {
                sure = beside(sure, *only);
                continue;
            }
            sums = sums.iter().flat_map(|sum| takes.iter().map(|t| beside(*sum, *t))).collect();
            // With so much unknown at once the numbers say nothing any more.
            if sums.len() > 4096 {
                return None;
            }
        }
        Some(sums.into_iter().map(|sum| beside(sum, sure)).collect())
    }

    /// Least and most of both numbers, each for itself.
    pub(crate) fn bounds(&self, agent: &str, p: &Period, now: &Instant) -> [(u64, u64); 2] {
        let (mut spent, mut reserved) = ((0u64, 0u64), (0u64, 0u64));
        for rec in self.recs.values().filter(|r| r.agent == agent) {
            let mut ends = (Ends::default(), Ends::default());
            rec.takes(p, now, true, |(s, r)| {
                ends.0.meet(s);
                ends.1.meet(r);
            });
            spent = ends.0.beside(spent);
            reserved = ends.1.beside(reserved);
        }
        [spent, reserved]
    }

    pub(crate) fn waiting(&self, agent: &str, but: Option<u64>, now: &Instant) -> Waiting {
        let mut w = Waiting::default();
        for (key, rec) in &self.recs {
            if Some(*key) == but || !rec.may_be(&St::Held) {
                continue;
            }
            let (sure, may) = rec.over(now);
            let least = usize::from(rec.stands(None).all(|st| *st == St::Held) && !may);
            let most = usize::from(!sure);
            w.all = (w.all.0.saturating_add(least), w.all.1.saturating_add(most));
            if rec.agent == agent {
                w.agent = (w.agent.0.saturating_add(least), w.agent.1.saturating_add(most));
            }
        }
        w
    }
}
