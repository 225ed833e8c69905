//! The proxy from outside: customers' answers, calls to the upstream, and how often money moves.

#[path = "proxy/answers.rs"]
mod answers;
#[path = "proxy/books.rs"]
mod books;
#[path = "proxy/broken.rs"]
mod broken;
#[path = "proxy/cors.rs"]
mod cors;
#[path = "proxy/keys.rs"]
mod keys;
#[path = "proxy/kills.rs"]
mod kills;
#[path = "proxy/once.rs"]
mod once;
#[path = "proxy/payments.rs"]
mod payments;
#[path = "proxy/pending.rs"]
mod pending;
#[path = "proxy/sales.rs"]
mod sales;
#[path = "proxy/settlements.rs"]
mod settlements;
#[path = "proxy/stage.rs"]
mod stage;
#[path = "proxy/streams.rs"]
mod streams;
