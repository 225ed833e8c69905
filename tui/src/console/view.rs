//! Draws the model. Does not know what keys do, and changes nothing.

mod areas;
mod bar;
mod card;
mod chrome;
mod feed;
mod help;
mod lists;
mod overlays;
mod paint;
mod queue;
mod setup;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::model::overlay::Overlay;
use super::model::setup::is_open;
use super::model::{Connection, LEAST, Model, Pane};
use areas::Areas;
pub(crate) use card::{Sight, Unseen};
pub(crate) use overlays::TextSight;
use paint::Paint;

/// Draws on an empty buffer and returns the position of the cursor, if it is shown.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) -> Option<Position> {
    let whole = buffer.area;
    let mut paint = Paint::new(buffer, model.setup.theme);
    if whole.width < LEAST.0 || whole.height < LEAST.1 {
        chrome::too_small(model, &mut paint, whole, LEAST);
    } else {
        let areas = Areas::of(model, whole);
        chrome::header(model, &mut paint, areas.header);
        if let Some(tabs) = areas.tabs {
            chrome::tabs(model, &mut paint, tabs);
        }
        paint.old = matches!(model.connection, Connection::Lost(_));
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

/// Returns how far the text of the open overlay can be scrolled.
pub(crate) fn last_scroll(model: &Model) -> usize {
    if model.is_too_small() {
        // Drawn without a frame, a line at a time.
        return usize::from(u16::MAX);
    }
    match card_sight(model) {
        Some(sight) => sight.last,
        None => overlays::last_scroll(model, body(model)),
    }
}

/// Returns what is visible of the open card; `None` if no card is open or readable.
pub(crate) fn card_sight(model: &Model) -> Option<Sight> {
    let Some(Overlay::Card(view)) = &model.overlay else { return None };
    (!model.is_too_small()).then(|| card::sight(model, view, body(model)))
}

/// Returns what is visible of the open text.
pub(crate) fn told_sight(model: &Model) -> Option<TextSight> {
    let Some(Overlay::Told(told)) = &model.overlay else { return None };
    Some(match model.is_too_small() {
        true => overlays::plain_sight(told, Rect::new(0, 0, model.size.0, model.size.1)),
        false => overlays::sight(told, body(model)),
    })
}

/// Returns whether all words of the open seed were on the screen; true if there are none.
pub(crate) fn has_seen_words(model: &Model) -> bool {
    let (Some(sight), Some(Overlay::Told(told))) = (told_sight(model), &model.overlay) else {
        return true;
    };
    told.has_seen(sight.words, sight.width)
}

/// Returns the way to the next row that a decision needs and that was not seen. A change of the card makes its rows
/// unseen again.
pub(crate) fn card_unseen(model: &Model) -> Option<Unseen> {
    let Some(Overlay::Card(view)) = &model.overlay else { return None };
    card::next_unseen(model, view, body(model))
}

fn body(model: &Model) -> Rect {
    Areas::of(model, Rect::new(0, 0, model.size.0, model.size.1)).body
}

fn pane(model: &Model, paint: &mut Paint<'_>, which: Pane, area: Rect) {
    match which {
        Pane::Approvals if is_open(model) => setup::draw(model, paint, area),
        Pane::Approvals => queue::draw(model, paint, area),
        Pane::Balances => lists::balances(model, paint, area),
        Pane::Agents => lists::agents(model, paint, area),
        Pane::Policies => lists::policies(model, paint, area),
        Pane::Activity => feed::draw(model, paint, area),
        Pane::Sent => lists::sent(model, paint, area),
    }
}

fn overlay(model: &Model, paint: &mut Paint<'_>, body: Rect) {
    match &model.overlay {
        Some(Overlay::Card(view)) => card::draw(model, view, paint, body),
        Some(Overlay::Ask(question)) => overlays::question(model, question, paint, body),
        Some(Overlay::Words(_shown, check)) => overlays::word_check(check, paint, body),
        Some(Overlay::Told(told)) => overlays::told(told, paint, body),
        Some(Overlay::Help { scroll }) => help::draw(model, *scroll, paint, body),
        Some(Overlay::Leave { .. }) => overlays::leave(model, paint, body),
        None => {}
    }
}
