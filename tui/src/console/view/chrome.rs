//! Header, tabs and bottom line, and the message of a screen that is too small.

use bursar_control::answers::StatusAnswer;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text::approximate_duration;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::overlays;
use super::paint::{Paint, wrap};
use crate::console::model::filter::Filter;
use crate::console::model::overlay::Overlay;
use crate::console::model::{Connection, Model, Pane, Setup};
use crate::console::theme::Role;

/// Draws the header. It shows no seconds, so an idle console writes no output. While the wallet counts down to its
/// lock, the header changes once a minute.
pub(super) fn header(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let mut pieces: Vec<(String, Role)> = vec![("BURSAR".into(), Role::Strong)];
    match (&model.connection, &model.server.status) {
        (Connection::Lost(fault), _) => pieces.push((lost(fault, &model.setup), Role::Alarm)),
        (Connection::Connecting, _) | (_, None) => {
            pieces.push(("connecting".into(), Role::Quiet));
        }
        (Connection::Up, Some(status)) => {
            let wallet = &status.wallet;
            pieces.push((wallet.name.clone().unwrap_or_default(), Role::Plain));
            pieces.push(match (wallet.exists, wallet.locked) {
                (false, _) => ("no wallet".into(), Role::Warn),
                (true, true) => ("LOCKED".into(), Role::Warn),
                (true, false) => ("UNLOCKED".into(), Role::Good),
            });
            if let Some(seconds) = wallet.locks_in_s {
                pieces.push((format!("locks in {}", approximate_duration(seconds)), Role::Quiet));
            }
            if status.frozen {
                pieces.push(("FROZEN".into(), Role::Alarm));
            }
            if status.failed.is_some() {
                pieces.push(("JOURNAL FAILED".into(), Role::Alarm));
            } else if status.disk_full {
                pieces.push(("DISK FULL".into(), Role::Alarm));
            }
            if status.untrusted.is_some() {
                pieces.push(("JOURNAL UNTRUSTED".into(), Role::Alarm));
            }
            if status.ledger_emulator.is_some() {
                pieces.push(("EMULATOR".into(), Role::Alarm));
            }
            if let Some(device) = &status.device {
                let role = if device.is_prompting { Role::Strong } else { Role::Warn };
                pieces.push((format!("LEDGER {}", device.label), role));
            }
            if status.server.open_to_network {
                pieces.push(("OPEN TO LAN".into(), Role::Alarm));
            }
        }
    }
    let held = model.pending_count();
    if held > 0 {
        pieces.push((format!("{held} WAITING"), Role::Warn));
    }
    if model.setup.observe {
        pieces.push(("OBSERVING".into(), Role::Warn));
    }
    pieces.retain(|(text, _role)| !text.is_empty());
    if let (Connection::Up, Some(status)) = (&model.connection, &model.server.status) {
        let engine = if model.setup.owner { "engine: inside" } else { "engine: attached" };
        // The kind of engine is always shown. If room is short, the address for agents is shortened or left out,
        // because commands also show it.
        for (texts, role) in [(silent(model, status), Role::Warn), agents(status)] {
            let taken = pieces.iter().map(|(text, _role)| text.width().saturating_add(2));
            let taken = taken.sum::<usize>().saturating_add(engine.width());
            let fits = |text: &&String| {
                taken.saturating_add(text.width()).saturating_add(2) <= usize::from(area.width)
            };
            pieces.extend(texts.iter().find(fits).map(|text| (text.clone(), role)));
        }
        pieces.push((engine.to_owned(), Role::Quiet));
    }
    paint_spaced(paint, area, &pieces);
}

/// Draws pieces with two spaces between them. No space follows the last one, which may fill the row.
fn paint_spaced(paint: &mut Paint<'_>, area: Rect, pieces: &[(String, Role)]) {
    let gaps = pieces.iter().skip(1).map(|_piece| "  ").chain([""]);
    let spaced: Vec<(String, Role)> = pieces
        .iter()
        .zip(gaps)
        .map(|((text, role), gap)| (format!("{text}{gap}"), *role))
        .collect();
    let pieces: Vec<(&str, Role)> =
        spaced.iter().map(|(text, role)| (text.as_str(), *role)).collect();
    paint.pieces(area, 0, &pieces);
}

/// Returns the texts for the networks that do not answer, longest first.
fn silent(model: &Model, status: &StatusAnswer) -> Vec<String> {
    let first = status.silent.iter().min_by(|one, other| one.since.cmp(&other.since));
    let since = first.map(|first| model.zone().minute(&first.since)).unwrap_or_default();
    let who = match status.silent.as_slice() {
        [] => return Vec::new(),
        [only] => only.network.clone(),
        several => format!("{} networks", several.len()),
    };
    vec![
        format!("{who}: no answer since {since}"),
        format!("{who}: no answer"),
        "OFFLINE".to_owned(),
    ]
}

/// Returns the texts for the agent server: its address in several lengths, longest first, or that it is off.
fn agents(status: &StatusAnswer) -> (Vec<String>, Role) {
    match status.server.url.as_deref().filter(|_url| status.server.running) {
        Some(url) => {
            let address = url.trim_start_matches("http://");
            let port = address.rsplit(':').next().unwrap_or(address);
            (vec![format!("agents {address}"), format!("agents :{port}")], Role::Plain)
        }
        None => (vec!["agent server off".to_owned(), "server off".to_owned()], Role::Warn),
    }
}

