//! Agents: their credentials, commissions, spending and usage.

use bursar_core::auth::AuthMode;
use bursar_core::card::ByLane;
use bursar_core::ids::{AgentId, Name};
use bursar_core::limits::{FAILED_PLANS_PER_DAY_MAX, RECORDED_REFUSALS_PER_MINUTE_MAX};
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::status::AgentStatus;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::allowance::Window;

/// How an agent is authenticated.
///
/// The secret of an HMAC agent is in the wallet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credential {
    Hmac {
        /// A hash of id and secret, so that an older wallet file cannot bring back a replaced secret. The secret has
        /// 256 random bits, so the hash reveals nothing about it.
        secret_hash: [u8; 32],
    },
    /// SHA-256 of the whole token text, `AT_` included.
    Bearer { sha256: [u8; 32] },
}

impl Credential {
    /// Returns the mode in which the agent authenticates its requests.
    pub fn mode(&self) -> AuthMode {
        match self {
            Credential::Hmac { .. } => AuthMode::Hmac,
            Credential::Bearer { .. } => AuthMode::Bearer,
        }
    }
}

/// A registered agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    pub name: Name,
    pub credential: Credential,
    pub created: Utc,
    pub suspended: bool,
    /// The agent's policy and address.
    ///
    /// Without them the agent can only read its status.
    pub commission: Option<Commission>,
    /// Total value of the agent's open requests, by lane.
    pub reserved: ByLane<Usd>,
    pub refusals: Refusals,
    /// Number of the agent's payments that can still be redeemed.
    pub open_payments: u32,
    pub usage: Usage,
    pub failed_plans: FailedPlans,
}

/// Counts an agent's refused requests in the latest minute that had one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Refusals {
    minute: i64,
    count: u32,
}

impl Refusals {
    pub(crate) fn count(&mut self, at: Utc) {
        let minute = at.seconds().div_euclid(60);
        let before = if minute == self.minute { self.count } else { 0 };
        *self = Self { minute, count: before.saturating_add(1) };
    }

    /// Returns whether the refusals of this minute have reached their bound, so the next one is not recorded.
    ///
    /// The agent still receives the refusal. The bound keeps an agent from filling the journal with refused requests.
    pub(crate) fn are_too_many(&self, at: Utc) -> bool {
        self.minute == at.seconds().div_euclid(60) && self.count >= RECORDED_REFUSALS_PER_MINUTE_MAX
    }
}

/// Counts an agent's requests and its bytes of padding on one day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    day: i64,
    requests: u32,
    padding: u64,
}

impl Usage {
    /// Returns the number of requests and the bytes of padding on the day of `at`.
    pub fn counts_on(&self, at: Utc) -> (u32, u64) {
        if utc_day(at) == self.day { (self.requests, self.padding) } else { (0, 0) }
    }

    pub(crate) fn count(&mut self, at: Utc, padding: u32) {
        let (requests, before) = self.counts_on(at);
        *self = Self {
            day: utc_day(at),
            requests: requests.saturating_add(1),
            padding: before.saturating_add(u64::from(padding)),
        };
    }
}

/// Number of an agent's plans that paid for gas and failed on one day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailedPlans {
    day: i64,
    count: u32,
}

impl FailedPlans {
    /// Returns the number of failed plans on the day of `at`.
    pub fn count_on(&self, at: Utc) -> u32 {
        if utc_day(at) == self.day { self.count } else { 0 }
    }

    pub(crate) fn count(&mut self, at: Utc) {
        *self = Self { day: utc_day(at), count: self.count_on(at).saturating_add(1) };
    }

    /// Sets the count to the daily bound: after a restore, the number of failed plans is unknown.
    pub(crate) fn use_up(&mut self, at: Utc) {
        *self = Self { day: utc_day(at), count: self.count_on(at).max(FAILED_PLANS_PER_DAY_MAX) };
    }
}

fn utc_day(at: Utc) -> i64 {
    at.seconds().div_euclid(86_400)
}

/// An agent's policy, paying address and allowance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commission {
    pub policy: Name,
    /// Label of the paying address.
    pub label: Name,
    /// The running daily allowance.
    pub window: Window,
}

impl Agent {
    /// Returns the agent's status.
    ///
    /// The status is `LimitReached` once the amount spent, without reservations, reaches the daily limit for payments.
    /// `spent` is the amount spent of the allowance in force, so it is zero if a renewal is due.
    pub fn status(&self, policy: Option<&Policy>, spent: Usd) -> AgentStatus {
        match (&self.commission, policy) {
            (None, _) | (_, None) => AgentStatus::Uncommissioned,
            _ if self.suspended => AgentStatus::Suspended,
            (Some(_), Some(policy)) if spent >= policy.payments.daily => AgentStatus::LimitReached,
            (Some(_), Some(_)) => AgentStatus::Active,
        }
    }
}

/// A policy with its name and numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRecord {
    pub name: Name,
    /// The version, from 1 for each policy.
    pub version: u64,
    /// The serial number of the version, unique among all versions of all policies.
    pub serial: u64,
    pub policy: Policy,
}
