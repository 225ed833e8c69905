//! The moment at which money moves.

use bursar_core::networks::{ChainId, by_chain};

use super::{Refused, Seller, Sold, Step, end};
use crate::book::{Answer, Record, Settlement, Stage};
use crate::facilitator::{About, Outcome, Verdict};
use crate::fault::Code;
use crate::unpaid::Debt;

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
        debt: Option<Debt>,
    ) -> Step<Sold> {
        let earned = !record.settlement.is_good();
        // An answer that is kept already is not written again.
        let mut new = (!record.kept).then(|| answer.clone());
        record.kept = true;
        let mut owed = None;
        if earned {
            owed = self.settle(&mut record, new.take(), debt).await?;
        }
        record.stage = Stage::Paid;
        self.stored(self.0.keeper.put(&record, new).await)?;
        owed.into_iter().for_each(Debt::keep);
        self.0.points.reach("paid");
        self.sold(&record, "whole", earned);
        Ok(Sold::whole(&record, answer, request_id))
    }

    /// Settles for a stream that is about to begin, and keeps that it was.
    pub(super) async fn settle_stream(&self, record: &mut Record, debt: Option<Debt>) -> Step<()> {
        let owed = self.settle(record, None, debt).await?;
        self.stored(self.0.keeper.put(record, None).await)?;
        owed.into_iter().for_each(Debt::keep);
        self.0.points.reach("paid");
        self.sold(record, "streamed", true);
        Ok(())
    }

    /// Asks to settle until there is a good word. Else nothing is handed out, and nothing is forgotten: the
    /// same request asks again. That it was asked is on disk before it is. Returns the debt that remains while
    /// the money is on its way; without room for it, a pending settlement does not count.
    async fn settle(
        &self,
        record: &mut Record,
        answer: Option<Answer>,
        debt: Option<Debt>,
    ) -> Step<Option<Debt>> {
        let before = std::mem::replace(&mut record.settlement, Settlement::Asked);
        self.stored(self.0.keeper.put(record, answer).await)?;
        self.0.points.reach("asking");
        let last = self.ask(record, before).await;
        self.0.points.reach("settled");
        match (&record.settlement, debt) {
            (Settlement::Settled { .. }, _paid) => return Ok(None),
            (Settlement::Pending { .. }, Some(debt)) => return Ok(Some(debt)),
            (Settlement::Pending { .. }, None) => {
                record.settlement = Settlement::Asked;
                self.stored(self.0.keeper.put(record, None).await)?;
                return end(Refused::of(Code::UnpaidLimit, record));
            }
            (Settlement::Open | Settlement::Asked | Settlement::Failed { .. }, _undelivered) => {}
        }
        let facilitator = self.0.facilitator.label();
        let code = match (&record.settlement, last) {
            (
                Settlement::Failed { .. } | Settlement::Open,
                Outcome::Unasked(why) | Outcome::Declined(why),
            ) => {
                tracing::warn!(facilitator, %why, "a payment could not be settled");
                Code::FacilitatorUnavailable
            }
            (Settlement::Failed { .. }, _) => Code::SettlementFailed,
            (_, outcome) => {
                tracing::warn!(
                    facilitator,
                    ?outcome,
                    "it is not known whether a payment was settled"
                );
                Code::SettlementUnknown
            }
        };
        self.stored(self.0.keeper.put(record, None).await)?;
        // Counted once it is on disk, because a refusal that is not kept comes again.
        if code == Code::SettlementFailed {
            self.0.strikes.add(record.payer, self.0.clock.mono_ms());
        }
        end(Refused::of(code, record))
    }

    /// Asks, and again where it was not heard. What is on its way is asked for once more, as official servers
    /// do: most blocks come within that time. What came of it is in the record.
    async fn ask(&self, record: &mut Record, before: Settlement) -> Outcome {
        let mut outcome = self.settle_once(record).await;
        for _again in 1..TRIES {
            if !matches!(outcome, Outcome::Unasked(_)) {
                break;
            }
            let wake = self.0.clock.mono_ms().saturating_add(PAUSE_MS);
            self.0.clock.sleep_until(wake).await;
            outcome = self.settle_once(record).await;
        }
        record.settlement = before.told(&outcome);
        if matches!(outcome, Outcome::Pending { .. }) {
            self.ask_again(record).await;
        }
        if matches!(record.settlement, Settlement::Pending { .. })
            && !self.is_still_good(record).await
        {
            record.settlement = Settlement::Asked;
        }
        outcome
    }

    /// Asks about a pending settlement. A pending answer replaces the one before, so its transaction has to be
    /// known, too.
    async fn ask_again(&self, record: &mut Record) {
        let outcome = self.settle_once(record).await;
        let before = match &outcome {
            Outcome::Pending { .. } => Settlement::Asked,
            _other => record.settlement.clone(),
        };
        record.settlement = before.told(&outcome);
    }

    /// Money that is on its way counts only while its payment is good. One that is not has moved, which the
    /// facilitator knows if it is asked again, or it has found nothing left to move: such a transaction stays
    /// pending until its block is final, and who empties the purse before many of them would pay for none.
    async fn is_still_good(&self, record: &mut Record) -> bool {
        let Some(about) = about(record) else { return true };
        let verdict = self.0.facilitator.verify(&record.question, about).await;
        if !matches!(verdict, Verdict::Bad { .. }) {
            return true;
        }
        self.ask_again(record).await;
        !matches!(record.settlement, Settlement::Pending { .. })
    }

    /// Asks once. The hash of a pending answer is removed if no node knows it.
    async fn settle_once(&self, record: &Record) -> Outcome {
        let Some(about) = about(record) else {
            return Outcome::Unknown("the payment is on a network that is not known".to_owned());
        };
        let mut outcome = self.0.facilitator.settle(&record.question, about).await;
        if let Outcome::Pending { hash, .. } = &mut outcome
            && let Some(named) = *hash
            // What was delivered stays delivered.
            && !record.stage.is_delivered()
            && !self.0.nodes.know(about.network.chain, named).await
        {
            *hash = None;
        }
        self.0.metrics.settlement(match &outcome {
            Outcome::Settled { .. } => "settled",
            Outcome::Pending { .. } => "pending",
            Outcome::Failed { .. } => "failed",
            Outcome::Elsewhere { .. } => "elsewhere",
            Outcome::Declined(_) => "declined",
            Outcome::Unasked(_) => "unasked",
            Outcome::Unknown(_) => "unknown",
        });
        outcome
    }

    /// Finds out what became of money that was on its way. `over` says that the payment cannot be used any
    /// more.
    pub async fn reconcile(&self, mut record: Record, over: bool) {
        let outcome = self.settle_once(&record).await;
        let before = record.settlement.clone();
        record.settlement = before.clone().told(&outcome);
        if over && let Settlement::Pending { receipt } = &record.settlement {
            record.settlement = if record.stage.is_delivered() {
                Settlement::Failed { receipt: receipt.clone() }
            } else {
                // The customer may still ask for the answer. After a refusal, a settlement that did happen
                // would count as another seller's.
                Settlement::Asked
            };
        }
        if record.settlement == before {
            return;
        }
        match self.0.keeper.put(&record, None).await {
            Ok(()) => self.reconciled(&record, &outcome),
            Err(fault) => tracing::error!(%fault, "the end of a settlement could not be stored"),
        }
    }

    /// Counts the end of a pending settlement, once it is on disk: one that could not be kept is found again.
    fn reconciled(&self, record: &Record, outcome: &Outcome) {
        match &record.settlement {
            Settlement::Pending { .. } => return,
            Settlement::Settled { .. } => {
                self.0.metrics.earned(record.network, record.asset, &record.amount);
            }
            Settlement::Failed { .. } => {
                if record.stage.is_delivered() {
                    tracing::warn!(
                        payer = %record.payer, amount = %record.amount, ?outcome,
                        "an answer was delivered without payment"
                    );
                    self.0.metrics.unpaid_answers.inc();
                }
                self.0.strikes.add(record.payer, self.0.clock.mono_ms());
            }
            Settlement::Open | Settlement::Asked => {}
        }
        self.0.unpaid.end(record.id);
    }

    /// `earned` says that it was settled just now.
    fn sold(&self, record: &Record, result: &'static str, earned: bool) {
        self.0.metrics.chat(result);
        if earned && matches!(record.settlement, Settlement::Settled { .. }) {
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
    Some(About { network, payer: record.payer, key: record.key })
}
