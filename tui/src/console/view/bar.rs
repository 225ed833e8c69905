//! The bar, which shows the most useful keys that have an effect now.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::paint::Paint;
use super::visibility;
use crate::console::complete;
use crate::console::keymap::{Context, KeyAction, table};
use crate::console::model::context::context;
use crate::console::model::overlay::{Overlay, TextView};
use crate::console::model::setup;
use crate::console::model::{Connection, Model};
use crate::console::theme::Role;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let here = context(model);
    let line = model.line.as_ref().filter(|_line| here == Context::Line);
    if line.is_some() && model.choices.len() > 1 {
        paint.text(area, 0, 0, &model.choices.join("  "), Role::Strong);
        return;
    }
    let usage = line.and_then(|line| complete::usage(&line.text())).unwrap_or_default();
    let usage = if usage.is_empty() { usage } else { format!("{usage}   ") };
    let mut keys = table::bar(here, |action| does_something(model, here, action));
    if !model.may_decide() {
        rename(&mut keys, "not now", "close");
    } else if model.setup.is_sealed() {
        rename(&mut keys, "not now", "later");
    }
    if here == Context::Reading && model.line.is_some() {
        rename(&mut keys, "close", "leave the line");
        keys.push(("enter", "edit it"));
    }
    if matches!(model.overlay, Some(Overlay::Words(..))) {
        rename(&mut keys, "cancel", "back to the words");
    }
    if here == Context::Panes && !model.setup.observe && is_up(model) {
        if setup::try_line(model).is_some() {
            keys.insert(0, ("c", "copy the line"));
        } else if setup::is_open(model) {
            keys.insert(0, ("n", "next step"));
        } else if model.server.is_locked() {
            keys.insert(0, ("u", "open the wallet"));
        }
    }
    let mut column = paint.text(area, 0, 0, &usage, Role::Plain);
    for (key, what) in keys {
        // A key whose label is cut is useless.
        let wanted = key.width().saturating_add(what.width()).saturating_add(1);
        if wanted > usize::from(area.width.saturating_sub(column)) {
            continue;
        }
        for (text, role) in [(key.to_owned(), Role::Strong), (format!(" {what}   "), Role::Quiet)] {
            column = column.saturating_add(paint.text(area, column, 0, &text, role));
        }
    }
}

fn is_up(model: &Model) -> bool {
    model.connection == Connection::Up
}

fn rename(keys: &mut [(&'static str, &'static str)], from: &str, to: &'static str) {
    keys.iter_mut().filter(|(_key, what)| *what == from).for_each(|key| key.1 = to);
}

/// Returns whether a key would have an effect; other keys are not offered.
fn does_something(model: &Model, here: Context, action: KeyAction) -> bool {
    let only_look = model.setup.observe || !model.may_decide() || !model.accepts_decision_key();
    if only_look && !action.allowed_for_observer() {
        return false;
    }
    match (here, action) {
        (Context::Panes, KeyAction::Open) => is_up(model) && model.opening().is_some(),
        (Context::Panes, KeyAction::Command) => is_up(model),
        // While the engine checks an answer, no input counts.
        (Context::Field, KeyAction::Enter) => {
            !matches!(&model.overlay, Some(Overlay::Ask(question)) if question.is_sent)
        }
        (Context::Panes, KeyAction::ApproveMarked | KeyAction::DenyMarked) => {
            is_up(model) && !model.marks.is_empty()
        }
        (Context::ApproveMarked | Context::DenyMarked, KeyAction::Yes) => {
            visibility::may_decide_marked(model)
        }
        (Context::Card, KeyAction::Yes) => {
            model.may_approve() && visibility::card_unseen(model).is_none()
        }
        (Context::Card, KeyAction::LeaveAll) => {
            model.setup.is_sealed() && model.cards_to_open().next().is_some()
        }
        (Context::Card, KeyAction::Unlock) => model.server.is_locked(),
        (Context::Card, KeyAction::Retry) => model.may_retry_device(),
        (
            Context::Card
            | Context::CardToDeny
            | Context::ApproveMarked
            | Context::DenyMarked
            | Context::Reading
            | Context::Words,
            KeyAction::Down,
        ) => visibility::last_scroll(model) > 0,
        (Context::Words, KeyAction::Check) => visibility::has_seen_words(model),
        (Context::Reading, KeyAction::Copy) => {
            matches!(&model.overlay, Some(Overlay::Text(TextView { is_copyable: true, .. })))
        }
        _always => true,
    }
}
