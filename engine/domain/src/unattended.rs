//! Unattended days: how much all agents together spend in a day while no person has opened the wallet. A day begins
//! and ends like an allowance: see [`crate::allowance`]. `decide` applies the limit of a day.

use bursar_core::money::Usd;
use bursar_core::time::Moment;
use serde::{Deserialize, Serialize};

use crate::allowance::{Renewal, WindowStart};
use crate::event::Event;

/// Whether a person has opened the wallet, and how much agents spent on the unattended day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UnattendedSpending {
    /// Whether no person has opened the wallet since the engine started.
    pub active: bool,
    /// The day in force; `None` before the first unattended unlock.
    ///
    /// An unlock by a person does not end it, so a reboot on the same day grants nothing.
    pub day: Option<UnattendedDay>,
}

/// One day of the limit on unattended spending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnattendedDay {
    pub start: WindowStart,
    /// The amount that all agents spent, in all lanes.
    pub spent: Usd,
}

impl UnattendedSpending {
    /// Returns the event that begins a new day, if one is due at this moment.
    pub(crate) fn day_to_begin(&self, moment: &Moment) -> Option<Event> {
        let start = match &self.day {
            None => WindowStart::first(moment),
            Some(day) => match day.start.renewal(moment) {
                Renewal::Renew(start) => start,
                Renewal::Keep | Renewal::HeldBack(_) => return None,
            },
        };
        Some(Event::UnattendedDayStarted { start })
    }

    /// Returns the amount spent on the day in force.
    pub fn spent_at(&self, moment: &Moment) -> Usd {
        match &self.day {
            Some(day) if !matches!(day.start.renewal(moment), Renewal::Renew(_)) => day.spent,
            Some(_) | None => Usd::ZERO,
        }
    }

    pub(crate) fn begin(&mut self, start: WindowStart) {
        self.day = Some(UnattendedDay { start, spent: Usd::ZERO });
    }

    /// Counts the day as spent, whatever its limit.
    pub(crate) fn spend_all(&mut self) {
        if let Some(day) = &mut self.day {
            day.spent = Usd(u64::MAX);
        }
    }

    /// Counts an agent's spending, unless a person has opened the wallet.
    pub(crate) fn spend(&mut self, usd: Usd) {
        if let Some(day) = self.day.as_mut().filter(|_day| self.active) {
            day.spent = Usd(day.spent.0.saturating_add(usd.0));
        }
    }
}
