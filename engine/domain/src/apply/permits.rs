//! Permits of plans: ordered and signed.

use std::sync::Arc;

use bursar_core::ids::RequestId;
use bursar_uniswap::Permit;
use bursar_x402::signature::Signature65;

use super::plans;
use crate::requests::Request;
use crate::state::State;
use crate::trades::SwapPermit;

/// Replaces the permit of a plan by an unsigned one.
pub(super) fn order(state: &mut State, id: &RequestId, permit: &Permit) -> Option<Arc<Request>> {
    plans::change(state, id, |execution| {
        let before = execution.permit.as_ref().map_or(0, |one| one.count);
        let count = before.saturating_add(1);
        execution.permit = Some(SwapPermit { permit: *permit, signature: None, count });
    })
}

/// Stores the signature of the newest permit.
pub(super) fn sign(
    state: &mut State,
    id: &RequestId,
    signature: &Signature65,
) -> Option<Arc<Request>> {
    plans::change(state, id, |execution| {
        if let Some(permit) = &mut execution.permit {
            permit.signature = Some(*signature);
        }
    })
}
