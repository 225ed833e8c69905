//! The proxy among real components: behind it our facilitator and a local chain, in front of it our
//! wallet and third-party clients.

mod mishaps;
mod money;
mod node;
mod python;
mod stage;
mod tools;
mod wallet;
