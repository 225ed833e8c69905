//! The pending requests, and a preview of the selected card.

use bursar_control::answers::RequestAnswer;
use bursar_control::card_text;
use bursar_core::card::Card;
use bursar_core::status::RequestStatus;
use bursar_core::text::{Zone, quoted};
use ratatui::layout::Rect;

use super::card::{INDENT, rank, time_left_text, warning};
use super::lists::{paint_lines, query_failure, title, without_matches};
use super::paint::{Column, Paint, left as column, right, wrap};
use crate::console::model::payments::named;
use crate::console::model::queued::QueuedRequest;
use crate::console::model::rows::{ShownRows, short};
use crate::console::model::server::Topic;
use crate::console::model::{Connection, Model, Pane};
use crate::console::theme::Role;

/// Maximum time left of a request that is marked.
const SOON_MS_MAX: u64 = 300_000;
/// Maximum time left of a request that is marked as urgent.
const URGENT_MS_MAX: u64 = 60_000;
/// Time that each of the ten cells of a bar represents. A full bar is fifteen minutes.
const BAR_CELL_MS: u64 = 90_000;

const COLUMNS: &[Column<'static>] = &[
    column("ID", 8).rank(3),
    column("AGENT", 14).rank(1),
    column("WHAT", 16).open().rank(2),
    right("AMOUNT", 14),
    column("", 10).rank(4),
    right("TIME LEFT", 9),
];
/// Maximum number of characters that are shown of a venue's name.
const VENUE_CHARS_MAX: usize = 30;
/// The sign of a marked request.
const MARK: &str = "*";
/// Width of the column with the agent's name, if there is little room.
const AGENT_WIDTH_MIN: u16 = 10;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let focused = model.focus == Pane::Approvals;
    let held = model.server.pending(model.now_ms).count();
    let failed = model.server.query_failures.contains_key(&Topic::Requests) && !paint.is_outdated;
    let marked = match model.marks.len() {
        0 => String::new(),
        marked => format!("{marked} marked, "),
    };
    let note = match (held, failed, model.server.is_truncated) {
        (0, false, _) => String::new(),
        (held, true, _) => format!("{marked}{held} waiting, old !  press r"),
        (held, false, true) => format!("{marked}{held} waiting, and more not shown"),
        (held, false, false) => format!("{marked}{held} waiting"),
    };
    let inside = paint.pane(area, focused, &title(model, Pane::Approvals), &note);
    if model.server.queue.is_empty() {
        let room = usize::from(inside.width.saturating_sub(2));
        let mut row = 1;
        for (text, role) in empty_queue_lines(model) {
            for line in wrap(&text, room, 0) {
                paint.text(inside, 1, row, &line, role);
                row = row.saturating_add(1);
            }
        }
        return;
    }
    let shown = model.shown_rows(Pane::Approvals);
    if shown.len() == 0 {
        return paint_lines(paint, inside, &without_matches(inside));
    }
    paint_rows(model, paint, inside, &shown);
}

