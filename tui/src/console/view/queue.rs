//! The requests that wait, and the card of the selected one in short.

use bursar_core::card::Card;
use ratatui::layout::Rect;

use super::card::{INDENT, left, warning};
use super::paint::{Column, Paint, left as column, right, wrapped};
use crate::console::model::rows::short;
use crate::console::model::server::{Topic, Waiting};
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

/// From so much time on it is said that there is little.
const SOON_MS: u64 = 300_000;
const NOW_MS: u64 = 60_000;
/// One cell of a bar: a tenth of a hold of fifteen minutes.
const CELL_MS: u64 = 90_000;

const COLUMNS: &[Column] = &[
    column("ID", 8),
    column("AGENT", 14),
    column("WHAT", 0),
    right("AMOUNT", 18),
    column("", 10),
    right("TIME LEFT", 9),
];
/// Where there is little room: no bar.
const NARROW: &[Column] = &[
    column("ID", 8),
    column("AGENT", 10),
    column("WHAT", 0),
    right("AMOUNT", 16),
    right("TIME LEFT", 9),
];

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let focused = model.focus == Pane::Approvals;
    let held = model.server.held(model.now_ms).count();
    let failed = model.server.failed.get(&Topic::Requests);
    let note = match (held, failed, model.server.cut) {
        (0, None, _) => String::new(),
        (held, Some(_why), _) => format!("{held} waiting, old !  r reads anew"),
        (held, None, true) => format!("{held} waiting, and more that do not fit here"),
        (held, None, false) => format!("{held} waiting"),
    };
    let inside = paint.frame(area, focused, "1 Approvals", &note);
    let queue = &model.server.queue;
    if queue.is_empty() {
        let room = usize::from(inside.width.saturating_sub(2));
        let mut row = 1;
        for (text, role) in standing(model) {
            for line in wrapped(&text, room, 0) {
                paint.text(inside, 1, row, &line, role);
                row = row.saturating_add(1);
            }
        }
        return;
    }
    let narrow = inside.width < 80;
    let selected = Some(model.selected_row(Pane::Approvals));
    let columns = if narrow { NARROW } else { COLUMNS };
    paint_rows(model, paint, inside, columns, (queue.len(), selected), narrow);
}

/// Why nobody asks, where there is a reason.
fn standing(model: &Model) -> Vec<(String, Role)> {
    let Some(status) = &model.server.status else { return Vec::new() };
    let mut lines = Vec::new();
    if let Some(why) = &status.untrusted {
        lines.push((format!("{why} `:audit verify` looks into it."), Role::Alarm));
    }
    if status.frozen {
        lines
            .push(("Every agent is frozen. `:thaw` lets them work again.".to_owned(), Role::Alarm));
    }
    if status.wallet.exists && status.wallet.locked {
        lines.push(("The wallet is locked: nothing is signed. u opens it.".to_owned(), Role::Warn));
    }
    if !status.server.running {
        lines.push(("No agent is heard: `:server start`.".to_owned(), Role::Warn));
    }
    lines.push(("Nothing waits for you.".to_owned(), Role::Quiet));
    lines
}

fn paint_rows(
    model: &Model,
    paint: &mut Paint<'_>,
    inside: Rect,
    columns: &[Column],
    rows: (usize, Option<usize>),
    narrow: bool,
) {
    let theme = paint.theme;
    paint.table(inside, columns, rows, |place| {
        let Some(waiting) = model.server.queue.get(place) else { return Vec::new() };
        let request = &waiting.request;
        let (time, role) = time(waiting, model.now_ms);
        let over = waiting.closed(model.now_ms).is_some();
        let plain = if over { Role::Quiet } else { Role::Plain };
        let name = request.card.as_ref().map_or(&request.agent_id, |_card| &request.agent_id);
        let agent = request
            .card
            .as_ref()
            .map_or_else(|| name.clone(), |card| card.agent_name.as_str().to_owned());
        let what = request.domain.clone().unwrap_or_else(|| request.payee.clone());
        let mut cells = vec![
            (short(&request.id), plain),
            (agent, plain),
            (what, plain),
            (request.amount.clone(), if over { Role::Quiet } else { Role::Strong }),
        ];
        if !narrow {
            let tenths = waiting.left_ms(model.now_ms).div_ceil(CELL_MS);
            cells.push((if over { String::new() } else { theme.bar(tenths) }, role));
        }
        cells.push((time, role));
        cells
    });
}

/// The time that is left, with a sign beside the colour.
fn time(waiting: &Waiting, now_ms: u64) -> (String, Role) {
    if let Some(over) = waiting.closed(now_ms) {
        return (over.to_owned(), Role::Quiet);
    }
    let ms = waiting.left_ms(now_ms);
    if ms <= NOW_MS {
        (format!("{} !!", left(ms)), Role::Alarm)
    } else if ms <= SOON_MS {
        (format!("{} ! ", left(ms)), Role::Warn)
    } else {
        (format!("{}   ", left(ms)), Role::Plain)
    }
}

/// The first rows of the selected card.
pub(super) fn preview(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let waiting = model.server.queue.get(model.selected_row(Pane::Approvals));
    let card = waiting.and_then(|waiting| waiting.request.card.as_ref());
    let Some(card) = card else {
        paint.frame(area, false, "Card", "");
        return;
    };
    let title = format!("{} from {}", card.id.short(), card.agent_name);
    let inside = paint.frame(area, false, &title, card.policy.as_str());
    let wanted = ["leaves", "to ", "payee", "request", "held", "today", "balance", "refused"];
    let room = usize::from(inside.width.saturating_sub(2));
    let all = card.lines();
    let whole: Vec<String> = all
        .iter()
        .filter(|line| !line.starts_with("expires "))
        .flat_map(|line| wrapped(line, room, INDENT))
        .collect();
    if whole.len() <= usize::from(inside.height) {
        let mut role = Role::Plain;
        for (row, line) in whole.iter().enumerate() {
            if !line.starts_with(' ') {
                role = role_of(card, line);
            }
            paint.text(inside, 1, u16::try_from(row).unwrap_or(u16::MAX), line, role);
        }
        return;
    }
    let lines = all.iter().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    let mut lines: Vec<&String> = lines.collect();
    // What stands against it is the last row that may be missing.
    if usize::from(inside.height) < lines.len()
        && let Some(refused) = lines.iter().position(|line| line.starts_with("refused"))
    {
        let line = lines.remove(refused);
        lines.insert(0, line);
    }
    let role = |line: &str| role_of(card, line);
    // Then go those that a decision needs least, unless they warn.
    for least in ["balance", "payee", "request"] {
        if usize::from(inside.height) < lines.len() {
            lines.retain(|line| !line.starts_with(least) || role(line) == Role::Warn);
        }
    }
    for (row, line) in lines.into_iter().enumerate() {
        paint.text(inside, 1, u16::try_from(row).unwrap_or(u16::MAX), line, role(line));
    }
}

fn role_of(card: &Card, line: &str) -> Role {
    let plain = if line.starts_with("leaves ") { Role::Strong } else { Role::Plain };
    warning(card, line).unwrap_or(plain)
}
