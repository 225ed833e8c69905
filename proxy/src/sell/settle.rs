//! The moment at which money moves.

use bursar_core::networks::{ChainId, by_chain};

use super::{Refused, Seller, Sold, Step, end};
use crate::book::{Answer, Record, Settlement, Stage};
use crate::facilitator::{About, Outcome, Verdict};
use crate::fault::{Code, Fault};
use crate::sell::{Charged, KEPT_BYTES_MAX};

/// How often a facilitator is asked that cannot be reached.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE_MS: u64 = 250;

impl Seller {
    /// Settles for an answer that is kept, and hands it out.
    pub(super) async fn settle_whole(
        &self,
        mut record: Record,
        answer: Answer,
        request_id: Option<String>,
    ) -> Step<Sold> {
        if !record.settlement.is_good() {
            match self.settle(&record).await {
                Outcome::Settled { receipt } => record.settlement = Settlement::Settled { receipt },
                Outcome::Pending { receipt, .. } => {
                    record.settlement = Settlement::Pending { receipt };
                }
                Outcome::Failed { receipt, .. } => {
                    record.settlement = Settlement::Failed { receipt };
                    self.stored(self.0.keeper.put(&record, None).await)?;
                    return end(Refused::of(Code::SettlementFailed, &record));
                }
                other => return self.in_doubt(other, &record),
            }
        }
        self.0.points.reach("settled");
        record.stage = Stage::Paid;
        record.kept = answer.body.len() <= KEPT_BYTES_MAX;
        self.stored(self.0.keeper.put(&record, None).await)?;
        self.0.points.reach("paid");
        self.sold(&record, "whole");
        let receipt = record.settlement.receipt().unwrap_or_default().to_owned();
        Ok(Sold::Whole { answer, receipt, request_id })
    }

    /// Settles for a stream that is about to begin, and keeps that it was.
    pub(super) async fn settle_stream(&self, record: &mut Record) -> Step<()> {
        match self.settle(record).await {
            Outcome::Settled { receipt } => record.settlement = Settlement::Settled { receipt },
            Outcome::Pending { receipt, .. } => record.settlement = Settlement::Pending { receipt },
            Outcome::Failed { receipt, .. } => {
                record.settlement = Settlement::Failed { receipt };
                let refused = Refused::of(Code::SettlementFailed, record);
                self.release(record).await;
                return end(refused);
            }
            other => return self.in_doubt(other, record),
        }
        self.0.points.reach("settled");
        self.stored(self.0.keeper.put(record, None).await)?;
        self.0.points.reach("paid");
        self.sold(record, "streamed");
        Ok(())
    }

    /// Nothing is handed out, and nothing is forgotten: the same request asks again.
    fn in_doubt<T>(&self, outcome: Outcome, record: &Record) -> Step<T> {
        let facilitator = self.0.facilitator.label();
        match outcome {
            Outcome::Unasked(why) => {
                tracing::warn!(facilitator, %why, "a payment could not be settled");
                let mut refused = Refused::of(Code::FacilitatorUnavailable, record);
                refused.charged = Charged::No;
                end(refused)
            }
            Outcome::Unknown(why) => {
                tracing::warn!(facilitator, %why, "whether a payment was settled is not known");
                let fault = Fault::of(Code::SettlementUnknown);
                end(Refused { fault, charged: Charged::Unknown, receipt: None })
            }
            Outcome::Settled { .. } | Outcome::Pending { .. } | Outcome::Failed { .. } => {
                end(Refused::of(Code::SettlementUnknown, record))
            }
        }
    }

    /// Asks to settle. What is on its way is asked for once more, as official servers do: most blocks come
    /// within that time.
    async fn settle(&self, record: &Record) -> Outcome {
        let mut outcome = self.settle_once(record).await;
        for _again in 1..TRIES {
            if !matches!(outcome, Outcome::Unasked(_)) {
                break;
            }
            let wake = self.0.clock.mono_ms().saturating_add(PAUSE_MS);
            self.0.clock.sleep_until(wake).await;
            outcome = self.settle_once(record).await;
        }
        if matches!(outcome, Outcome::Pending { sent: true, .. }) {
            outcome = self.settle_again(record, outcome).await;
        }
        if matches!(outcome, Outcome::Pending { .. }) {
            outcome = self.still_good(record, outcome).await;
        }
        outcome
    }

    async fn settle_again(&self, record: &Record, first: Outcome) -> Outcome {
        match self.settle_once(record).await {
            // The first word stands until there is a last one.
            Outcome::Unasked(_) | Outcome::Unknown(_) => first,
            other => other,
        }
    }

    /// Money that is on its way counts only while its payment is good. One that is not has moved, which the
    /// facilitator knows if it is asked again, or it has found nothing left to move: such a transaction stays
    /// pending until its block is final, and who empties the purse before many of them would pay for none.
    async fn still_good(&self, record: &Record, pending: Outcome) -> Outcome {
        let Some(about) = about(record) else { return pending };
        let Verdict::Bad { reason, .. } = self.0.facilitator.verify(&record.question, about).await
        else {
            return pending;
        };
        match self.settle_again(record, pending).await {
            Outcome::Pending { .. } => Outcome::Unknown(format!(
                "it is pending, and the payment is not good any more: {reason}"
            )),
            other => other,
        }
    }

    async fn settle_once(&self, record: &Record) -> Outcome {
        let Some(about) = about(record) else {
            return Outcome::Unknown("the payment is on a network that is not known".to_owned());
        };
        self.0.points.reach("settling");
        let outcome = self.0.facilitator.settle(&record.question, about).await;
        self.0.metrics.settlement(match &outcome {
            Outcome::Settled { .. } => "settled",
            Outcome::Pending { .. } => "pending",
            Outcome::Failed { .. } => "failed",
            Outcome::Unasked(_) => "unasked",
            Outcome::Unknown(_) => "unknown",
        });
        outcome
    }

    /// Finds out what became of money that was on its way.
    pub async fn reconcile(&self, mut record: Record, over: bool) {
        match self.settle_once(&record).await {
            Outcome::Settled { receipt } => {
                record.settlement = Settlement::Settled { receipt };
                self.0.metrics.earned(record.network, record.asset, &record.amount);
            }
            Outcome::Failed { receipt, reason } => {
                tracing::warn!(amount = %record.amount, %reason, "an answer went out unpaid");
                self.0.metrics.unpaid_answers.inc();
                record.settlement = Settlement::Failed { receipt };
            }
            // The payment cannot be used any more, and nobody knows more.
            _unknown if over => {
                tracing::warn!(amount = %record.amount, "a settlement stayed pending until its end");
                self.0.metrics.unpaid_answers.inc();
                let receipt = record.settlement.receipt().unwrap_or_default().to_owned();
                record.settlement = Settlement::Failed { receipt };
            }
            _unknown => return,
        }
        if let Err(fault) = self.0.keeper.put(&record, None).await {
            tracing::error!(%fault, "the end of a settlement could not be kept");
        }
    }

    fn sold(&self, record: &Record, result: &'static str) {
        self.0.metrics.chat(result);
        if matches!(record.settlement, Settlement::Settled { .. }) {
            self.0.metrics.earned(record.network, record.asset, &record.amount);
        }
        tracing::info!(
            payer = %record.payer, network = record.network, amount = %record.amount, result,
            pending = matches!(record.settlement, Settlement::Pending { .. }), "sold"
        );
    }
}

fn about(record: &Record) -> Option<About> {
    let network = by_chain(ChainId(record.network))?;
    Some(About { network, payer: record.payer })
}
