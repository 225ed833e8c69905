//! Decodes the call data of a loan's steps, from nothing but the interfaces of the token, ERC-4626 and Morpho.

use crate::basics::Address;
use crate::decode::{Words, from_hex};
use crate::keccak::keccak;

/// A decoded call of a loan's plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoanCall {
    /// `approve(spender, amount)` of a token.
    Approve { spender: Address, amount: u128 },
    /// `deposit(assets, receiver)` of a vault.
    Deposit { assets: u128, receiver: Address },
    /// `mint(shares, receiver)` of a vault.
    Mint { shares: u128, receiver: Address },
    /// `withdraw(assets, receiver, owner)` of a vault.
    Withdraw { assets: u128, receiver: Address, owner: Address },
    /// `redeem(shares, receiver, owner)` of a vault.
    Redeem { shares: u128, receiver: Address, owner: Address },
    /// `supply(params, assets, shares, onBehalf, data)` of the singleton.
    MarketSupply { market: Market, assets: u128, shares: u128, owner: Address, data: usize },
    /// `withdraw(params, assets, shares, onBehalf, receiver)` of the singleton.
    MarketWithdraw { market: Market, assets: u128, shares: u128, owner: Address, receiver: Address },
}

/// The parameters of a market in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Market {
    /// The id of the market: the hash of its parameters.
    pub(crate) id: String,
    pub(crate) loan_token: Address,
    pub(crate) interest_model: Address,
}

impl LoanCall {
    /// Returns whether the call moves the loan's money, rather than sets an allowance.
    pub(crate) fn is_main(&self) -> bool {
        !matches!(self, Self::Approve { .. })
    }
}

fn market(words: Words<'_>, params: &[u8]) -> Option<Market> {
    let id: String = keccak(params.get(..160)?).iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Market {
        id: format!("0x{id}"),
        loan_token: words.address(0)?,
        interest_model: words.address(3)?,
    })
}

/// Decodes a call. Returns `None` if it is not a call of a loan, or if a contract would not accept it.
pub(crate) fn decode_loan(data: &str) -> Option<LoanCall> {
    let bytes = from_hex(data)?;
    let (selector, body) = bytes.split_at_checked(4)?;
    let words = Words(body);
    Some(match selector {
        [0x09, 0x5e, 0xa7, 0xb3] => {
            LoanCall::Approve { spender: words.address(0)?, amount: words.uint(1)? }
        }
        [0x6e, 0x55, 0x3f, 0x65] => {
            LoanCall::Deposit { assets: words.uint(0)?, receiver: words.address(1)? }
        }
        [0x94, 0xbf, 0x80, 0x4d] => {
            LoanCall::Mint { shares: words.uint(0)?, receiver: words.address(1)? }
        }
        [0xb4, 0x60, 0xaf, 0x94] => LoanCall::Withdraw {
            assets: words.uint(0)?,
            receiver: words.address(1)?,
            owner: words.address(2)?,
        },
        [0xba, 0x08, 0x76, 0x52] => LoanCall::Redeem {
            shares: words.uint(0)?,
            receiver: words.address(1)?,
            owner: words.address(2)?,
        },
        [0xa9, 0x9a, 0xad, 0x89] => LoanCall::MarketSupply {
            market: market(words, body)?,
            assets: words.uint(5)?,
            shares: words.uint(6)?,
            owner: words.address(7)?,
            data: words.bytes(8)?.len(),
        },
        [0x5c, 0x2b, 0xea, 0x49] => LoanCall::MarketWithdraw {
            market: market(words, body)?,
            assets: words.uint(5)?,
            shares: words.uint(6)?,
            owner: words.address(7)?,
            receiver: words.address(8)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{LoanCall, decode_loan};

    fn word(n: u128) -> String {
        format!("{n:064x}")
    }

    const OWNER: u128 = 0xa1;
    const OWNER_TEXT: &str = "0x00000000000000000000000000000000000000a1";

    #[test]
    fn vault_calls_are_decoded() {
        let data = format!("0x6e553f65{}{}", word(7), word(OWNER));
        let deposit = LoanCall::Deposit { assets: 7, receiver: OWNER_TEXT.into() };
        assert_eq!(decode_loan(&data), Some(deposit));
        let data = format!("ba087652{}{}{}", word(7), word(OWNER), word(2));
        assert!(matches!(decode_loan(&data), Some(LoanCall::Redeem { shares: 7, owner, .. })
            if owner.ends_with("02")));
        assert_eq!(decode_loan("0x6e553f65"), None);
        assert_eq!(decode_loan("0x12345678"), None);
    }

    #[test]
    fn market_calls_carry_the_id_of_their_parameters_and_the_size_of_their_data() {
        let params = [word(1), word(2), word(3), word(4), word(5)].concat();
        let tail = |bytes: &str| format!("{}{bytes}", word(bytes.len() as u128 / 2));
        let call = |bytes: &str| {
            let fixed = [word(9), word(0), word(OWNER), word(288)].concat();
            format!("a99aad89{params}{fixed}{}", tail(bytes))
        };
        let Some(LoanCall::MarketSupply { market, assets, data, owner, .. }) =
            decode_loan(&call(""))
        else {
            panic!("it is a supply");
        };
        assert_eq!((assets, data, owner.as_str()), (9, 0, OWNER_TEXT));
        assert_eq!(market.id.len(), 66);
        assert!(market.interest_model.ends_with("04") && market.loan_token.ends_with("01"));
        let with = decode_loan(&call(&word(0)));
        assert!(matches!(with, Some(LoanCall::MarketSupply { data: 32, .. })));
    }
}
