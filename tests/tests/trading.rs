//! Trades end to end: agents ask a real engine, which swaps through the real contracts of a local chain.

#[cfg(test)]
#[path = "trading/contracts.rs"]
mod contracts;
#[cfg(test)]
#[path = "trading/devices.rs"]
mod devices;
#[cfg(test)]
#[path = "trading/foreign.rs"]
mod foreign;
#[cfg(test)]
#[path = "trading/hooks.rs"]
mod hooks;
#[cfg(test)]
#[path = "trading/kills.rs"]
mod kills;
#[cfg(test)]
#[path = "trading/late.rs"]
mod late;
#[cfg(test)]
#[path = "trading/liars.rs"]
mod liars;
#[cfg(test)]
#[path = "trading/moved.rs"]
mod moved;
#[cfg(test)]
#[path = "trading/obedient.rs"]
mod obedient;
#[cfg(test)]
#[path = "trading/obedient_scene.rs"]
mod obedient_scene;
#[cfg(test)]
#[path = "trading/operations.rs"]
mod operations;
#[cfg(test)]
#[path = "trading/operators.rs"]
mod operators;
#[cfg(test)]
#[path = "trading/pending.rs"]
mod pending;
#[cfg(test)]
#[path = "trading/permits.rs"]
mod permits;
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
#[cfg(test)]
#[path = "trading/tokens.rs"]
mod tokens;
#[cfg(test)]
#[path = "trading/turns.rs"]
mod turns;
#[cfg(test)]
#[path = "trading/wire.rs"]
mod wire;
