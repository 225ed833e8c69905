//! The price of a venue's shares, in a form that compares exactly with earlier and later readings.

use std::cmp::Ordering;

use alloy_primitives::{U256, U512};
use serde::{Deserialize, Serialize};

/// The price of a venue's shares: a number of shares, and the assets for which they can be redeemed.
///
/// `==` compares the two amounts. Two readings of the same price may have different amounts, so compare prices with
/// [`compare`](Self::compare).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredPrice", into = "StoredPrice")]
pub struct SharePrice {
    assets: U256,
    shares: U256,
}

/// The stored form of a price.
#[derive(Serialize, Deserialize)]
struct StoredPrice {
    assets: U256,
    shares: U256,
}

/// The error for a stored price of zero shares, which would divide by zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the price of zero shares is not valid")]
struct ZeroShares;

impl SharePrice {
    /// Returns the price at which `shares` can be redeemed for `assets`, in smallest units; `None` for zero shares.
    pub fn new(assets: U256, shares: U256) -> Option<Self> {
        (!shares.is_zero()).then_some(Self { assets, shares })
    }

    /// Returns the assets for which the shares can be redeemed, in smallest units.
    pub fn assets(&self) -> U256 {
        self.assets
    }

    /// Returns the number of shares, which is never zero.
    pub fn shares(&self) -> U256 {
        self.shares
    }

    /// Compares two prices exactly, without division.
    pub fn compare(&self, other: &Self) -> Ordering {
        product(self.assets, other.shares).cmp(&product(other.assets, self.shares))
    }

    /// Returns whether a share is worth less than at the `other` price.
    pub fn is_below(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Less
    }
}

impl TryFrom<StoredPrice> for SharePrice {
    type Error = ZeroShares;

    fn try_from(amounts: StoredPrice) -> Result<Self, ZeroShares> {
        Self::new(amounts.assets, amounts.shares).ok_or(ZeroShares)
    }
}

impl From<SharePrice> for StoredPrice {
    fn from(price: SharePrice) -> Self {
        Self { assets: price.assets, shares: price.shares }
    }
}

/// Returns the product. It has twice the bits of its factors, so it cannot overflow.
fn product(a: U256, b: U256) -> U512 {
    a.widening_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(assets: u64, shares: u64) -> SharePrice {
        SharePrice::new(U256::from(assets), U256::from(shares)).unwrap()
    }

    #[test]
    fn prices_are_compared_as_fractions() {
        let rows = [
            (price(1, 2), price(2, 4), Ordering::Equal),
            (price(1, 3), price(2, 6), Ordering::Equal),
            (price(1, 3), price(333_333, 1_000_000), Ordering::Greater),
            (price(1, 3), price(333_334, 1_000_000), Ordering::Less),
            (price(5, 7), price(4, 7), Ordering::Greater),
            (price(5, 7), price(5, 8), Ordering::Greater),
            (price(0, 1), price(0, 9), Ordering::Equal),
            (price(0, 1), price(1, u64::MAX), Ordering::Less),
        ];
        for (left, right, expected) in rows {
            assert_eq!(left.compare(&right), expected, "{left:?} {right:?}");
            assert_eq!(right.compare(&left), expected.reverse());
            assert_eq!(left.is_below(&right), expected == Ordering::Less);
        }
    }

    #[test]
    fn the_largest_amounts_are_compared_without_overflow() {
        let (max, less) = (U256::MAX, U256::MAX - U256::ONE);
        let one = SharePrice::new(max, max).unwrap();
        let below = SharePrice::new(less, max).unwrap();
        let above = SharePrice::new(max, less).unwrap();
        assert!(below.is_below(&one) && one.is_below(&above) && below.is_below(&above));
        assert_eq!(one.compare(&price(1, 1)), Ordering::Equal);
        assert!(
            SharePrice::new(U256::ONE, max)
                .unwrap()
                .is_below(&SharePrice::new(max, U256::ONE).unwrap())
        );
    }

    #[test]
    fn zero_shares_have_no_price() {
        assert_eq!(SharePrice::new(U256::ONE, U256::ZERO), None);
        let stored = |shares| format!(r#"{{"assets":"0x1","shares":"{shares}"}}"#);
        assert!(serde_json::from_str::<SharePrice>(&stored("0x2")).is_ok());
        assert!(serde_json::from_str::<SharePrice>(&stored("0x0")).is_err());
        let bytes = postcard::to_allocvec(&(U256::ONE, U256::ZERO)).unwrap();
        assert!(postcard::from_bytes::<SharePrice>(&bytes).is_err());
    }
}
