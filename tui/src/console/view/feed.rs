//! The Activity pane: the entries of the whole journal, newest first, with one for each request.

use bursar_core::status::EntryKind;
use ratatui::layout::Rect;

use super::lists::{paint_lines, title, without_matches};
use super::paint::{Paint, left, right};
use crate::console::model::List;
use crate::console::model::rows::short;
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;
use crate::wording;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let focused = model.focus == Pane::Activity;
    let shown = model.shown_rows(Pane::Activity);
    let note = note(model, shown.len());
    let inside = paint.pane(area, focused, &title(model, Pane::Activity), &note);
    if shown.len() == 0 && model.server.feed.head() > 0 {
        return paint_lines(paint, inside, &without_matches(inside));
    }
    if shown.len() == 0 {
        paint.text(inside, 1, 0, "Nothing has happened yet.", Role::Quiet);
        return;
    }
    let selected = focused.then(|| model.selected_row(Pane::Activity));
    let wide = inside.width >= 110;
    let head = model.server.feed.newest_kept().map_or("", |row| row.at.as_str());
    let shift = model.zone().offset_at(head);
    let zone = shift.to_string();
    let mut columns = vec![
        left(&zone, 11).rank(2),
        left("WHAT", if wide { 20 } else { 14 }),
        left("AGENT", if wide { 14 } else { 10 }).rank(1),
        right("AMOUNT", if wide { 18 } else { 13 }),
        left("ABOUT", 16).open().rank(3),
    ];
    if wide {
        columns.push(left("ID", 8).rank(4));
    }
    paint.table(inside, &columns, (shown.len(), selected), |place| {
        let row = shown.index_at(place).and_then(|index| model.server.feed.row(index));
        let Some(row) = row else { return Vec::new() };
        let about = match (&row.host, &row.detail) {
            (Some(host), Some(detail)) => format!("{host}: {detail}"),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => String::new(),
        };
        let id = row.request.as_deref().map(short).unwrap_or_default();
        let agent = row.agent.clone().or_else(|| row.agent_id.clone()).unwrap_or_default();
        vec![
            (shift.day_and_minute(&row.at), Role::Quiet),
            (wording::kind(row.kind), role_of(row.kind)),
            (agent, Role::Plain),
            (row.amount_text().cloned().unwrap_or_default(), Role::Plain),
            (about, Role::Quiet),
            (id, Role::Quiet),
        ]
    });
}

/// Returns the role of an entry's kind.
fn role_of(kind: EntryKind) -> Role {
    match kind {
        EntryKind::PaymentRefused
        | EntryKind::PaymentRejected
        | EntryKind::TradeRefused
        | EntryKind::TradeRejected
        | EntryKind::LoanRefused
        | EntryKind::LoanRejected
        | EntryKind::Frozen => Role::Alarm,
        EntryKind::PaymentHeld | EntryKind::TradeHeld | EntryKind::LoanHeld => Role::Warn,
        EntryKind::PaymentAuthorized
        | EntryKind::PaymentSigned
        | EntryKind::PaymentApproved
        | EntryKind::TradeStarted
        | EntryKind::TradeApproved
        | EntryKind::LoanStarted
        | EntryKind::LoanApproved
        | EntryKind::SettlementChecked => Role::Good,
        _other => Role::Plain,
    }
}

/// Returns the note of the title: the number of entries, or how many of the searched ones the filter shows.
fn note(model: &Model, shown: usize) -> String {
    if model.active_filter(List::Pane(Pane::Activity)).is_some() {
        // Only loaded entries are searched.
        return format!("{shown} of the {} newest", model.server.feed.shown().len());
    }
    let is_followed = !model.selected.contains_key(&Pane::Activity);
    match (model.server.feed.head(), model.focus == Pane::Activity && !is_followed) {
        (0, _) => String::new(),
        (1, _) => "1 entry".to_owned(),
        (newest, false) => format!("{newest} entries"),
        (newest, true) => format!("{newest} entries, g follows"),
    }
}
