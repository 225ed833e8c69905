//! The proxy with real parts around it: our facilitator and a local chain behind it, and in front of it our wallet and
//! third-party clients.

mod mishaps;
mod money;
mod node;
mod python;
mod stage;
mod tools;
mod wallet;
