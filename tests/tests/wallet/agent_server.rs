//! The agent server on real sockets: refused requests, their cost to other callers, and that a refusal leaves no trace.

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
