//! One token transfer by a signature: the parts that the schemes `exact` and `upto` share. A method is one way to move
//! a token. The folders of the schemes contain their methods, and [`registry`] finds a method by its id.

pub(crate) mod approval;
pub mod check;
pub mod domain;
pub(crate) mod eip3009;
pub(crate) mod erc20;
pub mod evidence;
pub mod method;
pub mod payload;
pub(crate) mod permit2;
mod question;
pub mod registry;
pub(crate) mod sponsoring;
pub mod terms_check;
#[cfg(test)]
mod test_proofs;
mod work;
