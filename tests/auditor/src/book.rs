//! All requests, and the part of an allowance that they use together.

use crate::clocks::{AllowancePeriod, Instant};
use crate::observations::Id;
use crate::policy::{HeldCounts, UsedBounds};
use crate::requests::{Identity, RequestRecord, RequestState};
use std::collections::{BTreeMap, BTreeSet};

/// The lowest and the highest of the possible values.
#[derive(Debug, Clone, Copy)]
struct Bounds(u64, u64);

impl Default for Bounds {
    fn default() -> Self {
        Self(u64::MAX, 0)
    }
}

impl Bounds {
    fn include(&mut self, one: u64) {
        *self = Self(self.0.min(one), self.1.max(one));
    }

    /// Adds another range.
    fn plus(self, other: (u64, u64)) -> (u64, u64) {
        add_pairs((self.0, self.1), other)
    }
}

fn add_pairs(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0.saturating_add(other.0), one.1.saturating_add(other.1))
}

/// Returns the items of `from` that are not in `there`.
pub(crate) fn items_not_in<T: Clone + PartialEq>(from: &[T], there: &[T]) -> Vec<T> {
    from.iter().filter(|one| !there.contains(one)).cloned().collect()
}

/// All requests, indexed by id and by identity.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) records: BTreeMap<u64, RequestRecord>,
    next_key: u64,
    pub(crate) by_id: BTreeMap<Id, u64>,
    /// Requests whose id is known and whose call is unknown.
    unmatched_ids: BTreeSet<u64>,
    pub(crate) by_identity: BTreeMap<Identity, Vec<u64>>,
    /// The contents that a bearer agent's idempotency key may be bound to.
    pub(crate) keys: Keys,
    /// The most that lost calls of each agent may have spent in total, in micro-dollars.
    pub(crate) unanswered_micros: BTreeMap<String, u64>,
    /// The number of each agent's trades that may be held: these share the limits on held requests.
    pub(crate) held_trades: BTreeMap<String, usize>,
}

/// Adds a content to which a bearer agent's idempotency key may be bound. The wallet binds a key to its first content.
pub(crate) fn bind_key(keys: &mut Keys, identity: &Identity) {
    if let Identity::Bearer { agent, content, key: Some(key) } = identity {
        keys.entry((agent.clone(), key.clone())).or_default().insert(content.clone());
    }
}

pub(crate) type Keys = BTreeMap<(String, String), BTreeSet<String>>;

