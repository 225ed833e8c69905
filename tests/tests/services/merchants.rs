//! Unmodified merchants (Hono, Express, FastAPI) and our proxies, with our facilitator on a local chain. A payment
//! buys one delivery, and a refused payment is never charged.

#[cfg(test)]
mod copies;
#[cfg(test)]
mod drained;
#[cfg(test)]
mod hang_up;
#[cfg(test)]
mod late_gossip;
#[cfg(test)]
mod lying_nodes;
#[cfg(test)]
mod market;
#[cfg(test)]
mod merchant;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod payer_drained;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod shared_payee;
