//! The agent server on real sockets: refused requests, their cost to other callers, and that a refusal leaves no trace.

#[cfg(test)]
#[path = "agent_server/crowds.rs"]
mod crowds;
#[cfg(test)]
#[path = "agent_server/foreign_parsers.rs"]
mod foreign_parsers;
#[cfg(test)]
#[path = "agent_server/lan.rs"]
mod lan;
#[cfg(test)]
#[path = "agent_server/pages.rs"]
mod pages;
#[cfg(test)]
#[path = "agent_server/rate.rs"]
mod rate;
#[cfg(test)]
#[path = "agent_server/smuggling.rs"]
mod smuggling;
#[cfg(test)]
#[path = "agent_server/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "agent_server/wire.rs"]
mod wire;
