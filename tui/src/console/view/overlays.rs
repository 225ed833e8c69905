//! Draws prompts, texts, the check of a seed's words, and the question whether to leave.

use bursar_control::wire::{Prompt, SecretPrompt};
use ratatui::layout::Rect;

use super::help;
use super::paint::{Paint, wrap};
use crate::console::model::Model;
use crate::console::model::exports::FileQuestion;
use crate::console::model::overlay::{Overlay, Question, TextView};
use crate::console::model::words::WordCheck;
use crate::console::theme::Role;

const WIDTH: u16 = 80;

pub(super) fn question(model: &Model, question: &Question, paint: &mut Paint<'_>, body: Rect) {
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let (lines, ask): (&[String], String) = match &question.prompt {
        Prompt::Confirm { lines, question } => (lines, question.clone()),
        Prompt::TypeAmount { lines, amount } => {
            (lines, format!("Type the amount to confirm it ({amount}):"))
        }
        Prompt::TypeName { lines, name } => (lines, format!("Type its name to continue ({name}):")),
        Prompt::Secret { what } => {
            (&[], prompt_text(*what, question.first_entry.is_some()).to_owned())
        }
    };
    let mut rows: Vec<(String, Role)> = lines
        .iter()
        .flat_map(|line| wrap(line, room, 11))
        .map(|line| (line, Role::Plain))
        .collect();
    if !rows.is_empty() {
        rows.push((String::new(), Role::Plain));
    }
    if let Some(fault) = &question.fault {
        rows.extend(wrap(fault, room, 0).into_iter().map(|line| (line, Role::Alarm)));
    }
    rows.push((ask, Role::Strong));
    if let Some(progress) = question.progress.as_ref().filter(|_text| question.is_sent) {
        rows.extend(wrap(progress, room, 0).into_iter().map(|line| (line, Role::Warn)));
    }
    let typed = if question.is_yes_or_no() {
        let armed = model.now_ms >= question.armed_at_ms;
        let keys = if question.is_sent {
            "asking the engine   esc continue without waiting"
        } else if armed {
            "y yes   n no"
        } else {
            "wait a moment"
        };
        rows.push((keys.to_owned(), Role::Strong));
        None
    } else {
        // The text must not show the length of a secret.
        let shown = match (question.is_hidden(), question.field.text().is_empty()) {
            (true, true) => "(not shown while you type)".to_owned(),
            (true, false) => "****".to_owned(),
            (false, _) => question.field.text().to_owned(),
        };
        let shown = if question.is_sent { "checking …".to_owned() } else { shown };
        let row = rows.len();
        rows.push((format!("> {shown}"), Role::Plain));
        let column = if question.is_hidden() { 2 } else { shown.len().saturating_add(2) };
        (!question.is_sent).then_some((row, column))
    };
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2);
    let title = question.command.replace('.', " ");
    let inside = paint.dialog(body, (WIDTH, height), &title, "");
    let skipped = rows.len().saturating_sub(usize::from(inside.height));
    for (row, (text, role)) in rows.iter().skip(skipped).enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, *role);
    }
    if let Some((row, column)) = typed {
        let row = u16::try_from(row.saturating_sub(skipped)).unwrap_or(0);
        paint.place_cursor(inside, u16::try_from(column).unwrap_or(0), row);
    }
}

pub(super) fn file_question(
    model: &Model,
    asked: &FileQuestion,
    paint: &mut Paint<'_>,
    body: Rect,
) {
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let keys = if model.now_ms >= asked.armed_at_ms { "y yes   n no" } else { "wait a moment" };
    let plain = asked.lines.iter().flat_map(|line| wrap(line, room, 0));
    let mut rows: Vec<(String, Role)> = plain.map(|line| (line, Role::Plain)).collect();
    let strong = [String::new(), asked.question.to_owned(), keys.to_owned()];
    rows.extend(strong.map(|line| (line, Role::Strong)));
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2);
    let title = asked.order.name().replace('.', " ");
    let inside = paint.dialog(body, (WIDTH, height), &title, "");
    let skipped = rows.len().saturating_sub(usize::from(inside.height));
    for (row, (text, role)) in (0..).zip(rows.iter().skip(skipped)) {
        paint.text(inside, 0, row, text, *role);
    }
}

