//! Temporary mounts for tests. They need root, and some environments forbid them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount that is removed when dropped.
#[derive(Debug)]
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// Mounts an in-memory file system of this many MiB. Fails with the error output of `mount`.
    pub fn in_memory(at: &Path, mebibytes: u32) -> Result<Self, String> {
        let size = format!("size={mebibytes}m,mode=0700");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], at)?;
        Ok(Self { at: at.to_owned() })
    }

    /// Mounts the folder read-only over itself. Fails with the error output of `mount`.
    pub fn read_only(at: &Path) -> Result<Self, String> {
        let source = at.display().to_string();
        mount(&["--bind", &source], at)?;
        let mounted = Self { at: at.to_owned() };
        mount(&["-o", "remount,ro,bind"], at)?;
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Unmounts lazily, because an engine that is about to exit may still have a file open.
        let ended = Command::new("umount").arg("-l").arg(&self.at).status();
        assert!(ended.is_ok_and(|status| status.success()), "{} stays mounted", self.at.display());
    }
}

fn mount(arguments: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).arg(at).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
