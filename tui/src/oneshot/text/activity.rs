//! The journal, entry by entry.

use bursar_control::answers::{ActivityAnswer, ActivityRow};

use crate::oneshot::sheet::{Sheet, quote_foreign};
use crate::wording;

const COLUMNS: [&str; 6] = ["ENTRY", "TIME", "KIND", "AGENT", "AMOUNT", "WHAT"];

pub(super) fn activity(to: &mut Sheet, activity: &ActivityAnswer) {
    let Some(oldest) = activity.entries.last() else {
        return to.line("There is no such entry.");
    };
    let rows: Vec<[String; 6]> = activity.entries.iter().map(row).collect();
    to.table(COLUMNS, &rows);
    if activity.more {
        to.next("Older entries", &format!("bursar activity --before {}", oldest.seq));
    }
}

fn row(entry: &ActivityRow) -> [String; 6] {
    let ActivityRow { seq, at, kind, agent_id, agent, host, detail, .. } = entry;
    let agent = agent.as_ref().or(agent_id.as_ref());
    let host = host.as_deref().map(quote_foreign);
    // The engine has quoted foreign text in the detail.
    let what = [host, detail.clone()].into_iter().flatten().collect::<Vec<_>>().join("  ");
    [
        seq.to_string(),
        at.clone(),
        wording::kind(*kind),
        agent.cloned().unwrap_or_default(),
        entry.amount_text().cloned().unwrap_or_default(),
        what,
    ]
}
