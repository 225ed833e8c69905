//! Settlement: the steps that move the money.

use bursar_core::networks::{ChainId, by_chain};

use super::{PaymentRefusal, SaleOutcome, SaleStep, Seller, end_sale};
use crate::book::{Record, Settlement, Stage, StoredAnswer};
use crate::facilitator::{SaleContext, SettleOutcome, Verdict};
use crate::fault::Code;
use crate::unpaid::UnpaidGuard;

/// Maximum number of attempts while the facilitator does not process the request.
const SETTLE_TRIES_MAX: u32 = 3;
/// Pause between attempts.
const SETTLE_PAUSE_MS: u64 = 250;

impl Seller {
    /// Settles the payment for a whole answer, unless it is settled or pending, and returns the answer.
    pub(super) async fn settle_whole(
        &self,
        mut record: Record,
        answer: StoredAnswer,
        request_id: Option<String>,
        unpaid: Option<UnpaidGuard>,
    ) -> SaleStep<SaleOutcome> {
        let earned = !record.settlement.allows_delivery();
        // A stored answer is not written again.
        let mut new = (!record.answer_stored).then(|| answer.clone());
        record.answer_stored = true;
        let mut remaining = None;
        if earned {
            remaining = self.settle(&mut record, new.take(), unpaid).await?;
        }
        record.stage = Stage::Paid;
        self.or_store_fault(self.0.ledger.put(&record, new).await)?;
        remaining.into_iter().for_each(UnpaidGuard::keep);
        self.0.failpoints.pass("paid");
        self.count_sale(&record, "whole", earned);
        Ok(SaleOutcome::whole(&record, answer, request_id))
    }

    /// Settles the payment for a stream that is about to start, and stores the result.
    pub(super) async fn settle_stream(
        &self,
        record: &mut Record,
        unpaid: Option<UnpaidGuard>,
    ) -> SaleStep<()> {
        let remaining = self.settle(record, None, unpaid).await?;
        self.or_store_fault(self.0.ledger.put(record, None).await)?;
        remaining.into_iter().for_each(UnpaidGuard::keep);
        self.0.failpoints.pass("paid");
        self.count_sale(record, "streamed", true);
        Ok(())
    }

    /// Requests the settlement, after [`Settlement::Requested`] is on disk.
    ///
    /// Returns the guard if the settlement is pending. If `unpaid` is `None`, a pending settlement is refused.
    ///
    /// If the payment is neither settled nor pending, nothing is delivered. The record remains, so that a repeat of the
    /// request can settle again.
    async fn settle(
        &self,
        record: &mut Record,
        answer: Option<StoredAnswer>,
        unpaid: Option<UnpaidGuard>,
    ) -> SaleStep<Option<UnpaidGuard>> {
        let before = std::mem::replace(&mut record.settlement, Settlement::Requested);
        self.or_store_fault(self.0.ledger.put(record, answer).await)?;
        self.0.failpoints.pass("asking");
        let outcome = self.request_settlement(record, before).await;
        self.0.failpoints.pass("settled");
        match (&record.settlement, unpaid) {
            (Settlement::Settled { .. }, _paid) => return Ok(None),
            (Settlement::Pending { .. }, Some(unpaid)) => return Ok(Some(unpaid)),
            (Settlement::Pending { .. }, None) => {
                record.settlement = Settlement::Requested;
                self.or_store_fault(self.0.ledger.put(record, None).await)?;
                return end_sale(PaymentRefusal::of(Code::UnpaidLimit, record));
            }
            (
                Settlement::Open | Settlement::Requested | Settlement::Failed { .. },
                _undelivered,
            ) => {}
        }
        let facilitator = self.0.facilitator.label();
        let code = match (&record.settlement, outcome) {
            (
                Settlement::Failed { .. } | Settlement::Open,
                SettleOutcome::NotProcessed(why) | SettleOutcome::Declined(why),
            ) => {
                tracing::warn!(facilitator, %why, "a payment could not be settled");
                Code::FacilitatorUnavailable
            }
            (Settlement::Failed { .. }, _) => Code::SettlementFailed,
            (_, outcome) => {
                tracing::warn!(
                    facilitator,
                    outcome = outcome.name(),
                    reason = outcome.reason(),
                    "the outcome of a settlement is unknown"
                );
                Code::SettlementUnknown
            }
        };
        self.or_store_fault(self.0.ledger.put(record, None).await)?;
        // The penalty is added only after the write. If the write fails, a repeat fails to settle again, and that
        // failure counts.
        if code == Code::SettlementFailed && record.settlement.is_payers_failure() {
            self.0.penalties.add(record.payer, self.0.clock.mono_ms());
        }
        end_sale(PaymentRefusal::of(code, record))
    }

