//! Access to EVM chains and to the clock of this machine: the two ports through which the engine learns
//! what the world is like, and their real implementations. Only [`rpc`] names a provider, only [`clock`]
//! reads the wall clock, and nothing here holds a key or decides about money.

pub mod clock;
pub mod ports;
pub mod rpc;
pub mod zone;
