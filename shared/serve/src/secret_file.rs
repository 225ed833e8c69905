//! Checks which accounts may read a file with a secret.

use std::fs::Metadata;

/// Returns the mode of a file that other accounts may read or change; `None` if the file is closed to them.
///
/// A file that systemd or Kubernetes mounted counts as closed, although a group may read it. On platforms without file
/// modes every file counts as closed.
#[cfg(unix)]
pub fn mode_if_exposed(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    let user = rustix::process::geteuid().as_raw();
    (mode & 0o077 != 0 && !is_mounted_secret(mode, metadata.uid(), user)).then_some(mode)
}

#[cfg(not(unix))]
pub fn mode_if_exposed(_metadata: &Metadata) -> Option<u32> {
    None
}

/// Returns whether mode and owner are those of a credential from systemd or a secret from Kubernetes.
///
/// In both cases the mode lets a group read: systemd's access list for the service appears as such a permission, and
/// Kubernetes uses the pod's group. Owner and mode distinguish such a file from one that a person made readable for a
/// group. Either root owns the file and the service runs as another user, or no account may write the file and its
/// owner is root or the service's user.
#[cfg(unix)]
fn is_mounted_secret(mode: u32, owner: u32, user: u32) -> bool {
    let managed = owner == 0 && user != 0;
    let is_read_only = mode & 0o222 == 0 && (owner == 0 || owner == user);
    mode & 0o037 == 0 && (managed || is_read_only)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_read_a_file_only_as_service_managers_mount_it() {
        const ROOT: u32 = 0;
        const SERVICE: u32 = 1_000;
        for (mode, owner, user, mounted) in [
            // Mounted by systemd, or by Kubernetes with the modes 0400 and 0600.
            (0o440, ROOT, SERVICE, true),
            (0o640, ROOT, SERVICE, true),
            // Mounted in a container that runs as root.
            (0o440, ROOT, ROOT, true),
            (0o440, SERVICE, SERVICE, true),
            // A file that belongs to the user itself.
            (0o640, SERVICE, SERVICE, false),
            (0o640, ROOT, ROOT, false),
            // A file of another account.
            (0o440, 1_001, SERVICE, false),
            // A group may write or execute, or all accounts may read.
            (0o460, ROOT, SERVICE, false),
            (0o450, ROOT, SERVICE, false),
            (0o444, ROOT, SERVICE, false),
            (0o644, ROOT, SERVICE, false),
        ] {
            assert_eq!(is_mounted_secret(mode, owner, user), mounted, "{mode:o} {owner} {user}");
        }
    }

    #[test]
    fn the_mode_of_an_open_file_is_returned() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "x").unwrap();
        for (mode, open) in [
            (0o600, None),
            (0o400, None),
            (0o440, None),
            (0o640, Some(0o640)),
            (0o444, Some(0o444)),
        ] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(mode_if_exposed(&std::fs::metadata(&file).unwrap()), open, "{mode:o}");
        }
    }
}
