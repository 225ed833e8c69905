//! A local chain for tests and the demonstration: anvil with a stablecoin and Multicall3 at the addresses of
//! the real network, so the product's tables apply unchanged. It needs no other network.
//!
//! # Examples
//!
//! ```no_run
//! use alloy_primitives::{Address, U256};
//! use bursar_core::networks::ChainId;
//! use bursar_devnet::{Devnet, DevnetError};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), DevnetError> {
//! // Starts anvil with Base's stablecoin at its real address. It stops when `devnet` is dropped.
//! let devnet = Devnet::start(ChainId(8453)).await?;
//! let payer = Address::repeat_byte(0x11);
//! devnet.mint(payer, 5_000_000).await?;
//! assert_eq!(devnet.balance_of(payer).await?, U256::from(5_000_000));
//! println!("JSON-RPC: {}", devnet.url());
//! # Ok(())
//! # }
//! ```

mod blocks;
mod call;
mod copied;
mod error;
mod hooks;
mod hostile;
mod kit;
mod kit_environment;
mod missing;
mod node;
mod odd_tokens;
mod own_contracts;
mod prism;
mod process;
mod rpc;
mod skip;
mod stable;
mod stablecoin;
mod tokens;
mod transactions;
mod wallets;
mod wheels;

pub mod agent;
pub mod broken_log;
pub mod compile;
pub mod full;
pub mod install;
pub mod merchant;

pub use call::{Call, Receipt};
pub use error::DevnetError;
pub use hooks::{HookConduct, HookRights, HookWhen};
pub use hostile::WalletMode;
pub use node::Devnet;
pub use odd_tokens::TokenQuirk;
pub use skip::report_skip;
pub use stable::Authorization;
pub use tokens::TokenMode;
pub use wallets::CounterfactualWallet;
