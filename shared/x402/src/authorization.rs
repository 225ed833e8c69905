//! The EIP-3009 terms that a payer signs, and how long they are valid. This module reads no clock and draws no nonce:
//! the caller passes both.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};

use crate::error::X402Error;
use crate::required::Version;

/// Minimum validity of a payment, in seconds.
///
/// With a shorter validity, an honest server's delays or a slightly wrong clock could make a signed payment fail.
pub const MIN_VALIDITY_SECONDS: u64 = 30;

/// One EIP-3009 `TransferWithAuthorization`.
///
/// Any party may redeem an authorization until `valid_before`, and the wallet cannot revoke it. The journal stores all
/// fields, so that the wallet signs the same authorization again after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorization {
    pub from: Address,
    pub to: Address,
    /// In the smallest unit of the token.
    pub value: U256,
    /// Unix seconds; the token requires a later block time.
    pub valid_after: u64,
    /// Unix seconds; the token requires an earlier block time.
    pub valid_before: u64,
    pub nonce: B256,
}

/// The validity of an authorization, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub after: u64,
    pub before: u64,
}

/// Seconds by which the wallet backdates a payment of version 1, as official clients do.
const V1_BACKDATED_SECONDS: u64 = 600;

/// Returns the validity of a payment.
///
/// It ends after the offer's timeout, which is raised to [`MIN_VALIDITY_SECONDS`] if it is shorter. This function never
/// shortens a timeout; the policy decides whether it is too long.
///
/// The start is the same as in official clients. In version 2 it is zero: a token requires a later block time, so
/// with "now" as the start, the payment could fail in the very next block. In version 1 it is ten minutes ago.
///
/// # Errors
/// `InvalidFormat` if the end does not fit into 64 bits.
pub fn validity(
    version: Version,
    now_seconds: u64,
    max_timeout_seconds: u64,
) -> Result<Validity, X402Error> {
    let after = match version {
        Version::V1 => now_seconds.saturating_sub(V1_BACKDATED_SECONDS),
        Version::V2 => 0,
    };
    now_seconds
        .checked_add(max_timeout_seconds.max(MIN_VALIDITY_SECONDS))
        .map(|before| Validity { after, before })
        .ok_or_else(|| X402Error::format("maxTimeoutSeconds is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_good_for_the_offered_time_and_at_least_thirty_seconds() {
        for (asked, given) in [(0, 30), (29, 30), (30, 30), (31, 31), (300, 300), (86_400, 86_400)]
        {
            let before = 1_767_225_600 + given;
            let window = |version| validity(version, 1_767_225_600, asked).unwrap();
            assert_eq!(window(Version::V2), Validity { after: 0, before }, "{asked}");
            assert_eq!(window(Version::V1), Validity { after: 1_767_225_000, before }, "{asked}");
        }
    }

    #[test]
    fn time_that_does_not_fit_is_refused_and_never_wraps() {
        assert_eq!(validity(Version::V2, u64::MAX - 30, 0).unwrap().before, u64::MAX);
        for (now, asked) in [(u64::MAX - 29, 0), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            assert!(matches!(validity(Version::V1, now, asked), Err(X402Error::InvalidFormat(_))));
        }
    }

    #[test]
    fn an_authorization_survives_the_journal_and_json() {
        let whole = Authorization {
            from: Address::repeat_byte(0x11),
            to: Address::repeat_byte(0x22),
            value: U256::MAX,
            valid_after: 0,
            valid_before: u64::MAX,
            nonce: B256::repeat_byte(0xab),
        };
        let stored = postcard::to_allocvec(&whole).unwrap();
        assert_eq!(postcard::from_bytes::<Authorization>(&stored).unwrap(), whole);
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<Authorization>(&text).unwrap(), whole);
    }
}
