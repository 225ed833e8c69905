//! The passage of time, and the clocks and block times that the world shows.

use bursar_auditor::observations::{Clocks, Observation};
use bursar_chain::ports::Clock;
use bursar_core::time::Utc;
use bursar_domain::Status;
use bursar_tests::engine::NEW_YEAR_S;

use crate::plan::{Step, ZONES};
use crate::world::{World, WorldFailure};

/// Milliseconds until the engine notices a clock change; the engine checks its clock every second.
const CLOCK_CHECK_MS: u64 = 1_001;

impl World {
    /// Shows the current clocks to the chains and the auditor.
    pub(crate) fn show_clocks(&mut self) -> Result<(), WorldFailure> {
        let moment = self.clock.now();
        let block = self.block_offset_ms.map(|off| self.true_time.plus_ms(off));
        let block = if self.swarm.has_markets() { self.chain_time(block) } else { block };
        for chain in &self.chains {
            chain.set_block(block);
        }
        self.tape.write(Observation::Clocks(Clocks {
            wall_ms: moment.utc.0,
            zone: self.zone.to_owned(),
            boot: self.boot,
            boot_ms: moment.boottime_ms,
            block_ms: block.map(|block| block.0),
        }));
        self.feed_auditor()
    }

    /// Returns the time of the newest block: it never goes back, and advances at least as much as the true time.
    fn chain_time(&mut self, wanted: Option<Utc>) -> Option<Utc> {
        let passed = self.true_time.since_ms(self.shown_time);
        self.shown_time = self.true_time;
        self.prices.pass_time(passed.max(0).unsigned_abs());
        let least = self.newest_block.plus_ms(passed.max(0));
        let block = wanted.map(|wanted| wanted.max(least));
        self.newest_block = block.unwrap_or(self.newest_block);
        self.update_feeds();
        block
    }

    pub(crate) fn pass(&mut self, ms: u64) -> Result<(), WorldFailure> {
        self.true_time = self.true_time.plus_ms(i64::try_from(ms).unwrap_or(0));
        self.clock.advance(ms);
        self.show_clocks()?;
        self.settle()?;
        if ms >= 100 {
            self.process().flush_core();
            self.settle()?;
        }
        Ok(())
    }

    pub(crate) fn set_clock(&mut self, ms: i64) -> Result<(), WorldFailure> {
        let to = self.clock.now().utc.plus_ms(ms);
        let least = Utc::from_seconds(NEW_YEAR_S - 400 * 86_400);
        let most = Utc::from_seconds(NEW_YEAR_S + 4000 * 86_400);
        self.clock.set_utc(to.clamp(least, most));
        self.show_clocks()?;
        self.settle()?;
        self.pass_clock_check()
    }

    /// Lets enough time pass for the wallet to notice a change of the clocks.
    fn pass_clock_check(&mut self) -> Result<(), WorldFailure> {
        self.pass(CLOCK_CHECK_MS)
    }

    pub(crate) fn clock_step(&mut self, step: Step) -> Result<(), WorldFailure> {
        match step {
            Step::Pass { ms } => self.pass(ms),
            Step::ToExpiry { off_ms } => {
                let moment = self.clock.now();
                let held = self.process().core().state().held.values().cloned().collect::<Vec<_>>();
                let left = held.iter().filter_map(|request| match &request.status {
                    Status::Held { deadline, .. } => Some(deadline.left_ms(&moment)),
                    _other => None,
                });
                let Some(left) = left.filter(|left| *left > 1).min() else { return Ok(()) };
                self.pass(left.saturating_add_signed(off_ms))
            }
            Step::ToMidnight { off_ms } => {
                let now =
                    jiff::Timestamp::from_millisecond(self.clock.now().utc.0).expect("a time");
                let local = now.in_tz(self.zone).expect("a zone");
                let next = local.tomorrow().and_then(|day| day.start_of_day()).expect("a day");
                let ms = next.timestamp().as_millisecond() - now.as_millisecond() + off_ms;
                self.pass(u64::try_from(ms.max(0)).unwrap_or(0))
            }
            Step::SetClock { ms } => self.set_clock(ms),
            Step::RightClock => self.set_clock(self.true_time.since_ms(self.clock.now().utc)),
            Step::Zone { which } => {
                self.zone = ZONES[which];
                self.clock.set_zone(self.zone).expect("a zone");
                self.show_clocks()?;
                self.settle()?;
                self.pass_clock_check()
            }
            Step::Sleep { ms } => {
                self.true_time = self.true_time.plus_ms(i64::try_from(ms).unwrap_or(0));
                self.clock.suspend(ms);
                self.show_clocks()?;
                self.settle()?;
                self.pass_clock_check()
            }
            Step::Block { ms } => {
                self.block_offset_ms = ms;
                self.show_clocks()
            }
            _other => Ok(()),
        }
    }
}
