//! File systems on which locks and flushes of files are unreliable.

use std::path::Path;

/// Where the files of a file system are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On another machine, so that two machines may use a file at once.
    Network,
    /// Wherever a program of this machine keeps them.
    Program,
}

/// Magic numbers (linux/magic.h).
#[cfg(target_os = "linux")]
const UNRELIABLE: &[(u64, &str, Place)] = &[
    (0x6969, "NFS", Place::Network),
    (0x517b, "SMB", Place::Network),
    (0xff53_4d42, "CIFS", Place::Network),
    (0xfe53_4d42, "SMB2", Place::Network),
    (0x0102_1997, "9P", Place::Network),
    (0x5346_414f, "AFS", Place::Network),
    (0x6b41_4653, "AFS", Place::Network),
    (0x00c3_6400, "Ceph", Place::Network),
    (0x6573_5546, "FUSE", Place::Program),
];

/// Returns the name of the file system, if it is one of these.
#[cfg(target_os = "linux")]
pub(crate) fn of(path: &Path) -> Option<(&'static str, Place)> {
    let found = rustix::fs::statfs(path).ok()?;
    let magic = u64::try_from(found.f_type).ok()? & 0xffff_ffff;
    let row = UNRELIABLE.iter().find(|(known, _name, _place)| *known == magic);
    row.map(|(_known, name, place)| (*name, *place))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn of(_path: &Path) -> Option<(&'static str, Place)> {
    None
}
