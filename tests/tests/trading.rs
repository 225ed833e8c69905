//! Trades end to end: agents ask a real engine, which swaps through the real contracts of a local chain.

#[cfg(test)]
#[path = "trading/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "trading/swaps.rs"]
mod swaps;
