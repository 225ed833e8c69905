//! A model of payment channels: the escrow's books, computed without a chain.
//!
//! `channel_verdicts` adds the answers of the facilitator, and `channel_moves` draws the actors' actions.
//! `channel_actors` builds these actions, and `channel_play` compares the escrow and a facilitator with the
//! model. Accounts are numbers here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use alloy_primitives::{B256, U256};

/// The fixed terms of a channel. Accounts are positions in the lists of the seed's accounts.
#[derive(Debug, Clone)]
pub(crate) struct ChannelTerms {
    pub(crate) payer: usize,
    pub(crate) receiver: usize,
    pub(crate) authorizer: usize,
    pub(crate) voucher_key: VoucherKey,
    pub(crate) delay_s: u64,
    pub(crate) salt: B256,
}

/// The key that signs a channel's vouchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoucherKey {
    /// The payer's key, named as `payerAuthorizer`.
    Named,
    /// Another key, named as `payerAuthorizer`.
    Separate,
    /// The payer's own account, because `payerAuthorizer` is zero. It could be a contract.
    Payer,
}

/// The accounts and channels of a seed.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) channels: Vec<ChannelTerms>,
    /// Whether each payer has approved Permit2.
    pub(crate) approvals: Vec<bool>,
    /// The initial balance of each payer.
    pub(crate) funds: Vec<u128>,
    pub(crate) receivers: usize,
    pub(crate) authorizers: usize,
}

/// The state of a channel in the escrow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChannelState {
    pub(crate) balance: u128,
    pub(crate) claimed: u128,
    /// The amount of the pending withdrawal.
    pub(crate) pending: u128,
    /// The time at which the pending withdrawal was initiated, or 0.
    pub(crate) initiated_s: u64,
    pub(crate) nonce: u64,
}

impl ChannelState {
    pub(crate) fn available(&self) -> u128 {
        self.balance - self.claimed
    }
}

/// The amounts that a receiver has claimed and received, over all its channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) claimed: u128,
    pub(crate) settled: u128,
}

/// Everything that the chain shows of a seed's accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChainView {
    pub(crate) channels: Vec<ChannelState>,
    pub(crate) receivers: Vec<Totals>,
    pub(crate) payer_tokens: Vec<u128>,
    pub(crate) receiver_tokens: Vec<u128>,
    pub(crate) stranger_tokens: u128,
}

impl ChainView {
    /// Returns the amount that the escrow owes for these channels and receivers.
    pub(crate) fn escrow_debt(&self) -> U256 {
        let locked = self.channels.iter().map(|one| U256::from(one.balance - one.claimed));
        let earned = self.receivers.iter().map(|one| U256::from(one.claimed - one.settled));
        locked.chain(earned).fold(U256::ZERO, |sum, one| sum + one)
    }

    /// Returns the sum of all units: those of the accounts, and those that the escrow owes.
    pub(crate) fn sum_of_all_units(&self) -> U256 {
        let held = self.payer_tokens.iter().chain(&self.receiver_tokens);
        let held = held.chain([&self.stranger_tokens]);
        held.fold(self.escrow_debt(), |sum, one| sum + U256::from(*one))
    }
}

/// How a deposit's authorization moves the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Eip3009,
    Permit2,
}

/// An authorization of a deposit, which can be used once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authorization {
    pub(crate) channel: usize,
    pub(crate) method: Method,
    pub(crate) amount: u128,
    pub(crate) nonce: B256,
}

/// One claim of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) channel: usize,
    pub(crate) ceiling: u128,
    pub(crate) total: u128,
    /// Whether a stranger signed the voucher.
    pub(crate) is_forged: bool,
}

/// Claims with the signature of the first row's authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<Row>,
    /// Whether a stranger signed the batch.
    pub(crate) is_forged: bool,
}

/// A refund with the signature of the channel's authorizer; its claims are recorded first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) channel: usize,
    pub(crate) amount: u128,
    pub(crate) nonce: u64,
    pub(crate) claims: Batch,
    /// Whether a stranger signed the refund.
    pub(crate) is_forged: bool,
}

/// The sender of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    Payer(usize),
    /// The separate key of a channel's vouchers.
    VoucherKey(usize),
    Receiver(usize),
    Authorizer(usize),
    Stranger,
}

/// A transaction that an actor sends to the escrow without the facilitator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// A deposit, by the number of its authorization.
    Deposit(usize),
    Claim(Vec<Row>),
    SignedClaim(Batch),
    Sweep(usize),
    Initiate {
        channel: usize,
        amount: u128,
    },
    Finalize {
        channel: usize,
    },
    Refund {
        channel: usize,
        amount: u128,
    },
    /// A refund by its authorizer's signature, without its claims.
    SignedRefund(Refund),
}

