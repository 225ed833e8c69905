//! What the end-to-end tests share: an engine in this process whose ports the test controls, the same engine as a
//! separate process, and an agent that signs its requests.

pub mod caller;
pub mod counting_rpc;
pub mod dice;
pub mod doubles;
pub mod engine;
pub mod facilitator;
pub mod files;
pub mod framings;
pub mod kill;
pub mod lying_rpc;
pub mod mount;
pub mod node;
pub mod offers;
pub mod operator;
pub mod payer;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod ready_wallet;
pub mod scripted_facilitator;
pub mod sdk;
pub mod service;
pub mod service_key;
pub mod upstream;

pub use bursar_devnet::agent;
