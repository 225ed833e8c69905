//! The text of a row that a filter searches.

use bursar_control::answers::{ActivityRow, AgentAnswer};

use super::queued::QueuedRequest;
use super::{Model, Pane};
use crate::wording;

impl Model {
    /// Returns the searched text of a row; empty if there is no such row or it is not loaded.
    pub(super) fn row_text(&self, pane: Pane, index: usize) -> String {
        let server = &self.server;
        let text = match pane {
            Pane::Approvals => server.queue.get(index).map(request),
            // The rows of these panes are searched together, because each look-up builds all of them.
            Pane::Balances | Pane::Payments => None,
            Pane::Agents => server.agents.as_ref().and_then(|rows| rows.get(index)).map(agent),
            Pane::Policies => server
                .policies
                .as_ref()
                .and_then(|rows| rows.get(index))
                .map(|row| row.name.clone()),
            Pane::Activity => server.feed.row(index).map(entry),
        };
        text.unwrap_or_default()
    }
}

/// Only texts that the row shows: an agent chooses others, such as its URLs.
fn request(row: &QueuedRequest) -> String {
    let request = &row.request;
    let mut parts = vec![
        request.id.as_str(),
        request.agent_id.as_str(),
        request.lane.text(),
        request.summary.as_str(),
        request.domain.as_deref().unwrap_or(&request.payee),
        request.step.as_deref().unwrap_or_default(),
    ];
    if let Some(card) = &request.card {
        parts.push(card.agent_name.as_str());
        parts.extend(card.trade.iter().flat_map(|trade| [trade.gives.as_str(), &trade.gets]));
        parts.extend(card.loan.iter().flat_map(|loan| [loan.moves.as_str(), &loan.venue_name]));
    }
    parts.join(" ")
}

fn agent(row: &AgentAnswer) -> String {
    let problem = row.problem.as_deref().unwrap_or_default();
    format!("{} {} {} {problem}", row.name, row.agent_id, row.status.text())
}

fn entry(row: &ActivityRow) -> String {
    let (agent, id, amount) = (row.agent.as_ref(), row.agent_id.as_ref(), row.amount_text());
    let known = [agent, id, amount, row.host.as_ref(), row.detail.as_ref(), row.request.as_ref()];
    let known: Vec<&str> = known.into_iter().flatten().map(String::as_str).collect();
    format!("{} {} {}", wording::kind(row.kind), row.kind, known.join(" "))
}
