//! The programs under test: where they are, and commands with a known environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The wallet's program.
pub(crate) const BURSAR: &str = "bursar";
/// The wallet's engine with cheap key derivation.
pub(crate) const ENGINE: &str = "bursar-test-engine";
pub(crate) const FACILITATOR: &str = "bursar-facilitator";
pub(crate) const PROXY: &str = "bursar-proxy";

/// The programs, in a folder that no build changes while they run.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: TempDir,
}

impl Programs {
    /// Links or copies the programs from `folder`, or from the folder of this program.
    ///
    /// # Panics
    /// A program is missing.
    pub(crate) fn find(folder: Option<&Path>) -> Self {
        let own = std::env::current_exe().expect("a program");
        let from = match folder {
            Some(folder) => folder.to_owned(),
            None => own.parent().map(PathBuf::from).expect("a folder"),
        };
        let to = tempfile::tempdir().expect("a folder");
        for name in [BURSAR, ENGINE, FACILITATOR, PROXY] {
            let (source, target) = (from.join(name), to.path().join(name));
            if std::fs::hard_link(&source, &target).is_err() {
                let copied = std::fs::copy(&source, &target);
                copied.unwrap_or_else(|error| {
                    panic!("{}: {error}: build it, or name --programs", source.display())
                });
            }
        }
        Self { folder: to }
    }

    /// Builds a command whose home and working folder are `home`, and which inherits only the variable PATH.
    pub(crate) fn command(&self, name: &str, home: &Path) -> Command {
        let mut command = Command::new(self.folder.path().join(name));
        command.env_clear().current_dir(home).env("HOME", home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("RUST_LOG", "warn");
        command
    }
}

/// Sets the variables that keep a wallet from calling other machines: one node and no explorer or prices.
pub(crate) fn keep_calls_local(command: &mut Command, node: &OsStr) {
    for network in [8453, 4663] {
        command.env(format!("BURSAR_NETWORKS_{network}_RPC"), node);
    }
    command
        .env("BURSAR_SERVER_LISTEN", "127.0.0.1:0")
        .env("BURSAR_SERVER_RATE_PER_MINUTE", "1000000")
        .env("BURSAR_NETWORKS_8453_EXPLORER", "none")
        .env("BURSAR_PRICES_URL", "none");
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, text: &[u8]) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text)).expect("written");
}
