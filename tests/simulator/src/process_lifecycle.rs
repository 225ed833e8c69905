//! The beginning and the end of a process: an orderly stop, or a death at any point.

use bursar_auditor::observations::Observation;

use std::sync::Arc;

use bursar_chain::ports::Prices;
use bursar_engine::ports::PriceSource;

use crate::plan::Slowness;
use crate::process::{Environment, Process};
use crate::store::{DiskHealth, WorldStore};
use crate::world::{BOOT_MS, World, WorldFailure};

/// How long the wallet waits for a device's answer to a command without a prompt.
const DEVICE_ANSWER_MS: u64 = 5_000;

impl World {
    pub(crate) fn begin(&mut self) -> Result<(), WorldFailure> {
        self.tape.revive();
        *self.health.lock().unwrap() = DiskHealth::Healthy;
        self.steps_until_restart = None;
        // No time passes while a process starts, so it cannot wait for slow nodes.
        self.slow_down(Slowness::default());
        let store = self.open_disk()?;
        let environment = Environment {
            folder: &self.folder,
            clock: &self.clock,
            random: &self.random,
            faults: &self.faults,
            chains: &self.ports,
            prices: PriceSource::from(Some(Arc::clone(&self.prices) as Arc<dyn Prices>)),
            tape: &self.tape,
            runs_core_at_every_poll: self.swarm.eager,
            edition: self.bounds.edition(self.swarm.edition),
            device: self.device.as_ref(),
        };
        self.process = Some(Process::begin(&environment, Box::new(store)));
        self.outcome.processes += 1;
        self.tape.write(Observation::Started);
        self.show_clocks()?;
        self.settle()?;
        for id in std::mem::take(&mut self.unreturned_ids) {
            self.poll(&id)?;
        }
        for id in std::mem::take(&mut self.unreturned_trades) {
            self.poll_trade(&id)?;
        }
        for id in std::mem::take(&mut self.unreturned_loans) {
            self.poll_loan(&id)?;
        }
        self.poll_device_payments(false)?;
        self.poll_device_trades(false)
    }

    /// Opens the journal's store. The process or the machine may die while the store is being repaired.
    fn open_disk(&mut self) -> Result<WorldStore, WorldFailure> {
        loop {
            if self.swarm.sectors && self.swarm.crashes && self.dice.chance(1, 8) {
                self.faults.arm("disk.before_flush", self.dice.roll(3) as u32);
            }
            let store = WorldStore::open(&self.disk, &self.health, &self.faults);
            match (store, self.faults.disarm()) {
                (_, Some(point)) => {
                    *self.outcome.deaths.entry(point).or_default() += 1;
                    self.leave_disk();
                }
                (store, None) => return store.map_err(|e| ("opens".to_owned(), e.to_string())),
            }
        }
    }

    /// Keeps the dead process's writes on disk, except unflushed ones that a power cut may lose.
    fn leave_disk(&mut self) {
        self.disk.cut_off_process();
        if self.swarm.sectors && self.dice.chance(1, 2) {
            self.disk.cut_power(&mut self.dice);
        }
    }

    /// Kills the process and starts the next one.
    pub(crate) fn die(&mut self) -> Result<(), WorldFailure> {
        self.tape.kill();
        self.feed_auditor()?;
        self.disk.cut_off_process();
        self.process = None;
        self.leave_disk();
        let point = self.faults.disarm().unwrap_or("anywhere");
        *self.outcome.deaths.entry(point).or_default() += 1;
        self.tape.revive();
        self.tape.write(Observation::Died);
        self.feed_auditor()?;
        self.begin()
    }

    pub(crate) fn stop_and_start(&mut self, reboots: bool) -> Result<(), WorldFailure> {
        self.settle()?;
        if self.device.as_ref().is_some_and(|device| device.is_silent()) {
            // A stop waits until the wallet has given up on a silent device.
            self.pass(DEVICE_ANSWER_MS)?;
        }
        self.faults.disarm();
        if let Some(process) = self.process.take() {
            process.stop();
        }
        self.feed_auditor()?;
        self.tape.write(Observation::Stopped);
        if reboots {
            self.disk.flush();
            self.boot += 1;
            self.clock.set_boot_id(&format!("boot-{}", self.boot));
            self.true_time = self.true_time.plus_ms(BOOT_MS);
            self.clock.advance(BOOT_MS.unsigned_abs());
        }
        self.feed_auditor()?;
        self.begin()
    }

    /// Runs all tasks until they are idle, and shows the auditor the new observations.
    pub(crate) fn settle(&mut self) -> Result<(), WorldFailure> {
        if !self.process().run_until_idle() {
            return self.die();
        }
        self.feed_auditor()
    }

    pub(crate) fn count_down_to_restart(&mut self) -> Result<(), WorldFailure> {
        match &mut self.steps_until_restart {
            Some(0) => self.die(),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
