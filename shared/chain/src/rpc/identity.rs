//! What is known of the chain that an endpoint serves. Pure: the time is an argument, in monotonic
//! milliseconds. Money sent by the word of another chain's node would be judged by the wrong balances.

use bursar_core::networks::ChainId;

use crate::rpc::config::RpcLimits;

#[derive(Debug, Default)]
pub(super) enum Identity {
    #[default]
    Unknown,
    /// It served our chain; believed until then.
    Ours { until_ms: u64 },
    /// It served another chain. It is not used until it was asked again, which is not before then.
    Foreign { answered: ChainId, until_ms: u64 },
}

/// What to do before the next question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    NotNeeded,
    Due,
    Refuse { answered: ChainId },
}

impl Identity {
    pub(super) fn check(&self, now_ms: u64) -> Check {
        match *self {
            Self::Ours { until_ms } if now_ms < until_ms => Check::NotNeeded,
            Self::Foreign { answered, until_ms } if now_ms < until_ms => Check::Refuse { answered },
            Self::Unknown | Self::Ours { .. } | Self::Foreign { .. } => Check::Due,
        }
    }

    /// Takes down an answer. Whether it is ours.
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

    /// After an outage another node may stand at the address. A refused endpoint stays refused.
    pub(super) fn doubt(&mut self) {
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
    fn a_match_is_believed_for_its_time() {
        let mut identity = Identity::default();
        assert_eq!(identity.check(0), Check::Due);
        assert!(identity.learn(OURS, OURS, 5, &limits()));
        assert_eq!(identity.check(1004), Check::NotNeeded);
        assert_eq!(identity.check(1005), Check::Due);
        identity.doubt();
        assert_eq!(identity.check(6), Check::Due);
    }

    #[test]
    fn a_mismatch_is_refused_until_it_was_asked_again() {
        let mut identity = Identity::default();
        assert!(!identity.learn(OTHER, OURS, 5, &limits()));
        identity.doubt();
        assert_eq!(identity.check(14), Check::Refuse { answered: OTHER });
        assert_eq!(identity.check(15), Check::Due);
        assert!(identity.learn(OURS, OURS, 15, &limits()));
        assert_eq!(identity.check(16), Check::NotNeeded);
    }
}
