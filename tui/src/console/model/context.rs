//! Selects the context that receives the keys.

use super::overlay::Overlay;
use super::{List, Model};
use crate::console::keymap::Context;

/// Returns the context that receives the keys now.
pub(crate) fn context(model: &Model) -> Context {
    // An overlay that has opened meanwhile receives the keys.
    match (model.filtering, &model.overlay) {
        (Some(List::Pane(_)), None) | (Some(List::Help), Some(Overlay::Help { .. })) => {
            return Context::Filter;
        }
        _no_list => {}
    }
    match &model.overlay {
        Some(Overlay::Card(view)) if view.opened_to_deny => Context::CardToDeny,
        Some(Overlay::Card(_)) => Context::Card,
        Some(Overlay::Marked(view)) if view.approve => Context::ApproveMarked,
        Some(Overlay::Marked(_)) => Context::DenyMarked,
        Some(Overlay::Ask(question)) if question.is_yes_or_no() => Context::YesNo,
        Some(Overlay::Ask(_) | Overlay::Words(..)) => Context::Field,
        Some(Overlay::Text(view)) if view.checks_words => Context::Words,
        Some(Overlay::ConfirmLeave { .. } | Overlay::AskFile(_)) => Context::YesNo,
        Some(Overlay::Text(_) | Overlay::Help { .. }) => Context::Reading,
        None if model.line.is_some() => Context::Line,
        None => Context::Panes,
    }
}
