//! The effects of the operator's orders, and which orders must be refused.

use crate::agents;
use crate::book::Book;
use crate::clocks::Time;
use crate::config::{Account, Agent, Config, OrderEnd, VersionedPolicy};
use crate::domains;
use crate::lending::LendingPolicy;
use crate::observations::{Micros, Order, Policy, Ticket, TradingPolicy};
use crate::requests::RequestState;
use std::collections::BTreeMap;

/// The context of an order, apart from the configuration.
#[derive(Clone, Copy)]
pub(crate) struct OrderContext<'a> {
    pub(crate) time: &'a Time,
    pub(crate) book: &'a Book,
    pub(crate) seq: u64,
    /// Whether transactions of this address are in flight: (surely, possibly).
    pub(crate) in_flight: &'a dyn Fn(&str) -> (bool, bool),
    /// The lending parts of the policies that open orders create or edit.
    pub(crate) lending: &'a BTreeMap<Ticket, LendingPolicy>,
    /// Whether a trade or loan of this agent may be unfinished.
    pub(crate) may_have_running_plans: &'a dyn Fn(&str) -> bool,
}

/// Returns whether the order changes the configuration and nothing else.
pub(crate) fn is_config(order: &Order) -> bool {
    !matches!(
        order,
        Order::List
            | Order::Approve { .. }
            | Order::Deny { .. }
            | Order::Send(_)
            | Order::WithdrawPosition(_)
    )
}

/// The refusals that apply to an order in one configuration.
pub(crate) struct OrderOutcomes {
    pub(crate) from: Config,
    pub(crate) codes: Vec<&'static str>,
    /// Whether a refusal is certain. If not, the order may also succeed.
    pub(crate) is_certain: bool,
}

impl OrderOutcomes {
    pub(crate) fn refuse(&mut self, when: bool, code: &'static str) {
        if when {
            self.codes.push(code);
            self.is_certain = true;
        }
    }

    pub(crate) fn may_refuse(&mut self, when: bool, code: &'static str) {
        if when {
            self.codes.push(code);
        }
    }

    pub(crate) fn require_open(&mut self) {
        let (wallet, open) = (self.from.has_wallet, self.from.is_open);
        self.refuse(!open, "WALLET_LOCKED");
        self.refuse(!wallet, "NO_WALLET");
    }

    pub(crate) fn end(self, out: OrderEnd, to: Option<Config>) -> Vec<(Config, OrderEnd)> {
        let mut all: Vec<_> =
            self.codes.iter().map(|c| (self.from.clone(), OrderEnd::Code(c))).collect();
        if !self.is_certain {
            all.push((to.unwrap_or(self.from), out));
        }
        all
    }
}

/// Returns `Some` if an edit raises a limit or makes a new payment possible.
///
/// It is `Some(true)` if the specification does not define whether this edit does so.
pub(crate) fn loosens(old: &Policy, new: &Policy) -> Option<bool> {
    let networks = match (&old.networks, &new.networks) {
        (Some(_), None) => true,
        (Some(o), Some(n)) => n.iter().any(|c| !o.contains(c)),
        (None, _) => false,
    };
    let removed_list = !old.allowed_domains.is_empty() && new.allowed_domains.is_empty();
    let fresh: Vec<_> = new
        .allowed_domains
        .iter()
        .filter(|d| !old.allowed_domains.is_empty() && !old.allowed_domains.contains(d))
        .collect();
    let lifted: Vec<_> =
        old.blocked_domains.iter().filter(|d| !new.blocked_domains.contains(d)).collect();
    let under = |list: &[String], d: &String| {
        domains::canonical_entry(d).is_some_and(|host| domains::is_listed(list, &host))
    };
    let sure = new.daily > old.daily
        || new.per_request > old.per_request
        || new.auto_below > old.auto_below
        || (new.payments && !old.payments)
        || networks
        || removed_list
        || fresh.iter().any(|d| !under(&old.allowed_domains, d))
        || lifted.iter().any(|d| !under(&new.blocked_domains, d));
    let trading = loosens_trading(&old.trading, &new.trading);
    if sure || trading == Some(false) {
        return Some(false);
    }
    (!fresh.is_empty() || !lifted.is_empty()).then_some(true).or(trading)
}

