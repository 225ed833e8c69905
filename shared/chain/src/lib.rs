//! Ports to EVM chains, explorers and the system clock, and their real implementations. All connections go through
//! `bursar-outbound`, only [`clock`] reads the wall clock, and nothing here holds a signing key or decides about
//! money.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use bursar_chain::clock::SystemClock;
//! use bursar_chain::ports::{Chain, ChainFault};
//! use bursar_chain::rpc::{ConfigError, RpcChain, RpcConfig};
//! use bursar_core::networks::ChainId;
//!
//! /// Asks the nodes in their order until one of them answers.
//! async fn newest_block(chain: &dyn Chain) -> Result<u64, ChainFault> {
//!     chain.block_number().await
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(SystemClock::new()?);
//! let nodes = ["https://node.example/v2/KEY", "http://127.0.0.1:8545"];
//! // Opens no connection yet. Its debug text shows only the scheme, host and port of each node.
//! let base = RpcChain::new(RpcConfig::new(ChainId(8453), nodes), clock.clone())?;
//! assert!(!format!("{base:?}").contains("KEY"));
//!
//! // By default, only nodes on this machine may use http.
//! let unencrypted = RpcConfig::new(ChainId(8453), ["http://node.example"]);
//! assert!(matches!(RpcChain::new(unencrypted, clock), Err(ConfigError::PlainHttp(_))));
//! # Ok(())
//! # }
//! ```

pub mod abi;
pub mod chain_clock;
pub mod chain_tasks;
pub mod clock;
pub mod data_fee;
pub mod explorer_http;
pub mod failpoints;
pub mod final_count;
pub mod follower;
pub mod icon_http;
pub mod multicall;
pub mod ports;
pub mod price_http;
pub mod registry_http;
pub mod revert;
pub mod rpc;
pub mod simulate;
pub mod token;
pub mod tx_driver;
pub mod zone;
