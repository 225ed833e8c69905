//! The currencies of a pool: the native coin or a token.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use alloy_primitives::Address;

/// The native coin or a token.
///
/// Uniswap v4 writes the native coin as the zero address.
///
/// Currencies compare by this address, as in v4, which sorts the currencies of a pool: the native coin comes first.
#[derive(Debug, Clone, Copy)]
pub enum Currency {
    /// The coin that pays gas.
    Native,
    /// A token's contract. The zero address is equal to [`Currency::Native`].
    Token(Address),
}

impl Currency {
    /// Returns the currency of an address as v4 writes it; zero is the native coin.
    pub fn from_address(address: Address) -> Self {
        if address.is_zero() { Self::Native } else { Self::Token(address) }
    }

    /// Returns the address that v4 uses for this currency; zero for the native coin.
    pub fn address(self) -> Address {
        match self {
            Self::Native => Address::ZERO,
            Self::Token(address) => address,
        }
    }

    /// Returns whether this is the native coin.
    pub fn is_native(self) -> bool {
        self.address().is_zero()
    }

    /// Returns the token that v3 trades for this currency; `wrapped` for the native coin.
    pub fn or_wrapped(self, wrapped: Address) -> Address {
        if self.is_native() { wrapped } else { self.address() }
    }
}

impl PartialEq for Currency {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Currency {}

impl Hash for Currency {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl PartialOrd for Currency {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Currency {
    fn cmp(&self, other: &Self) -> Ordering {
        self.address().cmp(&other.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zero_address_is_the_native_coin_and_sorts_first() {
        let zero = Currency::Token(Address::ZERO);
        assert_eq!(Currency::from_address(Address::ZERO), Currency::Native);
        assert_eq!(zero, Currency::Native);
        assert!(zero.is_native());
        assert_eq!(zero.cmp(&Currency::Native), Ordering::Equal);
        assert_eq!(zero.or_wrapped(Address::repeat_byte(7)), Address::repeat_byte(7));

        let low = Currency::Token(Address::with_last_byte(1));
        let high = Currency::Token(Address::repeat_byte(0xff));
        let mut all = [high, low, Currency::Native];
        all.sort();
        assert_eq!(all, [Currency::Native, low, high]);
        assert_eq!(low.or_wrapped(Address::repeat_byte(7)), Address::with_last_byte(1));
    }
}
