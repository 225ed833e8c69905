//! Tests the facilitator against real contracts on a local chain.
//!
//! Covers verdicts, settlements, and that each payment settles once. One test binary, so that the code links once.

#[cfg(test)]
#[path = "facilitator/acceptance.rs"]
mod acceptance;
#[cfg(test)]
#[path = "facilitator/access.rs"]
mod access;
#[cfg(test)]
#[path = "facilitator/authorizer.rs"]
mod authorizer;
#[cfg(test)]
#[path = "facilitator/catalogue.rs"]
mod catalogue;
#[cfg(test)]
#[path = "facilitator/channel.rs"]
mod channel;
#[cfg(test)]
#[path = "facilitator/channel_actions.rs"]
mod channel_actions;
#[cfg(test)]
#[path = "facilitator/channel_actors.rs"]
mod channel_actors;
#[cfg(test)]
#[path = "facilitator/channel_answers.rs"]
mod channel_answers;
#[cfg(test)]
#[path = "facilitator/channel_audit.rs"]
mod channel_audit;
#[cfg(test)]
#[path = "facilitator/channel_draws.rs"]
mod channel_draws;
#[cfg(test)]
#[path = "facilitator/channel_model.rs"]
mod channel_model;
#[cfg(test)]
#[path = "facilitator/channel_moves.rs"]
mod channel_moves;
#[cfg(test)]
#[path = "facilitator/channel_play.rs"]
mod channel_play;
#[cfg(test)]
#[path = "facilitator/channel_random.rs"]
mod channel_random;
#[cfg(test)]
#[path = "facilitator/channel_refusals.rs"]
mod channel_refusals;
#[cfg(test)]
#[path = "facilitator/channel_requests.rs"]
mod channel_requests;
#[cfg(test)]
#[path = "facilitator/channel_verdicts.rs"]
mod channel_verdicts;
#[cfg(test)]
#[path = "facilitator/channel_world.rs"]
mod channel_world;
#[cfg(test)]
#[path = "facilitator/channels.rs"]
mod channels;
#[cfg(test)]
#[path = "facilitator/checks.rs"]
mod checks;
#[cfg(test)]
#[path = "facilitator/copies.rs"]
mod copies;
#[cfg(test)]
#[path = "facilitator/gas.rs"]
mod gas;
#[cfg(test)]
#[path = "facilitator/hostile_wallets.rs"]
mod hostile_wallets;
#[cfg(test)]
#[path = "facilitator/kills.rs"]
mod kills;
#[cfg(test)]
#[path = "facilitator/liars.rs"]
mod liars;
#[cfg(test)]
#[path = "facilitator/lying_tokens.rs"]
mod lying_tokens;
#[cfg(test)]
#[path = "facilitator/malformed.rs"]
mod malformed;
#[cfg(test)]
#[path = "facilitator/market.rs"]
mod market;
#[cfg(test)]
#[path = "facilitator/methods.rs"]
mod methods;
#[cfg(test)]
#[path = "facilitator/old_store.rs"]
mod old_store;
#[cfg(test)]
#[path = "facilitator/once.rs"]
mod once;
#[cfg(test)]
#[path = "facilitator/python.rs"]
mod python;
#[cfg(test)]
#[path = "facilitator/reference_differences.rs"]
mod reference_differences;
#[cfg(test)]
#[path = "facilitator/reference_pair.rs"]
mod reference_pair;
#[cfg(test)]
#[path = "facilitator/refusals.rs"]
mod refusals;
#[cfg(test)]
#[path = "facilitator/repeats.rs"]
mod repeats;
#[cfg(test)]
#[path = "facilitator/sdk.rs"]
mod sdk;
#[cfg(test)]
#[path = "facilitator/sdk_channel_differences.rs"]
mod sdk_channel_differences;
#[cfg(test)]
#[path = "facilitator/sdk_channel_reference.rs"]
mod sdk_channel_reference;
#[cfg(test)]
#[path = "facilitator/sdk_channels.rs"]
mod sdk_channels;
#[cfg(test)]
#[path = "facilitator/sdk_reference.rs"]
mod sdk_reference;
#[cfg(test)]
#[path = "facilitator/sdk_sponsoring.rs"]
mod sdk_sponsoring;
#[cfg(test)]
#[path = "facilitator/sdk_sponsoring_reference.rs"]
mod sdk_sponsoring_reference;
#[cfg(test)]
#[path = "facilitator/sdk_upto.rs"]
mod sdk_upto;
#[cfg(test)]
#[path = "facilitator/sponsoring.rs"]
mod sponsoring;
#[cfg(test)]
#[path = "facilitator/sponsoring_refusals.rs"]
mod sponsoring_refusals;
#[cfg(test)]
#[path = "facilitator/stage.rs"]
mod stage;
#[cfg(test)]
#[path = "facilitator/troubles.rs"]
mod troubles;
#[cfg(test)]
#[path = "facilitator/upto.rs"]
mod upto;
#[cfg(test)]
#[path = "facilitator/upto_contract.rs"]
mod upto_contract;
#[cfg(test)]
#[path = "facilitator/verdict.rs"]
mod verdict;
#[cfg(test)]
#[path = "facilitator/wallet.rs"]
mod wallet;
