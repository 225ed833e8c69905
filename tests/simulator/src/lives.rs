//! The beginning and the end of a process: orderly, or in the middle of anything.

use bursar_auditor::observations::Observation;

use crate::life::{Around, Life};
use crate::store::{Health, WorldStore};
use crate::world::{BOOT_MS, Trouble, World};

impl World {
    pub(crate) fn begin(&mut self) -> Result<(), Trouble> {
        self.tape.revive();
        *self.health.lock().unwrap() = Health::Well;
        self.noticed = None;
        let store = self.open_disk()?;
        let around = Around {
            folder: &self.folder,
            clock: &self.clock,
            random: &self.random,
            faults: &self.faults,
            chains: &self.ports,
            tape: &self.tape,
            eager: self.swarm.eager,
            edition: self.bounds.edition(),
        };
        self.life = Some(Life::begin(&around, Box::new(store)));
        self.outcome.lives += 1;
        self.tape.write(Observation::Started);
        self.show_clocks()?;
        self.settle()?;
        for id in std::mem::take(&mut self.untold) {
            self.poll(&id)?;
        }
        Ok(())
    }

    /// Opens the journal's store. The process or the machine may die while the store is being repaired.
    fn open_disk(&mut self) -> Result<WorldStore, Trouble> {
        loop {
            if self.swarm.sectors && self.swarm.crashes && self.dice.chance(1, 8) {
                self.faults.arm("disk.before_flush", self.dice.roll(3) as u32);
            }
            let store = WorldStore::open(&self.disk, &self.health, &self.faults);
            match (store, self.faults.disarm()) {
                (_, Some(point)) => {
                    *self.outcome.deaths.entry(point).or_default() += 1;
                    self.left_behind();
                }
                (store, None) => return store.map_err(|e| ("opens".to_owned(), e.to_string())),
            }
        }
    }

    /// Leaves on disk what the process has written; a power cut may lose what was not flushed.
    fn left_behind(&mut self) {
        self.disk.leave();
        if self.swarm.sectors && self.dice.chance(1, 2) {
            self.disk.cut(&mut self.dice);
        }
    }

    /// Kills the process and starts the next one.
    pub(crate) fn die(&mut self) -> Result<(), Trouble> {
        self.tape.kill();
        self.hear()?;
        self.disk.leave();
        self.life = None;
        self.left_behind();
        let point = self.faults.disarm().unwrap_or("anywhere");
        *self.outcome.deaths.entry(point).or_default() += 1;
        self.tape.revive();
        self.tape.write(Observation::Died);
        self.hear()?;
        self.begin()
    }

    pub(crate) fn stop_and_start(&mut self, reboots: bool) -> Result<(), Trouble> {
        self.settle()?;
        self.faults.disarm();
        if let Some(life) = self.life.take() {
            life.stop();
        }
        self.hear()?;
        self.tape.write(Observation::Stopped);
        if reboots {
            self.disk.flush();
            self.boot += 1;
            self.clock.set_boot_id(&format!("boot-{}", self.boot));
            self.honest = self.honest.plus_ms(BOOT_MS);
            self.clock.advance(BOOT_MS.unsigned_abs());
        }
        self.hear()?;
        self.begin()
    }

    /// Runs everything until it is idle, and shows the auditor what happened.
    pub(crate) fn settle(&mut self) -> Result<(), Trouble> {
        if !self.life().go_on() {
            return self.die();
        }
        self.hear()
    }

    pub(crate) fn count_down(&mut self) -> Result<(), Trouble> {
        match &mut self.noticed {
            Some(0) => self.die(),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
