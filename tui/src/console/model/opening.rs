//! The view that opens for the selected row: a card, the answer to a command, or a text.

use bursar_control::answers::{ActivityRow, PositionAnswer, SendAnswer};
use bursar_control::grammar::{AddressOrder, Order};
use bursar_core::text::{Zone, quoted, visible};
use zeroize::Zeroizing;

use super::balances::{HoldingRow, holding};
use super::overlay::{CardView, TextView};
use super::payments::{self, PaymentRow};
use super::rows::short;
use super::{Model, Pane};
use crate::wording;

#[derive(Debug)]
pub(crate) enum RowOpening {
    Card(Box<CardView>),
    /// The command whose answer shows the row in full.
    Line(String),
    /// A complete row, such as an entry of the journal.
    Text(TextView),
}

impl Model {
    pub(crate) fn opening(&self) -> Option<RowOpening> {
        let index = self.selected_index(self.focus)?;
        let server = &self.server;
        let word = |name: &str| shlex::try_quote(name).ok().map(String::from);
        let line = match self.focus {
            Pane::Approvals => {
                let card = CardView::of(server.queue.get(index)?, self.now_ms)?;
                return Some(RowOpening::Card(Box::new(card)));
            }
            Pane::Balances => match holding(server, index)? {
                HoldingRow::Balance(row) => {
                    format!("balances --address {}", word(&row.address.label)?)
                }
                HoldingRow::Position(row) => {
                    let title = format!("position of {}", row.label);
                    let text = Zeroizing::new(position(row));
                    return Some(RowOpening::Text(TextView::new(title, text)));
                }
                // The row already shows everything that is known.
                HoldingRow::Unread { .. } => return None,
            },
            Pane::Agents => format!("agent show {}", server.agents.as_ref()?.get(index)?.agent_id),
            Pane::Policies => {
                format!("policy show {}", word(&server.policies.as_ref()?.get(index)?.name)?)
            }
            Pane::Activity => {
                let row = server.feed.row(index)?;
                let title = format!("entry {} of the journal", row.seq);
                let text = Zeroizing::new(entry(row, &self.zone()));
                return Some(RowOpening::Text(TextView::new(title, text)));
            }
            Pane::Payments => match payments::rows(server).get(index)? {
                PaymentRow::Request(row) => format!("receipt {}", row.id),
                PaymentRow::Send(row) => {
                    let title = format!("send {}", short(&row.id));
                    let text = Zeroizing::new(send(row, &self.zone()));
                    return Some(RowOpening::Text(TextView::new(title, text)));
                }
            },
        };
        Some(RowOpening::Line(line))
    }
}

impl Model {
    /// Returns the order that shows the address of the selected balance as a QR code.
    pub(crate) fn qr_order(&self) -> Option<Order> {
        let index =
            self.selected_index(Pane::Balances).filter(|_row| self.focus == Pane::Balances)?;
        let HoldingRow::Balance(row) = holding(&self.server, index)? else { return None };
        Some(Order::Address(AddressOrder::Show {
            label: row.address.label.parse().ok()?,
            qr: true,
            amount: None,
            token: row.held.filter(|held| held.verified).map(|held| held.symbol.clone()),
            network: Some(row.network.caip2.clone()),
        }))
    }
}

/// Maximum number of characters that are shown of a venue's name.
const VENUE_NAME_CHARS_MAX: usize = 60;

/// Formats the fields of a position, one per row.
fn position(row: &PositionAnswer) -> String {
    let withdrawable = match (&row.obstacle, &row.withdrawable) {
        (Some(obstacle), _) => format!("nothing now: {obstacle}"),
        (None, Some(amount)) => format!("{} now", amount.text),
        (None, None) => "? (not known)".to_owned(),
    };
    let name = quoted(&row.name, VENUE_NAME_CHARS_MAX);
    let earned = row.earned.as_ref().map(|earned| earned.text.as_str());
    let lines = [
        ("address", format!("{} ({})", row.address, row.label)),
        ("network", format!("{} ({})", row.network, row.caip2)),
        ("venue", row.venue.clone()),
        ("name", format!("{name}  (text from the venue)")),
        ("trust", format!("{}: {}", wording::trust(row.trust), row.reason)),
        ("worth", row.worth.text.clone()),
        ("earned", earned.unwrap_or("? (no agent lent it)").to_owned()),
        ("withdrawable", withdrawable),
        ("shares", row.shares.atoms.clone()),
    ];
    let lines = lines.map(|(name, value)| format!("{name:<14}{}", visible(&value)));
    lines.join("\n")
}

/// Formats the fields of a send, one per row.
fn send(row: &SendAnswer, zone: &Zone) -> String {
    let known = [
        ("time", Some(zone.moment(&row.at))),
        ("amount", Some(format!("{} on {}", row.summary, row.network))),
        ("from", Some(format!("{} ({})", row.from, row.label))),
        ("to", Some(row.to.clone())),
        ("state", Some(row.told.clone())),
        ("transaction", row.tx_hash.clone()),
        ("request", Some(row.id.clone())),
    ];
    let lines = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let lines = lines.map(|(name, value)| format!("{name:<13}{}", visible(&value)));
    lines.collect::<Vec<_>>().join("\n")
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
    // The detail is left out if there are changes, because their rows repeat it.
    let detail = row.detail.clone().filter(|_same| row.changes.is_empty());
    let known = [
        ("agent", &agent),
        ("amount", &row.amount_text().cloned()),
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
