//! Copies the data folder of a world, so that later builds can open it.

use std::path::Path;

use bursar_chain::ports::Clock;
use bursar_core::time::Utc;

use crate::plan::Plan;
use crate::world::{World, WorldFailure};

/// Runs the steps of a plan, stops the engine, and copies the wallet and journal to the new folder `to`.
///
/// Returns the time on the engine's clock at the stop. Requests, plans and prompts stay as the last step left them.
///
/// # Errors
/// Fails if the world broke a rule.
pub fn record(plan: &Plan, to: &Path) -> Result<Utc, String> {
    let mut plan = plan.clone();
    // Only the store on sectors has its files as bytes.
    plan.swarm.sectors = true;
    let mut world = World::new(&plan, None);
    world
        .run_steps(&plan)
        .and_then(|()| world.leave_data_folder(to))
        .map_err(|(rule, what)| format!("{rule}: {what}"))
}

impl World {
    fn leave_data_folder(&mut self, to: &Path) -> Result<Utc, WorldFailure> {
        self.settle()?;
        self.faults.disarm();
        if let Some(process) = self.process.take() {
            process.stop();
        }
        self.disk.flush();
        let wallets = to.join("wallets");
        std::fs::create_dir_all(&wallets).expect("a folder");
        for file in std::fs::read_dir(self.folder.join("wallets")).expect("wallets").flatten() {
            std::fs::copy(file.path(), wallets.join(file.file_name())).expect("copied");
        }
        for (name, bytes) in self.disk.files() {
            std::fs::write(to.join(name), bytes).expect("written");
        }
        Ok(self.clock.utc())
    }
}
