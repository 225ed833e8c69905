//! Policies: set and deleted.

use std::sync::Arc;

use bursar_core::ids::Name;
use bursar_core::policy::Policy;

use crate::agents::PolicyRecord;
use crate::state::State;

/// Creates a policy, or replaces its earlier version.
pub(super) fn set(state: &mut State, name: &Name, version: u64, policy: &Policy) {
    state.policy_versions = state.policy_versions.max(version);
    let record = PolicyRecord { name: name.clone(), version, policy: policy.clone() };
    Arc::make_mut(&mut state.policies).insert(name.key(), Arc::new(record));
}

pub(super) fn delete(state: &mut State, name: &Name) {
    Arc::make_mut(&mut state.policies).remove(&name.key());
}
