//! Access to EVM chains, to their explorers and to the clock of this machine: the ports through which the
//! engine learns what the world is like, and their real implementations. Connections leave by
//! `bursar-outbound` alone, only [`clock`] reads the wall clock, and nothing here holds a key or decides about
//! money.

pub mod abi;
pub mod clock;
pub mod courier;
pub mod data_fee;
pub mod errands;
pub mod explorer_http;
pub mod follower;
pub mod multicall;
pub mod points;
pub mod ports;
pub mod revert;
pub mod rpc;
pub mod simulate;
pub mod token;
pub mod zone;
