//! The proxy as customers see it: their answers, the calls to the upstream, and how often money moves.

mod answers;
mod books;
mod broken;
mod cors;
mod keys;
mod kills;
mod once;
mod payments;
mod pending;
mod sales;
mod settlements;
mod stage;
mod streams;
