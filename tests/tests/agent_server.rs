//! The agent server on real sockets: what is refused, what it costs whoever else is calling, and that a
//! refusal leaves nothing behind.

#[cfg(test)]
#[path = "agent_server/crowds.rs"]
mod crowds;
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
