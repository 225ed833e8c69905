//! The engine's timers: expire requests, renew allowances, ask silent networks again, and lock an idle wallet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bursar_core::lock_cause::LockCause;
use bursar_core::time::Moment;
use bursar_domain::Action;
use bursar_domain::allowance::Renewal;

use crate::context::EngineContext;
use crate::operator::wallet::lock::lock_unless_used;

/// If at least this many authorizations were removed, their memory (some megabytes) is returned to the system.
const LARGE_BURST: usize = 1_000;
/// Interval between two checks.
const CHECK_INTERVAL_MS: u64 = 1_000;
/// Interval in which networks that do not answer are asked again; a question ends before the next one.
const ASK_SILENT_INTERVAL_MS: u64 = 60_000;
/// Between two checks, boot clock and monotonic clock drift apart by more than this only if the machine slept.
const SLEEP_THRESHOLD_MS: u64 = 60_000;

/// Expires requests, renews allowances, asks silent networks and locks an idle wallet, until the engine stops.
pub(super) async fn run(shared: Arc<EngineContext>) {
    let mut watch = UseWatch::at(&shared.ports.clock.now());
    let mut most_authorized = 0;
    let mut asks_silent_ms = shared.ports.clock.mono_ms();
    loop {
        let wake = shared.ports.clock.mono_ms().saturating_add(CHECK_INTERVAL_MS);
        // cancel-safe: both branches only wait.
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = shared.ports.clock.sleep_until(wake) => {}
        }
        // This call logs a change of the disk space even if no request arrives.
        let _short = shared.disk_room.is_short();
        let before = shared.core.view();
        let is_due = is_due(&shared);
        // A failed core records nothing more.
        if before.failure.is_none() && (is_due || has_lapsed_burst(&shared)) {
            if let Err(fault) = shared.core.act(Action::Tick).await {
                tracing::warn!(code = %fault.code, "expiries and renewals could not be recorded");
            } else if !is_due {
                watch.skip_entry(before.head.seq);
            }
        }
        let authorized = shared.core.view().authorized;
        most_authorized = most_authorized.max(authorized);
        if most_authorized.saturating_sub(authorized) >= LARGE_BURST {
            most_authorized = authorized;
            // The task may outlive this loop: no code waits for it.
            drop(tokio::task::spawn_blocking(bursar_heap::release_free_pages));
        }
        if wake >= asks_silent_ms {
            asks_silent_ms = wake.saturating_add(ASK_SILENT_INTERVAL_MS);
            ask_silent(&shared);
        }
        lock_if_unused(&shared, &mut watch).await;
    }
}

/// Asks the networks that do not answer again, so that their outage ends although no command needs them.
fn ask_silent(shared: &EngineContext) {
    for (_network, chain, _since_ms) in shared.silent_chains() {
        let stopping = shared.stopping.clone();
        shared.tasks.spawn(async move {
            // cancel-safe: an answer only changes what is known about the endpoints.
            tokio::select! {
                () = stopping.cancelled() => {}
                _answer = chain.chain_id() => {}
            }
        });
    }
}

fn is_due(shared: &EngineContext) -> bool {
    let view = shared.core.view();
    let moment = shared.core.now();
    let expired = view.state.held.values().any(|request| request.is_hold_over(&moment));
    let mut given = view.state.agents.values().filter_map(|agent| agent.commission.as_ref());
    let mut renews =
        || given.any(|given| matches!(given.window.start.renewal(&moment), Renewal::Renew(_)));
    let mut plans = view.state.executing.values().filter_map(|request| request.execution());
    let mut overdue = || plans.any(|plan| plan.end.is_none() && plan.is_late(&moment));
    let over = view.state.waiting.values().any(|request| request.is_wait_over(&moment));
    let lapses = || view.state.lapsed_at(&moment).next().is_some();
    // While the wallet is locked no allowance can be spent, so none renews, and no plan ends.
    expired || over || (shared.vault.is_unlocked() && (renews() || overdue() || lapses()))
}

/// Whether enough authorizations have lapsed to justify an entry that removes them. `false` while the wallet is
/// locked, because the entry would not be sealed.
fn has_lapsed_burst(shared: &EngineContext) -> bool {
    let now = u64::try_from(shared.core.now().utc.seconds()).unwrap_or(0);
    shared.vault.is_unlocked() && shared.core.view().burst_lapses_at.is_some_and(|at| at <= now)
}

