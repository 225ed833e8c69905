//! What becomes of a payment after it was signed: what its agent reports, and what our own look at the chain
//! finds. A settlement never goes back, and moves no allowance.

use alloy_primitives::{Address, B256, U256};
use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::limits::{CHECK_LASTS_MS, REPORTS_PER_PAYMENT};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
use crate::requests::{Request, Status};

/// One signed payment on its way through a facilitator and a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    pub id: RequestId,
    /// Whose payment it is.
    pub agent: AgentId,
    /// The entry that made the request.
    pub request_seq: u64,
    pub claim: Claim,
    pub stage: Stage,
    pub tx_hash: Option<B256>,
    /// What the agent said of a failure.
    pub error: Option<String>,
    /// The latest report.
    pub reported: Utc,
    /// The first time it was settled.
    pub settled: Option<Utc>,
    pub check: Check,
    /// Reports that changed something.
    pub reports: u8,
}

/// What a transaction must hold to be this payment (EIP-3009 events).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub chain: ChainId,
    pub asset: Address,
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub nonce: B256,
    /// Unix seconds; from then on nobody can pay by it any more.
    pub valid_before: u64,
}

/// How far a payment has come. The order is that of the decisions: signed, which has no stage yet, then
/// these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    Submitted,
    Failed,
    Settled,
    /// Our own look at the chain found it.
    Verified,
}

impl Stage {
    pub fn text(self) -> &'static str {
        match self {
            Stage::Submitted => "submitted",
            Stage::Failed => "failed",
            Stage::Settled => "settled",
            Stage::Verified => "verified",
        }
    }
}

/// What our own look at the chain says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Check {
    /// Nobody looks: nothing is to be found, or the setting says so.
    Off,
    Pending {
        since: Utc,
    },
    Verified {
        block: u64,
    },
    /// The reported transaction reverted in a final block, and the nonce is unused. Until `validBefore` another
    /// transaction may still make the payment.
    Reverted {
        block: u64,
    },
    /// It succeeded, and is not this payment.
    Mismatch {
        block: u64,
    },
    /// It was not found for as long as one may look.
    NotFound,
    /// Nobody could be asked for as long.
    Unavailable,
}

/// How far a signed payment has come, as receipts and the history report it: an agent's report alone completes
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The agent reported that it was sent.
    Submitted,
    /// The agent reported that it was settled; our own look-up has not found it, or not yet.
    Reported,
    /// Our own look-up ended, and the reported transaction is not this payment or does not exist.
    Refuted,
    /// The agent reported a failure, or the chain shows one.
    Failed,
    /// Our own look-up found it.
    Verified,
}

impl Check {
    /// Whether the chain contradicts the report that the payment was settled.
    pub fn refutes(&self) -> bool {
        matches!(self, Check::Mismatch { .. } | Check::NotFound)
    }

    /// The original's words for it.
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

    pub fn block(&self) -> Option<u64> {
        match self {
            Check::Verified { block } | Check::Reverted { block } | Check::Mismatch { block } => {
                Some(*block)
            }
            Check::Off | Check::Pending { .. } | Check::NotFound | Check::Unavailable => None,
        }
    }

    /// One sentence for the receipt.
    pub fn detail(&self) -> Option<&'static str> {
        match self {
            Check::Off | Check::Verified { .. } => None,
            Check::Pending { .. } => Some("waiting for the answer of the chain"),
            Check::Reverted { .. } => Some("the chain reports that this transaction reverted"),
            Check::Mismatch { .. } => Some("this transaction does not contain this payment"),
            Check::NotFound => Some("the chain does not know this transaction"),
            Check::Unavailable => Some("no endpoint of the network answered"),
        }
    }
}

/// What an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    Submitted,
    Settled,
    Failed,
}

impl Reported {
    fn stage(self) -> Stage {
        match self {
            Reported::Submitted => Stage::Submitted,
            Reported::Settled => Stage::Settled,
            Reported::Failed => Stage::Failed,
        }
    }
}

/// An agent's report about a payment of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub event: Reported,
    pub tx_hash: Option<B256>,
    pub error: Option<String>,
}

impl Settlement {
    /// Before any report. Only what was signed can settle.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a request that was never authorized.
    pub fn of(request: &Request) -> Result<Self, Refusal> {
        let Status::Authorized { terms, at, .. } = &request.status else {
            return Err(Refusal::because(
                Code::InvalidRequest,
                "This request was never signed, so it has nothing to report.",
            ));
        };
        Ok(Self {
            id: request.id,
            agent: request.agent.clone(),
            request_seq: request.seq,
            claim: Claim {
                chain: request.ask.chain,
                asset: request.ask.asset,
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

    /// The settlement after a report; `None` if the report changes nothing. `look` says whether a settled
    /// payment is to be looked up on the chain.
    pub fn after(&self, news: &News, now: Utc, look: bool) -> Option<Self> {
        let to = news.event.stage();
        let fresh = self.reports == 0;
        let other_hash = news.tx_hash.is_some() && news.tx_hash != self.tx_hash;
        // What our own look has found stands against every report about the same transaction.
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
        if final_now || !moves || self.reports >= REPORTS_PER_PAYMENT {
            return None;
        }
        let mut next = self.clone();
        next.stage = to;
        next.tx_hash = news.tx_hash.or(self.tx_hash);
        next.error = if to == Stage::Failed { news.error.clone() } else { None };
        next.reported = now;
        next.reports = self.reports.saturating_add(1);
        if to == Stage::Settled {
            next.settled = self.settled.or(Some(now));
            let findable = look && next.tx_hash.is_some();
            next.check = if findable { Check::Pending { since: now } } else { Check::Off };
        }
        Some(next)
    }

    /// The settlement after our own look at the chain.
    #[must_use]
    pub fn checked(&self, found: &Check) -> Self {
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

    /// What is reported of it to operator and agent.
    pub fn standing(&self) -> Standing {
        match self.stage {
            Stage::Submitted => Standing::Submitted,
            Stage::Failed => Standing::Failed,
            Stage::Settled if self.check.refutes() => Standing::Refuted,
            Stage::Settled => Standing::Reported,
            Stage::Verified => Standing::Verified,
        }
    }

    /// Whether the payment may not be made again.
    pub fn is_settled(&self) -> bool {
        self.stage >= Stage::Settled
    }

    /// Whether the chain is still to be asked, and since when.
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

    /// Whether the search has lasted as long as it may.
    pub fn is_given_up(&self, now: Utc) -> bool {
        self.pending_since().is_some_and(|since| now.since_ms(since) >= CHECK_LASTS_MS)
    }
}
