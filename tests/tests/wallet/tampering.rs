//! Files changed while no engine runs, by an attacker without the password. The tests show which check detects each
//! change; undetected changes are named in their tests.

#[cfg(test)]
mod bytes;
#[cfg(test)]
mod forger;
#[cfg(test)]
mod forgeries;
#[cfg(test)]
mod payees;
#[cfg(test)]
mod rollbacks;
#[cfg(test)]
mod stage;
