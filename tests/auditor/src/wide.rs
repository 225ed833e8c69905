//! The 256-bit arithmetic that minimum outputs and prices need.

/// An unsigned integer of 256 bits, as a high and a low half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wide {
    pub(crate) high: u128,
    pub(crate) low: u128,
}

impl Wide {
    /// Returns the product of two numbers.
    pub(crate) fn product(a: u128, b: u128) -> Self {
        let mask = u128::from(u64::MAX);
        let (a1, a0, b1, b0) = (a >> 64, a & mask, b >> 64, b & mask);
        // No term exceeds (2^64 - 1)^2, so no product wraps. The sums carry into the high half.
        let (low, mid1) = (a0.wrapping_mul(b0), a0.wrapping_mul(b1));
        let (mid2, high) = (a1.wrapping_mul(b0), a1.wrapping_mul(b1));
        let (low, carry1) = low.overflowing_add(mid1 << 64);
        let (low, carry2) = low.overflowing_add(mid2 << 64);
        let high = high
            .wrapping_add(mid1 >> 64)
            .wrapping_add(mid2 >> 64)
            .wrapping_add(u128::from(carry1))
            .wrapping_add(u128::from(carry2));
        Self { high, low }
    }

    /// Divides, and returns the quotient and the remainder. Division by zero returns the largest quotient.
    pub(crate) fn divide(self, by: u128) -> (Self, u128) {
        if by == 0 {
            return (Self { high: u128::MAX, low: u128::MAX }, 0);
        }
        let mut quotient = Self { high: 0, low: 0 };
        let mut rest = 0u128;
        for bit in (0..256u32).rev() {
            let set =
                if bit >= 128 { (self.high >> (bit - 128)) & 1 } else { (self.low >> bit) & 1 };
            let over = rest >> 127 == 1;
            rest = (rest << 1) | set;
            if over || rest >= by {
                rest = rest.wrapping_sub(by);
                if bit >= 128 {
                    quotient.high |= 1 << (bit - 128);
                } else {
                    quotient.low |= 1 << bit;
                }
            }
        }
        (quotient, rest)
    }

    /// Returns the 32 bytes of the number, most significant first.
    pub(crate) fn to_word(self) -> [u8; 32] {
        let mut word = [0; 32];
        let bytes = self.high.to_be_bytes().into_iter().chain(self.low.to_be_bytes());
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = from;
        }
        word
    }

    fn saturating_u128(self) -> u128 {
        if self.high == 0 { self.low } else { u128::MAX }
    }
}

/// Returns a × b / c, rounded down.
pub(crate) fn floor(a: u128, b: u128, c: u128) -> u128 {
    Wide::product(a, b).divide(c).0.saturating_u128()
}

/// Returns a × b / c, rounded up.
pub(crate) fn ceil(a: u128, b: u128, c: u128) -> u128 {
    let (quotient, rest) = Wide::product(a, b).divide(c);
    quotient.saturating_u128().saturating_add(u128::from(rest > 0))
}

#[cfg(test)]
mod tests {
    use super::{Wide, ceil, floor};

    #[test]
    fn products_and_quotients_keep_all_bits() {
        let most = u128::MAX;
        // (2^128 - 1)^2 = 2^256 - 2^129 + 1
        assert_eq!(Wide::product(most, most), Wide { high: most - 1, low: 1 });
        assert_eq!(Wide::product(most, most).divide(most), (Wide { high: 0, low: most }, 0));
        assert_eq!(
            floor(most, 9_950, 10_000),
            most / 10_000 * 9_950 + most % 10_000 * 9_950 / 10_000
        );
        assert_eq!((floor(1, 9_950, 10_000), ceil(1, 9_950, 10_000)), (0, 1));
        assert_eq!((floor(200, 9_950, 10_000), ceil(200, 9_950, 10_000)), (199, 199));
    }
}
