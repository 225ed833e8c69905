//! The settlement of a signed payment: the agent's reports and the result of our own chain lookup. A report never
//! moves a settlement back, but a lookup that finds a revert does. A settlement changes no allowance.

use alloy_primitives::{Address, B256, U256};
use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::limits::{
    REPORTS_PER_PAYMENT_MAX, SETTLEMENT_CHECK_MS_MAX, UNPROVEN_REPORTS_PER_PAYMENT_MAX,
};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request, Status};

/// One signed payment on its way through a facilitator and a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    pub id: RequestId,
    /// The agent that made the payment.
    pub agent: AgentId,
    /// The entry that created the request.
    pub request_seq: u64,
    pub claim: Claim,
    pub stage: Stage,
    pub tx_hash: Option<B256>,
    /// The agent's reason for a failure.
    pub error: Option<String>,
    /// When the latest report that changed the settlement arrived.
    pub reported: Utc,
    /// When the payment was first reported as settled.
    pub settled: Option<Utc>,
    pub check: Check,
    /// Number of reports that changed this settlement.
    pub reports: u8,
}

/// The values that a transaction's EIP-3009 events must contain to be this payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub chain: ChainId,
    pub asset: Address,
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub nonce: B256,
    /// The Unix second from which the authorization can no longer be redeemed.
    pub valid_before: u64,
}

/// The progress that reports and our own lookup show, in order.
///
/// No settlement is stored before the first report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    Submitted,
    Failed,
    Settled,
    /// Our own chain lookup found the payment.
    Verified,
}

impl Stage {
    /// Returns the stage in one word, for responses and history.
    pub fn text(self) -> &'static str {
        match self {
            Stage::Submitted => "submitted",
            Stage::Failed => "failed",
            Stage::Settled => "settled",
            Stage::Verified => "verified",
        }
    }
}

/// The result of our own chain lookup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// No lookup: the agent reported no settled transaction, the setting disables lookups, or too many lookups are
    /// pending.
    Off,
    Pending {
        since: Utc,
    },
    Verified {
        block: u64,
    },
    /// The reported transaction reverted in a final block, and the nonce is unused. Until `validBefore`, another
    /// transaction can still make the payment.
    Reverted {
        block: u64,
    },
    /// The transaction is not this payment.
    ///
    /// It succeeded without the payment, or it reverted and the nonce is used or cancelled.
    Mismatch {
        block: u64,
    },
    /// Not found within the lookup period.
    NotFound,
    /// The last lookup of the period failed, for example because no endpoint answered.
    Unavailable,
}

/// The progress of a signed payment, as shown in receipts and history.
///
/// Only our own lookup on the chain verifies a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettlementStatus {
    /// The agent reported that the payment was sent.
    Submitted,
    /// The agent reported that the payment was settled; our own lookup is off, pending or failed.
    SettledByReport,
    /// Our own lookup ended: the reported transaction is not this payment or does not exist.
    Refuted,
    /// The agent reported a failure, or the chain shows one.
    Failed,
    /// Our own lookup found the payment.
    Verified,
}

impl Check {
    /// Returns whether the reported transaction is not this payment, or was not found.
    pub fn refutes(&self) -> bool {
        matches!(self, Check::Mismatch { .. } | Check::NotFound)
    }

    /// Returns the status word for receipts; `None` without a lookup.
    pub fn text(&self) -> Option<&'static str> {
        match self {
            Check::Off => None,
            Check::Pending { .. } => Some("pending"),
            Check::Verified { .. } => Some("verified"),
            Check::Reverted { .. } | Check::Mismatch { .. } => Some("failed"),
            Check::NotFound => Some("not_found"),
            Check::Unavailable => Some("unavailable"),
        }
    }

    /// Returns the block of the transaction, if the lookup found one.
    pub fn block(&self) -> Option<u64> {
        match self {
            Check::Verified { block } | Check::Reverted { block } | Check::Mismatch { block } => {
                Some(*block)
            }
            Check::Off | Check::Pending { .. } | Check::NotFound | Check::Unavailable => None,
        }
    }

    /// Returns one sentence for the receipt.
    pub fn detail(&self) -> Option<&'static str> {
        match self {
            Check::Off | Check::Verified { .. } => None,
            Check::Pending { .. } => Some("waiting for the chain"),
            Check::Reverted { .. } => Some("the chain reports that this transaction reverted"),
            Check::Mismatch { .. } => Some("this transaction does not contain this payment"),
            Check::NotFound => Some("the chain does not know this transaction"),
            Check::Unavailable => Some("the lookup on the chain failed"),
        }
    }
}

/// The kind of an agent's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    Submitted,
    Settled,
    Failed,
}

impl ReportKind {
    fn stage(self) -> Stage {
        match self {
            ReportKind::Submitted => Stage::Submitted,
            ReportKind::Settled => Stage::Settled,
            ReportKind::Failed => Stage::Failed,
        }
    }
}

/// An agent's report about one of its own payments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportContent {
    pub kind: ReportKind,
    pub tx_hash: Option<B256>,
    pub error: Option<String>,
}

