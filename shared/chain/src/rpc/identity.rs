//! Which chain an endpoint serves. Pure: the time is an argument, in monotonic milliseconds. A node of another
//! chain would report balances that do not exist on ours.

use bursar_core::networks::ChainId;

use crate::rpc::config::RpcLimits;

#[derive(Debug, Default)]
pub(super) enum Identity {
    #[default]
    Unknown,
    /// The endpoint served our chain, and is trusted until this time.
    Ours { until_ms: u64 },
    /// The endpoint served another chain. It is not used before the next check, which is due at this time.
    Foreign { answered: ChainId, until_ms: u64 },
}

/// The check that is due before the next request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IdentityCheck {
    NotNeeded,
    Due,
    Refuse { answered: ChainId },
}

impl Identity {
    pub(super) fn check(&self, now_ms: u64) -> IdentityCheck {
        match *self {
            Self::Ours { until_ms } if now_ms < until_ms => IdentityCheck::NotNeeded,
            Self::Foreign { answered, until_ms } if now_ms < until_ms => {
                IdentityCheck::Refuse { answered }
            }
            Self::Unknown | Self::Ours { .. } | Self::Foreign { .. } => IdentityCheck::Due,
        }
    }

    /// Records an answer; returns whether it is the expected chain.
    pub(super) fn learn(
        &mut self,
        answered: ChainId,
        expected: ChainId,
        now_ms: u64,
        limits: &RpcLimits,
    ) -> bool {
        if answered == expected {
            *self = Self::Ours { until_ms: now_ms.saturating_add(limits.identity_valid_ms) };
            return true;
        }
        let until_ms = now_ms.saturating_add(limits.identity_retry_ms);
        *self = Self::Foreign { answered, until_ms };
        false
    }

    /// Requires a new check after an outage, because another node may now answer at this address. A foreign
    /// endpoint stays refused.
    pub(super) fn require_new_check(&mut self) {
        if matches!(self, Self::Ours { .. }) {
            *self = Self::Unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: ChainId = ChainId(7);
    const OTHER: ChainId = ChainId(8);

    fn limits() -> RpcLimits {
        RpcLimits { identity_valid_ms: 1000, identity_retry_ms: 10, ..RpcLimits::default() }
    }

    #[test]
    fn a_matching_chain_id_is_trusted_until_it_expires() {
        let mut identity = Identity::default();
        assert_eq!(identity.check(0), IdentityCheck::Due);
        assert!(identity.learn(OURS, OURS, 5, &limits()));
        assert_eq!(identity.check(1004), IdentityCheck::NotNeeded);
        assert_eq!(identity.check(1005), IdentityCheck::Due);
        identity.require_new_check();
        assert_eq!(identity.check(6), IdentityCheck::Due);
    }

    #[test]
    fn a_foreign_endpoint_is_refused_until_its_next_check() {
        let mut identity = Identity::default();
        assert!(!identity.learn(OTHER, OURS, 5, &limits()));
        identity.require_new_check();
        assert_eq!(identity.check(14), IdentityCheck::Refuse { answered: OTHER });
        assert_eq!(identity.check(15), IdentityCheck::Due);
        assert!(identity.learn(OURS, OURS, 15, &limits()));
        assert_eq!(identity.check(16), IdentityCheck::NotNeeded);
    }
}
