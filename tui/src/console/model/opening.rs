//! What there is to open on the selected row: a card, or what a command says of it.

use super::overlay::CardView;
use super::rows::{self, entry_at};
use super::{Model, Pane};

#[derive(Debug)]
pub(crate) enum Opening {
    Card(Box<CardView>),
    /// The command that tells more.
    Line(String),
}

impl Model {
    pub(crate) fn opening(&self) -> Option<Opening> {
        let place = self.selected_row(self.focus);
        let server = &self.server;
        let quoted = |name: &str| shlex::try_quote(name).ok().map(String::from);
        let line = match self.focus {
            Pane::Approvals => {
                let card = CardView::of(server.queue.get(place)?, self.now_ms)?;
                return Some(Opening::Card(Box::new(card)));
            }
            Pane::Balances => {
                let rows = rows::balances(server);
                format!("balances --address {}", quoted(&rows.get(place)?.address.label)?)
            }
            Pane::Agents => format!("agent show {}", server.agents.as_ref()?.get(place)?.agent_id),
            Pane::Policies => {
                format!("policy show {}", quoted(&server.policies.as_ref()?.get(place)?.name)?)
            }
            Pane::Activity => {
                let row = server.feed.get(entry_at(server, place)?)?;
                format!("receipt {}", row.request.as_ref()?)
            }
            Pane::Sent => format!("receipt {}", server.sent.as_ref()?.get(place)?.id),
        };
        Some(Opening::Line(line))
    }
}
