//! Transactions: when one has arrived whole, what it shows, and its hash.

use alloy_primitives::{Address, U256};

use crate::key::keccak;
use crate::rlp::{self, Item};

/// What has arrived of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    More,
    Whole(Box<Transaction>),
    Invalid,
}

/// A transaction to sign.
#[derive(Debug, PartialEq, Eq)]
pub struct Transaction {
    pub chain: u64,
    pub to: Option<Address>,
    pub value: U256,
    pub max_fee: U256,
    pub data: Vec<u8>,
    pub hash: [u8; 32],
    pub is_legacy: bool,
}

/// Reads the bytes that have arrived; called at the end of each command.
pub fn read(bytes: &[u8]) -> ReadOutcome {
    let (kind, rlp) = match bytes.split_first() {
        Some((kind @ (1 | 2), rest)) => (Some(*kind), rest),
        Some((0x03..=0x7f, _rest)) => return ReadOutcome::Invalid,
        _legacy => (None, bytes),
    };
    let Some(length) = rlp::length(rlp) else { return ReadOutcome::More };
    if rlp.len() < length {
        // The app takes a legacy transaction whose data has arrived for one without a chain id.
        let mistaken = kind.is_none() && rlp::items_so_far(rlp).is_some_and(|items| items >= 6);
        return if mistaken { ReadOutcome::Invalid } else { ReadOutcome::More };
    }
    if rlp.len() > length {
        return ReadOutcome::Invalid;
    }
    match whole(kind, rlp, bytes) {
        Some(transaction) => ReadOutcome::Whole(Box::new(transaction)),
        None => ReadOutcome::Invalid,
    }
}

fn whole(kind: Option<u8>, rlp: &[u8], bytes: &[u8]) -> Option<Transaction> {
    let (Item::List(items), []) = rlp::read(rlp)? else { return None };
    // The places of chain, gas price, gas, payee, value and data.
    let (count, [chain, price, gas, to, value, data]) = match kind {
        None => (9, [6, 1, 2, 3, 4, 5]),
        Some(1) => (8, [0, 2, 3, 4, 5, 6]),
        Some(_two) => (9, [0, 3, 4, 5, 6, 7]),
    };
    if items.len() != count {
        return None;
    }
    let bytes_at = |place: usize| items.get(place)?.bytes();
    let number = |place: usize| U256::try_from_be_slice(bytes_at(place)?);
    let to = match bytes_at(to)? {
        [] => None,
        address => Some(Address::try_from(address).ok()?),
    };
    Some(Transaction {
        chain: number(chain)?.try_into().ok()?,
        to,
        value: number(value)?,
        max_fee: number(price)?.checked_mul(number(gas)?)?,
        data: bytes_at(data)?.to_vec(),
        hash: keccak(bytes),
        is_legacy: kind.is_none(),
    })
}

impl Transaction {
    /// Whether the app needs blind signing: it cannot show a call.
    pub fn is_blind(&self) -> bool {
        !self.data.is_empty()
    }

    /// Returns the byte `v` of the signature.
    pub fn v(&self, parity: u8) -> u8 {
        if self.is_legacy {
            let whole = self.chain.wrapping_mul(2).wrapping_add(35).wrapping_add(u64::from(parity));
            whole.to_le_bytes()[0]
        } else {
            parity
        }
    }

    /// Returns the pages of the screen.
    pub fn pages(&self, from: Address) -> Vec<String> {
        let (network, coin) = match self.chain {
            1 => ("Ethereum".to_owned(), "ETH"),
            8453 => ("Base".to_owned(), "ETH"),
            84_532 => ("Base Sepolia".to_owned(), "ETH"),
            other => (other.to_string(), "???"),
        };
        let mut pages = vec!["Review transaction".to_owned(), format!("From | {from}")];
        let to = self.to.map_or("a new contract".to_owned(), |to| to.to_string());
        match self.data.first_chunk::<4>() {
            None => {
                pages.push(format!("Amount | {} {coin}", decimal(self.value)));
                pages.push(format!("To | {to}"));
            }
            // The payee and the amount of a token are not shown without Ledger's descriptors.
            Some([0xa9, 0x05, 0x9c, 0xbb] | [0x09, 0x5e, 0xa7, 0xb3]) => {}
            Some(_call) => {
                pages.push(format!("To | {to}"));
                pages.push(format!("Transaction hash | 0x{}", hex::encode(self.hash)));
            }
        }
        pages.push(format!("Max fees | {} {coin}", decimal(self.max_fee)));
        pages.push(format!("Network | {network}"));
        if self.is_blind() {
            pages.insert(0, "Blind signing ahead".to_owned());
        }
        pages
    }
}

/// Writes an amount of 18 decimals without trailing zeros.
fn decimal(amount: U256) -> String {
    let text = format!("{amount:019}");
    let (whole, fraction) =
        text.split_at_checked(text.len().saturating_sub(18)).unwrap_or(("", ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}
