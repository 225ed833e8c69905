//! The agent server on real sockets: which requests it refuses, what they cost other callers,
//! and that they leave no trace.

#[cfg(test)]
mod crowds;
#[cfg(test)]
mod foreign_parsers;
#[cfg(test)]
mod lan;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod rate;
#[cfg(test)]
mod smuggling;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod wire;
