//! All requests, and what they take of an allowance together.

use crate::clocks::{Instant, Period};
use crate::policy::{Used, Waiting};
use crate::requests::{Identity, Rec, St};
use crate::seen::Id;
use std::collections::{BTreeMap, BTreeSet};

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

    /// What the agent's other requests take of an allowance.
    pub(crate) fn used(&self, agent: &str, but: Option<u64>, p: &Period, now: &Instant) -> Used {
        let mut used = Used::default();
        for (key, rec) in &self.recs {
            if rec.agent != agent || Some(*key) == but {
                continue;
            }
            let takes = rec.takes(p, now, false);
            let fold = |f: &dyn Fn(&(u64, u64)) -> u64, at: (u64, u64)| {
                let least = takes.iter().map(f).min().unwrap_or(0);
                let most = takes.iter().map(f).max().unwrap_or(0);
                (at.0.saturating_add(least), at.1.saturating_add(most))
            };
            used.spent = fold(&|t| t.0, used.spent);
            used.total = fold(&|t| t.0.saturating_add(t.1), used.total);
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
        let mut sums = BTreeSet::from([(0u64, 0u64)]);
        for rec in self.recs.values().filter(|r| r.agent == agent) {
            let takes = rec.takes(p, now, true);
            if takes.len() == 1 && takes.contains(&(0, 0)) {
                continue;
            }
            let mut next = BTreeSet::new();
            for (spent, reserved) in &sums {
                for (s, r) in &takes {
                    next.insert((spent.saturating_add(*s), reserved.saturating_add(*r)));
                }
            }
            sums = next;
            // With so much unknown at once the numbers say nothing any more.
            if sums.len() > 4096 {
                return None;
            }
        }
        Some(sums)
    }

    /// Least and most of both numbers, each for itself.
    pub(crate) fn bounds(&self, agent: &str, p: &Period, now: &Instant) -> [(u64, u64); 2] {
        let (mut spent, mut reserved) = ((0u64, 0u64), (0u64, 0u64));
        for rec in self.recs.values().filter(|r| r.agent == agent) {
            let takes = rec.takes(p, now, true);
            let ends = |of: &dyn Fn(&(u64, u64)) -> u64, at: (u64, u64)| {
                let least = takes.iter().map(of).min().unwrap_or(0);
                let most = takes.iter().map(of).max().unwrap_or(0);
                (at.0.saturating_add(least), at.1.saturating_add(most))
            };
            spent = ends(&|t| t.0, spent);
            reserved = ends(&|t| t.1, reserved);
        }
        [spent, reserved]
    }

    pub(crate) fn waiting(&self, agent: &str, but: Option<u64>, now: &Instant) -> Waiting {
        let mut w = Waiting::default();
        for (key, rec) in &self.recs {
            let states = rec.states(None);
            if Some(*key) == but || !states.contains(&St::Held) {
                continue;
            }
            let (sure, may) = rec.over(now);
            let least = usize::from(states.len() == 1 && !may);
            let most = usize::from(!sure);
            w.all = (w.all.0.saturating_add(least), w.all.1.saturating_add(most));
            if rec.agent == agent {
                w.agent = (w.agent.0.saturating_add(least), w.agent.1.saturating_add(most));
            }
        }
        w
    }
}
