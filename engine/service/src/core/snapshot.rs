//! Reads the state of a snapshot.

use std::sync::Arc;

use bursar_core::edition::EditionRules;
use bursar_domain::State;

use crate::journal::{Head, Snapshot};

/// Decodes a snapshot into its state and the head to replay from. `None` if it cannot be decoded, for example because
/// another version wrote it.
pub(super) fn decode_state(
    snapshot: &Snapshot,
    edition: &Arc<EditionRules>,
) -> Option<(State, Head)> {
    let mut state = postcard::from_bytes::<State>(&snapshot.state).ok()?;
    state.edition = Arc::clone(edition);
    Some((state, snapshot.head))
}
