//! The balances of addresses.

use bursar_core::text::quoted;
use ratatui::layout::Rect;

use super::lists::{FOREIGN, count_note, failure, paint_lines, without_rows};
use super::paint::{Column, Paint, left, right, wrapped};
use crate::console::model::balances::{BalanceRow, balances};
use crate::console::model::server::Topic;
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

const COLUMNS: [Column<'static>; 4] = [
    left("ADDRESS", 10).rank(2),
    left("NETWORK", 8).open().rank(1),
    left("TOKEN", 7),
    right("AMOUNT", 14),
];

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let focused = model.focus == Pane::Balances;
    let rows = balances(&model.server);
    let failed = failure(model, paint, Topic::Balances);
    let note = count_note(rows.len(), failed);
    let inside = paint.pane(area, focused, "2 Balances", &note);
    if rows.is_empty() {
        return paint_lines(paint, inside, &without_balances(model, inside, failed));
    }
    let selected = focused.then(|| model.selected_row(Pane::Balances));
    let inside = unknown(&rows, selected, paint, inside);
    paint.table(inside, &COLUMNS, (rows.len(), selected), |index| {
        rows.get(index).map_or_else(Vec::new, cells)
    });
}

/// Returns the lines of a pane without balances. Shows the addresses to fund even if their balances are unknown.
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
            let token =
                if held.verified { held.symbol.clone() } else { quoted(&held.symbol, FOREIGN) };
            let amount = held.amount.clone().map(|amount| (amount, Role::Plain));
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

/// Draws the reason for an unknown amount at the bottom: that of the selected row, or else the first one. Returns the
/// area that is left.
fn unknown(
    rows: &[BalanceRow<'_>],
    selected: Option<usize>,
    paint: &mut Paint<'_>,
    inside: Rect,
) -> Rect {
    let here = selected.and_then(|index| rows.get(index));
    let mut reasons = here.into_iter().chain(rows).filter_map(BalanceRow::unknown_reason);
    let Some(why) = reasons.next() else { return inside };
    let again = if paint.old { "" } else { " r retries." };
    let room = usize::from(inside.width.saturating_sub(2));
    let lines = wrapped(&format!("! {why}{again}"), room, 2);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    // If there is no room for both, rows matter more than reasons.
    if height.saturating_add(3) > inside.height {
        return inside;
    }
    let table = Rect { height: inside.height.saturating_sub(height), ..inside };
    for (row, line) in (table.height..).zip(&lines) {
        paint.text(inside, 1, row, line, if paint.old { Role::Quiet } else { Role::Warn });
    }
    table
}
