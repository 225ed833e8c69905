//! Mounts for as long as a test needs them. Only root may make them, and not everywhere.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Goes away with the value.
#[derive(Debug)]
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// A file system of so many MiB in memory.
    pub fn in_memory(at: &Path, mebibytes: u32) -> Result<Self, String> {
        let size = format!("size={mebibytes}m,mode=0700");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], at)?;
        Ok(Self { at: at.to_owned() })
    }

    /// The folder over itself, where nobody can write.
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
        // Lazily: an engine that is about to end may still have a file open.
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
