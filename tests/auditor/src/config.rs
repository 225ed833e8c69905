//! The wallet's configuration. Where it is uncertain, the auditor keeps several.

use crate::Facts;
use crate::clocks::AllowancePeriod;
use crate::lending::LendingPolicy;
use crate::observations::{Address, Micros, Policy, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A value shared between configurations, because many are possible at once and differ in little.
#[derive(Debug, Clone, Default, Eq)]
pub(crate) struct Shared<T>(Rc<T>);

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

/// An account of the wallet. Its address is `None` if the order that created it got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) label: String,
    pub(crate) address: Option<Address>,
}

/// A policy. Its version grows with every edit that has an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionedPolicy {
    pub(crate) name: String,
    pub(crate) version: u64,
    pub(crate) policy: Policy,
    pub(crate) lending: LendingPolicy,
}

/// The terms on which an agent spends: a policy, an account and an allowance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commission {
    pub(crate) policy: Ticket,
    pub(crate) account: Ticket,
    pub(crate) periods: Vec<AllowancePeriod>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) is_bearer: bool,
    /// Whether a new token was issued but not returned, so that no call can contain it.
    pub(crate) is_token_unreturned: bool,
    pub(crate) is_suspended: bool,
    pub(crate) commission: Option<Commission>,
}

/// A network of the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) is_enabled: bool,
    pub(crate) stablecoin: Address,
}

/// Everything that the operator can set.
///
/// Objects are identified by the ticket of the order that created them, so a rename does not create a new object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) has_wallet: bool,
    pub(crate) is_open: bool,
    pub(crate) is_frozen: bool,
    /// Whether the wallet was last opened without a person entering the password.
    pub(crate) is_unattended: bool,
    /// The limit of an unattended day, in micro-dollars.
    pub(crate) unattended_daily: Option<Micros>,
    pub(crate) max_validity: u64,
    pub(crate) networks: Shared<BTreeMap<u64, Network>>,
    pub(crate) accounts: Shared<BTreeMap<Ticket, Account>>,
    pub(crate) policies: Shared<BTreeMap<Ticket, VersionedPolicy>>,
    pub(crate) agents: Shared<BTreeMap<String, Agent>>,
    pub(crate) deleted_agents: BTreeSet<String>,
    /// The confirmed venues, with the curator and owner that each had at its confirmation.
    pub(crate) confirmed_venues: Shared<BTreeMap<(u64, Address), (Address, Address)>>,
}

/// How an order ended in one possible sequence of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OrderEnd {
    Done,
    Registered,
    Added,
    Code(&'static str),
}

/// One possible configuration, and the open orders that it includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PossibleConfig {
    pub(crate) config: Config,
    pub(crate) applied_orders: BTreeMap<Ticket, OrderEnd>,
}

impl Config {
    pub(crate) fn new(facts: &Facts) -> Self {
        let networks = facts
            .networks
            .iter()
            .map(|n| {
                (n.chain, Network { is_enabled: n.on, stablecoin: n.stablecoin.to_lowercase() })
            })
            .collect();
        Self {
            has_wallet: false,
            is_open: false,
            is_frozen: false,
            is_unattended: false,
            unattended_daily: None,
            max_validity: 3600,
            networks: Shared(Rc::new(networks)),
            accounts: Shared::default(),
            policies: Shared::default(),
            agents: Shared::default(),
            deleted_agents: BTreeSet::new(),
            confirmed_venues: Shared::default(),
        }
    }

    /// Returns the code of the agent that an order names by code or name.
    pub(crate) fn agent_code(&self, named: &str) -> Option<String> {
        if self.agents.contains_key(named) {
            return Some(named.to_owned());
        }
        let found = self.agents.iter().find(|(_, a)| a.name.eq_ignore_ascii_case(named));
        found.map(|(code, _)| code.clone())
    }

    pub(crate) fn account_named(&self, label: &str) -> Option<Ticket> {
        let found = self.accounts.iter().find(|(_, a)| a.label.eq_ignore_ascii_case(label));
        found.map(|(uid, _)| *uid)
    }

    pub(crate) fn policy_named(&self, name: &str) -> Option<Ticket> {
        let found = self.policies.iter().find(|(_, p)| p.name.eq_ignore_ascii_case(name));
        found.map(|(uid, _)| *uid)
    }

    /// Returns the policy of an agent, with the ticket that identifies it.
    pub(crate) fn policy_of(&self, agent: &str) -> Option<(Ticket, &VersionedPolicy)> {
        let uid = self.agents.get(agent)?.commission.as_ref()?.policy;
        self.policies.get(&uid).map(|p| (uid, p))
    }

    /// Checks whether an authorized payment of this agent may be signed now. Fails with the rule that forbids it.
    pub(crate) fn may_sign_for(&self, agent: &str) -> Result<(), &'static str> {
        if !self.is_open {
            Err("I-f")
        } else if self.is_frozen {
            Err("I-g")
        } else if self.agents.get(agent).is_none_or(|a| a.is_suspended) {
            Err("I-i")
        } else {
            Ok(())
        }
    }
}
