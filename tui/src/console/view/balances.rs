//! The Balances pane: the balances of addresses, and below them their positions.

use bursar_core::text::quoted;
use ratatui::layout::Rect;

use super::lists::{count_note, failure, paint_lines, title, without_matches, without_rows};
use super::paint::{Column, Paint, left, right, wrap};
use super::positions::PositionsPart;
use crate::console::model::List;
use crate::console::model::balances::{BalanceRow, balances, coins};
use crate::console::model::payments::FOREIGN_SYMBOL_CHARS_MAX;
use crate::console::model::server::Topic;
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

const COLUMNS: [Column<'static>; 4] = [
    left("ADDRESS", 10).rank(2),
    left("NETWORK", 8).open().rank(1),
    left("TOKEN", 7),
    right("AMOUNT", 14),
];

/// The columns with icons before the token.
const COLUMNS_WITH_ICONS: [Column<'static>; 5] =
    [left("", 2), COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3]];
/// Minimum width inside a pane with icons, so that they replace no column.
const ICONS_WIDTH_MIN: u16 = 45;

/// Minimum height of a pane that shows balances and positions together.
const BOTH_ROWS_MIN: u16 = 6;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let focused = model.focus == Pane::Balances;
    let shown = model.shown_rows(Pane::Balances);
    let all = balances(&model.server);
    let is_shown = |index: usize| shown.contains(index);
    let (all_balances, rows) = (all.len(), all.into_iter().enumerate());
    let rows: Vec<_> =
        rows.filter(|(index, _row)| is_shown(*index)).map(|(_index, row)| row).collect();
    let failed = failure(model, paint, Topic::Balances);
    let title = title(model, Pane::Balances);
    let inside = paint.pane(area, focused, &title, &note(model, paint, rows.len()));
    let selected = focused.then(|| model.selected_row(Pane::Balances));
    // Positions are below the balances.
    let position = selected.and_then(|index| index.checked_sub(rows.len()));
    let part = PositionsPart::of(model, paint, inside.width, |index| {
        is_shown(all_balances.saturating_add(index))
    });
    if shown.len() == 0 && model.active_filter(List::Pane(Pane::Balances)).is_some() {
        return paint_lines(paint, inside, &without_matches(inside));
    }
    let position = position.filter(|_index| !part.is_empty());
    let inside = match position {
        Some(_) => inside,
        None => unknown(model, &rows, selected, paint, inside),
    };
    let lines = if rows.is_empty() {
        without_balances(model, inside, failed.as_deref())
    } else {
        Vec::new()
    };
    let wanted = rows.len().max(lines.len()).saturating_add(1);
    let (top, bottom) = split(inside, wanted, &part, position.is_some());
    part.draw(paint, bottom, position);
    if rows.is_empty() {
        return paint_lines(paint, top, &lines);
    }
    let selected = selected.filter(|index| *index < rows.len());
    let with_icons = model.icons.are_drawn() && inside.width >= ICONS_WIDTH_MIN;
    let columns: &[Column<'_>] = if with_icons { &COLUMNS_WITH_ICONS } else { &COLUMNS };
    let mut drawn = Vec::new();
    paint.table(top, columns, (rows.len(), selected), |index| {
        drawn.push(index);
        let cells = rows.get(index).map_or_else(Vec::new, cells);
        let icon = with_icons.then(|| (String::new(), Role::Plain));
        icon.into_iter().chain(cells).collect()
    });
    // The first row is the head.
    for (line, index) in (1u16..).zip(drawn).filter(|_row| with_icons) {
        if let Some(id) = rows.get(index).and_then(|row| model.icons.id_of(row)) {
            paint.picture(top, line, id);
        }
    }
}

/// Returns the note of the title: the number of balances and of positions, and whether they are outdated.
fn note(model: &Model, paint: &Paint<'_>, balances: usize) -> String {
    let failed = failure(model, paint, Topic::Balances);
    let note = count_note(balances, failed.as_deref());
    let known = model.server.positions.as_ref();
    let count = known.map_or(0, |known| known.positions.len());
    let mark = match failure(model, paint, Topic::Positions) {
        Some(_why) if failed.is_some() => return note,
        Some(_why) => " old !",
        None if known.is_some_and(|known| !known.unread.is_empty()) => " !",
        None => "",
    };
    let positions = match count {
        0 if mark.is_empty() => return note,
        0 => "positions ?".to_owned(),
        1 => format!("1 position{mark}"),
        count => format!("{count} positions{mark}"),
    };
    if note.is_empty() { positions } else { format!("{note}, {positions}") }
}

