//! A simulated Ledger device with its Ethereum app, for tests. It behaves like app 1.22 on a Flex, or like an older app
//! on a Nano S Plus, and answers the recordings of the real app byte for byte. It shares no code with the wallet.
//!
//! [`server`] offers it on two ports: one for commands, in the framing of Ledger's emulator (speculos), and one for the
//! person who presses, and for faults.

pub mod app;
pub mod control;
pub mod device;
pub mod key;
pub mod rlp;
pub mod server;
pub mod settings;
pub mod transaction;
pub mod typed_data;
