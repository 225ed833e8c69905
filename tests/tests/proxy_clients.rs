//! The proxy with real parts around it: our facilitator and a local chain behind it, and in front of it our wallet and
//! third-party clients.

#[path = "proxy_clients/mishaps.rs"]
mod mishaps;
#[path = "proxy_clients/money.rs"]
mod money;
#[path = "proxy_clients/node.rs"]
mod node;
#[path = "proxy_clients/python.rs"]
mod python;
#[path = "proxy_clients/stage.rs"]
mod stage;
#[path = "proxy_clients/tools.rs"]
mod tools;
#[path = "proxy_clients/wallet.rs"]
mod wallet;