impl Book {
    pub(crate) fn add(&mut self, rec: RequestRecord, indexed: bool) -> u64 {
        let key = self.next_key;
        self.next_key = self.next_key.saturating_add(1);
        if indexed {
            self.by_identity.entry(rec.identity.clone()).or_default().push(key);
        }
        if let Some(id) = &rec.id {
            self.by_id.insert(id.clone(), key);
        }
        self.records.insert(key, rec);
        key
    }

    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(rec) = self.records.remove(&key)
            && let Some(list) = self.by_identity.get_mut(&rec.identity)
        {
            list.retain(|k| *k != key);
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<&RequestRecord> {
        self.records.get(self.by_id.get(id)?)
    }

    pub(crate) fn find_mut(&mut self, id: &str) -> Option<&mut RequestRecord> {
        self.records.get_mut(self.by_id.get(id)?)
    }

    /// Returns the calls to which an unmatched id may belong: those that have no id yet.
    fn owners<'a>(&'a self, unmatched: &'a RequestRecord) -> impl Iterator<Item = u64> + 'a {
        let free = |key: &u64| self.records.get(key).is_some_and(|rec| rec.id.is_none());
        unmatched.possible_calls.iter().copied().filter(free)
    }

    /// Adds a request for an id. The id belongs to one of these calls, but it is unknown to which one.
    pub(crate) fn add_unmatched_id(&mut self, id: &str, possible_calls: Vec<u64>) -> Option<u64> {
        let mut all = possible_calls.iter().filter_map(|key| self.records.get(key));
        let mut one = all.next()?.clone();
        for rec in all {
            if !one.may_be_of(&rec.agent) {
                one.other_agents.push(rec.agent.clone());
            }
            one.base.extend(items_not_in(&rec.base, &one.base));
            one.overlay.extend(items_not_in(&rec.overlay, &one.overlay));
            one.authorizations.extend(items_not_in(&rec.authorizations, &one.authorizations));
            one.holds.extend(items_not_in(&rec.holds, &one.holds));
            one.denials.extend(items_not_in(&rec.denials, &one.denials));
            one.ended.extend(items_not_in(&rec.ended, &one.ended));
            one.expired_since = one.expired_since.or(rec.expired_since);
            one.has_lapsed |= rec.has_lapsed;
            one.may_be_replaced |= rec.may_be_replaced;
            one.died |= rec.died;
        }
        (one.id, one.lost, one.possible_calls) = (Some(id.to_owned()), false, possible_calls);
        one.open.clear();
        let key = self.add(one, false);
        self.unmatched_ids.insert(key);
        Some(key)
    }

    /// Returns the unmatched ids that may belong to this call.
    pub(crate) fn unmatched_of(&self, ask: u64) -> impl Iterator<Item = (u64, &RequestRecord)> {
        let free = self.records.get(&ask).is_some_and(|rec| rec.id.is_none());
        let all = self.unmatched_ids.iter().filter_map(|key| Some((*key, self.records.get(key)?)));
        all.filter(move |(_, rec)| free && rec.possible_calls.contains(&ask))
    }

    pub(crate) fn may_own(&self, ask: u64, unmatched: u64) -> bool {
        let pays = |rec: &RequestRecord| {
            let asked = self.records.get(&ask);
            rec.payment.as_ref().is_none_or(|p| asked.is_some_and(|asked| asked.pays(p)))
        };
        self.unmatched_of(ask).any(|(key, rec)| key == unmatched && pays(rec))
    }

    /// Returns the newest of these calls to which the unmatched id may belong.
    pub(crate) fn owner_among(&self, unmatched: u64, asks: &[u64]) -> Option<u64> {
        asks.iter().rev().copied().find(|ask| self.may_own(*ask, unmatched))
    }

    /// Merges the request of an unmatched id into the call to which it belongs.
    pub(crate) fn match_id(&mut self, ask: u64, unmatched: u64) {
        let Some(found) = self.records.remove(&unmatched) else { return };
        self.unmatched_ids.remove(&unmatched);
        let Some(rec) = self.records.get_mut(&ask) else { return };
        let asked = std::mem::replace(rec, found);
        rec.possible_calls.clear();
        rec.other_agents.clear();
        rec.overlay.extend(items_not_in(&asked.overlay, &rec.overlay));
        (rec.agent, rec.identity, rec.request_url) =
            (asked.agent, asked.identity, asked.request_url);
        (rec.open, rec.lost) = (asked.open, asked.lost);
        if let Some(id) = &rec.id {
            self.by_id.insert(id.clone(), ask);
        }
    }

    /// Returns the part of an allowance that the agent's other requests use.
    pub(crate) fn used_by_others(
        &self,
        agent: &str,
        except: Option<u64>,
        p: &AllowancePeriod,
        now: &Instant,
    ) -> UsedBounds {
        let mut used = UsedBounds::default();
        let mut lost_calls = (Vec::new(), Vec::new());
        for (key, rec) in &self.records {
            if !rec.may_be_of(agent) || Some(*key) == except {
                continue;
            }
            let (mut spent, mut total) = (Bounds::default(), Bounds::default());
            rec.visit_amounts(p, now, false, |(s, r)| {
                spent.include(s);
                total.include(s.saturating_add(r));
            });
            if rec.is_lost_call() {
                lost_calls.0.push(std::mem::replace(&mut spent.1, spent.0));
                lost_calls.1.push(std::mem::replace(&mut total.1, total.0));
            }
            used.spent = spent.plus(used.spent);
            used.total = total.plus(used.total);
        }
        // Each unmatched id belongs to a lost call, so only the remaining lost calls may have spent or reserved more.
        let all_lost_calls = |key: u64| {
            self.records.get(&key).is_some_and(|rec| rec.is_lost_call() && rec.agent == agent)
        };
        let known = |key: &&u64| {
            let unmatched = self.records.get(key).filter(|_rec| Some(**key) != except);
            let sure = |rec: &&RequestRecord| rec.other_agents.is_empty() && rec.agent == agent;
            unmatched.filter(sure).is_some_and(|rec| {
                self.owners(rec).next().is_some() && self.owners(rec).all(all_lost_calls)
            })
        };
        let known = self.unmatched_ids.iter().filter(known).count();
        for (most, mut amounts) in
            [(&mut used.spent.1, lost_calls.0), (&mut used.total.1, lost_calls.1)]
        {
            amounts.sort_unstable_by(|a, b| b.cmp(a));
            let free = amounts.len().saturating_sub(known);
            *most = amounts.iter().take(free).fold(*most, |sum, take| sum.saturating_add(*take));
        }
        used
    }

    /// Returns every pair (spent, reserved) that the agent's standing may show; `None` if too much is unknown.
    pub(crate) fn possible_standings(
        &self,
        agent: &str,
        p: &AllowancePeriod,
        now: &Instant,
    ) -> Option<BTreeSet<(u64, u64)>> {
        // Certain amounts are simply added. Only uncertain amounts multiply the number of combinations.
        let mut sure = (0u64, 0u64);
        let mut sums = BTreeSet::from([(0u64, 0u64)]);
        let mut amounts = Vec::new();
        for rec in self.records.values().filter(|r| r.may_be_of(agent)) {
            amounts.clear();
            rec.visit_amounts(p, now, true, |pair| {
                if !amounts.contains(&pair) {
                    amounts.push(pair);
                }
            });
            if let [only] = amounts.as_slice() {
                sure = add_pairs(sure, *only);
                continue;
            }
            sums =
                sums.iter().flat_map(|sum| amounts.iter().map(|t| add_pairs(*sum, *t))).collect();
            // With this many combinations, the numbers of a standing prove nothing.
            if sums.len() > 4096 {
                return None;
            }
        }
        Some(sums.into_iter().map(|sum| add_pairs(sum, sure)).collect())
    }

    /// Returns (least, most) of spent, and separately of reserved.
    pub(crate) fn spent_and_reserved_bounds(
        &self,
        agent: &str,
        p: &AllowancePeriod,
        now: &Instant,
    ) -> [(u64, u64); 2] {
        let (mut spent, mut reserved) = ((0u64, 0u64), (0u64, 0u64));
        for rec in self.records.values().filter(|r| r.may_be_of(agent)) {
            let mut ranges = (Bounds::default(), Bounds::default());
            rec.visit_amounts(p, now, true, |(s, r)| {
                ranges.0.include(s);
                ranges.1.include(r);
            });
            spent = ranges.0.plus(spent);
            reserved = ranges.1.plus(reserved);
        }
        [spent, reserved]
    }

    pub(crate) fn held_counts(
        &self,
        agent: &str,
        except: Option<u64>,
        now: &Instant,
    ) -> HeldCounts {
        let mut w = HeldCounts::default();
        for (of, trades) in &self.held_trades {
            w.all.1 = w.all.1.saturating_add(*trades);
            if of == agent {
                w.agent.1 = w.agent.1.saturating_add(*trades);
            }
        }
        for (key, rec) in &self.records {
            if Some(*key) == except || !rec.may_be(&RequestState::Held) {
                continue;
            }
            let (sure, may) = rec.expired(now);
            let least =
                usize::from(rec.possible_states(None).all(|st| *st == RequestState::Held) && !may);
            let most = usize::from(!sure);
            w.all = (w.all.0.saturating_add(least), w.all.1.saturating_add(most));
            if rec.may_be_of(agent) {
                let least = if rec.other_agents.is_empty() { least } else { 0 };
                w.agent = (w.agent.0.saturating_add(least), w.agent.1.saturating_add(most));
            }
        }
        w
    }
}
