//! A prepared wallet. It is built once and copied into every world, because building it takes as long as many steps.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bursar_auditor::observations::{Observation, Ticket};
use bursar_core::edition::EditionName;

use crate::disk::Disk;
use crate::plan::{JournalBounds, Plan, Swarm};
use crate::world::World;

/// A wallet with a seed and two addresses, after an orderly stop.
pub(crate) struct Image {
    files: Vec<(PathBuf, Vec<u8>)>,
    disk: Disk,
    /// The observations made while the image was built, for the auditor.
    pub(crate) observations: Vec<Observation>,
    pub(crate) ticket: Ticket,
    pub(crate) next_index: u32,
}

impl Image {
    pub(crate) fn get(edition: EditionName, sectors: bool) -> &'static Self {
        static IMAGES: [OnceLock<Image>; 6] = [const { OnceLock::new() }; 6];
        IMAGES[edition as usize * 2 + usize::from(sectors)].get_or_init(|| {
            let swarm = Swarm { edition, sectors, ..Swarm::default() };
            let bounds =
                JournalBounds { snapshot_every: 1_000, signed_days: 30, carry_bytes: 12_000 };
            let plan = Plan { seed: 0, swarm, bounds, watchful: false, steps: Vec::new() };
            World::with_empty_folder(&plan, None).build_image().expect("a prepared wallet")
        })
    }

    pub(crate) fn of(
        folder: &Path,
        disk: &Disk,
        observations: Vec<Observation>,
        ticket: Ticket,
        next_index: u32,
    ) -> Self {
        let wallets = folder.join("wallets");
        let entries = std::fs::read_dir(&wallets).expect("wallets").flatten();
        let files = entries.map(|entry| {
            let name = Path::new("wallets").join(entry.file_name());
            (name, std::fs::read(entry.path()).expect("a file"))
        });
        Self { files: files.collect(), disk: disk.copy(), observations, ticket, next_index }
    }

    /// Copies the wallet into a data folder and returns its journal.
    pub(crate) fn copy_to(&self, folder: &Path, carry_bytes: usize) -> Disk {
        std::fs::DirBuilder::new().mode(0o700).create(folder.join("wallets")).expect("a folder");
        for (name, bytes) in &self.files {
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(folder.join(name));
            std::io::Write::write_all(&mut file.expect("a file"), bytes).expect("written");
        }
        self.disk.copy().carrying(carry_bytes)
    }
}
