//! The limit of unattended days: how much agents may spend without an approval while no person has opened the wallet.

use crate::Auditor;
use crate::clocks::{AllowancePeriod, add_period};
use crate::config::Config;
use crate::observations::Micros;
use crate::trading::TradeState;
use std::collections::BTreeSet;

/// The unattended days that may be in force.
#[derive(Debug, Default)]
pub(crate) struct Unattended {
    days: Vec<AllowancePeriod>,
    /// The observation since which the wallet has surely been open without a person.
    since: Option<u64>,
}

impl Auditor {
    /// Notes the observation since which the wallet has surely been open without a person.
    pub(crate) fn watch_unattended(&mut self) {
        let configs = || self.possible_configs.iter().map(|possible| &possible.config);
        let (any, all) = (configs().any(|c| c.is_unattended), configs().all(|c| c.is_unattended));
        if any && self.unattended.since.is_none() {
            // The first unattended unlock begins a day, and this may be that unlock.
            if let Some(first) = AllowancePeriod::first(&self.time) {
                add_period(&mut self.unattended.days, first, self.last_auth);
            }
        }
        if !all {
            self.unattended.since = None;
        } else if self.unattended.since.is_none() {
            self.unattended.since = Some(self.seq);
        }
    }

    /// Begins the next unattended day, for each possible day that is due.
    pub(crate) fn renew_unattended_day(&mut self) {
        for day in std::mem::take(&mut self.unattended.days) {
            for next in day.after_check(&self.time) {
                add_period(&mut self.unattended.days, next, self.last_auth);
            }
        }
    }

    /// Returns the least sum that all agents together spent on the unattended day in force, in micro-dollars.
    fn unattended_least(&self) -> Micros {
        let Some(since) = self.unattended.since else { return 0 };
        let spent = |day: &AllowancePeriod| {
            let from = day.since_event.max(since);
            let mut day = day.clone();
            day.since_event = from;
            self.least_paid(&day).saturating_add(self.least_traded(from))
        };
        self.unattended.days.iter().map(spent).min().unwrap_or(0)
    }

    fn least_paid(&self, day: &AllowancePeriod) -> Micros {
        let now = self.time.instant();
        let agents: BTreeSet<&String> = self.book.records.values().map(|rec| &rec.agent).collect();
        let spent = agents
            .into_iter()
            .map(|agent| self.book.used_by_others(agent, None, day, &now).spent.0);
        spent.fold(0, Micros::saturating_add)
    }

    /// Returns the least value of the executed trades that were requested since this observation, in micro-dollars.
    fn least_traded(&self, since: u64) -> Micros {
        let trades = self.trades.book.records.values().filter(|rec| rec.from > since);
        let executed = trades.filter(|rec| matches!(rec.end, Some(TradeState::Executed { .. })));
        let values = executed.filter_map(|rec| rec.extra.value).map(|(least, _most)| least);
        values.fold(0, Micros::saturating_add)
    }

    /// Returns the most that may be left of the unattended day, in micro-dollars.
    ///
    /// `None` if there is no limit, or if a person has opened the wallet.
    pub(crate) fn unattended_left(&self, config: &Config) -> Option<Micros> {
        let limit = config.unattended_daily.filter(|_limit| config.is_unattended)?;
        Some(limit.saturating_sub(self.unattended_least()))
    }
}
