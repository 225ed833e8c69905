//! End-to-end payments: agent program, engine process, operator, merchant, and settlement.
//!
//! The operator uses the control socket, and the merchant settles on a local chain.

#[cfg(test)]
mod balances;
#[cfg(test)]
mod domains;
#[cfg(test)]
mod explorers;
#[cfg(test)]
mod hostile_symbols;
#[cfg(test)]
mod lookups;
#[cfg(test)]
mod outbound;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod rude_explorers;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod sends;
#[cfg(test)]
mod sends_among_liars;
#[cfg(test)]
mod services;
#[cfg(test)]
mod settlements;
#[cfg(test)]
mod simulations;
#[cfg(test)]
mod slow_signer;
#[cfg(test)]
mod stage;
