//! The actions of a seed's actors, and their effect on the model.

use crate::facilitator::channel_model::{Mined, Model, Row, Sender, Transaction};
use crate::facilitator::channel_requests::{Expected, Request};

/// An action of one actor, or two simultaneous actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Settle {
        request: Request,
        /// Whether the request has an idempotency key, which its repeats share.
        is_keyed: bool,
        /// Whether the request goes to the endpoint of its kind, and not to `/settle`.
        by_kind: bool,
    },
    Verify {
        request: Request,
        is_keyed: bool,
    },
    Voucher {
        row: Row,
        is_refund: bool,
    },
    Report(usize),
    Send {
        transaction: Transaction,
        by: Sender,
    },
    /// Time passes on the chain.
    PassTime {
        seconds: u64,
    },
    Simultaneous {
        one: Box<Action>,
        other: Box<Action>,
        /// The second action starts after this many calls to the node: before, during or after the first action.
        lag: u64,
    },
}

impl Action {
    /// Returns the actions of a pair, or the single action.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Simultaneous { one, other, .. } => vec![one, other],
            single => vec![single],
        }
    }

    /// Returns the kind of an action, for the tally.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Settle { request, .. } => request.name(),
            Self::Verify { .. } => "verify",
            Self::Voucher { is_refund: false, .. } => "voucher",
            Self::Voucher { is_refund: true, .. } => "refund voucher",
            Self::Report(_) => "report",
            Self::Send { transaction, .. } => transaction.name(),
            Self::PassTime { .. } => "pass",
            Self::Simultaneous { .. } => "pair",
        }
    }

    /// Returns the possible answers, each with the model after it. `mined` is the block of an actor's own transaction.
    pub(crate) fn outcomes(&self, model: &Model, mined: Option<Mined>) -> Vec<(Expected, Model)> {
        match self {
            Self::Settle { request, is_keyed, .. } => model.settle(request, *is_keyed),
            Self::Verify { request, is_keyed } => {
                vec![(model.verify(request, *is_keyed), model.clone())]
            }
            Self::Voucher { row, is_refund } => {
                vec![(model.verify_voucher(row, *is_refund), model.clone())]
            }
            Self::Report(channel) => vec![(model.report(*channel), model.clone())],
            Self::Send { transaction, by } => {
                let mined = mined.expect("a mined transaction");
                vec![model.send(transaction, *by, mined)]
            }
            Self::PassTime { .. } => vec![(Expected::Mined(true), model.clone())],
            Self::Simultaneous { .. } => unreachable!("pairs are not nested"),
        }
    }

    /// Like `outcomes`, for a request that was checked against the state `judged` before the pair's other action, and
    /// carried out after it.
    pub(crate) fn late_outcomes(
        &self,
        model: &Model,
        judged: &Model,
        other: &Self,
    ) -> Vec<(Expected, Model)> {
        let Self::Settle { request, .. } = self else { return Vec::new() };
        let theirs = match other {
            Self::Send { transaction, .. } => Some(transaction),
            _requests => None,
        };
        model.settle_late(request, judged, theirs)
    }

    /// Notes the vouchers that exist after this action.
    pub(crate) fn note_vouchers(&self, model: &mut Model) {
        match self {
            Self::Settle { request, .. } | Self::Verify { request, .. } => {
                model.note_vouchers(request);
            }
            Self::Voucher { row, .. } => model.note_rows(&[*row]),
            Self::Send { transaction: Transaction::Claim(rows), .. } => model.note_rows(rows),
            Self::Send { transaction: Transaction::SignedClaim(batch), .. } => {
                model.note_rows(&batch.rows);
            }
            Self::Simultaneous { one, other, .. } => {
                one.note_vouchers(model);
                other.note_vouchers(model);
            }
            Self::Report(_) | Self::Send { .. } | Self::PassTime { .. } => {}
        }
    }
}
