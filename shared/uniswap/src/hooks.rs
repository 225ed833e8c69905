//! The rights of a hook contract, which v4 reads from the lowest 14 bits of its address.

use alloy_primitives::Address;

/// The rights of a hook contract, as `Hooks.sol` of v4-core defines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookPermissions {
    bits: u16,
}

const BEFORE_SWAP: u16 = 0x80;
const AFTER_SWAP: u16 = 0x40;
const BEFORE_SWAP_RETURNS_DELTA: u16 = 0x08;
const AFTER_SWAP_RETURNS_DELTA: u16 = 0x04;

/// Names of the bits, from the highest.
const NAMES: [(u16, &str); 14] = [
    (0x2000, "before initialize"),
    (0x1000, "after initialize"),
    (0x0800, "before adding liquidity"),
    (0x0400, "after adding liquidity"),
    (0x0200, "before removing liquidity"),
    (0x0100, "after removing liquidity"),
    (BEFORE_SWAP, "before a swap"),
    (AFTER_SWAP, "after a swap"),
    (0x0020, "before a donation"),
    (0x0010, "after a donation"),
    (BEFORE_SWAP_RETURNS_DELTA, "changes the amounts before a swap"),
    (AFTER_SWAP_RETURNS_DELTA, "changes the amounts after a swap"),
    (0x0002, "changes the amounts of added liquidity"),
    (0x0001, "changes the amounts of removed liquidity"),
];

impl HookPermissions {
    /// Returns the rights of the hook at `hooks`; the zero address has none.
    pub fn of(hooks: Address) -> Self {
        let [.., high, low] = hooks.into_array();
        Self { bits: u16::from_be_bytes([high, low]) & 0x3fff }
    }

    /// Returns whether the hook runs before a swap.
    ///
    /// In a pool with a dynamic fee it may then set the fee.
    pub fn before_swap(self) -> bool {
        self.has(BEFORE_SWAP)
    }

    /// Returns whether the hook runs after a swap.
    pub fn after_swap(self) -> bool {
        self.has(AFTER_SWAP)
    }

    /// Returns whether the hook may replace the amount that is swapped.
    pub fn before_swap_returns_delta(self) -> bool {
        self.has(BEFORE_SWAP_RETURNS_DELTA)
    }

    /// Returns whether the hook may change what the swapper pays or receives.
    pub fn after_swap_returns_delta(self) -> bool {
        self.has(AFTER_SWAP_RETURNS_DELTA)
    }

    /// Returns whether the amounts of a swap may differ from those of the pool.
    pub fn changes_amounts(self) -> bool {
        self.has(BEFORE_SWAP_RETURNS_DELTA | AFTER_SWAP_RETURNS_DELTA)
    }

    /// Returns whether the hook runs during swaps, or may change their amounts.
    pub fn touches_swap(self) -> bool {
        self.has(BEFORE_SWAP | AFTER_SWAP) || self.changes_amounts()
    }

    /// Returns the rights in words, for people.
    pub fn names(self) -> Vec<&'static str> {
        NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| *name).collect()
    }

    fn has(self, any_of: u16) -> bool {
        self.bits & any_of != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: u16) -> HookPermissions {
        let mut bytes = [0xff; 20];
        bytes[18..].copy_from_slice(&low.to_be_bytes());
        HookPermissions::of(Address::from(bytes))
    }

    #[test]
    fn each_bit_gives_its_right() {
        // Columns: bits, before swap, after swap, before-swap delta, after-swap delta, touches a swap.
        let rows = [
            (0x0000, false, false, false, false, false),
            (0xc000, false, false, false, false, false),
            (0x3f33, false, false, false, false, false),
            (0x0080, true, false, false, false, true),
            (0x0040, false, true, false, false, true),
            (0x0008, false, false, true, false, true),
            (0x0004, false, false, false, true, true),
            (0xffff, true, true, true, true, true),
        ];
        for (bits, before, after, before_delta, after_delta, touches) in rows {
            let hook = of(bits);
            assert_eq!(hook.before_swap(), before, "{bits:#x}");
            assert_eq!(hook.after_swap(), after, "{bits:#x}");
            assert_eq!(hook.before_swap_returns_delta(), before_delta, "{bits:#x}");
            assert_eq!(hook.after_swap_returns_delta(), after_delta, "{bits:#x}");
            assert_eq!(hook.changes_amounts(), before_delta || after_delta, "{bits:#x}");
            assert_eq!(hook.touches_swap(), touches, "{bits:#x}");
        }
        assert!(!HookPermissions::of(Address::ZERO).touches_swap());
    }

    #[test]
    fn the_names_cover_each_of_the_14_bits_once() {
        let all = NAMES.iter().fold(0_u16, |all, (bit, _)| {
            assert_eq!(all & bit, 0);
            all | bit
        });
        assert_eq!(all, 0x3fff);
        assert_eq!(of(0xffff).names().len(), 14);
        assert_eq!(of(0x0044).names(), ["after a swap", "changes the amounts after a swap"]);
        assert!(HookPermissions::of(Address::ZERO).names().is_empty());
    }
}
