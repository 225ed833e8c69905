//! Checks the data folder: owner, permissions, free space and file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bursar_control::answers::CheckAnswer;
use bursar_core::limits::FREE_DISK_BYTES_MIN;

use crate::ports::Disk;
use crate::service::file_system::{self, Place};

/// Free space below which the check warns. Below `FREE_DISK_BYTES_MIN` payments are refused.
const LOW_SPACE_BYTES: u64 = 8 * FREE_DISK_BYTES_MIN;

/// Checks the folder. `is_open` means that this process has opened it.
pub(super) fn check(path: &Path, disk: &dyn Disk, is_open: bool) -> Vec<CheckAnswer> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_open => {
            let finding = format!("{} was moved or deleted while the engine ran", path.display());
            let advice = "end the engine, and start it again where the folder is now";
            return vec![CheckAnswer::fail("data folder", finding, advice)];
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let finding = format!("{} does not exist yet", path.display());
            let advice = "create a wallet: bursar wallet create <name>";
            return vec![CheckAnswer::warn("data folder", finding, advice)];
        }
        Err(error) => {
            let finding = format!("{}: {error}", path.display());
            return vec![CheckAnswer::fail("data folder", finding, "choose another with --data")];
        }
    };
    let us = rustix::process::geteuid().as_raw();
    let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    vec![
        check_owner(path, found.is_dir(), found.uid() == us, found.mode(), writable),
        check_space(disk.free_bytes(path).ok()),
        check_file_system(file_system::of(path)),
    ]
}

fn check_owner(path: &Path, is_folder: bool, ours: bool, mode: u32, writable: bool) -> CheckAnswer {
    let shown = path.display();
    let fail = |what: &str, advice: String| {
        CheckAnswer::fail("data folder", format!("{shown} {what}"), advice)
    };
    if !is_folder {
        fail("is not a folder", "choose another with --data".to_owned())
    } else if !ours {
        fail("belongs to another account", format!("run as its owner, or: chown -R $USER {shown}"))
    } else if mode & 0o077 != 0 {
        fail("is open to other accounts", format!("chmod 700 {shown}"))
    } else if !writable {
        fail("cannot be written", format!("chmod u+w {shown}, or mount its disk for writing"))
    } else {
        CheckAnswer::ok("data folder", format!("{shown} is yours alone"))
    }
}

fn check_space(free: Option<u64>) -> CheckAnswer {
    let Some(free) = free else {
        let advice = "check the disk: df -h";
        return CheckAnswer::warn("disk space", "the free space of the disk is not known", advice);
    };
    let finding = format!("{} MiB free", free >> 20);
    match free {
        free if free < FREE_DISK_BYTES_MIN => {
            let finding = format!("{finding}: payments are refused");
            CheckAnswer::fail("disk space", finding, "free space on the data folder's disk")
        }
        free if free < LOW_SPACE_BYTES => {
            CheckAnswer::warn("disk space", finding, "free space on the data folder's disk")
        }
        _enough => CheckAnswer::ok("disk space", finding),
    }
}

fn check_file_system(found: Option<(&str, Place)>) -> CheckAnswer {
    match found {
        Some((name, _place)) => CheckAnswer::warn(
            "file system",
            format!("the data folder is on {name}, where file locks and flushes are unreliable"),
            "move it to a local disk",
        ),
        None => CheckAnswer::ok("file system", "local"),
    }
}

/// Reports whether an engine runs. `alone` means that this process runs one command and holds the folder's lock.
pub(super) fn check_lock(alone: bool) -> CheckAnswer {
    if alone {
        let advice = "agents need one: bursar engine";
        CheckAnswer::warn("engine", "not running; no other program uses the data folder", advice)
    } else {
        let finding = format!("running as process {}", std::process::id());
        CheckAnswer::ok("engine", finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::answers::CheckResult::{self, Fail, Ok, Warn};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_can_enter_or_that_cannot_be_written_fails() {
        let path = Path::new("/x");
        let result =
            |dir, ours, mode, writable| check_owner(path, dir, ours, mode, writable).result;
        assert_eq!(result(true, true, 0o40700, true), Ok);
        assert_eq!(result(false, true, 0o40700, true), Fail);
        assert_eq!(result(true, false, 0o40700, true), Fail);
        assert_eq!(result(true, true, 0o40750, true), Fail);
        assert_eq!(result(true, true, 0o40701, true), Fail);
        assert_eq!(result(true, true, 0o40500, false), Fail);
    }

    #[test]
    fn the_real_folder_is_checked_and_left_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let none = home.path().join("none");
        let results = |path: &Path| -> Vec<CheckResult> {
            check(path, &crate::ports::SystemDisk, false).iter().map(|found| found.result).collect()
        };
        assert_eq!(results(&none), [Warn]);
        let gone = check(&none, &crate::ports::SystemDisk, true);
        assert!(
            gone.iter().any(|found| found.result == Fail && found.finding.contains("was moved"))
        );
        assert!(!none.exists());
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(results(home.path()).first(), Some(&Fail));
        let mode = fs::metadata(home.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o755, "it is reported, not changed");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(results(home.path()).first(), Some(&Ok));
    }

    #[test]
    fn a_full_disk_fails_and_a_remote_one_warns() {
        let results =
            [None, Some(0), Some(FREE_DISK_BYTES_MIN), Some(LOW_SPACE_BYTES)].map(check_space);
        assert_eq!(results.map(|check| check.result), [Warn, Fail, Warn, Ok]);
        assert_eq!(
            [None, Some(("NFS", Place::Network))].map(check_file_system).map(|check| check.result),
            [Ok, Warn]
        );
        assert_eq!([true, false].map(check_lock).map(|check| check.result), [Warn, Ok]);
    }
}
