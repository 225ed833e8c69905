//! Unmodified merchants (Hono, Express, FastAPI) and our proxies with our facilitator on a local chain. A payment buys one
//! delivery, and a refused payment is never charged. One binary, to link once.

#[cfg(test)]
#[path = "merchants/copies.rs"]
mod copies;
#[cfg(test)]
#[path = "merchants/drained.rs"]
mod drained;
#[cfg(test)]
#[path = "merchants/hang_up.rs"]
mod hang_up;
#[cfg(test)]
#[path = "merchants/late_gossip.rs"]
mod late_gossip;
#[cfg(test)]
#[path = "merchants/lying_nodes.rs"]
mod lying_nodes;
#[cfg(test)]
#[path = "merchants/market.rs"]
mod market;
#[cfg(test)]
#[path = "merchants/merchant.rs"]
mod merchant;
#[cfg(test)]
#[path = "merchants/pair.rs"]
mod pair;
#[cfg(test)]
#[path = "merchants/payer_drained.rs"]
mod payer_drained;
#[cfg(test)]
#[path = "merchants/recorder.rs"]
mod recorder;
#[cfg(test)]
#[path = "merchants/shared_payee.rs"]
mod shared_payee;
