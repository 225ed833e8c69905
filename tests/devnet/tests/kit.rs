//! Tests of the local chain, its contracts, the merchant, and the example agents. One binary, so that it links
//! once.

#[cfg(test)]
#[path = "kit/agents.rs"]
mod agents;
#[cfg(test)]
#[path = "kit/blocks.rs"]
mod blocks;
#[cfg(test)]
#[path = "kit/channel_claims.rs"]
mod channel_claims;
#[cfg(test)]
#[path = "kit/channel_deposits.rs"]
mod channel_deposits;
#[cfg(test)]
#[path = "kit/channel_exits.rs"]
mod channel_exits;
#[cfg(test)]
#[path = "kit/channels.rs"]
mod channels;
#[cfg(test)]
#[path = "kit/coin.rs"]
mod coin;
#[cfg(test)]
#[path = "kit/exits.rs"]
mod exits;
#[cfg(test)]
#[path = "kit/full.rs"]
mod full;
#[cfg(test)]
#[path = "kit/hooks.rs"]
mod hooks;
#[cfg(test)]
#[path = "kit/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "kit/lending.rs"]
mod lending;
#[cfg(test)]
#[path = "kit/merchant.rs"]
mod merchant;
#[cfg(test)]
#[path = "kit/merchant_v1.rs"]
mod merchant_v1;
#[cfg(test)]
#[path = "kit/multicall.rs"]
mod multicall;
#[cfg(test)]
#[path = "kit/odd_tokens.rs"]
mod odd_tokens;
#[cfg(test)]
#[path = "kit/payer.rs"]
mod payer;
#[cfg(test)]
#[path = "kit/permit2.rs"]
mod permit2;
#[cfg(test)]
#[path = "kit/permits.rs"]
mod permits;
#[cfg(test)]
#[path = "kit/prism.rs"]
mod prism;
#[cfg(test)]
#[path = "kit/proxy.rs"]
mod proxy;
#[cfg(test)]
#[path = "kit/routers.rs"]
mod routers;
#[cfg(test)]
#[path = "kit/swaps.rs"]
mod swaps;
#[cfg(test)]
#[path = "kit/tokens.rs"]
mod tokens;
#[cfg(test)]
#[path = "kit/upto.rs"]
mod upto;
#[cfg(test)]
#[path = "kit/vault_lies.rs"]
mod vault_lies;
#[cfg(test)]
#[path = "kit/venues.rs"]
mod venues;
#[cfg(test)]
#[path = "kit/wallets.rs"]
mod wallets;
#[cfg(test)]
#[path = "kit/x402_abi.rs"]
mod x402_abi;