fn prompt_text(what: SecretPrompt, again: bool) -> &'static str {
    match what {
        SecretPrompt::Password => "The wallet's password:",
        SecretPrompt::NewPassword if again => "Repeat the password:",
        SecretPrompt::NewPassword => "A new password, at least 8 characters:",
        SecretPrompt::SeedPhrase => "The seed phrase:",
    }
}

pub(super) fn word_check(check: &WordCheck, paint: &mut Paint<'_>, body: Rect) {
    let (right, all) = check.progress();
    let inside = paint.dialog(body, (WIDTH, 6), "seed create", &format!("{right} of {all} right"));
    let rows = [
        ("Type the words as you have written them on paper.", Role::Plain),
        (check.fault.as_deref().unwrap_or_default(), Role::Alarm),
    ];
    for (row, (text, role)) in rows.into_iter().enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, role);
    }
    paint.text(inside, 0, 2, &format!("Word number {}:", check.number()), Role::Strong);
    paint.text(inside, 0, 3, &format!("> {}", check.field.text()), Role::Plain);
    let column = check.field.text().chars().count().saturating_add(2);
    paint.place_cursor(inside, u16::try_from(column).unwrap_or(0), 3);
}

/// The visible part of a text.
#[derive(Debug)]
pub(crate) struct VisibleText {
    /// Number of rows that are shown at a time.
    pub(crate) shown: usize,
    /// The last scroll position.
    pub(crate) last: usize,
    /// The columns at which the text is wrapped.
    pub(crate) width: usize,
    /// Number of rows down to the last word of a seed; 0 if no words are shown.
    pub(crate) words: usize,
}

/// Returns the rows of a text, and the number of rows down to the last word of a seed. The seed's words are before the
/// text.
fn rows_of(view: &TextView, room: usize, indent: usize) -> (Vec<String>, usize) {
    let break_lines = |text: &str| -> Vec<String> {
        text.lines().flat_map(|line| wrap(line, room, indent)).collect()
    };
    let (mut rows, mut words) = (Vec::new(), 0);
    if let Some(phrase) = &view.words {
        let (before, after) = if view.checks_words { TO_WRITE_DOWN } else { SHOWN_AGAIN };
        rows.extend(break_lines(before));
        rows.extend(phrase.rows(room));
        words = rows.len();
        rows.push(String::new());
        rows.extend(break_lines(after));
    }
    rows.extend(break_lines(&view.text));
    (rows, words)
}

/// The text above the words of a seed, and the text below them.
const TO_WRITE_DOWN: (&str, &str) = (
    "Write these words down now, in this order, on paper.",
    "Only these words or a backup restore a wallet; anyone who has them can take the money.\n\n",
);
const SHOWN_AGAIN: (&str, &str) = ("Anyone who has these words can take the money.", "");

pub(super) fn visible_text(view: &TextView, body: Rect) -> VisibleText {
    let width = usize::from(text_width(body).saturating_sub(4));
    let (rows, words) = rows_of(view, width, 2);
    let shown = rows.len().min(usize::from(body.height.saturating_sub(3)));
    VisibleText { shown, last: rows.len().saturating_sub(shown), width, words }
}

/// Like [`visible_text`], for a screen without room for a frame.
pub(super) fn visible_text_without_frame(view: &TextView, area: Rect) -> VisibleText {
    let width = usize::from(area.width);
    let (rows, words) = rows_of(view, width, 1);
    let shown = rows.len().min(usize::from(area.height.saturating_sub(1)));
    VisibleText { shown, last: rows.len().saturating_sub(shown), width, words }
}

fn text_width(body: Rect) -> u16 {
    body.width.saturating_sub(4).min(120)
}

