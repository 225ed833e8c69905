//! The whole loop on one machine: a local chain, a merchant with a paywall, a toy model to sell, an agent that pays and an
//! operator who decides. The demonstration runs on it, and so do the tests.

pub mod agent;
pub mod devnet;
pub mod merchant;
pub mod model;
pub mod operator;
