//! The state of a card's decision, which is always visible below the card's rows.

use super::visibility::UnseenRows;
use crate::console::model::overlay::{CardView, Hint};
use crate::console::model::{Connection, Model};
use crate::console::theme::Role;

/// Returns the origin and time of the decision, if the engine reported them.
fn end_origin(model: &Model, view: &CardView) -> Option<String> {
    let end = model.server.find_queued(&view.id)?.end.as_ref()?;
    end.origin.as_ref().map(|origin| origin.text(&model.zone()))
}

/// Returns the state of the decision, and the keys that count now.
pub(super) fn lines(
    model: &Model,
    view: &CardView,
    closed: Option<&str>,
    unseen: Option<&UnseenRows>,
) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    if let Some(outcome) = closed {
        let by = end_origin(model, view);
        if let (None, Some(fault)) = (&by, &view.fault) {
            lines.push((fault.clone(), Role::Alarm));
        }
        let by = by.map_or_else(String::new, |by| {
            if by.starts_with("by ") { format!(" {by}") } else { format!(", {by}") }
        });
        lines.push((format!("Can no longer be decided: {outcome}{by}."), Role::Warn));
        lines.push(("esc closes".to_owned(), Role::Strong));
        return lines;
    }
    if view.has_changed {
        lines.push(("The card changed while it was open: read it again.".to_owned(), Role::Warn));
    }
    if let Some(fault) = &view.fault {
        lines.push((fault.clone(), Role::Alarm));
    }
    if let Some(device) = &view.card.device {
        let role = if device.is_prompting { Role::Strong } else { Role::Warn };
        lines.push((device.state.clone(), role));
    }
    if view.requires_typed_amount() && !model.setup.observe {
        let what = if view.card.unpriced {
            "Type the dollars that it may cost".to_owned()
        } else {
            format!("Type the amount to approve it ({})", view.card.usd)
        };
        lines.push((format!("{what}: [{:<12}]", view.typed_amount), Role::Strong));
    }
    let keys = if model.setup.observe {
        "observing only: no decisions   esc closes".to_owned()
    } else if model.connection != Connection::Up {
        "no engine is connected: no decisions   esc closes".to_owned()
    } else if model.marked_run.as_ref().is_some_and(|run| run.contains(&view.id)) {
        "its decision is being sent with others   esc closes".to_owned()
    } else if view.is_sent {
        "sent, waiting for the engine …".to_owned()
    } else if let Some(hint) = view.hint {
        // The hint replaces the line of keys, because an additional line would move the rows of the card.
        lines.push((hint_line(view, hint, unseen), Role::Alarm));
        return lines;
    } else if model.now_ms < view.armed_at_ms {
        let keys = if view.opened_to_deny { "y works" } else { "y and n work" };
        format!("{keys} in a moment   esc not now")
    } else if view.opened_to_deny {
        "y deny   esc not now".to_owned()
    } else if view.card.device.is_some() && model.may_retry_device() {
        "r asks the Ledger again   n deny   esc not now".to_owned()
    } else if view.card.device.is_some() {
        "n deny   esc not now   (only the Ledger signs it)".to_owned()
    } else if view.card.obstacle.is_some() {
        "n deny   esc not now   (it cannot be approved)".to_owned()
    } else if model.server.is_locked() {
        "wallet locked: press u to open it   n deny   esc not now".to_owned()
    } else {
        deciding(view, unseen)
    };
    lines.push((keys, Role::Strong));
    lines
}

fn hint_line(view: &CardView, hint: Hint, unseen: Option<&UnseenRows>) -> String {
    let why = match (hint, unseen) {
        (Hint::RowsUnseen, Some(unseen)) => format!("not yet: {}", unseen.scroll_hint()),
        (other, _seen) => other.text().to_owned(),
    };
    let deny = if view.opened_to_deny { "y deny   esc not now" } else { "n deny" };
    format!("{why}   {deny}")
}

/// Returns the line of keys for a card that can be decided.
fn deciding(view: &CardView, unseen: Option<&UnseenRows>) -> String {
    let way = unseen.map(UnseenRows::scroll_hint);
    match way {
        Some(way) => format!("{way}, then y   n deny   esc not now"),
        None if view.card.type_amount => {
            "then y (not Enter) approves   n deny   esc not now".to_owned()
        }
        None => "y approve   n deny   esc not now   (Enter does nothing)".to_owned(),
    }
}
