//! The protocol of Ledger's Ethereum app: the commands that a host sends, and how it reads the answers. Does no I/O: a
//! transport carries the bytes.
//!
//! A device handles one command at a time and answers each with data and a status word. Some commands wait until the
//! person presses a button. A transaction or a message that exceeds one command is sent in several commands; the
//! answer to the last command contains the signature.
//!
//! Sources: the protocol page of LedgerHQ/app-ethereum (`doc/ethapp.adoc`) and recordings of the app
//! (`tests/vectors/ledger-ethereum.json`).

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod address;
pub mod app;
pub mod command;
pub mod message;
pub mod payment;
pub mod port;
pub mod signature;
pub mod status;
pub mod transaction;
pub mod typed_data;
