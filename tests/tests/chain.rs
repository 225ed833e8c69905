//! End-to-end payments: agent program, engine process, operator, merchant, and settlement.
//!
//! The operator uses the control socket, and the merchant settles on a local chain. One test binary, so that the code
//! links once.

#[cfg(test)]
#[path = "chain/balances.rs"]
mod balances;
#[cfg(test)]
#[path = "chain/domains.rs"]
mod domains;
#[cfg(test)]
#[path = "chain/explorers.rs"]
mod explorers;
#[cfg(test)]
#[path = "chain/hostile_symbols.rs"]
mod hostile_symbols;
#[cfg(test)]
#[path = "chain/lookups.rs"]
mod lookups;
#[cfg(test)]
#[path = "chain/outbound.rs"]
mod outbound;
#[cfg(test)]
#[path = "chain/outcomes.rs"]
mod outcomes;
#[cfg(test)]
#[path = "chain/programs.rs"]
mod programs;
#[cfg(test)]
#[path = "chain/relay.rs"]
mod relay;
#[cfg(test)]
#[path = "chain/restarts.rs"]
mod restarts;
#[cfg(test)]
#[path = "chain/rude_explorers.rs"]
mod rude_explorers;
#[cfg(test)]
#[path = "chain/sdk.rs"]
mod sdk;
#[cfg(test)]
#[path = "chain/sends.rs"]
mod sends;
#[cfg(test)]
#[path = "chain/sends_among_liars.rs"]
mod sends_among_liars;
#[cfg(test)]
#[path = "chain/services.rs"]
mod services;
#[cfg(test)]
#[path = "chain/settlements.rs"]
mod settlements;
#[cfg(test)]
#[path = "chain/simulations.rs"]
mod simulations;
#[cfg(test)]
#[path = "chain/slow_signer.rs"]
mod slow_signer;
#[cfg(test)]
#[path = "chain/stage.rs"]
mod stage;
