//! Opens copies of the journal: a replay gives the state in memory, and no other edition opens it.

use std::sync::Arc;

use bursar_core::edition::EditionName;
use bursar_engine::core::Core;
use bursar_engine::journal::JournalError;
use bursar_engine::rules::Rules;

use crate::faults::PlantedBug;
use crate::store::DiskHealth;
use crate::world::{World, WorldFailure};

impl World {
    /// Opens a copy of the journal as the program of an edition.
    fn open_copy(&self, program: EditionName) -> Result<Result<Core, JournalError>, WorldFailure> {
        let faults = self.faults.for_replay(program);
        let journal = self.disk.copy().open(&faults);
        let journal = journal.map_err(|error| ("opens".to_owned(), error.to_string()))?;
        let edition = self.bounds.edition(program);
        let rules = Rules::with_mutated_rules(faults);
        Ok(Core::open(journal, &edition, Arc::default(), rules))
    }

    /// Checks that no other edition opens the journal.
    pub(crate) fn check_other_editions(&self) -> Result<(), WorldFailure> {
        for other in EditionName::ALL.into_iter().filter(|name| *name != self.swarm.edition) {
            let why = match self.open_copy(other)? {
                Err(JournalError::WrongEdition { .. }) => continue,
                Ok(_core) => format!("{other:?} opens the journal"),
                Err(error) => format!("{other:?}: {error}"),
            };
            return Err(("edition".to_owned(), why));
        }
        Ok(())
    }

    /// Checks that a replay of the journal results in the state in memory.
    pub(crate) fn compare_replay(&mut self) -> Result<(), WorldFailure> {
        self.process().flush_core();
        self.settle()?;
        if *self.health.lock().unwrap() == DiskHealth::Failed
            || self.process().core().failure().is_some()
        {
            return Ok(());
        }
        // Under this bug, a restart reads the journal wrongly. The other rules must find the consequences.
        if self.faults.plant() == Some(PlantedBug::SuppliedAgain) {
            return Ok(());
        }
        let again = self.open_copy(self.swarm.edition)?;
        let again = again.map_err(|error| ("I-c".to_owned(), format!("no replay: {error}")))?;
        if again.state() != self.process().core().state() {
            let (now, then) = (self.process().core().state().clone(), again.state());
            return Err(("I-c".to_owned(), format!("now {now:#?}\n\nby the journal {then:#?}")));
        }
        Ok(())
    }
}