/// Returns the lines of an empty queue: problems that may be its cause, or the statement that no requests are waiting.
fn empty_queue_lines(model: &Model) -> Vec<(String, Role)> {
    if let Connection::Lost(_) = &model.connection {
        return vec![("Waiting requests are not known without an engine.".to_owned(), Role::Warn)];
    }
    let Some(status) = &model.server.status else { return Vec::new() };
    let mut lines = Vec::new();
    if let Some(why) = &status.failed {
        let text = format!(
            "Nothing is decided, because the journal could not be written: {why} Repair the disk, then restart the engine."
        );
        lines.push((text, Role::Alarm));
    } else if status.disk_full {
        let text = "Payments are refused: the disk of the data folder has less than 64 MiB free. Free some space.";
        lines.push((text.to_owned(), Role::Alarm));
    }
    if let Some(why) = &status.untrusted {
        lines.push((format!("{why} Check it with `:audit verify`."), Role::Alarm));
    }
    if let Some(first) = &status.refused_before {
        let text = format!(
            "Requests signed before {} are refused: a clock once showed a later date. See `:doctor`.",
            model.zone().moment(first)
        );
        lines.push((text, Role::Alarm));
    }
    if status.frozen {
        lines
            .push(("Every agent is frozen. `:thaw` lets them work again.".to_owned(), Role::Alarm));
    }
    if status.wallet.exists && status.wallet.locked {
        lines.push((
            "The wallet is locked: nothing is signed. Press u to open it.".to_owned(),
            Role::Warn,
        ));
    }
    if !status.server.running {
        lines.push(("The agent server is off: `:server start`.".to_owned(), Role::Warn));
    }
    if let Some(why) = query_failure(&model.server, Topic::Requests) {
        lines
            .push((format!("Waiting requests are not known: {why} Press r to retry."), Role::Warn));
    }
    if lines.is_empty() {
        lines.push(("No requests are waiting.".to_owned(), Role::Quiet));
    }
    lines
}

fn paint_rows(model: &Model, paint: &mut Paint<'_>, inside: Rect, shown: &ShownRows) {
    let (theme, old) = (paint.theme, paint.is_outdated);
    let mut columns = COLUMNS.to_vec();
    if inside.width < 80
        && let Some(agent) = columns.get_mut(1)
    {
        *agent = column("AGENT", AGENT_WIDTH_MIN).rank(1);
    }
    let has_marks = !model.marks.is_empty();
    if has_marks {
        columns.insert(0, column("", 1));
    }
    let selected = model.selected_row(Pane::Approvals);
    paint.table(inside, &columns, (shown.len(), Some(selected)), |index| {
        let waiting = shown.index_at(index).and_then(|index| model.server.queue.get(index));
        let Some(waiting) = waiting else { return Vec::new() };
        let request = &waiting.request;
        let (time, role) = match old && waiting.closed_reason(model.now_ms).is_none() {
            true => ("not known".to_owned(), Role::Quiet),
            false => time(waiting, model.now_ms),
        };
        let is_closed = waiting.closed_reason(model.now_ms).is_some();
        let plain = if is_closed { Role::Quiet } else { Role::Plain };
        let card = request.card.as_ref();
        let agent = card.map_or(request.agent_id.as_str(), |card| card.agent_name.as_str());
        let (what, amount) = subject(request, is_closed);
        let tenths = waiting.left_ms(model.now_ms).div_ceil(BAR_CELL_MS);
        let mark = if model.marks.contains_key(&request.id) { MARK } else { "" };
        let mark = has_marks.then(|| (mark.to_owned(), Role::Strong));
        let cells = [
            (short(&request.id), plain),
            (agent.to_owned(), plain),
            (what, plain),
            (amount, if is_closed { Role::Quiet } else { Role::Strong }),
            (if is_closed || old { String::new() } else { theme.bar(tenths) }, role),
            (time, role),
        ];
        mark.into_iter().chain(cells).collect()
    });
}

/// Returns the subject of a request (a payee, a bought token or a loan's action), and the amount that moves.
fn subject(request: &RequestAnswer, is_closed: bool) -> (String, String) {
    let (what, moves) = subject_of_lane(request);
    match &request.step {
        Some(step) if request.status == RequestStatus::AwaitingDevice && !is_closed => {
            (format!("LEDGER {step}: {what}"), moves)
        }
        Some(_) | None => (what, moves),
    }
}

