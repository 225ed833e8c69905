//! Payment records. Each payment serves one request, even across crashes.
//!
//! ```text
//!            rejected, upstream >= 400, or broken: deleted
//!          +---------------------------------------+
//!          |                                       |
//!   (new) -> Taken -- whole answer, stored --> Answered -- settled --> Paid
//!              |                                |    ^
//!              |                                +----+ not settled or unknown: retried
//!              |
//!              +-- stream starts --> Owed -- settled --> Streaming -- stream ends --> Paid or Broken
//!                                    |  ^                |  ^
//!                                    +--+ not settled    +--+ process ends: streamed again
//! ```
//!
//! Nothing is charged before `Answered` or `Owed`, and both are on disk before the facilitator is asked to settle. So
//! after a crash either nothing was charged, or the answer is stored or owed. If the upstream later answers an owed
//! stream with a whole body, the record becomes `Paid` directly.

pub mod ledger;
pub mod redb_store;
pub mod sale_key;
pub mod store;

use alloy_primitives::Address;
use bursar_outbound::Bytes;
use serde::{Deserialize, Serialize};

pub use self::sale_key::SaleKey;
use crate::facilitator::SettleOutcome;

/// Identifies a payment: digest of the network, the payer, the nonce and, for EIP-3009, the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentId(pub [u8; 32]);

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// Progress of the sale that a payment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The upstream may have been called. Nothing is charged.
    Taken,
    /// The whole answer is on disk and awaits settlement.
    Answered,
    /// A stream that has not started. Its settlement was requested, so it may be charged.
    Owed,
    /// Paid, and the stream is in progress or was cut by the end of the process.
    Streaming,
    /// Paid. The answer is complete, or its customer has abandoned it.
    Paid,
    /// Paid, but the stream broke after its first chunk.
    Broken,
}

impl Stage {
    /// Whether the sale is over: complete, abandoned by its customer, or broken while streaming.
    ///
    /// In all other stages, an identical request continues the sale.
    pub fn is_delivered(self) -> bool {
        match self {
            Self::Paid | Self::Broken => true,
            Self::Taken | Self::Answered | Self::Owed | Self::Streaming => false,
        }
    }
}

/// State of a payment's settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// No settlement was requested, or the facilitator processed none of the requests.
    Open,
    /// Settlement was requested and the outcome is unknown: the money may have moved.
    Requested,
    /// The facilitator settled the payment. The receipt is its answer as JSON.
    Settled { receipt: String },
    /// The transaction is in flight.
    Pending { receipt: String },
    /// The payment was not settled for this sale. The facilitator reported a failure or a success for another request,
    /// or a pending settlement expired.
    Failed { receipt: String },
}

impl Settlement {
    /// Returns the facilitator's receipt as JSON, if there is one.
    pub fn receipt(&self) -> Option<&str> {
        match self {
            Self::Open | Self::Requested => None,
            Self::Settled { receipt } | Self::Pending { receipt } | Self::Failed { receipt } => {
                Some(receipt)
            }
        }
    }

    /// Whether an answer may be delivered for this settlement.
    pub fn allows_delivery(&self) -> bool {
        matches!(self, Self::Settled { .. } | Self::Pending { .. })
    }

    /// Whether the settlement failed for a reason that the payer can cause, such as an empty account or a used payment,
    /// and not because the facilitator's transaction was not mined.
    pub fn is_payers_failure(&self) -> bool {
        const FACILITATOR_FAILURES: [&str; 2] = ["settlement_withdrawn", "settlement_pending"];
        let Self::Failed { receipt } = self else { return false };
        let receipt: serde_json::Value = serde_json::from_str(receipt).unwrap_or_default();
        let reason = receipt.get("errorReason").and_then(serde_json::Value::as_str);
        reason.is_none_or(|reason| !FACILITATOR_FAILURES.contains(&reason))
    }

