//! What the kit takes from its environment, read once and handed down, so that a test can make up an
//! environment of its own.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variables and folders that decide where a chain comes from.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// `PATH`: where node, npm and perhaps an anvil are found.
    pub(crate) path: OsString,
    /// `BURSAR_ANVIL`: a binary to use instead of the kit's.
    pub(crate) anvil: Option<PathBuf>,
    /// `BURSAR_TEST_SKIP`: what tests may leave out, such as `chain`.
    pub(crate) skip: String,
    /// Cargo's target folder: ignored by git, removed by `cargo clean`.
    pub(crate) target: PathBuf,
}

impl Surroundings {
    pub(crate) fn read() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // A relative CARGO_TARGET_DIR is taken from the workspace root: tests run in their crate's
        // folder, xtask where it was called, and both must mean the same place.
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().nth(2).unwrap_or(here);
        let target = set("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
        Self {
            path: set("PATH").unwrap_or_default(),
            anvil: set("BURSAR_ANVIL").map(PathBuf::from),
            skip: env::var("BURSAR_TEST_SKIP").unwrap_or_default(),
            target: root.join(target),
        }
    }

    /// The first file of that name in `PATH`.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    }

    /// Whether `BURSAR_TEST_SKIP`, a list with commas, names that part of the tests.
    pub(crate) fn skips(&self, part: &str) -> bool {
        self.skip.split(',').any(|word| word.trim() == part)
    }
}
