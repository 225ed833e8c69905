//! Exit codes of services. The wallet uses the same codes.

use std::process::ExitCode;

/// The store cannot be used: a restart does not help.
pub const STORE_UNUSABLE: u8 = 13;
/// The disk is full: a restart helps once there is free space.
pub const DISK_FULL: u8 = 15;

/// Returns the exit code for an unusable store.
pub fn of_store(is_full: bool) -> ExitCode {
    ExitCode::from(if is_full { DISK_FULL } else { STORE_UNUSABLE })
}
