//! x402 payments: read the offer, ask the chain where the offer contradicts our table, sign what was
//! authorized.

mod execute;
mod propose;

pub use execute::{Execution, execute};
pub use propose::{PaymentInput, propose};
