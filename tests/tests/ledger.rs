//! Ledger devices: the protocol and its transport with a simulated device, and with what Ledger's own host library sends.

#[path = "ledger/connection.rs"]
mod connection;
#[path = "ledger/enrol.rs"]
mod enrol;
#[path = "ledger/faults.rs"]
mod faults;
#[path = "ledger/host_library.rs"]
mod host_library;
#[path = "ledger/kills.rs"]
mod kills;
#[path = "ledger/on_chain.rs"]
mod on_chain;
#[path = "ledger/own_app.rs"]
mod own_app;
#[path = "ledger/payments.rs"]
mod payments;
#[path = "ledger/support.rs"]
mod support;
#[path = "ledger/switches.rs"]
mod switches;
#[path = "ledger/threats.rs"]
mod threats;
#[path = "ledger/transcripts.rs"]
mod transcripts;
#[path = "ledger/typed_json.rs"]
mod typed_json;