/// Describes a lost connection. The console retries after every fault, because a matching engine may start later.
fn lost(fault: &Fault, setup: &Setup) -> String {
    let text = match fault.code {
        Code::EngineDown => "ENGINE GONE: start it with `bursar engine`; retrying".to_owned(),
        Code::VersionMismatch => "THE ENGINE IS A DIFFERENT VERSION: restart it".to_owned(),
        _other => format!("NOT CONNECTED, retrying: {}", fault.message),
    };
    setup.commands_in(&text).into_owned()
}

pub(super) fn tabs(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let (held, refused) = (model.pending_count(), model.server.refused_count);
    let count = |pane| match pane {
        Pane::Approvals if held > 0 => format!("({held})"),
        Pane::Activity if refused > 0 => format!("({refused} refused)"),
        _other => String::new(),
    };
    let whole = |pane: Pane| format!(" {} {}{} ", pane.number(), pane.title(), count(pane));
    let chosen = |pane: Pane| format!("[{} {}{}]", pane.number(), pane.title(), count(pane));
    // If there is no space for the names, only the numbers are shown.
    let fits = Pane::ALL.map(whole).concat().chars().count() <= usize::from(area.width);
    let mut column = 0;
    for pane in Pane::ALL {
        let here = pane == model.focus;
        let text = match (here, fits) {
            (true, _) => chosen(pane),
            (false, true) => whole(pane),
            (false, false) => format!(" {}{} ", pane.number(), count(pane)),
        };
        let role = if here { Role::Selected } else { Role::Plain };
        column = paint.text(area, column, 0, &text, role).saturating_add(column);
    }
}

/// Draws the command line while one is edited, or else the result of the last action.
pub(super) fn bottom(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    if let Some(line) = model.line.as_ref().filter(|_line| model.overlay.is_none()) {
        let text = line.text();
        // A long line is scrolled so that its cursor is visible.
        let room = usize::from(area.width.saturating_sub(2));
        let skipped = line.cursor().saturating_sub(room);
        let shown: String = text.chars().skip(skipped).collect();
        paint.text(area, 0, 0, &format!(":{shown}"), Role::Plain);
        let column = u16::try_from(line.cursor().saturating_sub(skipped)).unwrap_or(0);
        paint.place_cursor(area, column.saturating_add(1), 0);
    } else if let Some(list) = model.filtering {
        let text = model.filters.get(&list).map_or("", Filter::text);
        let column = paint.text(area, 0, 0, &format!("/{text}"), Role::Plain);
        paint.place_cursor(area, column, 0);
    } else if let Some(note) = &model.last_note {
        let role = if note.failed { Role::Alarm } else { Role::Plain };
        paint.text(area, 0, 0, &note.text, role);
    }
}

/// Draws a note that is too long for the bottom line over the bar and the bottom line. Returns whether it did.
///
/// It does nothing while an overlay or a command line is open, because the bar then shows their keys.
pub(super) fn long_note(model: &Model, paint: &mut Paint<'_>, both: Rect) -> bool {
    let is_free = model.line.is_none() && model.overlay.is_none() && model.filtering.is_none();
    let Some(note) = model.last_note.as_ref().filter(|_note| is_free) else { return false };
    let rows = wrap(&note.text, usize::from(both.width), 0);
    let [first, rest @ ..] = rows.as_slice() else { return false };
    if rest.is_empty() {
        return false;
    }
    let role = if note.failed { Role::Alarm } else { Role::Plain };
    paint.text(both, 0, 0, first, role);
    // If the rest of the note does not fit, either, an ellipsis marks the cut.
    paint.text(both, 0, 1, &rest.join(" "), role);
    true
}

/// Draws a screen that is too small for the layout. The command line still works there, as do prompts for secrets and
/// the texts of answers.
pub(super) fn too_small(model: &Model, paint: &mut Paint<'_>, area: Rect, least: (u16, u16)) {
    match &model.overlay {
        Some(Overlay::Text(view)) => return overlays::text_view_without_frame(view, paint, area),
        Some(Overlay::Ask(question)) if question.is_hidden() => {
            return overlays::question_without_frame(question, paint, area);
        }
        _more_than_fits => {}
    }
    let needed = format!("needs {} x {}", least.0, least.1);
    let actual = format!("has {} x {}", area.width, area.height);
    let held = model.pending_count();
    paint.text(area, 0, 0, "BURSAR", Role::Strong);
    let rows = [needed, actual, format!("{held} waiting"), ": runs a command".to_owned()];
    for (row, text) in rows.iter().enumerate() {
        let row = u16::try_from(row).unwrap_or(0).saturating_add(1);
        if row.saturating_add(1) < area.height {
            paint.text(area, 0, row, text, Role::Plain);
        }
    }
    let last = Rect {
        y: area.y.saturating_add(area.height.saturating_sub(1)),
        height: area.height.min(1),
        ..area
    };
    bottom(model, paint, last);
}
