//! Somebody changes the files of a data folder while no engine runs, without the password. What is
//! noticed, by what, and what is not: those tests say so in their names.

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
