//! Plans: the transactions that execute an allowed request of a lane, in order, and whether the request's value is
//! spent.

use alloy_primitives::{Address, B256, U256};
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::ChainId;
use bursar_core::time::{Moment, Utc};
use bursar_submit::{OutboxKey, Outcome, SubmissionId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::approver::Approver;
use crate::deadline::Deadline;
use crate::loans::LoanQuote;
use crate::refusal::Refusal;
use crate::trades::{SwapPermit, TradeQuote};

/// How long a plan may still sign after its approval, in milliseconds.
///
/// The bound is short because an approval is based on the prices at its time.
pub const PLAN_MS: i64 = 300_000;
/// [`PLAN_MS`] in seconds.
pub const PLAN_S: u64 = 300;

/// How long a swap that a person signs on a device is valid, in seconds.
pub const DEVICE_SWAP_S: u64 = 180;

/// The wallet's measurement for a request, by lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quote {
    Trade(Box<TradeQuote>),
    Loan(Box<LoanQuote>),
}

impl Quote {
    /// Returns the value of a trade's input; `None` if it is unknown, or for a loan.
    pub fn value(&self) -> Option<Usd> {
        self.trade().and_then(|quote| quote.value_in)
    }

    /// Returns the worst cost of all transactions of the plan, in wei, without the value that they send.
    pub fn plan_cost(&self) -> U256 {
        match self {
            Self::Trade(quote) => quote.plan_cost,
            Self::Loan(quote) => quote.plan_cost,
        }
    }

    /// Returns the quote of a trade; `None` in the other lanes.
    pub fn trade(&self) -> Option<&TradeQuote> {
        match self {
            Self::Trade(quote) => Some(quote),
            Self::Loan(_) => None,
        }
    }

    /// Returns the quote of a loan; `None` in the other lanes.
    pub fn loan(&self) -> Option<&LoanQuote> {
        match self {
            Self::Loan(quote) => Some(quote),
            Self::Trade(_) => None,
        }
    }
}

impl From<LoanQuote> for Quote {
    fn from(quote: LoanQuote) -> Self {
        Self::Loan(Box::new(quote))
    }
}

impl From<TradeQuote> for Quote {
    fn from(quote: TradeQuote) -> Self {
        Self::Trade(Box::new(quote))
    }
}

/// The execution of an allowed request.
///
/// The request is over once `end` is set. Its plan may then still revoke a token allowance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    pub by: Approver,
    /// When the policy or the operator allowed the request.
    pub at: Utc,
    /// The journal entry that allowed the request.
    ///
    /// Plans of one address and network act in this order.
    pub started: u64,
    /// The plan's deadline.
    ///
    /// After it, only revocations and empty transactions are signed.
    pub until: Deadline,
    /// The newest quote that the policy accepted.
    pub quote: Quote,
    /// The least output that a trade accepts; zero for a loan.
    pub floor: Atoms,
    /// The value that counts against the limit of the lane.
    pub counted_value: Usd,
    pub volume: Volume,
    /// The newest permit of the swap, for venues that take the input by a permit.
    pub permit: Option<SwapPermit>,
    /// The transactions that were opened, in order; only the last one may lack an outcome.
    pub steps: Vec<PlanStep>,
    pub end: Option<ExecutionEnd>,
}

/// The state of the reserved volume, which is spent or returned once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volume {
    Reserved,
    Spent,
    Returned,
}

/// One transaction of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    pub purpose: StepPurpose,
    pub submission: SubmissionId,
    pub outcome: Option<Outcome>,
}

/// The purpose of a transaction in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepPurpose {
    /// Lets a contract take exactly the input of the request.
    Allowance,
    /// Sets an earlier allowance to zero, where a token requires it.
    AllowanceReset,
    Swap,
    /// Lends the stablecoin.
    Supply,
    /// Withdraws lent stablecoins.
    Withdrawal,
    /// Revokes a token allowance that the plan left.
    Revocation,
}

/// The position of a transaction relative to the main transaction of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Comes before the main transaction and gives an allowance.
    Before,
    /// The transaction for which the plan exists.
    Main,
    /// Comes after the end of the request.
    After,
}

impl StepPurpose {
    /// Returns the role of a transaction with this purpose.
    pub fn role(self) -> Role {
        match self {
            Self::Allowance | Self::AllowanceReset => Role::Before,
            Self::Swap | Self::Supply | Self::Withdrawal => Role::Main,
            Self::Revocation => Role::After,
        }
    }

    /// Returns whether the step is the transaction for which the plan exists.
    pub fn is_main(self) -> bool {
        self.role() == Role::Main
    }

    /// Returns the purpose in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Allowance => "token approval",
            Self::AllowanceReset => "reset of the token approval",
            Self::Swap => "swap",
            Self::Supply => "supply",
            Self::Withdrawal => "withdrawal",
            Self::Revocation => "revocation of the token approval",
        }
    }
}

/// The token allowance that the transactions of a plan leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowanceLeft {
    Zero,
    /// It may have been given, or the main transaction may have left a part of it: only the chain knows, as of this
    /// block or a later one.
    Possible {
        since: u64,
    },
    /// The transaction in this block gave it, and no later one of the plan has used or revoked it.
    Given {
        block: u64,
    },
}

/// How a request with a plan ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionEnd {
    /// The main transaction is final.
    Executed {
        hash: B256,
        /// The output of a trade or withdrawal, or the cost of a supply; `None` if the receipt does not show it.
        received: Option<Atoms>,
        /// The address's position in the venue after a loan; `None` if it is unknown, and in the other lanes.
        position: Option<Atoms>,
    },
    /// The main transaction was not sent.
    Rejected(Refusal),
    /// The main transaction was sent and did not take effect, or its effect is unknown.
    Failed { refusal: Refusal, hash: Option<B256> },
}

