//! Trades end to end: agents ask a real engine, which swaps through the real contracts of a local chain.

#[cfg(test)]
mod contracts;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod late;
#[cfg(test)]
mod liars;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod obedient;
#[cfg(test)]
mod obedient_scene;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod operators;
#[cfg(test)]
mod pending;
#[cfg(test)]
mod permits;
#[cfg(test)]
mod pools;
#[cfg(test)]
mod routes;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod swaps;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod wire;
