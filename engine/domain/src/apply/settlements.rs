//! Settlements, which stay in the state while their chain lookup is pending.

use std::sync::Arc;

use bursar_core::ids::RequestId;

use crate::settlement::{Check, Settlement};
use crate::state::State;

/// Stores an agent's report.
pub(super) fn report(state: &mut State, settlement: &Settlement) -> Arc<Settlement> {
    track(state, settlement.clone())
}

/// Stores the result of the chain lookup.
pub(super) fn check(state: &mut State, id: &RequestId, found: &Check) -> Option<Arc<Settlement>> {
    let known = Arc::make_mut(&mut state.settling).remove(id)?;
    Some(track(state, known.after_check(found)))
}

fn track(state: &mut State, settlement: Settlement) -> Arc<Settlement> {
    let settlement = Arc::new(settlement);
    let settling = Arc::make_mut(&mut state.settling);
    if settlement.pending_since().is_some() {
        settling.insert(settlement.id, Arc::clone(&settlement));
    } else {
        settling.remove(&settlement.id);
    }
    settlement
}
