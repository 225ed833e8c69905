//! Tests of the local chain, its contracts, the merchant, and the example agents. One binary, so that it links
//! once.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod blocks;
#[cfg(test)]
mod channel_claims;
#[cfg(test)]
mod channel_deposits;
#[cfg(test)]
mod channel_exits;
#[cfg(test)]
mod channels;
#[cfg(test)]
mod coin;
#[cfg(test)]
mod exits;
#[cfg(test)]
mod full;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod lending;
#[cfg(test)]
mod merchant;
#[cfg(test)]
mod merchant_v1;
#[cfg(test)]
mod multicall;
#[cfg(test)]
mod odd_tokens;
#[cfg(test)]
mod payer;
#[cfg(test)]
mod permit2;
#[cfg(test)]
mod permits;
#[cfg(test)]
mod prism;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod routers;
#[cfg(test)]
mod swaps;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod upto;
#[cfg(test)]
mod vault_lies;
#[cfg(test)]
mod venues;
#[cfg(test)]
mod wallets;
#[cfg(test)]
mod x402_abi;