/// Like [`loosens`], for the trading part of a policy.
fn loosens_trading(old: &TradingPolicy, new: &TradingPolicy) -> Option<bool> {
    let added = |old: &[String], new: &[String]| new.iter().any(|one| !old.contains(one));
    let sure = (new.enabled && !old.enabled)
        || new.daily > old.daily
        || new.per_trade > old.per_trade
        || new.auto_below > old.auto_below
        || new.max_slippage_bps > old.max_slippage_bps
        || new.max_impact_bps > old.max_impact_bps
        || added(&old.tokens, &new.tokens)
        || added(&old.hooks, &new.hooks);
    if sure { Some(false) } else { (new.min_native < old.min_native).then_some(true) }
}

/// Returns whether an edit raises a limit of loans, or makes a new loan possible.
fn loosens_lending(old: &LendingPolicy, new: &LendingPolicy) -> bool {
    let percent = |p: &LendingPolicy| p.max_percent_bps.unwrap_or(u32::MAX);
    (new.enabled && !old.enabled)
        || new.max_deposit > old.max_deposit
        || new.max_total > old.max_total
        || percent(new) > percent(old)
        || new.auto_below > old.auto_below
        || new.ops_per_day > old.ops_per_day
        || (old.restricted && !new.restricted)
}

fn invalid_lending(lending: &LendingPolicy) -> bool {
    lending.max_percent_bps.is_some_and(|bps| bps > 10_000)
}

fn invalid_policy(config: &Config, p: &Policy) -> bool {
    let mut entries = p.allowed_domains.iter().chain(&p.blocked_domains);
    entries.any(|e| domains::canonical_entry(e).is_none())
        || p.networks.iter().flatten().any(|c| !config.networks.contains_key(c))
        || p.networks.as_ref().is_some_and(Vec::is_empty)
        || p.trading.max_slippage_bps > 10_000
        || p.trading.max_impact_bps > 10_000
}

/// Returns the configurations and refusals after the order, for every way that the specification allows.
pub(crate) fn apply(
    config: &Config,
    ticket: Ticket,
    order: &Order,
    context: OrderContext<'_>,
) -> Vec<(Config, OrderEnd)> {
    let mut c = OrderOutcomes { from: config.clone(), codes: Vec::new(), is_certain: false };
    let mut to = config.clone();
    match order {
        Order::CreateWallet
        | Order::OpenWallet { .. }
        | Order::OpenUnattended
        | Order::LockWallet
        | Order::Freeze
        | Order::Thaw { .. } => wallet(&mut c, &mut to, order),
        Order::SwitchNetwork { .. } | Order::MaxValidity { .. } | Order::UnattendedDaily { .. } => {
            settings(&mut c, &mut to, order);
        }
        Order::AddAddress { .. } | Order::RenameAddress { .. } | Order::DeleteAddress { .. } => {
            return accounts(c, to, ticket, order, context);
        }
        Order::CreatePolicy { .. } | Order::EditPolicy { .. } | Order::DeletePolicy { .. } => {
            return policies(c, to, ticket, order, context);
        }
        Order::TrustVenue(trust) => {
            c.require_open();
            c.may_refuse(true, "NOTHING_FOUND");
            c.may_refuse(true, "BAD_INPUT");
            let venue = (trust.chain, trust.venue.to_lowercase());
            let with = (trust.curator.to_lowercase(), trust.owner.to_lowercase());
            to.confirmed_venues.insert(venue, with);
        }
        Order::UntrustVenue { chain, venue } => {
            let there = to.confirmed_venues.remove(&(*chain, venue.to_lowercase()));
            c.may_refuse(there.is_none(), "NOTHING_FOUND");
        }
        Order::WriteOff(off) => {
            c.require_open();
            c.may_refuse(true, "NOTHING_FOUND");
            c.may_refuse(true, "BAD_INPUT");
            c.refuse(config.account_named(&off.label).is_none(), "NOTHING_FOUND");
        }
        Order::List
        | Order::Approve { .. }
        | Order::Deny { .. }
        | Order::Send(_)
        | Order::WithdrawPosition(_) => {
            return Vec::new();
        }
        _ => return agents::agents(c, to, ticket, order, context),
    }
    c.end(OrderEnd::Done, Some(to))
}

