//! The daily allowance: when it renews and how much of it is spent. Only this module knows the rule. The day, the
//! boot and the clock readings come in the [`Moment`].
//!
//! An allowance begins at a local midnight, the first one at the midnight of the day of commissioning. It renews at a
//! later local midnight that is at least 20 hours after its start, and at no other time. So no date has two
//! allowances, setting the clock back grants none, and a flight to the east renews none early.
//!
//! Within one boot of the machine, the boot clock must agree that the time between the two midnights has passed. On a
//! platform without a boot id, a renewal needs a known chain time. A wall clock more than an hour ahead of a known
//! chain time blocks the renewal too. A blocked renewal waits until the clocks agree or the operator grants it.

use bursar_core::card::ByLane;
use bursar_core::limits::{
    ALLOWANCE_BOOT_SLACK_MS, ALLOWANCE_LIFE_MS_MIN, CLOCK_AHEAD_OF_CHAIN_MS_MAX,
};
use bursar_core::money::Usd;
use bursar_core::time::{LocalDay, Moment, Utc};
use serde::{Deserialize, Serialize};

/// The running allowance of one agent.
///
/// Its lanes renew together, and each has its own limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub start: WindowStart,
    pub spent: ByLane<Usd>,
    /// Number of supplies and withdrawals that took effect.
    pub operations: u32,
}

/// The start of an allowance: its date, and the readings of the wall clock and the boot clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowStart {
    /// The local date of the allowance.
    pub day: LocalDay,
    pub utc: Utc,
    /// Id of the boot in which the allowance was granted; empty if unknown.
    pub boot_id: String,
    /// The boot clock's reading at `utc`, in milliseconds; negative if that was before the boot.
    pub boot_ms: i64,
}

/// The verdict on renewing an allowance at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// The allowance continues.
    Keep,
    /// A new allowance begins.
    Renew(WindowStart),
    /// A renewal is due by date, but another clock disagrees or is missing. The operator may renew it (`agent
    /// renew`).
    HeldBack(WindowStart),
}

impl WindowStart {
    /// Returns the start of a first allowance: the midnight of the current day.
    pub fn first(moment: &Moment) -> Self {
        Self::at(moment, moment.day_start)
    }

    fn at(moment: &Moment, utc: Utc) -> Self {
        Self {
            day: moment.local_day,
            utc,
            boot_id: moment.boot_id.clone(),
            boot_ms: boot_now(moment).saturating_sub(moment.utc.since_ms(utc)),
        }
    }

    /// Decides whether the allowance renews at `moment`.
    pub fn renewal(&self, moment: &Moment) -> Renewal {
        let lasted = moment.day_start.since_ms(self.utc);
        if moment.local_day <= self.day || lasted < ALLOWANCE_LIFE_MS_MIN {
            return Renewal::Keep;
        }
        // Starts at midnight, not now: a late first request must not delay the next renewal.
        let mut next = Self::at(moment, moment.day_start);
        let disagrees = self.is_same_boot(moment) && {
            // `over` is the lowest reading that the boot clock can have had when this allowance ended. The next
            // allowance starts between `over` and the current reading, even if the wall clock disagrees.
            let over = self.boot_ms.saturating_add(lasted.saturating_sub(ALLOWANCE_BOOT_SLACK_MS));
            next.boot_ms = next.boot_ms.max(over).min(boot_now(moment));
            boot_now(moment) < over
        };
        // Without a boot id, no clock of this machine can contradict its wall clock.
        let unproven = moment.boot_id.is_empty() && moment.chain_hint.is_none();
        if disagrees || unproven || is_ahead_of_chain(moment) {
            Renewal::HeldBack(next)
        } else {
            Renewal::Renew(next)
        }
    }

    /// Returns the instant and the date that bound the start of the next allowance.
    ///
    /// The next allowance begins at the first local midnight that is at or after the instant and after the date.
    /// `None` while a renewal is held back, because its time is then unknown.
    pub fn renews_after(&self, moment: &Moment) -> Option<(Utc, LocalDay)> {
        let running = match self.renewal(moment) {
            Renewal::Keep => self.clone(),
            Renewal::Renew(next) => next,
            Renewal::HeldBack(_) => return None,
        };
        Some((running.utc.plus_ms(ALLOWANCE_LIFE_MS_MIN), running.day))
    }

    fn is_same_boot(&self, moment: &Moment) -> bool {
        !self.boot_id.is_empty() && moment.boottime_ms > 0 && self.boot_id == moment.boot_id
    }
}

