//! Copies texts of the selected row or the open card. Pressed again, the key copies the next text of the same row.

use zeroize::Zeroizing;

use super::effects::copy_text;
use crate::console::model::balances::holding;
use crate::console::model::overlay::Overlay;
use crate::console::model::payments;
use crate::console::model::queued::QueuedRequest;
use crate::console::model::setup;
use crate::console::model::{Intent, LastCopy, Model, Pane};

/// How long a repeated key copies the next text instead of the first.
const REPEAT_MS: u64 = 5_000;

/// A text that can be copied, with its name.
type Item = (&'static str, String);

pub(super) fn copy(model: &mut Model) -> Vec<Intent> {
    if model.overlay.is_none()
        && let Some(line) = setup::try_line(model).filter(|_line| model.focus == Pane::Approvals)
    {
        return copy_text(model, Zeroizing::new(line), "the line");
    }
    let items = items(model);
    let row: Vec<String> = items.iter().map(|(_name, text)| text.clone()).collect();
    let last = model.last_copy.take();
    let next =
        last.filter(|last| last.row == row && model.now_ms.saturating_sub(last.at_ms) <= REPEAT_MS);
    let index = next.map_or(0, |last| last.index.saturating_add(1));
    let index = index.checked_rem(items.len()).unwrap_or(0);
    let following = index.saturating_add(1).checked_rem(items.len()).unwrap_or(0);
    let (Some((name, text)), Some((after, _text))) = (items.get(index), items.get(following))
    else {
        return Vec::new();
    };
    model.last_copy = Some(LastCopy { row, index, at_ms: model.now_ms });
    let what = match items.len() {
        1 => format!("{name} {text}"),
        _several => format!("{name} {text}   (c again: {after})"),
    };
    copy_text(model, Zeroizing::new(text.clone()), &what)
}

/// Returns the texts of the open card or the selected row, the most useful first.
fn items(model: &Model) -> Vec<Item> {
    let server = &model.server;
    if let Some(Overlay::Card(view)) = &model.overlay {
        return server.find_queued(&view.id).map(of_request).unwrap_or_default();
    }
    let selected = model.selected_index(model.focus);
    if model.focus == Pane::Balances {
        let row = selected.and_then(|index| holding(server, index));
        let own = row.and_then(|row| row.address(server));
        let first = || Some(server.addresses.as_ref()?.first()?.address.clone());
        return own.or_else(first).map(|text| ("address", text)).into_iter().collect();
    }
    let Some(index) = selected else { return Vec::new() };
    match model.focus {
        Pane::Approvals => server.queue.get(index).map(of_request).unwrap_or_default(),
        Pane::Balances => Vec::new(),
        Pane::Agents => {
            let row = server.agents.as_ref().and_then(|rows| rows.get(index));
            row.map(|row| ("code", row.agent_id.clone())).into_iter().collect()
        }
        Pane::Policies => {
            let row = server.policies.as_ref().and_then(|rows| rows.get(index));
            row.map(|row| ("name", row.name.clone())).into_iter().collect()
        }
        Pane::Activity => {
            let id = server.feed.row(index).and_then(|row| row.request.clone());
            id.map(|id| ("id", id)).into_iter().collect()
        }
        Pane::Payments => {
            let rows = payments::rows(server);
            rows.get(index).map(|row| row.copies()).unwrap_or_default()
        }
    }
}

fn of_request(row: &QueuedRequest) -> Vec<Item> {
    let request = &row.request;
    let digest = request.card.as_ref().map(|card| ("digest", card.digest.clone()));
    let first = [("payee", request.payee.clone()), ("id", request.id.clone())];
    first.into_iter().chain(digest).collect()
}
