//! What is remembered of payments: each is used for one request, whatever crashes meanwhile.
//!
//! ```text
//!            upstream >= 400, or broken: forgotten
//!          +---------------------------------------+
//!          |                                       |
//!   (new) -> Taken -- a whole answer, kept --> Answered -- settled --> Paid
//!              |                                |    ^
//!              |                                +----+ not settled, or not known: asked again
//!              |
//!              +-- a stream begins --> Owed -- settled --> Streaming -- its end --> Paid, or Broken
//!                                      |  ^                    |
//!                                      +--+ not settled        |
//!                                         ^                    |
//!                                         +- the process ends -+
//! ```
//!
//! Nothing is charged before `Answered` or `Owed`, and both are on disk before the facilitator is told to
//! settle: a crash leaves either no charge or an answer that is ready, or owed.

pub mod keeper;
pub mod redb_store;
pub mod store;

use alloy_primitives::{Address, hex};
use serde::{Deserialize, Serialize};

use crate::facilitator::Outcome;

/// Names a payment: a digest of the network, the token and the payer's nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentId(pub [u8; 32]);

/// Names a sale to the facilitator: random, so that no copy of the payment has it. Made once, when the payment is
/// taken, and sent with every question about it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleKey(pub [u8; 16]);

impl SaleKey {
    /// # Errors
    /// The machine gives no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// As it is sent: 32 hex digits.
    pub fn text(self) -> String {
        hex::encode(self.0)
    }
}

/// A holder of the key can repeat our request, so it is not shown.
impl std::fmt::Debug for SaleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SaleKey([redacted])")
    }
}

/// SHA-256 of something.
pub type Digest = [u8; 32];

/// How far a payment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The upstream may have been asked; nothing is charged.
    Taken,
    /// The whole answer is kept, and is to be paid.
    Answered,
    /// A stream that has not begun: it is charged, or about to be.
    Owed,
    /// It is paid, and being streamed.
    Streaming,
    /// It is paid, and was answered.
    Paid,
    /// It is paid, and its stream broke after the first chunk.
    Broken,
}

impl Stage {
    /// Whether the answer went out, whole or broken off. Before, the same request still gets it.
    pub fn is_delivered(self) -> bool {
        match self {
            Self::Paid | Self::Broken => true,
            Self::Taken | Self::Answered | Self::Owed | Self::Streaming => false,
        }
    }
}

/// How the settlement of a payment stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// The facilitator was not told to.
    Open,
    /// It was, and what came of it is not known: the money may have moved.
    Asked,
    /// It said so. The receipt is its answer, as JSON.
    Settled { receipt: String },
    /// The money is on its way.
    Pending { receipt: String },
    /// It said that it cannot.
    Failed { receipt: String },
}

impl Settlement {
    pub fn receipt(&self) -> Option<&str> {
        match self {
            Self::Open | Self::Asked => None,
            Self::Settled { receipt } | Self::Pending { receipt } | Self::Failed { receipt } => {
                Some(receipt)
            }
        }
    }

    /// Whether an answer may go out for it.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Settled { .. } | Self::Pending { .. })
    }

    /// The state after an answer of the facilitator. A pending answer counts only with a hash, which the caller
    /// has removed if no node of ours knows it.
    ///
    /// A refusal because the payment was used proves nothing after a question whose answer was lost: that
    /// question may have used it. It proves something once the facilitator shows that it compared our key.
    #[must_use]
    pub fn told(self, outcome: &Outcome) -> Self {
        match (self, outcome) {
            // There is no way back from there.
            (this @ Self::Settled { .. }, _) => this,
            (_, Outcome::Elsewhere { receipt }) => Self::Failed { receipt: receipt.clone() },
            // We never asked, or the last answer was a definite no: another seller's request was settled.
            (Self::Open | Self::Failed { .. }, Outcome::Settled { receipt, repeated: true }) => {
                Self::Failed { receipt: denied(receipt) }
            }
            (_, Outcome::Settled { receipt, .. }) => Self::Settled { receipt: receipt.clone() },
            (_, Outcome::Pending { receipt, hash: Some(_) }) => {
                Self::Pending { receipt: receipt.clone() }
            }
            (this @ (Self::Pending { .. } | Self::Asked), Outcome::Failed { receipt, reason }) => {
                if is_used(reason) {
                    this
                } else {
                    Self::Failed { receipt: receipt.clone() }
                }
            }
            (this @ Self::Pending { .. }, _) => this,
            (Self::Open | Self::Failed { .. }, Outcome::Failed { receipt, .. }) => {
                Self::Failed { receipt: receipt.clone() }
            }
            (this, Outcome::Unasked(_) | Outcome::Declined(_)) => this,
            // What waits without a transaction may still be sent.
            (_, Outcome::Unknown(_) | Outcome::Pending { hash: None, .. }) => Self::Asked,
        }
    }
}