async fn lock_if_unused(shared: &Arc<EngineContext>, watch: &mut UseWatch) {
    let moment = shared.ports.clock.now();
    let view = shared.core.view();
    let cause = watch.observe(view.head.seq, &moment);
    // An unlock counts as a use even if no entry records it because the journal is untrusted.
    watch.since_ms = watch.since_ms.max(shared.last_used_ms.load(Ordering::Relaxed));
    shared.last_used_ms.store(watch.since_ms, Ordering::Relaxed);
    let Some(limit_s) = view.idle_lock_s() else { return };
    let unused_ms = moment.mono_ms.saturating_sub(watch.since_ms);
    let cause = cause.or((unused_ms >= limit_s.saturating_mul(1_000)).then_some(LockCause::Idle));
    if let Some(cause) = cause.filter(|_cause| shared.vault.is_unlocked()) {
        lock_unless_used(shared, cause, view.head.seq).await;
    }
}

/// Detects when the wallet was last used and whether the machine slept. Every journal entry counts as a use: an
/// agent's request, an operator's change, a recorded unlock.
#[derive(Debug)]
struct UseWatch {
    entries: u64,
    /// The last use, on the monotonic clock.
    since_ms: u64,
    /// How far the clock that includes sleep is ahead of the monotonic clock.
    ahead_ms: i64,
}

impl UseWatch {
    fn at(moment: &Moment) -> Self {
        Self { entries: 0, since_ms: moment.mono_ms, ahead_ms: ahead_ms(moment) }
    }

    /// Ignores the entry after `entries`, the last observed one. The engine wrote it on its own, so it does not count
    /// as a use of the wallet.
    fn skip_entry(&mut self, entries: u64) {
        if self.entries == entries {
            self.entries = entries.saturating_add(1);
        }
    }

    /// Records the number of entries. Returns [`LockCause::Sleep`] if the machine slept since the last check.
    fn observe(&mut self, entries: u64, moment: &Moment) -> Option<LockCause> {
        if entries != self.entries {
            (self.entries, self.since_ms) = (entries, moment.mono_ms);
        }
        let ahead_ms = ahead_ms(moment);
        let slept_ms = ahead_ms.saturating_sub(self.ahead_ms);
        self.ahead_ms = ahead_ms;
        u64::try_from(slept_ms)
            .is_ok_and(|slept_ms| slept_ms > SLEEP_THRESHOLD_MS)
            .then_some(LockCause::Sleep)
    }
}

/// Returns by how much the clock that includes sleep is ahead of the monotonic clock, which stops during sleep.
///
/// If the platform does not report the time since boot, the wall clock replaces it: setting it ahead then locks the
/// wallet.
fn ahead_ms(moment: &Moment) -> i64 {
    let mono_ms = i64::try_from(moment.mono_ms).unwrap_or(i64::MAX);
    let other_ms = match moment.boottime_ms {
        0 => moment.utc.0,
        known => i64::try_from(known).unwrap_or(i64::MAX),
    };
    other_ms.saturating_sub(mono_ms)
}

#[cfg(test)]
mod tests {
    use bursar_chain::clock::manual::ManualClock;
    use bursar_chain::ports::Clock;
    use bursar_core::time::Utc;

    use super::*;

    fn clock() -> ManualClock {
        let clock = ManualClock::new(Utc(1_700_000_000_000));
        clock.advance(5_000);
        clock
    }

    #[test]
    fn an_entry_is_a_use() {
        let clock = clock();
        let mut watch = UseWatch::at(&clock.now());
        for (wait_ms, entries, since_ms) in
            [(0, 7, 5_000), (1_000, 7, 5_000), (1_000, 8, 7_000), (60_000, 8, 7_000)]
        {
            clock.advance(wait_ms);
            assert_eq!(watch.observe(entries, &clock.now()), None);
            assert_eq!(watch.since_ms, since_ms);
        }
    }

    #[test]
    fn only_a_sleep_of_more_than_a_minute_is_one() {
        let clock = clock();
        let mut watch = UseWatch::at(&clock.now());
        clock.suspend(SLEEP_THRESHOLD_MS);
        assert_eq!(watch.observe(1, &clock.now()), None);
        clock.suspend(SLEEP_THRESHOLD_MS + 1);
        assert_eq!(watch.observe(1, &clock.now()), Some(LockCause::Sleep));
        assert_eq!(watch.observe(1, &clock.now()), None, "once");
        // A busy machine checks late, but it was awake.
        clock.advance(600_000);
        assert_eq!(watch.observe(1, &clock.now()), None);
    }

    #[test]
    fn without_a_boot_clock_the_wall_clock_reveals_a_sleep() {
        let clock = clock();
        let now = || Moment { boottime_ms: 0, ..clock.now() };
        let mut watch = UseWatch::at(&now());
        clock.advance(600_000);
        assert_eq!(watch.observe(1, &now()), None);
        clock.suspend(SLEEP_THRESHOLD_MS + 1);
        assert_eq!(watch.observe(1, &now()), Some(LockCause::Sleep));
        clock.jump_back(600_000);
        assert_eq!(watch.observe(1, &now()), None);
    }
}