/// Splits the inside of the pane between the balances, which need `wanted` rows, and the positions.
///
/// If the space does not suffice for both, each gets at least half. A low pane shows only the part with the selected
/// row.
fn split(
    inside: Rect,
    wanted: usize,
    part: &PositionsPart<'_>,
    is_position_selected: bool,
) -> (Rect, Rect) {
    let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
    let spare = inside.height.saturating_sub(wanted);
    let height = part.height(inside.height);
    let height = match (inside.height, is_position_selected) {
        (..BOTH_ROWS_MIN, true) => inside.height,
        (..BOTH_ROWS_MIN, false) => 0,
        _both if part.is_optional() && height > spare => 0,
        (all, _) => height.min(spare.max(all / 2)),
    };
    // A blank row separates the parts if there is room.
    let gap = u16::from(height > 0 && height < spare);
    let top = wanted.min(inside.height.saturating_sub(height));
    let begin = top.saturating_add(gap);
    let bottom = Rect {
        y: inside.y.saturating_add(begin),
        height: if height == 0 { 0 } else { inside.height.saturating_sub(begin) },
        ..inside
    };
    let top = if height == 0 { inside } else { Rect { height: top, ..inside } };
    (top, bottom)
}

/// Returns the lines of a pane without balances. They contain the addresses, so that the operator can fund them even if
/// their balances are unknown.
fn without_balances(model: &Model, inside: Rect, failed: Option<&str>) -> Vec<(String, Role)> {
    let empty =
        if model.server.balances.is_none() { "not known yet" } else { "There is no address yet." };
    let mut lines = without_rows(inside, failed, empty);
    for known in model.server.addresses.iter().flatten() {
        lines.push((String::new(), Role::Plain));
        lines.push((known.label.clone(), Role::Plain));
        lines.push((known.address.clone(), Role::Plain));
    }
    lines
}

fn cells(row: &BalanceRow<'_>) -> Vec<(String, Role)> {
    // An unknown amount is marked, because it is not zero.
    let unknown = || ("unknown !".to_owned(), Role::Warn);
    let (token, (amount, role)) = match row.held {
        None => (String::new(), unknown()),
        Some(held) => {
            let token = if held.verified {
                held.symbol.clone()
            } else {
                quoted(&held.symbol, FOREIGN_SYMBOL_CHARS_MAX)
            };
            let amount = coins(held).map(|coins| (coins.to_owned(), Role::Plain));
            (token, amount.unwrap_or_else(unknown))
        }
    };
    vec![
        (row.address.label.clone(), Role::Plain),
        (row.network.name.clone(), Role::Quiet),
        (token, Role::Plain),
        (amount, role),
    ]
}

/// Draws the reason for an unknown amount at the bottom, and returns the remaining area.
///
/// It is the reason of the selected row. If the selected row has none, it is the first reason of any row. A network that
/// does not answer has none here, because the header names it.
fn unknown(
    model: &Model,
    rows: &[BalanceRow<'_>],
    selected: Option<usize>,
    paint: &mut Paint<'_>,
    inside: Rect,
) -> Rect {
    let here = selected.and_then(|index| rows.get(index));
    let is_named = |row: &&BalanceRow<'_>| {
        model.server.silent().any(|silent| silent.network == row.network.name)
    };
    let rows = here.into_iter().chain(rows).filter(|row| !is_named(row));
    let mut reasons = rows.filter_map(BalanceRow::unknown_reason);
    let Some(why) = reasons.next() else { return inside };
    let again = if paint.is_outdated { "" } else { " Press r to retry." };
    let room = usize::from(inside.width.saturating_sub(2));
    let lines = wrap(&format!("! {why}{again}"), room, 2);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    // If there is no space for both, only the rows are drawn, because they matter more than the reason.
    if height.saturating_add(3) > inside.height {
        return inside;
    }
    let table = Rect { height: inside.height.saturating_sub(height), ..inside };
    for (row, line) in (table.height..).zip(&lines) {
        paint.text(inside, 1, row, line, if paint.is_outdated { Role::Quiet } else { Role::Warn });
    }
    table
}