    /// Requests the settlement and sets the result in the record.
    ///
    /// Retries if the facilitator did not process the request. If the settlement is pending, requests it once more, as
    /// official servers do, because most blocks arrive during the second request.
    async fn request_settlement(&self, record: &mut Record, before: Settlement) -> SettleOutcome {
        let mut outcome = self.settle_once(record).await;
        for _again in 1..SETTLE_TRIES_MAX {
            if !matches!(outcome, SettleOutcome::NotProcessed(_)) {
                break;
            }
            let wake = self.0.clock.mono_ms().saturating_add(SETTLE_PAUSE_MS);
            self.0.clock.sleep_until(wake).await;
            outcome = self.settle_once(record).await;
        }
        record.settlement = before.after_outcome(&outcome);
        if matches!(outcome, SettleOutcome::Pending { .. }) {
            self.request_again(record).await;
        }
        if matches!(record.settlement, Settlement::Pending { .. })
            && !self.may_count_pending(record).await
        {
            record.settlement = Settlement::Requested;
        }
        outcome
    }

    /// Requests a pending settlement again. A new pending answer replaces the old one, so a node must know
    /// its transaction, too.
    async fn request_again(&self, record: &mut Record) {
        let outcome = self.settle_once(record).await;
        let before = match &outcome {
            SettleOutcome::Pending { .. } => Settlement::Requested,
            _other => record.settlement.clone(),
        };
        record.settlement = before.after_outcome(&outcome);
    }

    /// Whether the settlement in the record may count. A pending settlement does not count if its payment fails
    /// verification.
    ///
    /// Such a payment has moved its money, or its account is empty. If the money has moved, another settle request
    /// reports the success. If the account is empty, the transaction stays pending until its block is final. Without
    /// this check, a payer who empties the account would receive many answers and pay for none.
    async fn may_count_pending(&self, record: &mut Record) -> bool {
        let Some(context) = context_of(record) else { return true };
        let verdict = self.0.facilitator.verify(&record.facilitator_request, context).await;
        if !matches!(verdict, Verdict::Invalid { .. }) {
            return true;
        }
        self.request_again(record).await;
        !matches!(record.settlement, Settlement::Pending { .. })
    }

    /// Sends one settle request. Removes the hash of a pending answer if no node knows the transaction.
    async fn settle_once(&self, record: &Record) -> SettleOutcome {
        let Some(context) = context_of(record) else {
            return SettleOutcome::Unknown("the payment is on an unknown network".to_owned());
        };
        let mut outcome = self.0.facilitator.settle(&record.facilitator_request, context).await;
        if let SettleOutcome::Pending { hash, .. } = &mut outcome
            && let Some(reported_hash) = *hash
            // After delivery a missing transaction changes nothing: the answer cannot be taken back.
            && !record.stage.is_delivered()
            && !self.0.nodes.knows_transaction(context.network.chain, reported_hash).await
        {
            *hash = None;
        }
        self.0.metrics.count_settlement(outcome.name());
        outcome
    }

    /// Looks up the outcome of a pending settlement.
    ///
    /// `expired` means that the payment expired long ago, so this lookup is the last.
    pub async fn reconcile(&self, mut record: Record, expired: bool) {
        let outcome = self.settle_once(&record).await;
        let before = record.settlement.clone();
        record.settlement = before.clone().after_outcome(&outcome);
        if expired && let Settlement::Pending { receipt } = &record.settlement {
            record.settlement = if record.stage.is_delivered() {
                Settlement::Failed { receipt: receipt.clone() }
            } else {
                // The customer may still request the answer. After `Failed`, a repeated success would count as
                // another seller's.
                Settlement::Requested
            };
        }
        if record.settlement == before {
            return;
        }
        match self.0.ledger.put(&record, None).await {
            Ok(()) => self.count_reconciled(&record, &outcome),
            Err(fault) => tracing::error!(%fault, "the end of a settlement could not be stored"),
        }
    }

    /// Counts the outcome of a pending settlement after the record is stored. If the write failed, the next lookup
    /// finds the outcome again.
    fn count_reconciled(&self, record: &Record, outcome: &SettleOutcome) {
        match &record.settlement {
            Settlement::Pending { .. } => return,
            Settlement::Settled { .. } => {
                self.0.metrics.add_revenue(record.network, record.asset, &record.amount);
            }
            Settlement::Failed { .. } => {
                if record.stage.is_delivered() {
                    tracing::warn!(
                        payer = %record.payer, amount = %record.amount, outcome = outcome.name(),
                        reason = outcome.reason(), "an answer was delivered without payment"
                    );
                    self.0.metrics.unpaid_answers.inc();
                }
                if record.settlement.is_payers_failure() {
                    self.0.penalties.add(record.payer, self.0.clock.mono_ms());
                }
            }
            Settlement::Open | Settlement::Requested => {}
        }
        self.0.unpaid.end(record.id);
    }

    /// Counts and logs a sale. `earned` is true if the settlement was requested now, and not by an earlier request.
    fn count_sale(&self, record: &Record, result: &'static str, earned: bool) {
        self.0.metrics.count_chat(result);
        if earned && matches!(record.settlement, Settlement::Settled { .. }) {
            self.0.metrics.add_revenue(record.network, record.asset, &record.amount);
        }
        tracing::info!(
            payer = %record.payer, network = record.network, amount = %record.amount, result,
            pending = matches!(record.settlement, Settlement::Pending { .. }), "sold"
        );
    }
}

fn context_of(record: &Record) -> Option<SaleContext> {
    let network = by_chain(ChainId(record.network))?;
    Some(SaleContext { network, payer: record.payer, key: record.key })
}