/// Returns the id of a step's submission.
///
/// It is a hash of the request and the step's index, so that no step has two submissions.
pub fn submission_id(request: bursar_core::ids::RequestId, index: usize) -> SubmissionId {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    let hash = Sha256::new()
        .chain_update(b"bursar plan step")
        .chain_update(request.as_bytes())
        .chain_update(index.to_be_bytes())
        .finalize();
    let mut id = [0; 16];
    for (byte, hashed) in id.iter_mut().zip(hash) {
        *byte = hashed;
    }
    SubmissionId(id)
}

impl Execution {
    /// Returns the milliseconds left until the plan's deadline.
    ///
    /// At zero, the plan opens no further step of its request.
    pub fn left_ms(&self, moment: &Moment) -> u64 {
        self.until.left_within_ms(moment, PLAN_MS)
    }

    /// Returns whether the plan's deadline has passed.
    pub fn is_late(&self, moment: &Moment) -> bool {
        self.left_ms(moment) == 0
    }

    /// Returns the step whose transaction has no outcome yet.
    pub fn open_step(&self) -> Option<&PlanStep> {
        self.steps.last().filter(|step| step.outcome.is_none())
    }

    /// Returns the main transaction, once it is opened.
    pub fn main_step(&self) -> Option<&PlanStep> {
        self.steps.iter().find(|step| step.purpose.is_main())
    }

    /// Returns whether a transaction of the plan may have reached a node.
    pub fn may_have_broadcast(&self) -> bool {
        self.steps.iter().any(|step| step.outcome != Some(Outcome::Dropped))
    }

    /// Returns whether the transactions of the plan leave a token allowance.
    ///
    /// They do if one gave an allowance that no main transaction used up, and no revocation was mined.
    pub fn allowance_left(&self) -> AllowanceLeft {
        use AllowanceLeft::{Given, Possible, Zero};
        let since = |left| match left {
            Given { block: since } | Possible { since } => since,
            Zero => 0,
        };
        let buys_shares = self.quote.loan().is_some_and(LoanQuote::buys_shares);
        self.steps.iter().fold(Zero, |left, step| match (step.purpose, step.outcome) {
            (StepPurpose::Allowance, Some(Outcome::Succeeded { block, .. })) => Given { block },
            // If the node's report about the nonce is wrong, this transaction may still be mined.
            (StepPurpose::Allowance, Some(Outcome::NonceTaken)) => Possible { since: since(left) },
            (StepPurpose::Supply, Some(Outcome::Succeeded { block, .. })) if buys_shares => {
                Possible { since: block }
            }
            (main, Some(Outcome::Succeeded { .. })) if main.is_main() => Zero,
            (main, Some(Outcome::NonceTaken)) if main.is_main() && left != Zero => {
                Possible { since: since(left) }
            }
            // A token that reverts a revocation would revert every later one.
            (
                StepPurpose::Revocation,
                Some(Outcome::Succeeded { .. } | Outcome::Reverted { .. }),
            ) => Zero,
            _without_effect => left,
        })
    }

    /// Returns whether the plan may leave a token allowance.
    pub fn leaves_allowance(&self) -> bool {
        self.allowance_left() != AllowanceLeft::Zero
    }

    /// Returns whether the plan has nothing left to do.
    pub fn is_over(&self) -> bool {
        self.end.is_some() && self.open_step().is_none() && !self.leaves_allowance()
    }

    /// Records the outcome of the open step.
    ///
    /// A main transaction that took effect, or may have done so, spends the volume. Any other outcome of the main
    /// transaction returns it.
    pub(crate) fn end_step(&mut self, outcome: Outcome) {
        let Some(step) = self.steps.last_mut().filter(|step| step.outcome.is_none()) else {
            return;
        };
        step.outcome = Some(outcome);
        if step.purpose.is_main() && self.volume == Volume::Reserved {
            self.volume = match outcome {
                Outcome::Succeeded { .. } | Outcome::NonceTaken => Volume::Spent,
                Outcome::Reverted { .. } | Outcome::Cancelled { .. } | Outcome::Dropped => {
                    Volume::Returned
                }
            };
        }
    }

    /// Records the end of the request. Volume that the main transaction has not spent is returned.
    pub(crate) fn end_request(&mut self, end: ExecutionEnd) {
        self.end.get_or_insert(end);
        if self.volume == Volume::Reserved {
            self.volume = Volume::Returned;
        }
    }

    /// Returns the value that the plan still reserves of its agent's allowance.
    pub fn reserved(&self) -> Usd {
        match self.volume {
            Volume::Reserved => self.counted_value,
            Volume::Spent | Volume::Returned => Usd::ZERO,
        }
    }
}

impl PlanStep {
    /// Returns the hash of the transaction that was mined for the step, once its outcome is final.
    pub fn hash(&self) -> Option<B256> {
        match self.outcome? {
            Outcome::Succeeded { hash, .. }
            | Outcome::Reverted { hash, .. }
            | Outcome::Cancelled { hash, .. } => Some(hash),
            Outcome::Dropped | Outcome::NonceTaken => None,
        }
    }
}

/// Returns the outbox through which an address sends on a network.
pub fn outbox_key(chain: ChainId, signer: Address) -> OutboxKey {
    OutboxKey { chain, signer }
}
