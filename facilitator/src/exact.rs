//! The scheme `exact`: a payer signs one amount, and exactly that amount is moved. A method is one way to move a token
//! by a signature. Each method is a file of this folder and a row of [`METHODS`](registry::METHODS).

pub mod contract_call;
pub mod contracts;
pub mod domain;
pub mod eip3009;
pub(crate) mod erc20;
pub mod evidence;
pub mod method;
pub mod mined_transaction;
pub mod payload;
pub mod permit2;
pub mod prism;
pub mod registry;
pub mod terms_check;
#[cfg(test)]
mod test_methods;
#[cfg(test)]
mod test_proofs;

/// The name of the scheme on the wire.
pub const SCHEME: &str = "exact";
