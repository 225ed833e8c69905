//! Crashes of the real process. Every answer given before kill -9 still holds after a restart: the same request gets
//! the same bytes, nothing is authorized twice, and the interrupted step can be repeated.

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
#[path = "crash/pauses.rs"]
mod pauses;
#[cfg(test)]
#[path = "crash/points.rs"]
mod points;
#[cfg(test)]
#[path = "crash/scenario.rs"]
mod scenario;
#[cfg(test)]
#[path = "crash/steps.rs"]
mod steps;