impl Transaction {
    /// Returns the kind of a transaction, for the tally.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Deposit(_) => "own deposit",
            Self::Claim(_) => "own claim",
            Self::SignedClaim(_) => "seen claim",
            Self::Sweep(_) => "own sweep",
            Self::Initiate { .. } => "initiate",
            Self::Finalize { .. } => "finalize",
            Self::Refund { .. } => "own refund",
            Self::SignedRefund(_) => "seen refund",
        }
    }
}

/// The outcome, hash, block and time of a mined transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mined {
    pub(crate) ok: bool,
    pub(crate) hash: B256,
    pub(crate) block: u64,
    pub(crate) time_s: u64,
}

/// A use of a deposit's authorization by an actor's own transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) mined: Option<Mined>,
}

/// The escrow's books for one seed, and the knowledge of the facilitator.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) layout: Arc<Layout>,
    pub(crate) view: ChainView,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) used_authorizations: BTreeMap<usize, Spent>,
    /// The highest voucher that each channel's payer has signed.
    pub(crate) highest_vouchers: Vec<u128>,
    pub(crate) book: crate::facilitator::channel_requests::ReturnedSuccesses,
    /// The jobs that an actor's own transaction did, with the first request for each.
    pub(crate) done_elsewhere: crate::facilitator::channel_requests::DoneElsewhere,
    /// Authorizers whose last claim may have cost gas without effect. The facilitator refuses
    /// their requests for a minute.
    pub(crate) penalized: BTreeSet<usize>,
    /// Payouts by receiver and claimed total. A simultaneous claim may have led the facilitator to
    /// record them under another total.
    pub(crate) uncertain_sweeps: BTreeSet<(usize, u128)>,
}

impl Model {
    pub(crate) fn new(layout: Arc<Layout>) -> Self {
        let view = ChainView {
            channels: vec![ChannelState::default(); layout.channels.len()],
            receivers: vec![Totals::default(); layout.receivers],
            payer_tokens: layout.funds.clone(),
            receiver_tokens: vec![0; layout.receivers],
            stranger_tokens: 0,
        };
        let signed = vec![0; layout.channels.len()];
        Self {
            layout,
            view,
            authorizations: Vec::new(),
            used_authorizations: BTreeMap::new(),
            highest_vouchers: signed,
            book: Default::default(),
            done_elsewhere: Default::default(),
            penalized: BTreeSet::new(),
            uncertain_sweeps: BTreeSet::new(),
        }
    }

    pub(crate) fn terms(&self, channel: usize) -> &ChannelTerms {
        &self.layout.channels[channel]
    }

    /// Uses an authorization. Returns the channel's new balance, or `None` if the deposit reverts.
    pub(crate) fn deposit(&mut self, number: usize, mined: Option<Mined>) -> Option<u128> {
        let Authorization { channel, method, amount, .. } = self.authorizations[number];
        let payer = self.terms(channel).payer;
        let is_allowed = method == Method::Eip3009 || self.layout.approvals[payer];
        if amount == 0 || self.used_authorizations.contains_key(&number) || !is_allowed {
            return None;
        }
        let new_balance = self.view.channels[channel].balance.checked_add(amount)?;
        let left = self.view.payer_tokens[payer].checked_sub(amount)?;
        self.view.payer_tokens[payer] = left;
        self.view.channels[channel].balance = new_balance;
        self.used_authorizations.insert(number, Spent { mined });
        Some(new_balance)
    }

    /// Records all claims or none. Returns which rows added something, or `None` if the escrow reverts.
    pub(crate) fn claim(&mut self, rows: &[Row]) -> Option<Vec<bool>> {
        let before = self.view.clone();
        let added: Option<Vec<bool>> = rows.iter().map(|row| self.claim_row(row)).collect();
        if added.is_none() || rows.is_empty() {
            self.view = before;
            return None;
        }
        added
    }

    /// Records one row. A row that adds nothing is skipped before any check.
    fn claim_row(&mut self, row: &Row) -> Option<bool> {
        let receiver = self.terms(row.channel).receiver;
        let channel = &mut self.view.channels[row.channel];
        if row.total <= channel.claimed {
            return Some(false);
        }
        if row.total > row.ceiling || row.total > channel.balance || row.is_forged {
            return None;
        }
        let totals = &mut self.view.receivers[receiver];
        totals.claimed = totals.claimed.checked_add(row.total - channel.claimed)?;
        channel.claimed = row.total;
        Some(true)
    }

