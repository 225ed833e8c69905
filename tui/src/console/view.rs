//! Draws the model without changing it.

mod areas;
mod balances;
mod bar;
mod card;
mod chrome;
mod feed;
mod help;
mod lists;
mod marked;
mod overlays;
mod paint;
mod positions;
mod queue;
mod setup;
pub(crate) mod visibility;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::model::overlay::Overlay;
use super::model::setup::is_open;
use super::model::{Connection, MIN_SIZE, Model, Pane};
use areas::Areas;
use paint::Paint;

/// Draws on an empty buffer and returns the position of the cursor, if it is shown.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) -> Option<Position> {
    let whole = buffer.area;
    let mut paint = Paint::new(buffer, model.theme());
    if whole.width < MIN_SIZE.0 || whole.height < MIN_SIZE.1 {
        chrome::too_small(model, &mut paint, whole, MIN_SIZE);
    } else {
        let areas = Areas::of(model, whole);
        chrome::header(model, &mut paint, areas.header);
        if let Some(tabs) = areas.tabs {
            chrome::tabs(model, &mut paint, tabs);
        }
        paint.is_outdated = matches!(model.connection, Connection::Lost(_));
        for (which, area) in &areas.panes {
            pane(model, &mut paint, *which, *area);
        }
        if let Some(preview) = areas.preview {
            queue::preview(model, &mut paint, preview);
        }
        overlay(model, &mut paint, areas.body);
        let both = areas.bar.union(areas.bottom);
        if !chrome::long_note(model, &mut paint, both) {
            bar::draw(model, &mut paint, areas.bar);
            chrome::bottom(model, &mut paint, areas.bottom);
        }
    }
    paint.cursor
}

fn pane(model: &Model, paint: &mut Paint<'_>, which: Pane, area: Rect) {
    match which {
        Pane::Approvals if is_open(model) => setup::draw(model, paint, area),
        Pane::Approvals => queue::draw(model, paint, area),
        Pane::Balances => balances::draw(model, paint, area),
        Pane::Agents => lists::agents(model, paint, area),
        Pane::Policies => lists::policies(model, paint, area),
        Pane::Activity => feed::draw(model, paint, area),
        Pane::Payments => lists::payments(model, paint, area),
    }
}

fn overlay(model: &Model, paint: &mut Paint<'_>, body: Rect) {
    match &model.overlay {
        Some(Overlay::Card(view)) => card::draw(model, view, paint, body),
        Some(Overlay::Marked(view)) => marked::draw(model, view, paint, body),
        Some(Overlay::Ask(question)) => overlays::question(model, question, paint, body),
        Some(Overlay::Words(_shown, check)) => overlays::word_check(check, paint, body),
        Some(Overlay::Text(view)) => overlays::text_view(view, paint, body),
        Some(Overlay::Help { scroll }) => help::draw(model, *scroll, paint, body),
        Some(Overlay::AskFile(asked)) => overlays::file_question(model, asked, paint, body),
        Some(Overlay::ConfirmLeave { .. }) => overlays::leave(model, paint, body),
        None => {}
    }
}
