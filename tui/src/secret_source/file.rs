//! Reads a secret from a file, after a check that the file is closed to other users.

use std::fs::Metadata;
use std::io::Read;
use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::PASSWORD_BYTES_MAX;
use zeroize::Zeroizing;

use super::line::{strip_newline, too_long, unreadable};

/// The owner that the file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    User,
    /// The service's user, or root with an access list for that user. systemd uses root, and its access list appears as
    /// a read permission of the group.
    ServiceManager,
}

/// Returns the whole content without one newline at its end.
pub(super) fn read_whole(path: &Path, owner: Owner) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let file = bursar_files::open_or_pipe(path).map_err(|error| unreadable(path, &error))?;
    // Checks the open file and not the path, so that the file cannot be replaced between the check and the read.
    let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
    check_private(path, access_of(&metadata), owner)?;
    // Allocated at its full size, because a vector that grows leaves copies of the secret behind.
    let capacity = PASSWORD_BYTES_MAX.saturating_add(3);
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    let limit = u64::try_from(capacity).unwrap_or(u64::MAX);
    file.take(limit).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    strip_newline(&mut bytes);
    if bytes.len() > PASSWORD_BYTES_MAX {
        return Err(too_long());
    }
    Ok(bytes)
}

/// The owner and the mode of a file.
#[derive(Debug, Clone, Copy)]
struct Access {
    /// Whether the file belongs to this process's user.
    is_own: bool,
    /// Whether the file belongs to root.
    is_roots: bool,
    mode: u32,
}

/// Returns the owner and the mode of a file; `None` on platforms without them.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other platforms show no access")]
fn access_of(metadata: &Metadata) -> Option<Access> {
    use std::os::unix::fs::MetadataExt;

    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    Some(Access { is_own, is_roots: metadata.uid() == 0, mode: metadata.mode() & 0o777 })
}

#[cfg(not(unix))]
fn access_of(_metadata: &Metadata) -> Option<Access> {
    None
}

fn check_private(path: &Path, access: Option<Access>, owner: Owner) -> Result<(), Fault> {
    let shown = path.display();
    let refuse = |message: String| Err(Fault::because(Code::DataFolder, message));
    let Some(Access { is_own, is_roots, mode }) = access else {
        return refuse(format!(
            "This platform does not show who may read {shown}: pass the secret by standard input."
        ));
    };
    let (owned, open_to) = match owner {
        Owner::User => (is_own, mode & 0o077),
        Owner::ServiceManager => (is_own || is_roots, mode & 0o037),
    };
    if !owned {
        return refuse(format!("{shown} belongs to another user: it must be your own."));
    }
    if open_to != 0 {
        return refuse(format!(
            "{shown} has mode {mode:03o}, so others may read or change it: run `chmod 600 {shown}`."
        ));
    }
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &tempfile::TempDir, content: &[u8], mode: u32) -> std::path::PathBuf {
        let path = folder.path().join(format!("{mode:o}"));
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn exactly_one_newline_is_stripped() {
        let folder = tempfile::tempdir().unwrap();
        let longest = [b'x'; PASSWORD_BYTES_MAX];
        for (content, kept) in [
            (&b"pass word"[..], &b"pass word"[..]),
            (b"pass\n", b"pass"),
            (b"pass\r\n", b"pass"),
            (b"pass\n\n", b"pass\n"),
            (b" pass \n", b" pass "),
            (&[&longest[..], b"\r\n"].concat(), &longest),
        ] {
            let path = file(&folder, content, 0o600);
            assert_eq!(&**read_whole(&path, Owner::User).unwrap(), kept);
        }
        let path = file(&folder, &[b'x'; PASSWORD_BYTES_MAX + 9], 0o600);
        assert_eq!(read_whole(&path, Owner::User).unwrap_err().code, Code::BadInput);
        let nowhere = folder.path().join("nowhere");
        assert_eq!(read_whole(&nowhere, Owner::User).unwrap_err().code, Code::BadInput);
        let a_folder = read_whole(folder.path(), Owner::ServiceManager).unwrap_err();
        assert_eq!(a_folder.code, Code::BadInput);
    }

    #[test]
    fn a_platform_without_file_modes_reads_no_secret_file() {
        for owner in [Owner::User, Owner::ServiceManager] {
            let fault = check_private(Path::new("secret"), None, owner).unwrap_err();
            assert_eq!(fault.code, Code::DataFolder);
            assert!(fault.message.contains("standard input"), "{fault}");
        }
    }

    #[test]
    fn secret_file_readable_by_others_is_refused_with_a_chmod_hint() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666] {
            let path = file(&folder, b"hunter2!", mode);
            let fault = read_whole(&path, Owner::User).unwrap_err();
            assert_eq!((fault.code, fault.code.exit()), (Code::DataFolder, 13), "{mode:o}");
            assert!(fault.message.contains(&format!("chmod 600 {}", path.display())), "{fault}");
            assert!(!fault.message.contains("hunter2"));
        }
        for mode in [0o400, 0o600, 0o700] {
            read_whole(&file(&folder, b"hunter2!", mode), Owner::User).unwrap();
        }
    }

    #[test]
    fn a_credential_may_show_its_access_list_in_the_group_bits() {
        let folder = tempfile::tempdir().unwrap();
        read_whole(&file(&folder, b"hunter2!", 0o440), Owner::ServiceManager).unwrap();
        for mode in [0o444, 0o460] {
            let path = file(&folder, b"hunter2!", mode);
            assert_eq!(
                read_whole(&path, Owner::ServiceManager).unwrap_err().code,
                Code::DataFolder
            );
        }
    }
}
