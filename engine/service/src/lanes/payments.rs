//! x402 payments: read the offer, ask the chain where the offer contradicts our table, sign what was
//! authorized, and look on the chain what became of it.

mod execute;
mod propose;
mod settle;
mod token_domains;

pub use execute::{Execution, execute};
pub use propose::{PaymentInput, propose};
pub use settle::follow;
pub use token_domains::TokenDomains;
