//! Types and removes the filters of lists.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::console::keymap::{Context, KeyAction};
use crate::console::model::List;
use crate::console::model::context::context;
use crate::console::model::overlay::Overlay;
use crate::console::model::{Intent, Model};

/// Begins to type the filter of the pane with the focus, or of the open help.
pub(super) fn begin(model: &mut Model) {
    let list = match &model.overlay {
        Some(Overlay::Help { .. }) => List::Help,
        Some(_other) => return,
        None => List::Pane(model.focus),
    };
    model.filtering = Some(list);
}

/// Shows every row of the pane with the focus again. Without a filter, removes all marks.
pub(super) fn show_all(model: &mut Model) {
    if model.filters.remove(&List::Pane(model.focus)).is_none() {
        model.marks.clear();
    }
}

pub(super) fn handle_key(
    model: &mut Model,
    key: &KeyEvent,
    action: Option<KeyAction>,
) -> Vec<Intent> {
    let Some(list) = model.filtering else { return Vec::new() };
    match action {
        Some(KeyAction::Enter) => model.filtering = None,
        Some(KeyAction::Close) => {
            model.filtering = None;
            model.filters.remove(&list);
        }
        Some(KeyAction::Up | KeyAction::Down) if list == List::Help => {}
        Some(KeyAction::Up) => model.move_selection(-1),
        Some(KeyAction::Down) => model.move_selection(1),
        _typed => edit(model, list, key),
    }
    if let Some(Overlay::Help { scroll }) = &mut model.overlay {
        *scroll = 0;
    }
    if model.filters.get(&list).is_some_and(|filter| filter.text().is_empty())
        && model.filtering.is_none()
    {
        model.filters.remove(&list);
    }
    Vec::new()
}

fn edit(model: &mut Model, list: List, key: &KeyEvent) {
    let filter = model.filters.entry(list).or_default();
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Backspace => filter.pop(),
        KeyCode::Char('u') if control => filter.clear(),
        KeyCode::Char(ch) if !control => filter.push(ch),
        _other => {}
    }
}

/// Adds pasted text to the filter that is being typed. Returns whether there is one.
pub(super) fn paste(model: &mut Model, text: &str) -> bool {
    let Some(list) = model.filtering.filter(|_list| context(model) == Context::Filter) else {
        return false;
    };
    let filter = model.filters.entry(list).or_default();
    text.chars().for_each(|ch| filter.push(ch));
    true
}
