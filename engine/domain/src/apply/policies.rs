//! Policies: set and deleted.

use std::sync::Arc;

use bursar_core::ids::Name;
use bursar_core::policy::Policy;

use crate::agents::PolicyRecord;
use crate::state::State;

/// Creates a policy, or replaces its earlier version.
pub(super) fn set(state: &mut State, name: &Name, serial: u64, policy: &Policy) {
    state.policy_serial = state.policy_serial.max(serial);
    let policies = Arc::make_mut(&mut state.policies);
    let former = policies.get(&name.key()).map_or(0, |record| record.version);
    let version = former.saturating_add(1);
    let record = PolicyRecord { name: name.clone(), version, serial, policy: policy.clone() };
    policies.insert(name.key(), Arc::new(record));
}

pub(super) fn delete(state: &mut State, name: &Name) {
    Arc::make_mut(&mut state.policies).remove(&name.key());
}