/// A receipt of somebody else's settlement, as a refusal.
fn denied(receipt: &str) -> String {
    const TEXT: &str = "The payment was already settled for another request: sign a new one.";
    let mut told: serde_json::Value = serde_json::from_str(receipt).unwrap_or_default();
    told["success"] = false.into();
    told["errorReason"] = "duplicate_settlement".into();
    told["errorMessage"] = TEXT.into();
    told.to_string()
}

/// Whether a reason says that the payment was used: perhaps by us.
fn is_used(reason: &str) -> bool {
    const USED: [&str; 5] = [
        "invalid_exact_evm_nonce_already_used",
        "invalid_permit2_nonce",
        "duplicate_settlement",
        "invalid_transaction_state",
        "invalid_exact_evm_transaction_simulation_failed",
    ];
    USED.contains(&reason)
}

/// Tokens that an upstream says it used, or that were counted here where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    /// The upstream said so.
    pub told: bool,
}

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: PaymentId,
    /// Of the body that it first came with.
    pub body: Digest,
    /// Of the payment as it was signed: a stranger knows the nonce, but not what was signed.
    pub payment: Digest,
    /// When it was taken, in milliseconds of Unix time.
    pub taken_at: i64,
    /// When it can no more be settled, in Unix seconds.
    pub ends: u64,
    pub stage: Stage,
    pub settlement: Settlement,
    /// What the facilitator is asked, as JSON: the same text again after a restart.
    pub question: String,
    pub model: Option<String>,
    /// In the smallest unit, decimal.
    pub amount: String,
    /// The same in dollars.
    pub usd: String,
    /// EIP-155 chain id.
    pub network: u64,
    pub asset: Address,
    pub payer: Address,
    pub usage: Option<Usage>,
    /// Whether the answer is kept.
    pub kept: bool,
    /// Sent with every question about the payment. Rows from before there were keys end here.
    pub key: Option<SaleKey>,
    /// The bound on one answer that was paid for. The last member: rows from before it was kept end here.
    pub bound: Option<u64>,
}

/// An answer as it was sent, but for the receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
}

/// What is done for a request whose payment is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The upstream is asked, then it is settled.
    Serve,
    /// The kept answer is settled first, then sent.
    Settle,
    /// It is settled, where it is not yet, then streamed.
    Stream,
    /// The kept answer is sent.
    Replay,
    /// It was for another request.
    Spent,
    /// It was answered, and there is nothing more to send.
    Gone,
    /// Its stream broke.
    Broken,
}

impl Record {
    /// What the same payment gets when it comes again.
    pub fn next(&self, body: &Digest, payment: &Digest) -> Next {
        if self.body != *body || self.payment != *payment {
            return Next::Spent;
        }
        match self.stage {
            Stage::Taken => Next::Serve,
            Stage::Answered => Next::Settle,
            // The process that streamed it is gone, so nobody streams it.
            Stage::Owed | Stage::Streaming => Next::Stream,
            Stage::Paid if self.kept => Next::Replay,
            Stage::Paid => Next::Gone,
            Stage::Broken => Next::Broken,
        }
    }

