//! Proofs of receipts: which entries a receipt rests on, their place under an anchor of the journal, and the check of a
//! proof without wallet and network. `docs/receipt-proof.md` describes the file for other programs.

mod check;
mod file;
mod survey;
mod tree;

pub use crate::journal::parse_head;
pub use check::{Checked, check};
pub(crate) use file::ProofFile;
pub use file::{BYTES_MAX, Unreadable};
pub(crate) use survey::{FoundAnchor, Survey, anchored, next_anchor, survey};
