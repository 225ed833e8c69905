//! Ports to the outside world (EVM chains, explorers, the system clock) and their real implementations. All
//! connections go through `bursar-outbound`, only [`clock`] reads the wall clock, and nothing here holds a key
//! or decides about money.

pub mod abi;
pub mod chain_tasks;
pub mod clock;
pub mod data_fee;
pub mod explorer_http;
pub mod failpoints;
pub mod follower;
pub mod multicall;
pub mod ports;
pub mod revert;
pub mod rpc;
pub mod simulate;
pub mod token;
pub mod tx_driver;
pub mod zone;