    /// Records claims that carry their authorizer's signature.
    pub(crate) fn signed_claim(&mut self, batch: &Batch) -> Option<Vec<bool>> {
        let authorizer = self.terms(batch.rows.first()?.channel).authorizer;
        let is_other = |row: &Row| self.terms(row.channel).authorizer != authorizer;
        if batch.is_forged || batch.rows.iter().any(is_other) {
            return None;
        }
        self.claim(&batch.rows)
    }

    /// Pays out a receiver's claimed total; returns the amount.
    pub(crate) fn sweep(&mut self, receiver: usize) -> u128 {
        let totals = &mut self.view.receivers[receiver];
        let amount = totals.claimed - totals.settled;
        totals.settled = totals.claimed;
        self.view.receiver_tokens[receiver] += amount;
        amount
    }

    /// Returns up to `wanted` units that are not claimed, possibly none, and uses a nonce.
    /// `None` if the escrow reverts.
    pub(crate) fn refund(&mut self, channel: usize, wanted: u128) -> Option<u128> {
        if wanted == 0 {
            return None;
        }
        let payer = self.terms(channel).payer;
        let state = &mut self.view.channels[channel];
        state.nonce += 1;
        let amount = wanted.min(state.available());
        if amount == 0 {
            return Some(0);
        }
        state.balance -= amount;
        if amount < state.pending {
            state.pending -= amount;
        } else {
            (state.pending, state.initiated_s) = (0, 0);
        }
        self.view.payer_tokens[payer] += amount;
        Some(amount)
    }

    /// Makes a refund that carries the authorizer's signature.
    pub(crate) fn signed_refund(&mut self, refund: &Refund) -> Option<u128> {
        let is_next = refund.nonce == self.view.channels[refund.channel].nonce;
        if !is_next || refund.is_forged {
            return None;
        }
        self.refund(refund.channel, refund.amount)
    }

    fn initiate(&mut self, channel: usize, amount: u128, now_s: u64) -> Option<()> {
        let state = &mut self.view.channels[channel];
        if amount == 0 || state.initiated_s != 0 || amount > state.available() {
            return None;
        }
        (state.pending, state.initiated_s) = (amount, now_s);
        Some(())
    }

    fn finalize(&mut self, channel: usize, now_s: u64) -> Option<()> {
        let (payer, delay_s) = (self.terms(channel).payer, self.terms(channel).delay_s);
        let state = &mut self.view.channels[channel];
        if state.initiated_s == 0 || now_s < state.initiated_s + delay_s {
            return None;
        }
        let amount = state.pending.min(state.available());
        state.balance -= amount;
        (state.pending, state.initiated_s) = (0, 0);
        self.view.payer_tokens[payer] += amount;
        Some(())
    }

    fn is_payer_or_key(&self, channel: usize, by: Sender) -> bool {
        let terms = self.terms(channel);
        let is_key = terms.voucher_key == VoucherKey::Separate && by == Sender::VoucherKey(channel);
        by == Sender::Payer(terms.payer) || is_key
    }

    fn is_receiver_side(&self, channel: usize, by: Sender) -> bool {
        let terms = self.terms(channel);
        [Sender::Receiver(terms.receiver), Sender::Authorizer(terms.authorizer)].contains(&by)
    }

    /// Executes an actor's own transaction. Returns `None` if it reverts.
    pub(crate) fn carry_out(
        &mut self,
        transaction: &Transaction,
        by: Sender,
        mined: Mined,
    ) -> Option<()> {
        match transaction {
            Transaction::Deposit(number) => self.deposit(*number, Some(mined)).map(drop),
            Transaction::Claim(rows) => {
                // The escrow reverts at the first row of another receiver.
                let is_own = rows.iter().all(|row| self.is_receiver_side(row.channel, by));
                if is_own { self.claim(rows).map(drop) } else { None }
            }
            Transaction::SignedClaim(batch) => self.signed_claim(batch).map(drop),
            Transaction::Sweep(receiver) => {
                self.sweep(*receiver);
                Some(())
            }
            Transaction::Initiate { channel, amount } if self.is_payer_or_key(*channel, by) => {
                self.initiate(*channel, *amount, mined.time_s)
            }
            Transaction::Finalize { channel } if self.is_payer_or_key(*channel, by) => {
                self.finalize(*channel, mined.time_s)
            }
            Transaction::Refund { channel, amount } if self.is_receiver_side(*channel, by) => {
                self.refund(*channel, *amount).map(drop)
            }
            Transaction::SignedRefund(refund) => self.signed_refund(refund).map(drop),
            Transaction::Initiate { .. }
            | Transaction::Finalize { .. }
            | Transaction::Refund { .. } => None,
        }
    }
}
