//! Tests the facilitator against real contracts on a local chain.
//!
//! Covers verdicts, settlements, and that each payment settles once. One test binary, so that the code links once.

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod access;
#[cfg(test)]
mod authorizer;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod channel;
#[cfg(test)]
mod channel_actions;
#[cfg(test)]
mod channel_actors;
#[cfg(test)]
mod channel_answers;
#[cfg(test)]
mod channel_audit;
#[cfg(test)]
mod channel_draws;
#[cfg(test)]
mod channel_model;
#[cfg(test)]
mod channel_moves;
#[cfg(test)]
mod channel_play;
#[cfg(test)]
mod channel_random;
#[cfg(test)]
mod channel_refusals;
#[cfg(test)]
mod channel_requests;
#[cfg(test)]
mod channel_verdicts;
#[cfg(test)]
mod channel_world;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod gas;
#[cfg(test)]
mod hostile_wallets;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod liars;
#[cfg(test)]
mod lying_tokens;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod market;
#[cfg(test)]
mod methods;
#[cfg(test)]
mod old_store;
#[cfg(test)]
mod once;
#[cfg(test)]
mod python;
#[cfg(test)]
mod reference_differences;
#[cfg(test)]
mod reference_pair;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod repeats;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod sdk_channel_differences;
#[cfg(test)]
mod sdk_channel_reference;
#[cfg(test)]
mod sdk_channels;
#[cfg(test)]
mod sdk_reference;
#[cfg(test)]
mod sdk_sponsoring;
#[cfg(test)]
mod sdk_sponsoring_reference;
#[cfg(test)]
mod sdk_upto;
#[cfg(test)]
mod sponsoring;
#[cfg(test)]
mod sponsoring_refusals;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod troubles;
#[cfg(test)]
mod upto;
#[cfg(test)]
mod upto_contract;
#[cfg(test)]
mod verdict;
#[cfg(test)]
mod wallet;
