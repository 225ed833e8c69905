//! Checks of signed terms that all methods share: the amount and the time.

use alloy_primitives::U256;

use crate::payment::Terms;
use crate::reason::Reason;

/// How long a payment must stay valid, in seconds, because settling takes a block or two.
///
/// Official servers use the same value.
pub const SETTLING_MARGIN_SECONDS: u64 = 6;

/// The purpose for which a request checks a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Verify,
    Settle,
}

/// Compares amounts that must be equal, and returns the amount. `too_much` is the reason if `signed` is higher.
pub(crate) fn compare(signed: U256, required: U256, too_much: Reason) -> Result<U256, Reason> {
    match signed.cmp(&required) {
        std::cmp::Ordering::Less => Err(Reason::TooLittle),
        std::cmp::Ordering::Equal => Ok(signed),
        std::cmp::Ordering::Greater => Err(too_much),
    }
}

/// Checks that a payment is valid now and for [`SETTLING_MARGIN_SECONDS`] more.
///
/// # Errors
/// [`Reason::Expired`], [`Reason::NotYetValid`].
pub fn check_time(terms: &Terms, now_seconds: u64) -> Result<(), Reason> {
    let Terms { valid_after, valid_before, .. } = *terms;
    TimeWindow { valid_after, valid_before }.check(now_seconds)
}

/// The time window in which an authorization is valid, in Unix seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeWindow {
    pub(crate) valid_after: U256,
    pub(crate) valid_before: U256,
}

impl TimeWindow {
    /// Checks that the window includes now and [`SETTLING_MARGIN_SECONDS`] more.
    ///
    /// # Errors
    /// [`Reason::Expired`], [`Reason::NotYetValid`].
    pub(crate) fn check(self, now_seconds: u64) -> Result<(), Reason> {
        if self.valid_before < U256::from(now_seconds.saturating_add(SETTLING_MARGIN_SECONDS)) {
            return Err(Reason::Expired);
        }
        if self.valid_after > U256::from(now_seconds) {
            return Err(Reason::NotYetValid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};

    fn terms(after: u64, before: u64) -> Terms {
        Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(1),
            nonce: B256::ZERO,
            valid_after: U256::from(after),
            valid_before: U256::from(before),
            facilitator: None,
        }
    }

    #[test]
    fn a_payment_must_be_valid_now_and_six_seconds_more() {
        let now = 1_767_225_600;
        assert_eq!(check_time(&terms(0, now + 6), now), Ok(()));
        assert_eq!(check_time(&terms(0, now + 5), now), Err(Reason::Expired));
        assert_eq!(check_time(&terms(now, now + 6), now), Ok(()));
        assert_eq!(check_time(&terms(now + 1, now + 6), now), Err(Reason::NotYetValid));
        assert_eq!(check_time(&terms(0, u64::MAX), u64::MAX), Ok(()));
    }

    #[test]
    fn exact_scheme_requires_equal_amounts() {
        let of = |signed: u64, required: u64| {
            compare(U256::from(signed), U256::from(required), Reason::TooMuch)
        };
        assert_eq!(of(7, 7), Ok(U256::from(7)));
        assert_eq!(of(6, 7), Err(Reason::TooLittle));
        assert_eq!(of(8, 7), Err(Reason::TooMuch));
    }
}