/// Executes an order that opens, locks or freezes the wallet.
fn wallet(c: &mut OrderOutcomes, to: &mut Config, order: &Order) {
    match order {
        Order::CreateWallet => {
            c.refuse(to.has_wallet, "WALLET_EXISTS");
            to.has_wallet = true;
            (to.is_open, to.is_unattended) = (true, false);
        }
        Order::OpenWallet { right } => {
            c.refuse(!to.has_wallet, "NO_WALLET");
            c.refuse(to.has_wallet && !right, "WRONG_PASSWORD");
            // After wrong passwords the wallet delays the next attempt, and the engine may stop during the delay.
            c.may_refuse(true, "ENGINE_DOWN");
            (to.is_open, to.is_unattended) = (true, false);
        }
        Order::OpenUnattended => {
            c.refuse(!to.has_wallet, "NO_WALLET");
            c.may_refuse(true, "ENGINE_DOWN");
            // A wallet that a person opened keeps that status.
            to.is_unattended |= !to.is_open;
            to.is_open = true;
        }
        Order::LockWallet => {
            c.may_refuse(!to.has_wallet, "NO_WALLET");
            to.is_open = false;
        }
        Order::Freeze => to.is_frozen = true,
        Order::Thaw { right } => {
            c.require_open();
            c.refuse(!right, "WRONG_PASSWORD");
            c.may_refuse(true, "ENGINE_DOWN");
            to.is_frozen = false;
        }
        _other => {}
    }
}

/// Executes an order that changes a setting.
fn settings(c: &mut OrderOutcomes, to: &mut Config, order: &Order) {
    match order {
        Order::SwitchNetwork { chain, on } => {
            let was = to.networks.get(chain).map(|n| n.is_enabled);
            if *on && was != Some(true) {
                c.require_open();
            }
            c.may_refuse(*on && !to.is_open, "WALLET_LOCKED");
            c.refuse(was.is_none(), "NOTHING_FOUND");
            c.refuse(was.is_none(), "BAD_INPUT");
            if let Some(network) = to.networks.get_mut(chain) {
                network.is_enabled = *on;
            }
        }
        Order::MaxValidity { seconds } => {
            if *seconds > to.max_validity {
                c.require_open();
            }
            c.may_refuse(*seconds < 30 || *seconds > u64::from(u32::MAX), "BAD_INPUT");
            to.max_validity = *seconds;
        }
        Order::UnattendedDaily { limit } => {
            let most = |limit: Option<Micros>| limit.unwrap_or(Micros::MAX);
            if most(*limit) > most(to.unattended_daily) {
                c.require_open();
            }
            to.unattended_daily = *limit;
        }
        _other => {}
    }
}

fn accounts(
    mut c: OrderOutcomes,
    mut to: Config,
    ticket: Ticket,
    order: &Order,
    context: OrderContext<'_>,
) -> Vec<(Config, OrderEnd)> {
    match order {
        Order::AddAddress { label } => {
            c.require_open();
            c.refuse(to.account_named(label).is_some(), "NAME_TAKEN");
            to.accounts.insert(ticket, Account { label: label.clone(), address: None });
            c.end(OrderEnd::Added, Some(to))
        }
        Order::RenameAddress { label, to: new } => {
            c.require_open();
            let uid = to.account_named(label);
            c.refuse(uid.is_none(), "NOTHING_FOUND");
            let there = to.account_named(new);
            c.refuse(there.is_some() && there != uid, "NAME_TAKEN");
            c.may_refuse(there.is_some() && there == uid, "NAME_TAKEN");
            if let Some(account) = uid.and_then(|u| to.accounts.get_mut(&u)) {
                account.label.clone_from(new);
            }
            c.end(OrderEnd::Done, Some(to))
        }
        Order::DeleteAddress { label } => {
            c.require_open();
            let uid = to.account_named(label);
            c.refuse(uid.is_none(), "NOTHING_FOUND");
            let worked = |a: &Agent| a.commission.as_ref().map(|m| m.account) == uid;
            c.refuse(uid.is_some() && to.agents.values().any(worked), "IN_USE");
            let address = uid.and_then(|u| to.accounts.get(&u)).map(|a| a.address.clone());
            if let Some(Some(address)) = &address {
                let (sure, may) = (context.in_flight)(address);
                let from = |r: &crate::requests::RequestRecord| {
                    r.holds.iter().any(|(t, _)| t.payer.as_ref() == Some(address))
                };
                let (w_sure, w_may) = has_held_requests(context, from);
                c.refuse(sure || w_sure, "IN_USE");
                c.may_refuse(may || w_may, "IN_USE");
            } else if address.is_some() {
                c.may_refuse(true, "IN_USE");
            }
            if let Some(uid) = uid {
                to.accounts.remove(&uid);
            }
            c.end(OrderEnd::Done, Some(to))
        }
        _ => Vec::new(),
    }
}

