//! Reads the state of a snapshot, and checks whose journal it is.

use std::sync::Arc;

use bursar_core::edition::EditionRules;
use bursar_domain::State;

use crate::journal::{Head, JournalError, Snapshot};

/// Decodes a snapshot into its state and the head to replay from. `None` if it cannot be decoded, for example because
/// another version wrote it.
pub(super) fn decode_state(
    snapshot: &Snapshot,
    edition: &Arc<EditionRules>,
) -> Option<(State, Head)> {
    let mut state = postcard::from_bytes::<State>(&snapshot.state).ok()?;
    // The rules are those of the running program, not of the program that wrote the snapshot.
    state.edition = Arc::clone(edition);
    Some((state, snapshot.head))
}

/// Checks that the journal is empty or belongs to the running program's edition.
pub(super) fn check_edition(state: &State) -> Result<(), JournalError> {
    let (journal, program) = (state.journal_edition, state.edition.name);
    let fits = state.seq == 0 || journal == program;
    if fits { Ok(()) } else { Err(JournalError::WrongEdition { journal, program }) }
}
