//! Reads the properties and events of an ERC-20 token, and encodes calls.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};

use crate::abi::erc20::{IErc20, IErc3009};
use crate::ports::{BlockTag, Chain, ChainFault, Log, Transfer};

/// Longest symbol or name that is kept, in characters. The untrusted token contract chooses it.
const TOKEN_TEXT_CHARS_MAX: usize = 64;

/// A token's own description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenDescription {
    pub decimals: u8,
    /// The token's symbol, untrusted: sanitize it before showing it.
    ///
    /// It is truncated to 64 characters. It is empty if the contract returns no valid symbol or a much longer symbol.
    pub symbol: String,
}

/// Returns the call data of a transfer to `to`.
///
/// `amount` is in the token's smallest unit.
pub fn transfer_call(to: Address, amount: U256) -> Bytes {
    IErc20::transferCall { to, value: amount }.abi_encode().into()
}

/// Returns the call data that sets the allowance of `spender`, in the token's smallest unit.
pub fn approve_call(spender: Address, amount: U256) -> Bytes {
    IErc20::approveCall { spender, value: amount }.abi_encode().into()
}

/// Returns the call data that reads a balance.
pub fn balance_call(owner: Address) -> Bytes {
    IErc20::balanceOfCall { owner }.abi_encode().into()
}

/// Returns the call data that reads the allowance that `owner` gave to `spender`.
pub fn allowance_call(owner: Address, spender: Address) -> Bytes {
    IErc20::allowanceCall { owner, spender }.abi_encode().into()
}

/// Returns the transfer that an event reports, or `None` for other events.
///
/// The event proves nothing about the token: any contract can emit it.
pub fn transfer_of(log: &Log) -> Option<Transfer> {
    let topics = log.topics.iter().copied();
    let event = IErc20::Transfer::decode_raw_log_validate(topics, &log.data).ok()?;
    Some(Transfer { from: event.from, to: event.to, value: event.value })
}

/// An allowance that an event of a token reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approval {
    pub owner: Address,
    pub spender: Address,
}

/// Returns the allowance that an event reports; `None` for other events.
pub fn approval_of(log: &Log) -> Option<Approval> {
    let topics = log.topics.iter().copied();
    let event = IErc20::Approval::decode_raw_log_validate(topics, &log.data).ok()?;
    Some(Approval { owner: event.owner, spender: event.spender })
}

/// Returns the call data that reads the EIP-712 domain separator.
pub fn domain_separator_call() -> Bytes {
    IErc3009::DOMAIN_SEPARATORCall {}.abi_encode().into()
}

/// Returns the call data that reads whether an authorization was used (EIP-3009).
pub fn authorization_state_call(authorizer: Address, nonce: B256) -> Bytes {
    IErc3009::authorizationStateCall { authorizer, nonce }.abi_encode().into()
}

/// Returns the call data that reads the decimals.
pub fn decimals_call() -> Bytes {
    IErc20::decimalsCall {}.abi_encode().into()
}

/// Returns the call data that reads the symbol.
pub fn symbol_call() -> Bytes {
    IErc20::symbolCall {}.abi_encode().into()
}

/// Returns the call data that reads the name.
pub fn name_call() -> Bytes {
    IErc20::nameCall {}.abi_encode().into()
}

/// Reads the answer of [`symbol_call`] or [`name_call`]: at most 64 characters, empty if the answer is not a text.
pub fn decode_text(answer: &[u8]) -> String {
    let text = match answer.len() <= 4 * TOKEN_TEXT_CHARS_MAX {
        true => IErc20::symbolCall::abi_decode_returns_validate(answer).unwrap_or_default(),
        false => String::new(),
    };
    text.chars().take(TOKEN_TEXT_CHARS_MAX).collect()
}

/// Decodes the answers of [`decimals_call`] and [`symbol_call`], which are empty for a revert.
///
/// `None` if the decimals are invalid.
pub fn decode_description(decimals: &[u8], symbol: &[u8]) -> Option<TokenDescription> {
    let decimals = IErc20::decimalsCall::abi_decode_returns_validate(decimals).ok()?;
    Some(TokenDescription { decimals, symbol: decode_text(symbol) })
}

/// Reads a token's decimals and symbol.
///
/// `None` if the contract does not behave like a token.
///
/// # Errors
/// No node gave a usable answer.
pub async fn describe(
    chain: &dyn Chain,
    token: Address,
) -> Result<Option<TokenDescription>, ChainFault> {
    let ask = async |data: Bytes| match chain.call(token, data, BlockTag::Latest).await {
        Err(ChainFault::Reverted { .. }) => Ok(Bytes::new()),
        answer => answer,
    };
    let decimals = ask(decimals_call()).await?;
    if decode_description(&decimals, &[]).is_none() {
        return Ok(None);
    }
    Ok(decode_description(&decimals, &ask(symbol_call()).await?))
}

/// Returns an account's balance of a token, in its smallest unit.
///
/// # Errors
/// No node answered, the token reverted the call, or it returned no valid number.
pub async fn balance(
    chain: &dyn Chain,
    token: Address,
    owner: Address,
) -> Result<U256, ChainFault> {
    let data = IErc20::balanceOfCall { owner }.abi_encode();
    let word = chain.call(token, data.into(), BlockTag::Latest).await?;
    IErc20::balanceOfCall::abi_decode_returns_validate(&word).map_err(|_odd| ChainFault::Rejected {
        code: 0,
        message: "the token returned no valid balance".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, hex};

    #[test]
    fn a_transfer_is_selector_address_and_amount() {
        let to = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
        assert_eq!(
            transfer_call(to, U256::from(1_500_000))[..],
            hex!(
                "a9059cbb000000000000000000000000209693bc6afc0c5328ba36faf03c514ef312287c"
                "000000000000000000000000000000000000000000000000000000000016e360"
            )
        );
    }
}
