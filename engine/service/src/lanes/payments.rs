//! x402 payments: read the offer, sign the authorized payment, and look up its settlement on the chain. If the offer
//! contradicts our table, the chain is queried first.

mod execute;
mod propose;
mod settle;
mod token_domains;

pub use execute::{Execution, execute};
pub use propose::{PaymentInput, propose};
pub use settle::follow;
pub use token_domains::TokenDomains;