fn subject_of_lane(request: &RequestAnswer) -> (String, String) {
    let card = request.card.as_ref();
    if let Some((loan, terms)) =
        card.and_then(|card| card.loan.as_ref().zip(card.terms.loan.as_ref()))
    {
        let name = quoted(&loan.venue_name, VENUE_CHARS_MAX);
        let way = if terms.action == "supply" { "lend to" } else { "take from" };
        return (format!("{way} {name}"), loan.moves.clone());
    }
    match card.and_then(|card| card.trade.as_ref()) {
        Some(trade) => (format!("for {}", trade.gets), trade.gives.clone()),
        None => {
            let what = request.domain.as_ref().unwrap_or(&request.payee);
            (
                named(what, request.payee_name.as_ref().map(|name| name.as_str())),
                request.summary.clone(),
            )
        }
    }
}

/// Formats the time left, with a sign in addition to the colour.
fn time(waiting: &QueuedRequest, now_ms: u64) -> (String, Role) {
    if let Some(closed) = waiting.closed_reason(now_ms) {
        return (closed.to_owned(), Role::Quiet);
    }
    let ms = waiting.left_ms(now_ms);
    if ms <= URGENT_MS_MAX {
        (format!("{} !!", time_left_text(ms)), Role::Alarm)
    } else if ms <= SOON_MS_MAX {
        (format!("{} ! ", time_left_text(ms)), Role::Warn)
    } else {
        (format!("{}   ", time_left_text(ms)), Role::Plain)
    }
}

/// Draws the selected card, or as much of it as fits.
pub(super) fn preview(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let selected = model.selected_index(Pane::Approvals);
    let waiting = selected.and_then(|index| model.server.queue.get(index));
    let card = waiting.and_then(|waiting| waiting.request.card.as_ref());
    let Some(card) = card else {
        paint.pane(area, false, "Card", "");
        return;
    };
    let room = usize::from(area.width.saturating_sub(4));
    let height = usize::from(area.height.saturating_sub(2));
    let closed = waiting.and_then(|waiting| waiting.closed_reason(model.now_ms));
    let (rows, is_whole) = fitting_rows(card, &model.zone(), (room, height), closed.is_some());
    let note = match is_whole || paint.is_outdated {
        true => card.policy.as_str().to_owned(),
        false => format!("{}, enter shows all", card.policy),
    };
    // A closed request must not look as if it could be decided.
    let state = closed.map_or_else(String::new, |closed| format!(", {closed}"));
    let title = format!("{} from {}{state}", card.id.short(), card.agent_name);
    let inside = paint.pane(area, false, &title, &note);
    for (row, (text, role)) in rows.iter().enumerate() {
        let role = if paint.is_outdated || closed.is_some() { Role::Quiet } else { *role };
        paint.text(inside, 1, u16::try_from(row).unwrap_or(u16::MAX), text, role);
    }
}

/// Returns the rows of a card, and whether all of them fit. If not, the most important rows come first.
fn fitting_rows(
    card: &Card,
    zone: &Zone,
    (room, height): (usize, usize),
    is_closed: bool,
) -> (Vec<(String, Role)>, bool) {
    // The text of a device is obsolete once the request has ended, and the frame shows the agent and the time left.
    let is_shown = |row: &card_text::Row| match row.name.as_str() {
        "expires" | "agent" => false,
        "device" => !is_closed,
        _other => true,
    };
    let mut rows: Vec<(u8, String, Role)> = Vec::new();
    for row in card_text::rows(card, Some(zone)).into_iter().filter(is_shown) {
        let (rank, role) = (rank(card, &row), role_of(card, &row));
        let pieces = wrap(&row.to_string(), room, INDENT);
        rows.extend(pieces.into_iter().map(|piece| (rank, piece, role)));
    }
    let is_whole = rows.len() <= height;
    if !is_whole {
        rows.sort_by_key(|(rank, _row, _role)| *rank);
    }
    (rows.into_iter().take(height).map(|(_rank, row, role)| (row, role)).collect(), is_whole)
}

fn role_of(card: &Card, row: &card_text::Row) -> Role {
    let is_strong = matches!(row.name.as_str(), "leaves" | "gives");
    warning(card, row).unwrap_or(if is_strong { Role::Strong } else { Role::Plain })
}
