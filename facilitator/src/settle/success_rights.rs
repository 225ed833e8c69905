//! Decides which request may receive the success of a payment. A success is returned to one request, and to repeats of
//! it with the same `Idempotency-Key`. In the record, `success_returned_at` persists that the success was returned, and
//! `pending_returned` that `settlement_pending` was returned. This module holds the rights of requests in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::book::record::{Record, RequestOrigin};
use crate::job_key::JobKey;

/// The answer to a repeated request for a settled payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// The code `duplicate_settlement`, except for a request with the `Idempotency-Key` of the successful request.
    #[default]
    Duplicate,
    /// The success again, for every caller.
    Success,
}

/// The answer to a request for a payment that another facilitator, another store or a stranger settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForeignSettlements {
    /// The code `duplicate_settlement`: the party that settled the payment may have delivered.
    #[default]
    Duplicate,
    /// The success, for one request, as if this facilitator had settled the payment.
    Success,
}

/// The rights that requests hold now, by payment.
#[derive(Debug, Clone, Default)]
pub struct SuccessRights {
    // The lock is held for a single lookup.
    right_holders: Arc<Mutex<HashMap<JobKey, RequestOrigin>>>,
    repeats: Repeats,
}

/// The right of one request to the success of one payment. Dropping it frees the success for the next request.
#[derive(Debug)]
pub struct SuccessRight {
    /// `None` for a request with the holder's `Idempotency-Key`, which receives the success along with the holder.
    released_to: Option<SuccessRights>,
    pub key: JobKey,
    pub origin: RequestOrigin,
}

impl Drop for SuccessRight {
    fn drop(&mut self) {
        if let Some(success_rights) = &self.released_to {
            success_rights.lock_right_holders().remove(&self.key);
        }
    }
}

/// The answer that a request may receive for a payment that is settled or in flight.
#[derive(Debug)]
pub enum SuccessShare {
    /// The success. It counts as returned once it is written to the connection.
    Own(SuccessRight),
    /// The success, along with the request that holds the right and has the same `Idempotency-Key`.
    WithHolder(SuccessRight),
    /// The success again, because the request repeats the request that received it, or because repeats are allowed.
    Again,
    /// Nothing, because another request has the success or the right to it.
    None,
}

impl SuccessRights {
    /// Creates an empty table of rights.
    pub fn new(repeats: Repeats) -> Self {
        Self { right_holders: Arc::default(), repeats }
    }

    /// Whether every request receives the success.
    pub fn repeats_for_all(&self) -> bool {
        self.repeats == Repeats::Success
    }

    /// Whether the success may still be returned for a request, as far as the record shows.
    pub fn may_return_to(&self, record: &Record, origin: RequestOrigin) -> bool {
        self.repeats_for_all() || record.may_return_success_to(&origin)
    }

    /// Takes the right for the request whose payment was accepted. `None` if another request holds it.
    pub fn try_take(&self, key: JobKey, origin: RequestOrigin) -> Option<SuccessRight> {
        match self.share_of(key, origin) {
            SuccessShare::Own(right) => Some(right),
            SuccessShare::WithHolder(_) | SuccessShare::Again | SuccessShare::None => None,
        }
    }

    /// Returns the answer that a request may receive for a payment that an earlier request started.
    pub fn share(&self, record: &Record, origin: RequestOrigin) -> SuccessShare {
        if self.repeats_for_all() {
            return SuccessShare::Again;
        }
        if !record.may_return_success_to(&origin) {
            return SuccessShare::None;
        }
        match record.success_returned_at {
            Some(_at) => SuccessShare::Again,
            None => self.share_of(record.key(), origin),
        }
    }

    /// Whether a request to settle would receive the success now.
    ///
    /// `/verify` reports this, because merchants verify before they settle.
    pub fn would_share(&self, record: &Record, origin: RequestOrigin) -> bool {
        if self.repeats_for_all() {
            return true;
        }
        if record.success_returned_at.is_some() || !record.may_return_success_to(&origin) {
            return record.may_return_success_to(&origin);
        }
        let held = self.lock_right_holders();
        held.get(&record.key()).is_none_or(|holder| origin.repeats(holder))
    }

    fn share_of(&self, key: JobKey, origin: RequestOrigin) -> SuccessShare {
        let mut held = self.lock_right_holders();
        match held.get(&key) {
            None => {
                held.insert(key, origin);
                SuccessShare::Own(SuccessRight { released_to: Some(self.clone()), key, origin })
            }
            Some(holder) if origin.repeats(holder) => {
                SuccessShare::WithHolder(SuccessRight { released_to: None, key, origin })
            }
            Some(_another) => SuccessShare::None,
        }
    }

    fn lock_right_holders(&self) -> MutexGuard<'_, HashMap<JobKey, RequestOrigin>> {
        self.right_holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::record::State;
    use crate::payment::{MethodId, Payment, Terms};
    use crate::work::Effect;
    use alloy_primitives::{Address, B256, Bytes, U256};
    use bursar_core::networks::ChainId;
    use bursar_core::time::Utc;

