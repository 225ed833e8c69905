//! Files changed while no engine runs, by an attacker without the password. The tests show which check detects each
//! change; undetected changes are named in their tests.

#[cfg(test)]
#[path = "tampering/bytes.rs"]
mod bytes;
#[cfg(test)]
#[path = "tampering/forger.rs"]
mod forger;
#[cfg(test)]
#[path = "tampering/forgeries.rs"]
mod forgeries;
#[cfg(test)]
#[path = "tampering/payees.rs"]
mod payees;
#[cfg(test)]
#[path = "tampering/rollbacks.rs"]
mod rollbacks;
#[cfg(test)]
#[path = "tampering/stage.rs"]
mod stage;
