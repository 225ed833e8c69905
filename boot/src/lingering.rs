//! Whether the services of this account start without a login (loginctl(1), `enable-linger`).

use std::path::Path;

use bursar_core::fault::Fault;

use crate::account::current_name;
use crate::commands::run;
use crate::operator::Operator;

/// Offers to start the account's services with the machine.
///
/// Returns a note if the operator must run another command for that. `is_known` is true if the installation changed
/// nothing; then this function does not ask.
///
/// # Errors
/// The operator cancelled the question.
pub(crate) fn offer_lingering(
    operator: &dyn Operator,
    is_known: bool,
) -> Result<Option<String>, Fault> {
    let lines = ["The service starts when you log in, and stops when you log out.".to_owned()];
    let name = current_name().unwrap_or_default();
    let command = format!("loginctl enable-linger {name}");
    if is_known || !operator.confirm(&lines, "Start it with the machine, and keep it running?")? {
        return Ok(Some(format!("To start the service with the machine: {command}")));
    }
    let enabled = run("loginctl", &["--no-ask-password", "enable-linger"])?;
    let is_enabled = enabled.is_some_and(|outcome| outcome.succeeded);
    Ok((!is_enabled).then(|| {
        format!("This account may not start services with the machine: run `sudo {command}`.")
    }))
}

/// Returns whether the account's services start with the machine.
pub(crate) fn is_lingering() -> bool {
    current_name().is_some_and(|name| Path::new("/var/lib/systemd/linger").join(name).exists())
}
