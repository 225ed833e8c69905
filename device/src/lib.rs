//! The real side of the port to hardware devices: Ledgers on USB. The only crate that names coins-ledger.
//!
//! Commands and answers are never logged above `trace`: they contain what the operator signs. hidapi is a dependency only to
//! choose its backend.

mod connection;
#[cfg(feature = "emulator")]
pub mod emulator;
mod usb;

pub use usb::Usb;
