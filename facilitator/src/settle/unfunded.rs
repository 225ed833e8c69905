//! Ends the wait for a payment before its answer is due, if no signer can pay for it.

use bursar_submit::{Submission, Trouble};

use crate::book::ledger::Lookup;
use crate::book::record::{Record, State};
use crate::reason::Reason;
use crate::settle::settler::Settler;

/// Interval between checks of a payment in flight, in milliseconds. A signer that is funded between two checks sends
/// the payment.
const FUNDING_CHECK_INTERVAL_MS: u64 = 1_000;

impl Settler {
    /// Completes once no signer can pay for an open payment. The newest balances show this, or nodes refuse its
    /// transaction for lack of funds. Cancel-safe.
    pub(super) async fn wait_until_unfunded(&self, record: &Record) {
        let mut lacked = false;
        loop {
            self.pause(FUNDING_CHECK_INTERVAL_MS).await;
            // Read the book only if the signers may lack coin for the payment.
            let may_lack = self.queued_reason(record) == Reason::OutOfGas || self.any_refused();
            let lacks = may_lack && self.is_unfunded(record).await;
            // A node that is a block behind may refuse once.
            if lacks && lacked {
                return;
            }
            lacked = lacks;
        }
    }

    /// Whether nodes refuse any transaction because its signer cannot pay for it.
    fn any_refused(&self) -> bool {
        let mut slots = self.signer_slots.values();
        slots.any(|slot| slot.outbox.outbox().open.values().any(is_refused))
    }

    async fn is_unfunded(&self, record: &Record) -> bool {
        // If the store fails, the due answer reports that.
        let found = self.ledger.find(record.key()).await;
        let Ok(Some(Lookup::Open(now, _progress))) = found else { return false };
        match now.state {
            State::Queued => self.queued_reason(&now) == Reason::OutOfGas,
            State::Sent { batch } => {
                let mut slots = self.signer_slots.values();
                slots.any(|slot| slot.outbox.outbox().open.get(&batch).is_some_and(is_refused))
            }
            State::Settled { .. }
            | State::SettledElsewhere { .. }
            | State::Failed { .. }
            | State::Closed { .. } => false,
        }
    }
}

fn is_refused(submission: &Submission) -> bool {
    submission.trouble == Some(Trouble::Unfunded)
}