impl Settlement {
    /// Returns the settlement of a request before any report.
    ///
    /// Only an authorized request can settle.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a request that is not an authorized payment.
    pub fn of(request: &Request) -> Result<Self, Refusal> {
        let (LaneAsk::Payment(payment), Status::Authorized { terms, at, .. }) =
            (&request.ask, &request.status)
        else {
            return Err(Refusal::because(
                Code::InvalidRequest,
                "This is not a signed payment, so there is nothing to report.",
            ));
        };
        Ok(Self {
            id: request.id,
            agent: request.agent.clone(),
            request_seq: request.seq,
            claim: Claim {
                chain: payment.chain,
                asset: payment.asset,
                from: terms.from,
                to: terms.to,
                value: terms.value,
                nonce: terms.nonce,
                valid_before: terms.valid_before,
            },
            stage: Stage::Submitted,
            tx_hash: None,
            error: None,
            reported: *at,
            settled: None,
            check: Check::Off,
            reports: 0,
        })
    }

    /// Returns the settlement after a report; `None` if the report changes nothing.
    ///
    /// `check_chain` enables the chain lookup of a settled payment.
    pub fn after_report(
        &self,
        content: &ReportContent,
        now: Utc,
        check_chain: bool,
    ) -> Option<Self> {
        let to = content.kind.stage();
        let fresh = self.reports == 0;
        let other_hash = content.tx_hash.is_some() && content.tx_hash != self.tx_hash;
        // The lookup's result overrides every report about the same transaction.
        let final_now = match self.check {
            Check::Verified { .. } => true,
            Check::Reverted { .. } => !other_hash || to != Stage::Settled,
            Check::Off
            | Check::Pending { .. }
            | Check::Mismatch { .. }
            | Check::NotFound
            | Check::Unavailable => false,
        };
        let moves = fresh || to > self.stage || (to == self.stage && other_hash);
        if final_now || !moves || self.reports >= REPORTS_PER_PAYMENT_MAX {
            return None;
        }
        let mut next = self.clone();
        next.stage = to;
        next.tx_hash = content.tx_hash.or(self.tx_hash);
        next.error = if to == Stage::Failed { content.error.clone() } else { None };
        next.reported = now;
        next.reports = self.reports.saturating_add(1);
        if to == Stage::Settled {
            next.settled = self.settled.or(Some(now));
            let findable = check_chain && next.tx_hash.is_some();
            next.check = if findable { Check::Pending { since: now } } else { Check::Off };
        }
        Some(next)
    }

    /// Returns the settlement after a report without a proof of the agent; `None` if the report changes nothing.
    ///
    /// Such a report of a settlement only starts our own lookup, and none changes what a proven report or the lookup
    /// found. Half of the reports of a payment remain for the agent.
    pub fn after_unproven_report(
        &self,
        content: &ReportContent,
        now: Utc,
        check_chain: bool,
    ) -> Option<Self> {
        let is_over = match self.check {
            Check::Verified { .. } | Check::Pending { .. } => true,
            Check::Off
            | Check::Reverted { .. }
            | Check::Mismatch { .. }
            | Check::NotFound
            | Check::Unavailable => self.stage >= Stage::Settled,
        };
        if is_over || self.reports >= UNPROVEN_REPORTS_PER_PAYMENT_MAX {
            return None;
        }
        let (to, is_settled) = match content.kind {
            ReportKind::Submitted => (Stage::Submitted, false),
            ReportKind::Failed => (Stage::Failed, false),
            ReportKind::Settled => (Stage::Submitted, true),
        };
        let starts_lookup = is_settled && check_chain && content.tx_hash.is_some();
        let is_first = self.reports == 0;
        if !(is_first || starts_lookup || to > self.stage) {
            return None;
        }
        let mut next = self.clone();
        next.stage = to.max(self.stage);
        next.tx_hash = match is_first || starts_lookup {
            true => content.tx_hash.or(self.tx_hash),
            false => self.tx_hash.or(content.tx_hash),
        };
        next.error = if to == Stage::Failed { content.error.clone() } else { self.error.clone() };
        next.reported = now;
        next.reports = self.reports.saturating_add(1);
        if starts_lookup {
            next.check = Check::Pending { since: now };
        }
        Some(next)
    }

    /// Returns the settlement after our own chain lookup.
    #[must_use]
    pub fn after_check(&self, found: &Check) -> Self {
        let stage = match found {
            Check::Verified { .. } => Stage::Verified,
            Check::Reverted { .. } => Stage::Failed,
            Check::Off
            | Check::Pending { .. }
            | Check::Mismatch { .. }
            | Check::NotFound
            | Check::Unavailable => self.stage,
        };
        Self { stage, check: found.clone(), ..self.clone() }
    }

    /// Returns the status that operator and agent see.
    pub fn status(&self) -> SettlementStatus {
        match self.stage {
            Stage::Submitted => SettlementStatus::Submitted,
            Stage::Failed => SettlementStatus::Failed,
            Stage::Settled if self.check.refutes() => SettlementStatus::Refuted,
            Stage::Settled => SettlementStatus::SettledByReport,
            Stage::Verified => SettlementStatus::Verified,
        }
    }

    /// Returns whether the payment must not be made again.
    pub fn is_settled(&self) -> bool {
        self.stage >= Stage::Settled
    }

    /// Returns when the pending chain lookup began; `None` if no lookup is pending.
    pub fn pending_since(&self) -> Option<Utc> {
        match self.check {
            Check::Pending { since } => Some(since),
            Check::Off
            | Check::Verified { .. }
            | Check::Reverted { .. }
            | Check::Mismatch { .. }
            | Check::NotFound
            | Check::Unavailable => None,
        }
    }

    /// Returns whether the lookup period has ended.
    pub fn has_timed_out(&self, now: Utc) -> bool {
        self.pending_since().is_some_and(|since| now.since_ms(since) >= SETTLEMENT_CHECK_MS_MAX)
    }
}