/// Returns whether requests of this kind are held: (surely, possibly).
pub(crate) fn has_held_requests(
    context: OrderContext<'_>,
    kind: impl Fn(&crate::requests::RequestRecord) -> bool,
) -> (bool, bool) {
    let now = context.time.instant();
    let mut found = (false, false);
    for rec in context.book.records.values().filter(|r| kind(r)) {
        let states = rec.states(None);
        // The list may still contain an expired request.
        let late = states.contains(&&RequestState::Expired) && rec.ended.is_empty();
        if states.contains(&&RequestState::Held) || late {
            found.1 = true;
            found.0 |= states.len() == 1 && !late && !rec.expired(&now).1;
        }
    }
    found
}

fn policies(
    mut c: OrderOutcomes,
    mut to: Config,
    ticket: Ticket,
    order: &Order,
    context: OrderContext<'_>,
) -> Vec<(Config, OrderEnd)> {
    let lending = context.lending.get(&ticket);
    match order {
        Order::CreatePolicy { name, policy } => {
            c.require_open();
            c.refuse(to.policy_named(name).is_some(), "NAME_TAKEN");
            c.may_refuse(invalid_policy(&to, policy), "BAD_INPUT");
            c.may_refuse(lending.is_some_and(invalid_lending), "BAD_INPUT");
            let (name, policy) = (name.clone(), policy.clone());
            let lending = lending.cloned().unwrap_or_default();
            let created = VersionedPolicy { name, version: 1, policy, lending };
            to.policies.insert(ticket, created);
        }
        Order::EditPolicy { name, policy } => {
            let uid = to.policy_named(name);
            c.refuse(uid.is_none(), "NOTHING_FOUND");
            c.may_refuse(uid.is_none() && !to.is_open, "WALLET_LOCKED");
            c.may_refuse(invalid_policy(&to, policy), "BAD_INPUT");
            c.may_refuse(lending.is_some_and(invalid_lending), "BAD_INPUT");
            if let Some(old) = uid.and_then(|u| to.policies.get_mut(&u)) {
                let lending = lending.unwrap_or(&old.lending).clone();
                let more = loosens_lending(&old.lending, &lending).then_some(false);
                match more.or(loosens(&old.policy, policy)) {
                    Some(false) => c.require_open(),
                    Some(true) => c.may_refuse(!c.from.is_open, "WALLET_LOCKED"),
                    None => {}
                }
                if old.policy != *policy || old.lending != lending {
                    old.version = old.version.saturating_add(1);
                    old.policy = policy.clone();
                    old.lending = lending;
                }
            }
        }
        Order::DeletePolicy { name } => {
            let uid = to.policy_named(name);
            c.refuse(uid.is_none(), "NOTHING_FOUND");
            let worked = |a: &Agent| a.commission.as_ref().map(|m| m.policy) == uid;
            c.refuse(uid.is_some() && to.agents.values().any(worked), "IN_USE");
            if let Some(uid) = uid {
                to.policies.remove(&uid);
            }
        }
        _ => return Vec::new(),
    }
    c.end(OrderEnd::Done, Some(to))
}
