//! Which zone the machine is in: `TZ`, else `/etc/localtime`. Follows a change while the process runs,
//! and never falls back to UTC.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::SystemTime;

use jiff::tz::{TimeZone, reset_system_time_zone_cache};
use tracing::{info, warn};

use crate::clock::error::ClockError;

const LOCALTIME: &str = "/etc/localtime";

#[derive(Debug)]
pub(super) struct ZoneSource {
    mark: Option<Mark>,
    zone: TimeZone,
    /// Whether the last reading failed: it is told once, not with every look at the clock.
    unreadable: bool,
}

impl ZoneSource {
    pub(super) fn open() -> Result<Self, ClockError> {
        let mark = Mark::of(Path::new(LOCALTIME));
        Ok(Self { mark, zone: read()?, unreadable: false })
    }

    /// The zone as of now. The library keeps its answer for five minutes, which is long for a rule about
    /// midnight; so the two marks of the file are looked at each time (two `stat`s), and a change makes
    /// the library read again at once. When the zone has become unreadable the last one stays: the day
    /// goes on as the operator knew it.
    pub(super) fn current(&mut self) -> TimeZone {
        let mark = Mark::of(Path::new(LOCALTIME));
        if mark != self.mark {
            reset_system_time_zone_cache();
            self.mark = mark;
        }
        let reading = read();
        let was_unreadable = std::mem::replace(&mut self.unreadable, reading.is_err());
        match reading {
            Ok(zone) if zone != self.zone => {
                info!(zone = name_of(&zone), "time zone changed");
                self.zone = zone;
            }
            Ok(_same) => {}
            Err(_told_before) if was_unreadable => {}
            Err(error) => warn!(%error, kept = name_of(&self.zone), "time zone unreadable"),
        }
        self.zone.clone()
    }
}

fn name_of(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("without a name")
}

fn read() -> Result<TimeZone, ClockError> {
    // By convention an empty TZ is UTC, but it is also what `TZ=${UNSET}` leaves behind.
    if std::env::var_os("TZ").is_some_and(|value| value.is_empty()) {
        return Err(ClockError::ZoneUnknown { reason: "TZ is set, but empty".to_owned() });
    }
    let zone = TimeZone::try_system()
        .map_err(|error| ClockError::ZoneUnknown { reason: error.to_string() })?;
    // `Etc/Unknown` is a valid name, and reckons like UTC.
    if zone.is_unknown() {
        return Err(ClockError::ZoneUnknown { reason: "it is set to Etc/Unknown".to_owned() });
    }
    Ok(zone)
}

/// What tells one state of a file from another: the times of the link and of what it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    link: Stamp,
    target: Option<Stamp>,
}

type Stamp = (u64, Option<SystemTime>, u64);

impl Mark {
    fn of(path: &Path) -> Option<Self> {
        let link = fs::symlink_metadata(path).ok()?;
        Some(Self { link: stamp(&link), target: fs::metadata(path).ok().as_ref().map(stamp) })
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok(), number(metadata))
}

#[cfg(unix)]
fn number(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn number(_metadata: &Metadata) -> u64 {
    0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_new_link_a_new_file_and_a_missing_one_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("berlin"), "one").unwrap();
        fs::write(at("tokyo"), "three").unwrap();
        symlink(at("berlin"), at("localtime")).unwrap();
        let before = Mark::of(&at("localtime"));
        assert_eq!(before, Mark::of(&at("localtime")));

        fs::write(at("berlin"), "a newer edition").unwrap();
        let edited = Mark::of(&at("localtime"));
        assert_ne!(before, edited);

        symlink(at("tokyo"), at("next")).unwrap();
        fs::rename(at("next"), at("localtime")).unwrap();
        assert_ne!(edited, Mark::of(&at("localtime")));

        fs::remove_file(at("localtime")).unwrap();
        assert_eq!(Mark::of(&at("localtime")), None);
    }
}
