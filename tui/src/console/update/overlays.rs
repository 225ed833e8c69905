//! Handles keys and pasted text in questions, fields and text views.

use bursar_control::wire::ToEngine;
use bursar_core::limits::PASSWORD_CHARS_MIN;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::effects::scrolled;
use super::run_line;
use crate::console::keymap::KeyAction;
use crate::console::model::List;
use crate::console::model::overlay::{Field, Overlay, Question};
use crate::console::model::words::{EntryResult, WordCheck};
use crate::console::model::{Intent, Model};
use crate::console::view::visibility;
use crate::link::Secret;

pub(super) fn handle_yes_no_key(model: &mut Model, action: Option<KeyAction>) -> Vec<Intent> {
    let now_ms = model.now_ms;
    // On a screen too small to show the question, a yes does not count.
    let action = action.filter(|action| *action != KeyAction::Yes || !model.is_too_small());
    match &mut model.overlay {
        Some(Overlay::ConfirmLeave { armed_at_ms }) => match action {
            Some(KeyAction::Yes) if now_ms >= *armed_at_ms => {
                model.unconfirmed_key = Some((KeyAction::Yes, now_ms))
            }
            Some(KeyAction::Keep) if now_ms >= *armed_at_ms && !model.setup.is_sealed() => {
                model.keeps_engine = true;
                return vec![Intent::Quit];
            }
            Some(KeyAction::No) => return close(model),
            _other => {}
        },
        Some(Overlay::AskFile(question)) => match action {
            Some(KeyAction::Yes) if now_ms >= question.armed_at_ms => {
                model.unconfirmed_key = Some((KeyAction::Yes, now_ms));
            }
            Some(KeyAction::No) => return close(model),
            _other => super::effects::guard_keys(model),
        },
        // The command may wait long for a network, so the operator can close its question.
        Some(Overlay::Ask(question)) if question.is_sent => {
            if matches!(action, Some(KeyAction::No | KeyAction::Close)) {
                model.overlay = None;
                model.note("It continues. Its result appears here when it is done.");
            }
        }
        Some(Overlay::Ask(question)) => match action {
            Some(KeyAction::Yes) if now_ms >= question.armed_at_ms => {
                model.unconfirmed_key = Some((KeyAction::Yes, now_ms));
            }
            Some(KeyAction::No) => {
                let id = question.call;
                question.is_sent = true;
                return vec![Intent::Send(ToEngine::Answer { id, yes: false })];
            }
            other => {
                question.guard(now_ms);
                // After an early yes the dialog already shows "wait a moment".
                if other.is_none() {
                    question.fault = Some("Press only y for yes or n for no.".to_owned());
                }
            }
        },
        _other => {}
    }
    Vec::new()
}

/// Executes a yes, after the pause that shows that it was typed alone.
pub(super) fn confirm_yes(model: &mut Model) -> Vec<Intent> {
    let (now_ms, too_small) = (model.now_ms, model.is_too_small());
    match &mut model.overlay {
        Some(Overlay::ConfirmLeave { armed_at_ms }) if now_ms >= *armed_at_ms => vec![Intent::Quit],
        Some(Overlay::AskFile(question)) if now_ms >= question.armed_at_ms && !too_small => {
            run_line::run_with_file(model)
        }
        Some(Overlay::Ask(question)) if now_ms >= question.armed_at_ms && !too_small => {
            question.is_sent = true;
            vec![Intent::Send(ToEngine::Answer { id: question.call, yes: true })]
        }
        _gone => Vec::new(),
    }
}

pub(super) fn handle_field_key(
    model: &mut Model,
    key: &KeyEvent,
    action: Option<KeyAction>,
) -> Vec<Intent> {
    if matches!(model.overlay, Some(Overlay::Words(..))) {
        return handle_word_check_key(model, key, action);
    }
    let (now_ms, too_small) = (model.now_ms, model.is_too_small());
    let Some(Overlay::Ask(question)) = &mut model.overlay else { return Vec::new() };
    // Visible input counts only while the question can be read. After the answer was sent, no input counts.
    let early = !question.is_hidden() && (too_small || now_ms < question.armed_at_ms);
    if action != Some(KeyAction::Close) && (question.is_sent || early) {
        return Vec::new();
    }
    match (action, key.code) {
        (Some(KeyAction::Close), _) => {
            let id = question.call;
            model.overlay = None;
            vec![Intent::Send(ToEngine::Cancel { id })]
        }
        (Some(KeyAction::Enter), _) => {
            let (id, given) = (question.call, take_answer(question));
            match given {
                Some(secret) => {
                    question.is_sent = true;
                    vec![Intent::SendSecret { id, secret }]
                }
                None => Vec::new(),
            }
        }
        _typed => {
            type_into_field(&mut question.field, key);
            Vec::new()
        }
    }
}

fn type_into_field(field: &mut Field, key: &KeyEvent) {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Backspace => field.pop(),
        KeyCode::Char('u') if control => field.clear(),
        KeyCode::Char(ch) if !control => field.push(ch),
        _other => {}
    }
}

