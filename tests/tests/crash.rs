//! Crashes of the real process. Whatever was answered before kill -9 is still so in the next life: the
//! same ask gets the same bytes, nothing is authorized twice, and the step that was interrupted can be
//! taken again.

#[cfg(test)]
#[path = "crash/cases.rs"]
mod cases;
#[cfg(test)]
#[path = "crash/disk.rs"]
mod disk;
#[cfg(test)]
#[path = "crash/kills.rs"]
mod kills;
#[cfg(test)]
#[path = "crash/load.rs"]
mod load;
#[cfg(test)]
#[path = "crash/oracle.rs"]
mod oracle;
#[cfg(test)]
#[path = "crash/points.rs"]
mod points;
#[cfg(test)]
#[path = "crash/scenario.rs"]
mod scenario;
#[cfg(test)]
#[path = "crash/steps.rs"]
mod steps;
#[cfg(test)]
#[path = "crash/stops.rs"]
mod stops;