fn boot_now(moment: &Moment) -> i64 {
    i64::try_from(moment.boottime_ms).unwrap_or(i64::MAX)
}

fn is_ahead_of_chain(moment: &Moment) -> bool {
    moment.chain_hint.is_some_and(|block| moment.utc.since_ms(block) > CLOCK_AHEAD_OF_CHAIN_MS_MAX)
}

impl Window {
    /// Returns the first, unspent allowance of an agent.
    pub fn first(moment: &Moment) -> Self {
        Self::unspent(WindowStart::first(moment))
    }

    /// Returns an allowance that is entirely unspent.
    pub fn unspent(start: WindowStart) -> Self {
        Self { start, spent: ByLane::default(), operations: 0 }
    }

    /// Returns the number of supplies and withdrawals in the allowance in force at `moment`.
    pub fn operations_at(&self, moment: &Moment) -> u32 {
        match self.start.renewal(moment) {
            Renewal::Renew(_) => 0,
            Renewal::Keep | Renewal::HeldBack(_) => self.operations,
        }
    }

    /// Returns the amount spent, by lane, of the allowance in force at `moment`.
    pub fn spent_at(&self, moment: &Moment) -> ByLane<Usd> {
        match self.start.renewal(moment) {
            Renewal::Renew(_) => ByLane::default(),
            Renewal::Keep | Renewal::HeldBack(_) => self.spent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(utc_s: i64, day: i32, boot: &str, boot_s: u64) -> Moment {
        Moment {
            utc: Utc::from_seconds(utc_s),
            mono_ms: 0,
            boot_id: boot.to_owned(),
            boottime_ms: boot_s * 1000,
            local_day: LocalDay(day),
            day_start: Utc::from_seconds(i64::from(day) * 86_400),
            offset_s: 0,
            chain_hint: None,
        }
    }

    #[test]
    fn a_jump_of_the_wall_clock_within_a_boot_is_held_back() {
        let first = WindowStart::first(&moment(0, 0, "boot", 100));
        assert!(matches!(first.renewal(&moment(86_400, 1, "boot", 160)), Renewal::HeldBack(_)));
        assert!(matches!(first.renewal(&moment(86_400, 1, "boot", 86_500)), Renewal::Renew(_)));
        assert!(matches!(first.renewal(&moment(86_400, 1, "other", 5)), Renewal::Renew(_)));
        // A reading of zero means that there is no boot clock, so it cannot contradict the wall clock.
        assert!(matches!(first.renewal(&moment(86_400, 1, "boot", 0)), Renewal::Renew(_)));
    }

    #[test]
    fn a_late_first_request_does_not_cost_the_next_day_in_the_same_boot() {
        let first = WindowStart::first(&moment(0, 0, "boot", 100));
        let Renewal::Renew(second) = first.renewal(&moment(86_400 + 64_800, 1, "boot", 151_300))
        else {
            panic!("18:00 of the next day renews");
        };
        assert_eq!(second.utc, Utc::from_seconds(86_400));
        let midnight = moment(2 * 86_400, 2, "boot", 100 + 2 * 86_400);
        assert!(matches!(second.renewal(&midnight), Renewal::Renew(_)));
    }

    #[test]
    fn without_a_boot_identity_the_chain_or_the_operator_confirms() {
        let first = WindowStart::first(&moment(0, 0, "", 0));
        let mut now = moment(86_400, 1, "", 0);
        assert!(matches!(first.renewal(&now), Renewal::HeldBack(_)));
        assert_eq!(first.renews_after(&now), None);
        now.chain_hint = Some(Utc::from_seconds(86_400 - 3_600));
        assert!(matches!(first.renewal(&now), Renewal::Renew(_)));
        now.chain_hint = Some(Utc::from_seconds(86_400 - 3_601));
        assert!(matches!(first.renewal(&now), Renewal::HeldBack(_)));
        // Within the same day no renewal is due, so no other clock must confirm one.
        assert_eq!(first.renewal(&moment(86_399, 0, "", 0)), Renewal::Keep);
    }

    #[test]
    fn a_clock_ahead_of_the_chain_is_held_back() {
        let first = WindowStart::first(&moment(0, 0, "a", 100));
        let mut now = moment(86_400, 1, "b", 10);
        now.chain_hint = Some(Utc::from_seconds(86_400 - 3_601));
        assert!(matches!(first.renewal(&now), Renewal::HeldBack(_)));
        now.chain_hint = Some(Utc::from_seconds(86_400 - 3_600));
        assert!(matches!(first.renewal(&now), Renewal::Renew(_)));
    }
}