    fn record(asked: RequestOrigin, answered: bool) -> Record {
        let terms = Terms {
            token: Address::repeat_byte(1),
            payer: Address::repeat_byte(2),
            payee: Address::repeat_byte(3),
            authorized_amount: U256::from(1),
            nonce: B256::repeat_byte(4),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            facilitator: None,
        };
        let payment = Payment {
            chain: ChainId(8453),
            method: MethodId::Eip3009,
            terms,
            amount: U256::from(1),
            digest: B256::ZERO,
            signature: Bytes::new(),
            deployment: None,
            is_contract_payer: false,
            sponsoring: None,
        };
        Record {
            job: payment.into(),
            accepted_at: Utc(0),
            since_block: 0,
            attempts: 0,
            state: State::Settled {
                hash: B256::ZERO,
                block: 1,
                at: Utc(0),
                effect: Effect::default(),
            },
            gas: 0,
            gas_caller: B256::ZERO,
            origin: asked,
            pending_returned: false,
            success_returned_at: answered.then_some(Utc(1)),
        }
    }

    fn origin_with_key(key: u8) -> RequestOrigin {
        let idempotency = (key > 0).then(|| B256::repeat_byte(key));
        RequestOrigin { caller: B256::repeat_byte(7), idempotency }
    }

    #[test]
    fn one_request_holds_the_success_until_its_response_ends() {
        let all = SuccessRights::default();
        let open = record(origin_with_key(1), false);
        let first = all.share(&open, origin_with_key(0));
        assert!(matches!(first, SuccessShare::Own(_)));
        assert!(
            matches!(all.share(&open, origin_with_key(0)), SuccessShare::None),
            "without a key nothing is repeated"
        );
        assert!(
            matches!(all.share(&open, origin_with_key(1)), SuccessShare::None),
            "another request holds the right"
        );
        assert!(
            !all.would_share(&open, origin_with_key(0))
                && !all.would_share(&open, origin_with_key(1))
        );
        drop(first);
        assert!(all.would_share(&open, origin_with_key(0)));
        assert!(matches!(all.share(&open, origin_with_key(0)), SuccessShare::Own(_)));
        assert!(all.try_take(open.key(), origin_with_key(0)).is_some(), "it was let go");
    }

    #[test]
    fn repeat_of_the_holders_key_shares_the_success_and_keeps_the_holders_right() {
        let all = SuccessRights::default();
        let open = record(origin_with_key(0), false);
        let first = all.try_take(open.key(), origin_with_key(1));
        let along = all.share(&open, origin_with_key(1));
        assert!(matches!(along, SuccessShare::WithHolder(_)));
        assert!(
            all.would_share(&open, origin_with_key(1))
                && !all.would_share(&open, origin_with_key(2))
        );
        drop(along);
        assert!(
            matches!(all.share(&open, origin_with_key(2)), SuccessShare::None),
            "the first still holds it"
        );
        drop(first);
        assert!(matches!(all.share(&open, origin_with_key(2)), SuccessShare::Own(_)));
    }

    #[test]
    fn promised_success_belongs_to_its_requester_alone() {
        let all = SuccessRights::default();
        let stranger = RequestOrigin { caller: B256::repeat_byte(8), idempotency: None };
        let keyed = Record { pending_returned: true, ..record(origin_with_key(1), false) };
        for other in [origin_with_key(0), origin_with_key(2), stranger] {
            assert!(matches!(all.share(&keyed, other), SuccessShare::None));
            assert!(!all.would_share(&keyed, other));
        }
        assert!(matches!(all.share(&keyed, origin_with_key(1)), SuccessShare::Own(_)));
        // A promise to a request without a key belongs to all requests of that caller without a key, one at a time.
        let keyless = Record { pending_returned: true, ..record(origin_with_key(0), false) };
        for other in [origin_with_key(1), stranger] {
            assert!(matches!(all.share(&keyless, other), SuccessShare::None));
        }
        let first = all.share(&keyless, origin_with_key(0));
        assert!(matches!(first, SuccessShare::Own(_)));
        assert!(
            matches!(all.share(&keyless, origin_with_key(0)), SuccessShare::None),
            "another one has it"
        );
    }

    #[test]
    fn written_success_is_returned_again_to_the_same_idempotency_key_only() {
        let all = SuccessRights::default();
        let answered = record(origin_with_key(1), true);
        assert!(matches!(all.share(&answered, origin_with_key(1)), SuccessShare::Again));
        assert!(matches!(all.share(&answered, origin_with_key(2)), SuccessShare::None));
        assert!(matches!(all.share(&answered, origin_with_key(0)), SuccessShare::None));
        let keyless = record(origin_with_key(0), true);
        assert!(matches!(all.share(&keyless, origin_with_key(0)), SuccessShare::None));
        assert!(
            all.would_share(&answered, origin_with_key(1))
                && !all.would_share(&answered, origin_with_key(0))
        );
        let every = SuccessRights::new(Repeats::Success);
        assert!(matches!(every.share(&keyless, origin_with_key(0)), SuccessShare::Again));
        assert!(every.would_share(&keyless, origin_with_key(0)));
    }
}
