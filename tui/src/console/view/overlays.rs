//! Questions, answers to read, and the question whether to leave.

use bursar_core::wire::{Prompt, SecretPrompt};
use ratatui::layout::Rect;

use super::help;
use super::paint::{Paint, wrapped};
use crate::console::model::Model;
use crate::console::model::overlay::{Overlay, Question, Told};
use crate::console::model::words::WordCheck;
use crate::console::theme::Role;

const WIDTH: u16 = 80;

pub(super) fn question(model: &Model, question: &Question, paint: &mut Paint<'_>, body: Rect) {
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let (lines, ask): (&[String], String) = match &question.prompt {
        Prompt::Confirm { lines, question } => (lines, question.clone()),
        Prompt::TypeAmount { lines, amount } => (lines, format!("Type the amount, {amount}:")),
        Prompt::TypeName { lines, name } => (lines, format!("Type its name to go on, {name}:")),
        Prompt::Secret { what } => (&[], wanted(*what, question.first.is_some()).to_owned()),
    };
    let mut rows: Vec<(String, Role)> = lines
        .iter()
        .flat_map(|line| wrapped(line, room, 11))
        .map(|line| (line, Role::Plain))
        .collect();
    if !rows.is_empty() {
        rows.push((String::new(), Role::Plain));
    }
    if let Some(fault) = &question.fault {
        rows.extend(wrapped(fault, room, 0).into_iter().map(|line| (line, Role::Alarm)));
    }
    rows.push((ask, Role::Strong));
    let typed = if question.is_yes_or_no() {
        let armed = model.now_ms >= question.armed_at_ms;
        let keys = if question.sent {
            "asking the engine"
        } else if armed {
            "y yes   n no"
        } else {
            "keys count in a moment"
        };
        rows.push((keys.to_owned(), Role::Strong));
        None
    } else {
        // How long a secret is is nobody's business.
        let shown = match (question.is_hidden(), question.field.text().is_empty()) {
            (true, true) => "(not shown while you type)".to_owned(),
            (true, false) => "****".to_owned(),
            (false, _) => question.field.text().to_owned(),
        };
        let shown = if question.sent { "checking".to_owned() } else { shown };
        let row = rows.len();
        rows.push((format!("> {shown}"), Role::Plain));
        let column = if question.is_hidden() { 2 } else { shown.len().saturating_add(2) };
        Some((row, column))
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

fn wanted(what: SecretPrompt, again: bool) -> &'static str {
    match what {
        SecretPrompt::Password => "The wallet's password:",
        SecretPrompt::NewPassword if again => "The same again:",
        SecretPrompt::NewPassword => "A new password, at least 8 characters:",
        SecretPrompt::SeedPhrase => "The seed phrase:",
    }
}

pub(super) fn word_check(check: &WordCheck, paint: &mut Paint<'_>, body: Rect) {
    let (right, all) = check.progress();
    let inside = paint.dialog(body, (WIDTH, 6), "seed create", &format!("{right} of {all} right"));
    let rows = [
        ("From your paper, please: it alone brings the money back.", Role::Plain),
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

/// The rows of a text, and how many of them fit on the screen.
fn told_rows(told: &Told, body: Rect) -> (Vec<String>, u16) {
    let room = usize::from(told_width(body).saturating_sub(4));
    let rows: Vec<String> = told.text.lines().flat_map(|line| wrapped(line, room, 2)).collect();
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    (rows, height.min(body.height.saturating_sub(3)))
}

fn told_width(body: Rect) -> u16 {
    body.width.saturating_sub(4).min(120)
}

/// How far the text that is open can be scrolled.
pub(super) fn last_scroll(model: &Model, body: Rect) -> usize {
    let (rows, shown) = match &model.overlay {
        Some(Overlay::Told(told)) => {
            let (rows, shown) = told_rows(told, body);
            (rows.len(), shown)
        }
        Some(Overlay::Help { .. }) => {
            (help::rows(model, body).len(), body.height.saturating_sub(2))
        }
        _nothing_to_scroll => (0, 0),
    };
    rows.saturating_sub(usize::from(shown))
}

pub(super) fn told(told: &Told, paint: &mut Paint<'_>, body: Rect) {
    let (rows, shown) = told_rows(told, body);
    let note = if rows.len() > usize::from(shown) { "up and down scroll" } else { "" };
    let size = (told_width(body), shown.saturating_add(2));
    let inside = paint.dialog(body, size, &told.title, note);
    let role = if told.failed { Role::Alarm } else { Role::Plain };
    let scroll = told.scroll.min(rows.len().saturating_sub(usize::from(inside.height)));
    for (row, text) in rows.iter().skip(scroll).enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, role);
    }
}

/// Without a frame, where there is no room for one.
pub(super) fn told_plainly(told: &Told, paint: &mut Paint<'_>, area: Rect) {
    let rows: Vec<String> =
        told.text.lines().flat_map(|line| wrapped(line, usize::from(area.width), 1)).collect();
    let room = usize::from(area.height.saturating_sub(1));
    let scroll = told.scroll.min(rows.len().saturating_sub(room));
    for (row, text) in rows.iter().skip(scroll).take(room).enumerate() {
        paint.text(area, 0, u16::try_from(row).unwrap_or(u16::MAX), text, Role::Plain);
    }
    paint.text(area, 0, area.height.saturating_sub(1), "down more  esc close", Role::Quiet);
}

pub(super) fn asked_plainly(question: &Question, paint: &mut Paint<'_>, area: Rect) {
    let Prompt::Secret { what } = &question.prompt else { return };
    let fault = question.fault.clone().unwrap_or_default();
    let asked = wanted(*what, question.first.is_some());
    let room = usize::from(area.width);
    let mut row = 0u16;
    for (text, role) in [(fault.as_str(), Role::Alarm), (asked, Role::Strong)] {
        for line in wrapped(text, room, 0).iter().filter(|line| !line.is_empty()) {
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
    let held = model.server.held(model.now_ms).count();
    let waiting = match held {
        0 => "Nothing waits for you.".to_owned(),
        1 => "One request waits; its time runs on.".to_owned(),
        more => format!("{more} requests wait; their time runs on."),
    };
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let stops = "This console is the engine: leaving it stops the engine, and agents are refused until it runs \
                 again. `bursar engine` runs it without a console.";
    let consoles = model.server.status.as_ref().map_or(0, |status| status.consoles);
    let others = match consoles {
        0 => String::new(),
        1 => "Another console is attached to it and loses its engine.".to_owned(),
        more => format!("{more} other consoles are attached to it and lose their engine."),
    };
    let mut lines = vec![stops, &others, &waiting, "", "y stop and leave   n stay"];
    if others.is_empty() {
        lines.remove(1);
    }
    let rows: Vec<String> = lines.iter().flat_map(|line| wrapped(line, room, 0)).collect();
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let inside = paint.dialog(body, (WIDTH, height.saturating_add(2)), "Leave?", "");
    for (row, text) in (0..).zip(&rows) {
        let role = if row + 1 == height { Role::Strong } else { Role::Plain };
        paint.text(inside, 0, row, text, role);
    }
}
