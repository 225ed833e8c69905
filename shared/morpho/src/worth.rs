//! Checks whether the shares of a deposit are worth its price, against donations, inflated share prices and entry fees.

use alloy_primitives::{U256, uint};

/// Minimum number of virtual shares: with fewer, an attacker could profit from a donation that moves the share price.
pub const VIRTUAL_SHARES_MIN: U256 = uint!(1_000_000_U256);

/// Denominator: a deposit may lose at most a thousandth.
const LOSS_DIVISOR: U256 = uint!(1_000_U256);

/// Returns whether a vault has enough virtual shares for a deposit.
pub fn has_enough_virtual_shares(virtual_shares: U256) -> bool {
    virtual_shares >= VIRTUAL_SHARES_MIN
}

/// Returns the virtual shares of a MetaMorpho vault whose asset has these decimals: 10^(18 − decimals), at least one.
///
/// MetaMorpho has no function that returns them. Vault V2 returns its own.
pub fn virtual_shares_for(asset_decimals: u8) -> U256 {
    let offset = 18_u8.saturating_sub(asset_decimals);
    // The result is at most 10^18, so the power never saturates.
    U256::from(10_u64).saturating_pow(U256::from(offset))
}

/// Returns whether `worth` is at least 99.9 % of the deposited `assets`, both in smallest units.
///
/// `worth` is the amount for which the shares of the simulated deposit can be redeemed. A lower worth means a
/// donation, an inflated share price or an entry fee. Also returns false if `assets` is zero or a product exceeds 256
/// bits.
pub fn keeps_deposit_value(assets: U256, worth: U256) -> bool {
    let kept = worth.checked_mul(LOSS_DIVISOR);
    let least = assets.checked_mul(LOSS_DIVISOR.saturating_sub(U256::ONE));
    match (kept, least) {
        (Some(kept), Some(least)) => !assets.is_zero() && kept >= least,
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}

/// Returns the largest acceptable loss of a deposit of `assets`, in the same unit, rounded down.
///
/// See [`keeps_deposit_value`].
pub fn loss_max(assets: U256) -> U256 {
    assets.checked_div(LOSS_DIVISOR).unwrap_or_default()
}

/// Returns the number of shares to buy with an allowance that would buy `shares` now.
///
/// Interest raises the share price with every block, and a purchase that costs more than the allowance fails. So the
/// result is smaller than `shares`, by half of the loss that a deposit may have.
pub fn shares_to_buy(shares: U256) -> U256 {
    shares.saturating_sub(loss_max(shares).wrapping_shr(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHER: u128 = 1_000_000_000_000_000_000;

    fn n(value: u128) -> U256 {
        U256::from(value)
    }

    #[test]
    fn virtual_shares_fill_up_to_eighteen_decimals() {
        let rows = [(0, ETHER, true), (6, 1_000_000_000_000, true), (12, 1_000_000, true)];
        let too_few = [(13, 100_000, false), (18, 1, false), (24, 1, false), (255, 1, false)];
        for (decimals, expected, is_enough) in rows.into_iter().chain(too_few) {
            let shares = virtual_shares_for(decimals);
            assert_eq!((shares, has_enough_virtual_shares(shares)), (n(expected), is_enough));
        }
    }

    /// Buying this smaller number of shares never fails the check of the deposit's worth.
    #[test]
    fn a_purchase_spares_half_of_what_may_be_lost() {
        for (shares, bought) in
            [(0, 0), (1, 1), (1_999, 1_999), (2_000, 1_999), (ETHER, ETHER - ETHER / 2_000)]
        {
            assert_eq!(shares_to_buy(n(shares)), n(bought), "{shares}");
            assert!(shares == 0 || keeps_deposit_value(n(shares), n(bought)), "{shares}");
        }
        assert_eq!([loss_max(n(999)), loss_max(n(2_999))], [n(0), n(2)]);
    }

    #[test]
    fn a_deposit_must_keep_999_thousandths() {
        let rows = [
            // A hundred dollars with 6 decimals.
            (100_000_000, 100_000_000, true),
            (100_000_000, 99_900_000, true),
            (100_000_000, 99_899_999, false),
            // One unit with 18 decimals.
            (ETHER, ETHER - ETHER / 1_000, true),
            (ETHER, ETHER - ETHER / 1_000 - 1, false),
            // In the smallest deposits, one lost unit is more than a thousandth.
            (999, 998, false),
            (1_000, 999, true),
            (1, 1, true),
            (1, 0, false),
            (0, 0, false),
            (0, 5, false),
        ];
        for (assets, worth, expected) in rows {
            assert_eq!(keeps_deposit_value(n(assets), n(worth)), expected, "{assets} {worth}");
        }
        assert!(!keeps_deposit_value(U256::MAX, U256::MAX));
        assert!(!keeps_deposit_value(n(1), U256::MAX));
    }
}
