//! One row for each request and each one-shot, instead of one for each entry of the journal.

use std::collections::BTreeSet;

use bursar_core::lock_cause::LockCause;
use bursar_core::status::EntryKind;

use crate::answers::ActivityRow;

/// Maximum number of entries that a one-shot records between its unlock and its lock.
pub const ONE_SHOT_ENTRIES_MAX: usize = 4;

/// Returns the positions of the rows that people see, among the rows of a part of the journal, newest first.
///
/// A request has one row, its newest. The unlock and the lock around what a one-shot recorded have none.
pub fn shown_positions(rows: &[ActivityRow]) -> Vec<usize> {
    let mut hidden = BTreeSet::new();
    for (position, row) in rows.iter().enumerate() {
        if is_lock_at_stop(row) {
            hide_session(rows, position, &mut hidden);
        }
    }
    let (mut requests, mut shown) = (BTreeSet::new(), Vec::new());
    for (position, row) in rows.iter().enumerate() {
        let is_newest = row.request.as_deref().is_none_or(|request| requests.insert(request));
        if is_newest && !hidden.contains(&position) {
            shown.push(position);
        }
    }
    shown
}

/// Hides the lock at this position, and the unlock before it, if a one-shot recorded both.
fn hide_session(rows: &[ActivityRow], lock: usize, hidden: &mut BTreeSet<usize>) {
    let earlier = rows.iter().enumerate().skip(lock.saturating_add(1));
    for (position, row) in earlier.take(ONE_SHOT_ENTRIES_MAX.saturating_add(1)) {
        match row.kind {
            // An unlock with a detail was made by the service, without a person.
            EntryKind::WalletUnlocked if row.detail.is_some() => return,
            EntryKind::WalletUnlocked => {
                hidden.insert(lock);
                // A one-shot that recorded nothing keeps its unlock as its row.
                if position > lock.saturating_add(1) {
                    hidden.insert(position);
                }
                return;
            }
            // The creation also opens the wallet.
            EntryKind::WalletCreated => {
                hidden.insert(lock);
                return;
            }
            EntryKind::WalletLocked | EntryKind::EngineStarted => return,
            _recorded => {}
        }
    }
}

/// Returns whether the wallet was locked because its engine stopped.
fn is_lock_at_stop(row: &ActivityRow) -> bool {
    row.kind == EntryKind::WalletLocked && row.detail.as_deref() == Some(LockCause::Stop.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seq: u64, kind: &str, request: Option<&str>, detail: Option<&str>) -> ActivityRow {
        ActivityRow {
            seq,
            at: String::new(),
            kind: kind.parse().expect("a kind"),
            request: request.map(str::to_owned),
            agent_id: None,
            agent: None,
            amount: None,
            host: None,
            detail: detail.map(str::to_owned),
            changes: Vec::new(),
        }
    }

    /// Returns the numbers of the shown rows; the entries are oldest first.
    fn shown(entries: &[(&str, Option<&str>, Option<&str>)]) -> Vec<u64> {
        let numbered = (1..).zip(entries);
        let mut rows: Vec<_> = numbered
            .map(|(seq, (kind, request, detail))| row(seq, kind, *request, *detail))
            .collect();
        rows.reverse();
        shown_positions(&rows).into_iter().map(|position| rows[position].seq).collect()
    }

    const STOP: (&str, Option<&str>, Option<&str>) =
        ("wallet.locked", None, Some("the engine stopped"));

    #[test]
    fn a_request_has_one_row_which_is_its_newest() {
        let entries = [
            ("payment.held", Some("a"), None),
            ("payment.held", Some("b"), None),
            ("payment.approved", Some("a"), None),
            ("policy.set", None, None),
            ("payment.signed", Some("a"), None),
        ];
        assert_eq!(shown(&entries), [5, 4, 2]);
    }

    #[test]
    fn the_unlock_and_the_lock_around_a_one_shot_are_hidden() {
        let entries = [
            ("wallet.created", None, Some("main")),
            STOP,
            ("wallet.unlocked", None, None),
            ("agent.registered", None, None),
            ("agent.commissioned", None, None),
            STOP,
            ("frozen", None, None),
            ("wallet.unlocked", None, None),
            STOP,
        ];
        assert_eq!(shown(&entries), [8, 7, 5, 4, 1]);
    }

    #[test]
    fn the_unlock_and_the_lock_of_an_engine_that_ran_stay() {
        let agents = ["a", "b", "c", "d", "e"].map(|id| ("payment.signed", Some(id), None));
        let entries = [vec![("wallet.unlocked", None, None)], agents.to_vec(), vec![STOP]].concat();
        assert_eq!(shown(&entries), [7, 6, 5, 4, 3, 2, 1]);
        let locked = ("wallet.locked", None, Some("by the operator"));
        let entries = [("wallet.unlocked", None, None), ("frozen", None, None), locked];
        assert_eq!(shown(&entries), [3, 2, 1]);
        let entries = [("wallet.unlocked", None, None), ("engine.started", None, None), STOP];
        assert_eq!(shown(&entries), [3, 2, 1]);
        let alone = ("wallet.unlocked", None, Some("by the service, without a person"));
        assert_eq!(shown(&[alone, ("payment.signed", Some("a"), None), STOP]), [3, 2, 1]);
    }
}
