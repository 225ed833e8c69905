//! Ledger devices: the protocol and its transport, tested with a simulated device and with transcripts
//! of Ledger's own host library.

mod connection;
mod enrol;
mod faults;
mod host_library;
mod kills;
mod mandates;
mod on_chain;
mod own_app;
mod payments;
mod proofs;
mod support;
mod switches;
mod threats;
mod transcripts;
mod typed_json;