/// Returns how far the open text can be scrolled.
pub(super) fn last_scroll(model: &Model, body: Rect) -> usize {
    match &model.overlay {
        Some(Overlay::Text(view)) => visible_text(view, body).last,
        Some(Overlay::Help { .. }) => {
            let shown = usize::from(body.height.saturating_sub(2));
            help::rows(model, body).len().saturating_sub(shown)
        }
        _nothing_to_scroll => 0,
    }
}

pub(super) fn text_view(view: &TextView, paint: &mut Paint<'_>, body: Rect) {
    let VisibleText { shown, last, width, .. } = visible_text(view, body);
    let (rows, _words) = rows_of(view, width, 2);
    let note = if last > 0 { "up and down scroll" } else { "" };
    let height = u16::try_from(shown).unwrap_or(u16::MAX).saturating_add(2);
    let size = (text_width(body), height);
    let inside = paint.dialog(body, size, &view.title, note);
    let role = if view.failed { Role::Alarm } else { Role::Plain };
    for (row, text) in rows.iter().skip(view.scroll.min(last)).enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, role);
    }
}

/// Draws a text without a frame, for a screen without room for a frame.
pub(super) fn text_view_without_frame(view: &TextView, paint: &mut Paint<'_>, area: Rect) {
    let VisibleText { shown, last, width, .. } = visible_text_without_frame(view, area);
    let (rows, _words) = rows_of(view, width, 1);
    for (row, text) in rows.iter().skip(view.scroll.min(last)).take(shown).enumerate() {
        paint.text(area, 0, u16::try_from(row).unwrap_or(u16::MAX), text, Role::Plain);
    }
    paint.text(area, 0, area.height.saturating_sub(1), "down more  esc close", Role::Quiet);
}

pub(super) fn question_without_frame(question: &Question, paint: &mut Paint<'_>, area: Rect) {
    let Prompt::Secret { what } = &question.prompt else { return };
    let fault = question.fault.clone().unwrap_or_default();
    let asked = prompt_text(*what, question.first_entry.is_some());
    let room = usize::from(area.width);
    let mut row = 0u16;
    for (text, role) in [(fault.as_str(), Role::Alarm), (asked, Role::Strong)] {
        for line in wrap(text, room, 0).iter().filter(|line| !line.is_empty()) {
            paint.text(area, 0, row, line, role);
            row = row.saturating_add(1);
        }
    }
    let typed = if question.field.text().is_empty() { "> " } else { "> ****" };
    let row = row.min(area.height.saturating_sub(1));
    paint.text(area, 0, row, typed, Role::Plain);
    paint.place_cursor(area, 2, row);
}

pub(super) fn leave(model: &Model, paint: &mut Paint<'_>, body: Rect) {
    let held = model.server.pending(model.now_ms).count();
    let waiting = match held {
        0 => "No requests are waiting.".to_owned(),
        1 => "1 request is waiting and can still expire.".to_owned(),
        more => format!("{more} requests are waiting and can still expire."),
    };
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let consoles = model.server.status.as_ref().map_or(0, |status| status.consoles);
    let others = match consoles {
        0 => String::new(),
        1 => "Another attached console will lose its engine.".to_owned(),
        more => format!("{more} other attached consoles will lose their engine."),
    };
    let (stops, keys) = match model.setup.is_sealed() {
        true => (
            "This window is the engine. Once it is closed, agents are refused until it is open again.",
            "y stop and close   n stay",
        ),
        false => (
            "This console is the engine. If it stops, agents are refused until it runs again.",
            "y stop and leave   k leave, keep the engine running here   n stay",
        ),
    };
    let mut lines = vec![stops, &others, &waiting, "", keys];
    if others.is_empty() {
        lines.remove(1);
    }
    let rows: Vec<String> = lines.iter().flat_map(|line| wrap(line, room, 0)).collect();
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let inside = paint.dialog(body, (WIDTH, height.saturating_add(2)), "Leave?", "");
    for (row, text) in (0..).zip(&rows) {
        let role = if row + 1 == height { Role::Strong } else { Role::Plain };
        paint.text(inside, 0, row, text, role);
    }
}