    /// Returns the state after an answer of the facilitator.
    ///
    /// A pending answer counts only with a hash. The caller removes the hash if no node of ours knows the transaction.
    /// If an earlier request is pending or its outcome is unknown, a rejection because the payment was used does not
    /// prove a failure: that earlier request may have used the payment. [`SettleOutcome::SettledForOther`] proves a
    /// failure, because the facilitator compared our key.
    #[must_use]
    pub fn after_outcome(self, outcome: &SettleOutcome) -> Self {
        match (self, outcome) {
            // Settled is final.
            (this @ Self::Settled { .. }, _) => this,
            (_, SettleOutcome::SettledForOther { receipt }) => {
                Self::Failed { receipt: receipt.clone() }
            }
            // No request of ours was processed, or the last one failed. So another seller settled the payment.
            (
                Self::Open | Self::Failed { .. },
                SettleOutcome::Settled { receipt, repeated: true },
            ) => Self::Failed { receipt: failure_from_duplicate(receipt) },
            (_, SettleOutcome::Settled { receipt, .. }) => {
                Self::Settled { receipt: receipt.clone() }
            }
            (_, SettleOutcome::Pending { receipt, hash: Some(_) }) => {
                Self::Pending { receipt: receipt.clone() }
            }
            (
                this @ (Self::Pending { .. } | Self::Requested),
                SettleOutcome::Failed { receipt, reason },
            ) => {
                if is_payment_used(reason) {
                    this
                } else {
                    Self::Failed { receipt: receipt.clone() }
                }
            }
            (this @ Self::Pending { .. }, _) => this,
            (Self::Open | Self::Failed { .. }, SettleOutcome::Failed { receipt, .. }) => {
                Self::Failed { receipt: receipt.clone() }
            }
            (this, SettleOutcome::NotProcessed(_) | SettleOutcome::Declined(_)) => this,
            // The transaction of a pending settlement without a hash may still be broadcast.
            (_, SettleOutcome::Unknown(_) | SettleOutcome::Pending { hash: None, .. }) => {
                Self::Requested
            }
        }
    }
}

/// Turns the receipt of another request's settlement into a failure.
fn failure_from_duplicate(receipt: &str) -> String {
    const TEXT: &str = "The payment was settled for another request: do not pay again.";
    let mut receipt: serde_json::Value = serde_json::from_str(receipt).unwrap_or_default();
    receipt["success"] = false.into();
    receipt["errorReason"] = "duplicate_settlement".into();
    receipt["errorMessage"] = TEXT.into();
    receipt.to_string()
}

/// Whether the payment was already used, possibly by an earlier request of ours.
fn is_payment_used(reason: &str) -> bool {
    const USED_PAYMENT_REASONS: [&str; 5] = [
        "invalid_exact_evm_nonce_already_used",
        "invalid_permit2_nonce",
        "duplicate_settlement",
        "invalid_transaction_state",
        "invalid_exact_evm_transaction_simulation_failed",
    ];
    USED_PAYMENT_REASONS.contains(&reason)
}

/// Token counts of an answer: reported by the upstream, or counted by the proxy if the upstream reports none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    /// Whether the upstream reported the counts.
    pub reported: bool,
}

/// The stored state of a payment and its sale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: PaymentId,
    /// Digest of the body of the first request with this payment.
    pub body: Digest,
    /// Digest of the signed payload; the same nonce with another payload is refused.
    pub payment: Digest,
    /// When the payment was taken, in milliseconds of Unix time.
    pub taken_at_ms: i64,
    /// When the payment expires and can no longer be settled, in Unix seconds.
    pub expires_at: u64,
    pub stage: Stage,
    pub settlement: Settlement,
    /// The facilitator request as JSON, so that it is identical after a restart.
    pub facilitator_request: String,
    pub model: Option<String>,
    /// Amount in the asset's smallest unit, decimal.
    pub amount: String,
    /// The amount in dollars.
    pub usd: String,
    /// EIP-155 chain id.
    pub network: u64,
    pub asset: Address,
    pub payer: Address,
    pub usage: Option<Usage>,
    /// Whether the answer is stored.
    pub answer_stored: bool,
    /// The key of the sale in every facilitator request; rows that predate the key end before this member.
    pub key: Option<SaleKey>,
    /// The paid bound on one answer, in tokens; the last member, because rows that predate it end before it.
    pub answer_tokens_max: Option<u64>,
}

/// An answer in the form in which it is sent, without the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    pub status: u16,
    pub content_type: Option<String>,
    #[serde(with = "body_bytes")]
    pub body: Bytes,
}

/// Stores a body as bytes, in the same form as a `Vec<u8>`.
mod body_bytes {
    use bursar_outbound::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(body: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(body)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Vec::deserialize(from).map(Bytes::from)
    }
}

/// The next step for a request with a known payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Verify the payment, call the upstream, then settle.
    Serve,
    /// Settle the payment of the stored answer, then send the answer.
    Settle,
    /// Settle unless the payment is settled or pending, then call the upstream and stream its answer.
    Stream,
    /// Send the stored answer.
    Replay,
    /// Refuse: the payment belongs to another request.
    Spent,
    /// Refuse: the sale is over, and its answer is not stored.
    AnswerDeleted,
    /// Refuse: the stream broke.
    Broken,
}

