//! The kit's environment, read once and passed down, so that a test can supply its own.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variables and folders that determine which chain is used.
#[derive(Debug, Clone)]
pub(crate) struct KitEnvironment {
    /// `PATH`, in which node, npm and possibly anvil are searched.
    pub(crate) path: OsString,
    /// `BURSAR_ANVIL`: a binary to use instead of the kit's.
    pub(crate) anvil: Option<PathBuf>,
    /// `BURSAR_TEST_SKIP`: the parts that tests may skip, such as `chain`.
    pub(crate) skip: String,
    /// Cargo's target folder: ignored by git, removed by `cargo clean`.
    pub(crate) target: PathBuf,
}

impl KitEnvironment {
    pub(crate) fn read() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        // A relative CARGO_TARGET_DIR is relative to the workspace root: tests run in their crate's folder and
        // xtask in the caller's, and both must use the same folder.
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

    /// Returns the first file with this name in `PATH`.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    }

    /// Returns whether `BURSAR_TEST_SKIP`, a comma-separated list, contains this part of the tests.
    pub(crate) fn skips(&self, part: &str) -> bool {
        self.skip.split(',').any(|word| word.trim() == part)
    }
}
