//! Connects the wallet to hardware devices: Ledgers on USB. Only this crate uses coins-ledger.
//!
//! Commands and answers are never logged above `trace`, because they contain what the operator signs.
//!
//! hidapi is a direct dependency only to choose its backend.

mod connection;
#[cfg(feature = "emulator")]
pub mod emulator;
mod usb;

pub use usb::Usb;
