//! The editions: what the payments-only edition reads, answers and lacks (wallet specification, appendix), and whose
//! data folder is whose.

mod folders;
mod payments;
