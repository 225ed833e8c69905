//! The difference between two policies, field by field. This single table of fields also decides whether a change
//! loosens anything.

use super::{AllowedNetworks, Contracts, Policy};
use crate::change::{Change, list_change, switch_text};
use crate::hosts::HostEntry;
use crate::money::{Bps, Usd};
use crate::networks;

impl Policy {
    /// Returns the fields of `old` that `self` changes, in the order of answers.
    pub fn changes(&self, old: &Policy) -> Vec<Change> {
        let mut changes = Changes(Vec::new());
        changes.networks(&old.networks, &self.networks);
        changes.payments(old, self);
        changes.trading(old, self);
        changes.lending(old, self);
        changes.0
    }
}

/// A field's path in answers, and its name for operators.
type Field = (&'static str, &'static str);

struct Changes(Vec<Change>);

impl Changes {
    fn payments(&mut self, old: &Policy, new: &Policy) {
        let (old, new) = (&old.payments, &new.payments);
        self.add_switch(("payments.enabled", "payments"), old.enabled, new.enabled);
        self.add_limit(("payments.daily", "max per day"), old.daily, new.daily);
        self.add_limit(
            ("payments.per_request", "max per payment"),
            old.per_request,
            new.per_request,
        );
        self.add_limit(("payments.auto_below", "automatic below"), old.auto_below, new.auto_below);
        let (allowed, blocked) = (&new.hosts.allowed, &new.hosts.blocked);
        let was = (&old.hosts.allowed, &old.hosts.blocked);
        let kept = |new: &[HostEntry], old: &[HostEntry]| old.iter().all(|one| new.contains(one));
        // An empty list of allowed domains allows all.
        let opened = !was.0.is_empty() && (allowed.is_empty() || !kept(was.0, allowed));
        let field = ("payments.allowed_domains", "allowed domains");
        self.add_hosts(field, (was.0, allowed), "all", opened);
        let field = ("payments.blocked_domains", "blocked domains");
        self.add_hosts(field, (was.1, blocked), "none", !kept(blocked, was.1));
    }

    fn trading(&mut self, old: &Policy, new: &Policy) {
        let (old, new) = (&old.trading, &new.trading);
        self.add_switch(("trading.enabled", "trading"), old.enabled, new.enabled);
        self.add_limit(("trading.daily", "max traded per day"), old.daily, new.daily);
        self.add_limit(("trading.per_trade", "max per trade"), old.per_trade, new.per_trade);
        let field = ("trading.auto_below", "trades automatic below");
        self.add_limit(field, old.auto_below, new.auto_below);
        let (from, to) = (old.min_native, new.min_native);
        let texts = (from.as_coins(), to.as_coins());
        self.add_field(("trading.min_eth", "stops below"), from != to, texts, "ETH", to < from);
        let field = ("trading.max_slippage", "max slippage");
        self.add_share(field, Some(old.max_slippage), Some(new.max_slippage));
        let field = ("trading.max_impact", "max price impact");
        self.add_share(field, Some(old.max_impact), Some(new.max_impact));
        self.add_contracts(("trading.tokens", "more tokens"), &old.tokens, &new.tokens);
        self.add_contracts(("trading.hooks", "allowed hooks"), &old.hooks, &new.hooks);
    }

    fn lending(&mut self, old: &Policy, new: &Policy) {
        let (old, new) = (&old.lending, &new.lending);
        self.add_switch(("lending.enabled", "lending"), old.enabled, new.enabled);
        self.add_limit(
            ("lending.max_deposit", "max per deposit"),
            old.max_deposit,
            new.max_deposit,
        );
        self.add_limit(("lending.max_total", "max lent in total"), old.max_total, new.max_total);
        self.add_share(("lending.max_share", "max share lent"), old.max_share, new.max_share);
        let field = ("lending.auto_below", "lending automatic below");
        self.add_limit(field, old.auto_below, new.auto_below);
        let (from, to) = (old.operations_per_day, new.operations_per_day);
        let field = ("lending.operations_per_day", "lending operations per day");
        self.add_field(field, from != to, (from.to_string(), to.to_string()), "", to > from);
        let (from, to) = (old.curated_only, new.curated_only);
        let texts = (switch_text(from), switch_text(to));
        let field = ("lending.curated_only", "curated venues only");
        self.add_field(field, from != to, texts, "", from && !to);
    }

    fn networks(&mut self, old: &AllowedNetworks, new: &AllowedNetworks) {
        let text = |networks: &AllowedNetworks| match networks {
            AllowedNetworks::AllEnabled => "all enabled".to_owned(),
            AllowedNetworks::Only(chains) if chains.is_empty() => "none".to_owned(),
            AllowedNetworks::Only(chains) => {
                let name = |chain| {
                    networks::by_chain(chain)
                        .map_or_else(|| chain.to_string(), |row| row.title.to_owned())
                };
                chains.iter().map(|chain| name(*chain)).collect::<Vec<_>>().join(", ")
            }
        };
        let texts = (text(old), text(new));
        self.add_field(("networks", "networks"), old != new, texts, "", new.allows_more_than(old));
    }

    fn add_hosts(
        &mut self,
        field: Field,
        (old, new): (&[HostEntry], &[HostEntry]),
        none: &str,
        loosens: bool,
    ) {
        let (from, to) = (texts(old), texts(new));
        self.add_field(field, old != new, list_change(&from, &to, none), "", loosens);
    }

    /// Adds the change of a list of contracts. Each addition loosens.
    fn add_contracts(&mut self, field: Field, old: &Contracts, new: &Contracts) {
        let (from, to) = (old.texts(), new.texts());
        let from: Vec<&str> = from.iter().map(String::as_str).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let texts = list_change(&from, &to, "none");
        self.add_field(field, old != new, texts, "", new.contains_more_than(old));
    }

    fn add_switch(&mut self, field: Field, old: bool, new: bool) {
        self.add_field(field, old != new, (switch_text(old), switch_text(new)), "", new && !old);
    }

    fn add_limit(&mut self, field: Field, old: Usd, new: Usd) {
        self.add_field(field, old != new, (old.to_string(), new.to_string()), "USD", new > old);
    }

    /// Adds the change of a share; `None` means no limit.
    fn add_share(&mut self, field: Field, old: Option<Bps>, new: Option<Bps>) {
        let text = |share: Option<Bps>| share.map_or("none".to_owned(), |share| share.to_string());
        let most = |share: Option<Bps>| share.unwrap_or(Bps(u16::MAX));
        self.add_field(field, old != new, (text(old), text(new)), "", most(new) > most(old));
    }

    fn add_field(
        &mut self,
        (field, name): Field,
        differs: bool,
        (from, to): (String, String),
        unit: &str,
        loosens: bool,
    ) {
        if differs {
            let (field, name, unit) = (field.to_owned(), name.to_owned(), unit.to_owned());
            self.0.push(Change { field, name, from, to, unit, loosens });
        }
    }
}

fn texts(entries: &[HostEntry]) -> Vec<&str> {
    entries.iter().map(HostEntry::as_str).collect()
}
