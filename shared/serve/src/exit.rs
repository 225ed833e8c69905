//! Exit codes of services. They are those of the wallet.

use std::process::ExitCode;

/// The store cannot be used: a restart does not help.
pub const STORE: u8 = 13;
/// The disk is full: a restart helps once there is room.
pub const DISK_FULL: u8 = 15;

/// Returns the exit code of a store that is unusable, by whether its disk is full.
pub fn of_store(is_full: bool) -> ExitCode {
    ExitCode::from(if is_full { DISK_FULL } else { STORE })
}
