//! The visible part of an overlay. A decision counts only if the parts that it needs were visible.

use ratatui::layout::Rect;

use super::areas::Areas;
use super::card::{self, UnseenRows, VisibleRows};
use super::marked::{self, VisibleMarked};
use super::overlays::{self, VisibleText};
use crate::console::model::Model;
use crate::console::model::overlay::Overlay;

/// Returns how far the text of the open overlay can be scrolled.
pub(crate) fn last_scroll(model: &Model) -> usize {
    if model.is_too_small() {
        // The end is not computed here, because drawing without a frame limits the position itself.
        return usize::from(u16::MAX);
    }
    let scrolled = visible_rows(model).map(|visible| visible.last);
    match scrolled.or_else(|| visible_marked(model).map(|visible| visible.last)) {
        Some(last) => last,
        None => overlays::last_scroll(model, body(model)),
    }
}

/// Returns the visible rows of the open card; `None` if no card is open or readable.
pub(crate) fn visible_rows(model: &Model) -> Option<VisibleRows> {
    let Some(Overlay::Card(view)) = &model.overlay else { return None };
    (!model.is_too_small()).then(|| card::visible_rows(model, view, body(model)))
}

/// Returns the visible part of the open text.
pub(crate) fn visible_text(model: &Model) -> Option<VisibleText> {
    let Some(Overlay::Text(view)) = &model.overlay else { return None };
    Some(match model.is_too_small() {
        true => {
            overlays::visible_text_without_frame(view, Rect::new(0, 0, model.size.0, model.size.1))
        }
        false => overlays::visible_text(view, body(model)),
    })
}

/// Returns whether all words of the open seed have been visible; true if no words are open.
pub(crate) fn has_seen_words(model: &Model) -> bool {
    let (Some(visible), Some(Overlay::Text(view))) = (visible_text(model), &model.overlay) else {
        return true;
    };
    view.seen.contain(visible.words, visible.width)
}

/// Returns where the unseen rows are that an approval of the open card needs.
///
/// After a change of the card, its rows count as unseen again.
pub(crate) fn card_unseen(model: &Model) -> Option<UnseenRows> {
    let Some(Overlay::Card(view)) = &model.overlay else { return None };
    card::next_unseen(model, view, body(model))
}

/// Returns the visible part of the open card about marked requests.
pub(crate) fn visible_marked(model: &Model) -> Option<VisibleMarked> {
    let Some(Overlay::Marked(view)) = &model.overlay else { return None };
    (!model.is_too_small()).then(|| marked::visible(view, body(model)))
}

/// Returns whether a yes on the card about marked requests would count, as far as its rows are concerned.
pub(crate) fn may_decide_marked(model: &Model) -> bool {
    let Some(Overlay::Marked(view)) = &model.overlay else { return false };
    let may_approve = !model.server.is_locked() && !has_unseen_marked(model);
    !view.selection.chosen.is_empty() && (!view.approve || may_approve)
}

/// Returns whether an approval of the marked requests needs rows that were not visible yet.
pub(crate) fn has_unseen_marked(model: &Model) -> bool {
    let (Some(visible), Some(Overlay::Marked(view))) = (visible_marked(model), &model.overlay)
    else {
        return true;
    };
    !view.seen.contain(visible.rows, visible.width)
}

pub(super) fn body(model: &Model) -> Rect {
    Areas::of(model, Rect::new(0, 0, model.size.0, model.size.1)).body
}
