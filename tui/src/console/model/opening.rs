//! The view that opens for the selected row: a card, the answer of a command, or an entry.

use bursar_control::answers::ActivityRow;
use bursar_core::text::{Zone, visible};
use zeroize::Zeroizing;

use super::balances::balances;
use super::overlay::{CardView, TextView};
use super::rows::{entry_at, short};
use super::{Model, Pane};
use crate::wording;

#[derive(Debug)]
pub(crate) enum Opening {
    Card(Box<CardView>),
    /// The command whose answer shows the row in full.
    Line(String),
    /// A complete entry of the journal.
    Entry(TextView),
}

impl Model {
    pub(crate) fn opening(&self) -> Option<Opening> {
        let index = self.selected_row(self.focus);
        let server = &self.server;
        let quoted = |name: &str| shlex::try_quote(name).ok().map(String::from);
        let line = match self.focus {
            Pane::Approvals => {
                let card = CardView::of(server.queue.get(index)?, self.now_ms)?;
                return Some(Opening::Card(Box::new(card)));
            }
            Pane::Balances => {
                let rows = balances(server);
                format!("balances --address {}", quoted(&rows.get(index)?.address.label)?)
            }
            Pane::Agents => format!("agent show {}", server.agents.as_ref()?.get(index)?.agent_id),
            Pane::Policies => {
                format!("policy show {}", quoted(&server.policies.as_ref()?.get(index)?.name)?)
            }
            Pane::Activity => {
                let row = server.feed.get(entry_at(server, index)?)?;
                let title = format!("entry {} of the journal", row.seq);
                let text = Zeroizing::new(entry(row, &self.zone()));
                return Some(Opening::Entry(TextView::new(title, text)));
            }
            Pane::Sent => format!("receipt {}", server.sent.as_ref()?.get(index)?.id),
        };
        Some(Opening::Line(line))
    }
}

/// Formats the fields of an entry, one per row. Changes show the old and the new value.
fn entry(row: &ActivityRow, zone: &Zone) -> String {
    let mut lines = vec![
        format!("time      {}", zone.moment(&row.at)),
        format!("what      {} ({})", wording::kind(row.kind), row.kind),
    ];
    let agent = match (&row.agent, &row.agent_id) {
        (Some(name), Some(id)) => Some(format!("{name} ({id})")),
        (one, other) => one.clone().or_else(|| other.clone()),
    };
    // The rows of the changes repeat the detail.
    let detail = row.detail.clone().filter(|_same| row.changes.is_empty());
    let known = [
        ("agent", &agent),
        ("amount", &row.amount),
        ("host", &row.host),
        ("about", &detail),
        ("request", &row.request),
    ];
    for (name, value) in known {
        lines.extend(value.as_ref().map(|value| format!("{name:<10}{}", visible(value))));
    }
    for change in &row.changes {
        let warning = if change.loosens { "  (loosens)" } else { "" };
        lines.push(format!("changed   {}{warning}", visible(&change.text())));
    }
    if let Some(request) = &row.request {
        lines.push(String::new());
        lines.push(format!("The whole request: `:receipt {}`", short(request)));
    }
    lines.join("\n")
}
