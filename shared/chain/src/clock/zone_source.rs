//! The machine's time zone: `TZ`, otherwise `/etc/localtime`. Follows changes while the process runs and never
//! falls back to UTC.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::SystemTime;

use jiff::tz::{TimeZone, reset_system_time_zone_cache};
use tracing::{info, warn};

use crate::clock::error::ClockError;

const LOCALTIME: &str = "/etc/localtime";

#[derive(Debug)]
pub(super) struct ZoneSource {
    version: Option<FileVersion>,
    zone: TimeZone,
    /// Whether the last read failed, so that a lasting failure is logged only once.
    unreadable: bool,
}

impl ZoneSource {
    pub(super) fn open() -> Result<Self, ClockError> {
        let version = FileVersion::of(Path::new(LOCALTIME));
        Ok(Self { version, zone: read()?, unreadable: false })
    }

    /// Returns the current zone, or the last known zone if the current one has become unreadable.
    ///
    /// The zone library caches its result for five minutes, too long for a rule about midnight. We compare the
    /// file's two stamps on every call (two `stat` calls) and reset that cache when they change.
    pub(super) fn current(&mut self) -> TimeZone {
        let version = FileVersion::of(Path::new(LOCALTIME));
        if version != self.version {
            reset_system_time_zone_cache();
            self.version = version;
        }
        let reading = read();
        let was_unreadable = std::mem::replace(&mut self.unreadable, reading.is_err());
        match reading {
            Ok(zone) if zone != self.zone => {
                info!(zone = name_of(&zone), "time zone changed");
                self.zone = zone;
            }
            Ok(_same) => {}
            Err(_already_logged) if was_unreadable => {}
            Err(error) => warn!(%error, kept = name_of(&self.zone), "time zone unreadable"),
        }
        self.zone.clone()
    }
}

fn name_of(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("without a name")
}

fn read() -> Result<TimeZone, ClockError> {
    // By convention an empty TZ means UTC. We reject it, because `TZ=${UNSET}` also leaves it empty.
    if std::env::var_os("TZ").is_some_and(|value| value.is_empty()) {
        return Err(ClockError::ZoneUnknown { reason: "TZ is set, but empty".to_owned() });
    }
    let zone = TimeZone::try_system()
        .map_err(|error| ClockError::ZoneUnknown { reason: error.to_string() })?;
    // `Etc/Unknown` is a valid zone name that behaves like UTC.
    if zone.is_unknown() {
        return Err(ClockError::ZoneUnknown { reason: "it is set to Etc/Unknown".to_owned() });
    }
    Ok(zone)
}

/// Identifies a version of a file: the stamps of the link and of its target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    link: Stamp,
    target: Option<Stamp>,
}

/// Length, time of the last change, and inode of a file.
type Stamp = (u64, Option<SystemTime>, u64);

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let link = fs::symlink_metadata(path).ok()?;
        Some(Self { link: stamp(&link), target: fs::metadata(path).ok().as_ref().map(stamp) })
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok(), inode(metadata))
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_metadata: &Metadata) -> u64 {
    0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_changed_link_or_target_or_missing_zone_file_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("berlin"), "one").unwrap();
        fs::write(at("tokyo"), "three").unwrap();
        symlink(at("berlin"), at("localtime")).unwrap();
        let before = FileVersion::of(&at("localtime"));
        assert_eq!(before, FileVersion::of(&at("localtime")));

        fs::write(at("berlin"), "a newer edition").unwrap();
        let edited = FileVersion::of(&at("localtime"));
        assert_ne!(before, edited);

        symlink(at("tokyo"), at("next")).unwrap();
        fs::rename(at("next"), at("localtime")).unwrap();
        assert_ne!(edited, FileVersion::of(&at("localtime")));

        fs::remove_file(at("localtime")).unwrap();
        assert_eq!(FileVersion::of(&at("localtime")), None);
    }
}