impl Record {
    /// Returns the next step for a request with this body and payment digest.
    pub fn next_step(&self, body: &Digest, payment: &Digest) -> NextStep {
        if self.body != *body || self.payment != *payment {
            return NextStep::Spent;
        }
        match self.stage {
            Stage::Taken => NextStep::Serve,
            Stage::Answered => NextStep::Settle,
            // Only the task that holds the payment takes this step, so no other task is streaming.
            Stage::Owed | Stage::Streaming => NextStep::Stream,
            Stage::Paid if self.answer_stored => NextStep::Replay,
            Stage::Paid => NextStep::AnswerDeleted,
            Stage::Broken => NextStep::Broken,
        }
    }

    /// Whether the record can be deleted.
    ///
    /// Answers are stored for `retention_ms`, payments until they expire, and pending settlements until they end.
    pub fn is_deletable(&self, now_ms: i64, retention_ms: i64) -> bool {
        let expires_at_ms =
            i64::try_from(self.expires_at).unwrap_or(i64::MAX).saturating_mul(1_000);
        let is_pending = matches!(self.settlement, Settlement::Pending { .. });
        !is_pending && now_ms >= self.taken_at_ms.saturating_add(retention_ms).max(expires_at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_redacts_a_sale_key() {
        assert_eq!(format!("{:?}", SaleKey([0xab; 16])), "SaleKey([redacted])");
    }

    fn record(stage: Stage, answer_stored: bool) -> Record {
        Record {
            id: PaymentId([1; 32]),
            body: [2; 32],
            payment: [3; 32],
            taken_at_ms: 1_000,
            expires_at: 5,
            stage,
            settlement: Settlement::Open,
            facilitator_request: String::new(),
            model: None,
            amount: "1".to_owned(),
            usd: "0.000001".to_owned(),
            network: 1,
            asset: Address::ZERO,
            payer: Address::ZERO,
            usage: None,
            answer_stored,
            key: None,
            answer_tokens_max: None,
        }
    }

    #[test]
    fn a_payment_serves_only_its_first_request() {
        use Stage::{Answered, Broken, Owed, Paid, Streaming, Taken};
        for (stage, kept, next) in [
            (Taken, false, NextStep::Serve),
            (Answered, true, NextStep::Settle),
            (Owed, false, NextStep::Stream),
            (Streaming, false, NextStep::Stream),
            (Paid, true, NextStep::Replay),
            (Paid, false, NextStep::AnswerDeleted),
            (Broken, false, NextStep::Broken),
        ] {
            let record = record(stage, kept);
            assert_eq!(record.next_step(&[2; 32], &[3; 32]), next);
            // The request has another body, or another signature over the same nonce.
            assert_eq!(record.next_step(&[9; 32], &[3; 32]), NextStep::Spent);
            assert_eq!(record.next_step(&[2; 32], &[9; 32]), NextStep::Spent);
        }
    }

    #[test]
    fn only_paid_and_broken_sales_count_as_delivered() {
        use Stage::{Answered, Broken, Owed, Paid, Streaming, Taken};
        assert!([Paid, Broken].into_iter().all(Stage::is_delivered));
        assert!(![Taken, Answered, Owed, Streaming].into_iter().any(Stage::is_delivered));
    }

    #[test]
    fn a_failure_of_the_facilitator_is_not_the_payers() {
        let failed = |receipt: &str| Settlement::Failed { receipt: receipt.to_owned() };
        for (settlement, payers) in [
            (failed("{\"errorReason\":\"insufficient_balance\"}"), true),
            (failed(&failure_from_duplicate("{}")), true),
            (failed("{\"errorReason\":\"settlement_withdrawn\"}"), false),
            (failed("{\"errorReason\":\"settlement_pending\"}"), false),
            (Settlement::Requested, false),
        ] {
            assert_eq!(settlement.is_payers_failure(), payers, "{settlement:?}");
        }
    }

    #[test]
    fn settlement_state_follows_from_each_outcome() {
        let text = |text: &str| text.to_owned();
        let settled = SettleOutcome::Settled { receipt: text("s"), repeated: false };
        let repeated = SettleOutcome::Settled { receipt: text("s"), repeated: true };

        let pending = |known: bool| SettleOutcome::Pending {
            receipt: text("p"),
            hash: known.then_some(alloy_primitives::B256::ZERO),
        };
        let failed =
            |reason: &str| SettleOutcome::Failed { receipt: text("f"), reason: text(reason) };
        let (poor, used) = (failed("insufficient_balance"), failed("duplicate_settlement"));
        let (not_processed, unknown) =
            (SettleOutcome::NotProcessed(text("")), SettleOutcome::Unknown(text("")));
        let declined = SettleOutcome::Declined(text("facilitator_out_of_gas"));
        let settled_for_other = SettleOutcome::SettledForOther { receipt: text("f") };
        let open = Settlement::Open;
        let asked = Settlement::Requested;
        let (s, p, f) = (
            Settlement::Settled { receipt: text("s") },
            Settlement::Pending { receipt: text("p") },
            Settlement::Failed { receipt: text("f") },
        );
        for (before, outcome, after) in [
            (&open, &settled, &s),
            (&asked, &settled, &s),
            (&p, &settled, &s),
            (&f, &settled, &s),
            (&open, &pending(true), &p),
            (&asked, &pending(true), &p),
            (&f, &pending(true), &p),
            (&open, &pending(false), &asked),
            (&f, &pending(false), &asked),
            (&p, &pending(false), &p),
            (&open, &poor, &f),
            (&f, &poor, &f),
            (&asked, &poor, &f),
            (&p, &poor, &f),
            (&open, &used, &f),
            (&asked, &used, &asked),
            (&p, &used, &p),
            (&open, &not_processed, &open),
            (&asked, &not_processed, &asked),
            (&p, &not_processed, &p),
            (&f, &not_processed, &f),
            (&open, &unknown, &asked),
            (&f, &unknown, &asked),
            (&p, &unknown, &p),
            (&asked, &unknown, &asked),
            (&open, &declined, &open),
            (&asked, &declined, &asked),
            (&p, &declined, &p),
            (&f, &declined, &f),
            (&s, &declined, &s),
            // Another caller received the success. This is a failure, regardless of what was requested before.
            (&open, &settled_for_other, &f),
            (&asked, &settled_for_other, &f),
            (&p, &settled_for_other, &f),
            (&f, &settled_for_other, &f),
            (&s, &settled_for_other, &s),
            (&f, &used, &f),
            (&asked, &repeated, &s),
            (&p, &repeated, &s),
            (&s, &repeated, &s),
            (&s, &used, &s),
            (&s, &poor, &s),
            (&s, &unknown, &s),
            (&s, &pending(false), &s),
        ] {
            assert_eq!(before.clone().after_outcome(outcome), *after, "{before:?} {outcome:?}");
        }
        // The payment counts as settled for another seller with the same address, unless an answer to us was lost.
        for before in [open, f] {
            let receipt = "{\"success\":true,\"transaction\":\"0x1\"}".to_owned();
            let repeated = SettleOutcome::Settled { receipt, repeated: true };
            let Settlement::Failed { receipt } = before.after_outcome(&repeated) else { panic!() };
            assert!(receipt.contains("duplicate_settlement"));
            assert!(receipt.contains("\"success\":false"));
        }
    }

    #[test]
    fn reasons_for_a_used_payment_are_recognized() {
        for reason in [
            "invalid_exact_evm_nonce_already_used",
            "invalid_permit2_nonce",
            "duplicate_settlement",
            "invalid_transaction_state",
            "invalid_exact_evm_transaction_simulation_failed",
        ] {
            assert!(is_payment_used(reason), "{reason}");
        }
        for reason in ["", "insufficient_balance", "invalid_exact_evm_transaction_failed", "used"] {
            assert!(!is_payment_used(reason), "{reason}");
        }
    }

    #[test]
    fn only_settled_or_pending_settlements_permit_delivery() {
        let receipt = || "r".to_owned();
        for (settlement, permits, expected) in [
            (Settlement::Open, false, None),
            (Settlement::Requested, false, None),
            (Settlement::Settled { receipt: receipt() }, true, Some("r")),
            (Settlement::Pending { receipt: receipt() }, true, Some("r")),
            (Settlement::Failed { receipt: receipt() }, false, Some("r")),
        ] {
            assert_eq!(
                (settlement.allows_delivery(), settlement.receipt()),
                (permits, expected),
                "{settlement:?}"
            );
        }
    }

    #[test]
    fn sale_keys_are_random_and_redacted() {
        let all: std::collections::BTreeSet<_> =
            (0..100).map(|_n| SaleKey::random().unwrap().text()).collect();
        assert_eq!(all.len(), 100);
        assert_eq!(SaleKey([0x0a; 16]).text(), "0a".repeat(16));
        assert!(!format!("{:?}", SaleKey([0x0a; 16])).contains("0a"));
    }

    #[test]
    fn a_record_is_deletable_when_its_answer_and_payment_expired() {
        let mut record = record(Stage::Paid, true);
        assert!(!record.is_deletable(2_999, 1_000) && !record.is_deletable(4_999, 1_000));
        assert!(record.is_deletable(5_000, 1_000));
        assert!(!record.is_deletable(5_000, 4_001) && record.is_deletable(5_001, 4_001));
        record.settlement = Settlement::Pending { receipt: "{}".to_owned() };
        assert!(!record.is_deletable(i64::MAX, 0));
    }
}
