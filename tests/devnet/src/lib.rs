//! A local chain for tests and the demonstration: anvil with a stablecoin and Multicall3 at the addresses of
//! the real network, so the product's tables apply unchanged. It needs no other network.

mod blocks;
mod call;
mod error;
mod hostile;
mod kit;
mod missing;
mod multicall;
mod node;
mod own;
mod prism;
mod process;
mod rpc;
mod stable;
mod stablecoin;
mod surroundings;
mod tokens;
mod transactions;
mod wallets;
mod wheels;

pub mod compile;
pub mod full;
pub mod install;
pub mod merchant;

pub use call::{Call, Receipt};
pub use error::DevnetError;
pub use hostile::WalletMode;
pub use node::Devnet;
pub use stable::Authorization;
pub use tokens::TokenMode;
pub use wallets::Counterfactual;