    /// Whether nothing of it matters any more: answers are kept for a day, and a payment as long as it could
    /// be used again.
    pub fn is_over(&self, now_ms: i64, kept_ms: i64) -> bool {
        let ends_ms = i64::try_from(self.ends).unwrap_or(i64::MAX).saturating_mul(1_000);
        let waits = matches!(self.settlement, Settlement::Pending { .. });
        !waits && now_ms >= self.taken_at.saturating_add(kept_ms).max(ends_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_sale_is_not_shown() {
        assert_eq!(format!("{:?}", SaleKey([0xab; 16])), "SaleKey([redacted])");
    }

    fn record(stage: Stage, kept: bool) -> Record {
        Record {
            id: PaymentId([1; 32]),
            body: [2; 32],
            payment: [3; 32],
            taken_at: 1_000,
            ends: 5,
            stage,
            settlement: Settlement::Open,
            question: String::new(),
            model: None,
            amount: "1".to_owned(),
            usd: "0.000001".to_owned(),
            network: 1,
            asset: Address::ZERO,
            payer: Address::ZERO,
            usage: None,
            kept,
            key: None,
            bound: None,
        }
    }

    #[test]
    fn a_payment_serves_the_request_that_it_first_came_with_and_no_other() {
        use Stage::{Answered, Broken, Owed, Paid, Streaming, Taken};
        for (stage, kept, next) in [
            (Taken, false, Next::Serve),
            (Answered, true, Next::Settle),
            (Owed, false, Next::Stream),
            (Streaming, false, Next::Stream),
            (Paid, true, Next::Replay),
            (Paid, false, Next::Gone),
            (Broken, false, Next::Broken),
        ] {
            let record = record(stage, kept);
            assert_eq!(record.next(&[2; 32], &[3; 32]), next);
            // Another body, or another signature over the same nonce.
            assert_eq!(record.next(&[9; 32], &[3; 32]), Next::Spent);
            assert_eq!(record.next(&[2; 32], &[9; 32]), Next::Spent);
        }
    }

    #[test]
    fn an_answer_is_delivered_once_its_sale_has_ended() {
        use Stage::{Answered, Broken, Owed, Paid, Streaming, Taken};
        assert!([Paid, Broken].into_iter().all(Stage::is_delivered));
        assert!(![Taken, Answered, Owed, Streaming].into_iter().any(Stage::is_delivered));
    }

    #[test]
    fn a_no_counts_only_from_whoever_was_not_asked_before() {
        let text = |text: &str| text.to_owned();
        let settled = Outcome::Settled { receipt: text("s"), repeated: false };
        let repeated = Outcome::Settled { receipt: text("s"), repeated: true };

        let pending = |known: bool| Outcome::Pending {
            receipt: text("p"),
            hash: known.then_some(alloy_primitives::B256::ZERO),
        };
        let failed = |reason: &str| Outcome::Failed { receipt: text("f"), reason: text(reason) };
        let (poor, used) = (failed("insufficient_balance"), failed("duplicate_settlement"));
        let (unasked, unknown) = (Outcome::Unasked(text("")), Outcome::Unknown(text("")));
        let declined = Outcome::Declined(text("facilitator_out_of_gas"));
        let elsewhere = Outcome::Elsewhere { receipt: text("f") };
        let open = Settlement::Open;
        let asked = Settlement::Asked;
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
            (&open, &unasked, &open),
            (&asked, &unasked, &asked),
            (&p, &unasked, &p),
            (&f, &unasked, &f),
            (&open, &unknown, &asked),
            (&f, &unknown, &asked),
            (&p, &unknown, &p),
            (&asked, &unknown, &asked),
            (&open, &declined, &open),
            (&asked, &declined, &asked),
            (&p, &declined, &p),
            (&f, &declined, &f),
            (&s, &declined, &s),
            // Another caller got the success, whatever we asked before.
            (&open, &elsewhere, &f),
            (&asked, &elsewhere, &f),
            (&p, &elsewhere, &f),
            (&f, &elsewhere, &f),
            (&s, &elsewhere, &s),
            (&f, &used, &f),
            (&asked, &repeated, &s),
            (&p, &repeated, &s),
            (&s, &repeated, &s),
            (&s, &used, &s),
            (&s, &poor, &s),
            (&s, &unknown, &s),
            (&s, &pending(false), &s),
        ] {
            assert_eq!(before.clone().told(outcome), *after, "{before:?} {outcome:?}");
        }
        // It was settled for another seller with the same address, unless a question of ours was lost.
        for before in [open, f] {
            let receipt = "{\"success\":true,\"transaction\":\"0x1\"}".to_owned();
            let repeated = Outcome::Settled { receipt, repeated: true };
            let Settlement::Failed { receipt } = before.told(&repeated) else { panic!() };
            assert!(receipt.contains("duplicate_settlement"));
            assert!(receipt.contains("\"success\":false"));
        }
    }

    #[test]
    fn a_refusal_because_a_payment_was_used_is_told_from_every_other() {
        for reason in [
            "invalid_exact_evm_nonce_already_used",
            "invalid_permit2_nonce",
            "duplicate_settlement",
            "invalid_transaction_state",
            "invalid_exact_evm_transaction_simulation_failed",
        ] {
            assert!(is_used(reason), "{reason}");
        }
        for reason in ["", "insufficient_balance", "invalid_exact_evm_transaction_failed", "used"] {
            assert!(!is_used(reason), "{reason}");
        }
    }

    #[test]
    fn only_a_settlement_that_is_settled_or_pending_is_good_and_each_answer_is_its_receipt() {
        let receipt = || "r".to_owned();
        for (settlement, good, told) in [
            (Settlement::Open, false, None),
            (Settlement::Asked, false, None),
            (Settlement::Settled { receipt: receipt() }, true, Some("r")),
            (Settlement::Pending { receipt: receipt() }, true, Some("r")),
            (Settlement::Failed { receipt: receipt() }, false, Some("r")),
        ] {
            assert_eq!(
                (settlement.is_good(), settlement.receipt()),
                (good, told),
                "{settlement:?}"
            );
        }
    }

    #[test]
    fn a_key_is_random_and_shown_nowhere() {
        let all: std::collections::BTreeSet<_> =
            (0..100).map(|_n| SaleKey::random().unwrap().text()).collect();
        assert_eq!(all.len(), 100);
        assert_eq!(SaleKey([0x0a; 16]).text(), "0a".repeat(16));
        assert!(!format!("{:?}", SaleKey([0x0a; 16])).contains("0a"));
    }

    #[test]
    fn it_is_forgotten_when_its_answer_is_old_and_it_cannot_be_used_again() {
        let mut record = record(Stage::Paid, true);
        assert!(!record.is_over(2_999, 1_000) && !record.is_over(4_999, 1_000));
        assert!(record.is_over(5_000, 1_000));
        assert!(!record.is_over(5_000, 4_001) && record.is_over(5_001, 4_001));
        record.settlement = Settlement::Pending { receipt: "{}".to_owned() };
        assert!(!record.is_over(i64::MAX, 0));
    }
}
