//! A circuit breaker per endpoint. Pure: the time is an argument, in monotonic milliseconds.

use crate::rpc::config::RpcLimits;

/// Counts consecutive failures. Too many open the breaker; after a cool-down it admits one trial request.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// The end of the cool-down; set while the breaker is open.
    open_until_ms: Option<u64>,
    /// A trial is in flight; other requests are refused until it ends.
    trial_in_flight: bool,
    last_failure_ms: u64,
    /// The first failure since the last success.
    failing_since_ms: Option<u64>,
}

/// The effect of one more failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureEffect {
    StaysClosed,
    Opens,
    StaysOpen,
}

impl Breaker {
    /// Returns whether a request may be sent now. After the cool-down, one request is admitted as the trial.
    pub(super) fn admit(&mut self, now_ms: u64) -> bool {
        match self.open_until_ms {
            None => true,
            Some(until) if until <= now_ms && !self.trial_in_flight => {
                self.trial_in_flight = true;
                true
            }
            Some(_cooling) => false,
        }
    }

    /// Closes the breaker; returns whether it was open.
    pub(super) fn record_success(&mut self) -> bool {
        let was_open = self.open_until_ms.is_some();
        *self = Self { last_failure_ms: self.last_failure_ms, ..Self::default() };
        was_open
    }

    /// Counts a failure and returns its effect.
    pub(super) fn record_failure(&mut self, now_ms: u64, limits: &RpcLimits) -> FailureEffect {
        self.trial_in_flight = false;
        self.last_failure_ms = now_ms;
        self.failing_since_ms.get_or_insert(now_ms);
        self.failures = self.failures.saturating_add(1);
        if self.failures < limits.breaker_failures {
            return FailureEffect::StaysClosed;
        }
        let until = now_ms.saturating_add(limits.breaker_cool_down_ms);
        match self.open_until_ms.replace(until) {
            None => FailureEffect::Opens,
            Some(_before) => FailureEffect::StaysOpen,
        }
    }

    /// Ends a request that showed nothing about the endpoint. Without this, a caller that stops waiting would
    /// leave its trial in flight forever, and the breaker open.
    pub(super) fn record_no_result(&mut self) {
        self.trial_in_flight = false;
    }

    /// Returns the time of the first failure since the last success.
    pub(super) fn failing_since_ms(&self) -> Option<u64> {
        self.failing_since_ms
    }

    pub(super) fn last_failure_ms(&self) -> u64 {
        self.last_failure_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> RpcLimits {
        RpcLimits { breaker_failures: 3, breaker_cool_down_ms: 100, ..RpcLimits::default() }
    }

    fn opened_at(now_ms: u64) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            breaker.record_failure(now_ms, &limits());
        }
        breaker
    }

    #[test]
    fn the_breaker_opens_at_the_third_consecutive_failure() {
        let mut breaker = Breaker::default();
        let fail_twice = |breaker: &mut Breaker| {
            assert_eq!(breaker.record_failure(0, &limits()), FailureEffect::StaysClosed);
            assert_eq!(breaker.record_failure(0, &limits()), FailureEffect::StaysClosed);
        };
        fail_twice(&mut breaker);
        assert!(!breaker.record_success(), "it was never open");
        fail_twice(&mut breaker);
        assert!(breaker.admit(0));
        assert_eq!(breaker.record_failure(0, &limits()), FailureEffect::Opens);
        assert!(!breaker.admit(99));
    }

    #[test]
    fn after_the_cool_down_one_trial_decides() {
        let mut breaker = opened_at(0);
        assert!(breaker.admit(100) && !breaker.admit(100), "one trial only");
        assert_eq!(
            breaker.record_failure(150, &limits()),
            FailureEffect::StaysOpen,
            "one failed trial is enough"
        );
        assert!(!breaker.admit(249) && breaker.admit(250));
        assert!(breaker.record_success());
        assert!(breaker.admit(251) && breaker.admit(251), "closed for every caller");
        assert_eq!(breaker.last_failure_ms(), 150);
    }

    #[test]
    fn an_abandoned_trial_admits_another_one() {
        let mut breaker = opened_at(0);
        assert!(breaker.admit(100));
        breaker.record_no_result();
        assert!(breaker.admit(100));
    }
}
