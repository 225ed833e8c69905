//! Trades end to end: agents ask a real engine, which swaps through the real contracts of a local chain.

#[cfg(test)]
#[path = "trading/contracts.rs"]
mod contracts;
#[cfg(test)]
#[path = "trading/foreign.rs"]
mod foreign;
#[cfg(test)]
#[path = "trading/operators.rs"]
mod operators;
#[cfg(test)]
#[path = "trading/pools.rs"]
mod pools;
#[cfg(test)]
#[path = "trading/routes.rs"]
mod routes;
#[cfg(test)]
#[path = "trading/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "trading/swaps.rs"]
mod swaps;