/// Handles a key in the check of a new seed's words.
fn handle_word_check_key(
    model: &mut Model,
    key: &KeyEvent,
    action: Option<KeyAction>,
) -> Vec<Intent> {
    let Some(Overlay::Words(mut view, mut check)) = model.overlay.take() else { return Vec::new() };
    match action {
        Some(KeyAction::Close) => {
            view.words = Some(check.into_words());
            model.overlay = Some(Overlay::Text(view));
            return vec![Intent::Redraw];
        }
        Some(KeyAction::Enter) => {
            if check.enter() == EntryResult::All {
                model.unchecked_seed = None;
                model.note("The words match.");
                return vec![Intent::Redraw];
            }
        }
        _other => type_into_field(&mut check.field, key),
    }
    model.overlay = Some(Overlay::Words(view, check));
    Vec::new()
}

/// Records which part of a text is visible.
pub(super) fn record_visible_text(model: &mut Model) {
    let Some(visible) = visibility::visible_text(model) else { return };
    if let Some(Overlay::Text(view)) = &mut model.overlay {
        view.seen.record(view.scroll.min(visible.last), visible.shown, visible.width);
    }
}

/// Starts the check of the seed's words, once all of them were visible.
fn ask_words(model: &mut Model) -> Vec<Intent> {
    if !visibility::has_seen_words(model) {
        model.note_failure("Scroll down first: you have not seen all of the words.");
        return Vec::new();
    }
    model.last_note = None;
    if let Some(Overlay::Text(mut view)) = model.overlay.take() {
        model.overlay = match view.words.take() {
            Some(words) => Some(Overlay::Words(view, WordCheck::of(words, model.now_ms))),
            None => Some(Overlay::Text(view)),
        };
    }
    // Removes the words from the screen.
    vec![Intent::Redraw]
}

/// Returns the typed answer. A new password is returned only after it was repeated.
fn take_answer(question: &mut Question) -> Option<Secret> {
    if !question.is_new_password() {
        return Some(Secret(question.field.take()));
    }
    match question.first_entry.take() {
        None if question.field.text().chars().count() < PASSWORD_CHARS_MIN => {
            question.fault =
                Some(format!("Too short: use at least {PASSWORD_CHARS_MIN} characters."));
            question.field.clear();
            None
        }
        // The password is requested twice: its input is hidden, so a typing error would lock the operator out.
        None => {
            question.first_entry = Some(std::mem::take(&mut question.field));
            question.fault = None;
            None
        }
        Some(first) if first.text() == question.field.text() => Some(Secret(question.field.take())),
        Some(_other) => {
            question.fault = Some("The passwords differ: type a new one.".to_owned());
            question.field.clear();
            None
        }
    }
}

pub(super) fn handle_reading_key(model: &mut Model, action: Option<KeyAction>) -> Vec<Intent> {
    let page = usize::from(model.size.1 / 2).max(1);
    let last = visibility::last_scroll(model);
    let scroll = match &mut model.overlay {
        Some(Overlay::Text(view)) => &mut view.scroll,
        Some(Overlay::Help { scroll }) => scroll,
        _other => return Vec::new(),
    };
    *scroll = (*scroll).min(last);
    if let Some(position) = action.and_then(|action| scrolled(*scroll, last, page, action)) {
        *scroll = position;
        return Vec::new();
    }
    match action {
        Some(KeyAction::Check) => return ask_words(model),
        Some(KeyAction::Copy) => return copy(model),
        Some(KeyAction::Filter) => super::filter::begin(model),
        Some(KeyAction::Close) => return close(model),
        _other => {}
    }
    Vec::new()
}

fn copy(model: &mut Model) -> Vec<Intent> {
    match &model.overlay {
        Some(Overlay::Text(view)) if view.is_copyable => {
            let text = view.text.clone();
            super::effects::copy_text(model, text, "this text")
        }
        Some(Overlay::Help { .. }) | None => Vec::new(),
        _secret => {
            model.note_failure("Not copied: every program can read the clipboard.");
            Vec::new()
        }
    }
}

/// Closes the overlay and redraws, so that no words of a seed remain on the screen.
fn close(model: &mut Model) -> Vec<Intent> {
    if matches!(&model.overlay, Some(Overlay::Text(view)) if view.checks_words) {
        model.note("Not checked. `seed words` shows and checks them later.");
    }
    model.filters.remove(&List::Help);
    model.overlay = None;
    vec![Intent::Redraw]
}

/// Puts pasted text into the field for a secret or into the command line, and rejects it everywhere else. Pasted text
/// never decides.
pub(super) fn handle_paste(model: &mut Model, text: &str) -> Vec<Intent> {
    model.unconfirmed_key = None;
    if super::filter::paste(model, text) {
        return Vec::new();
    }
    match (&mut model.overlay, &mut model.line) {
        (Some(Overlay::Ask(question)), _) if question.takes_paste() && !question.is_sent => {
            text.chars().for_each(|ch| question.field.push(ch));
        }
        (None, Some(line)) => text.chars().for_each(|ch| line.insert(ch)),
        _nowhere => {
            super::effects::guard_keys(model);
            super::card::reject_paste(model);
            if let Some(Overlay::Ask(question)) = &mut model.overlay
                && !question.is_sent
            {
                question.fault = Some("Pasted text is not taken here: type it.".to_owned());
            }
        }
    }
    Vec::new()
}
