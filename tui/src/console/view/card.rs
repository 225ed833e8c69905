//! The card of one request: what leaves, to whom, why it waits. Decoded by the engine; the same lines as
//! on the command line.

use bursar_core::card::Card;
use bursar_core::text::countdown;
use ratatui::layout::Rect;

use super::paint::{Paint, wrapped};
use crate::console::model::overlay::CardView;
use crate::console::model::{Connection, Model};
use crate::console::theme::Role;

/// Wide enough for an address behind its name, and for a digest.
const WIDTH: u16 = 80;
/// Names of rows take so much.
pub(super) const INDENT: usize = 11;

/// Rows of the card and of where the decision stands, each with how well it can be missed.
fn groups(model: &Model, view: &CardView, body: Rect) -> Vec<(u8, Vec<(String, Role)>)> {
    let waiting = model.server.waiting(&view.id);
    let closed = waiting.map_or(Some("gone"), |waiting| waiting.closed(model.now_ms));
    let room = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let mut groups: Vec<(u8, Vec<(String, Role)>)> = Vec::new();
    for line in view.card.lines() {
        // The head and the end of the hold stand in the frame.
        if line.starts_with("expires ") {
            continue;
        }
        let plain = match line.split(' ').next().unwrap_or_default() {
            "leaves" | "to" => Role::Strong,
            "held" => Role::Warn,
            "card" => Role::Quiet,
            _other => Role::Plain,
        };
        let role = match closed {
            Some(_over) => Role::Quiet,
            None => warning(&view.card, &line).unwrap_or(plain),
        };
        let lines = wrapped(&line, room, INDENT).into_iter().map(|line| (line, role));
        // What warns stays.
        let rank = if role == Role::Warn { 0 } else { dispensable(&line) };
        groups.push((rank, lines.collect()));
    }
    groups.push((10, vec![(String::new(), Role::Plain)]));
    for (text, role) in state(model, view, closed) {
        let lines = wrapped(&text, room, 0).into_iter().map(|line| (line, role));
        groups.push((0, lines.collect()));
    }
    groups
}

/// Whether all that a decision needs can be shown.
pub(super) fn is_whole(model: &Model, view: &CardView, body: Rect) -> bool {
    let needed = groups(model, view, body).into_iter().filter(|(rank, _lines)| *rank == 0);
    let rows: usize = needed.map(|(_rank, lines)| lines.len()).sum();
    rows <= usize::from(body.height.saturating_sub(2))
}

pub(super) fn draw(model: &Model, view: &CardView, paint: &mut Paint<'_>, body: Rect) {
    let waiting = model.server.waiting(&view.id);
    let now_ms = model.now_ms;
    let closed = waiting.map_or(Some("gone"), |waiting| waiting.closed(now_ms));
    let mut groups = groups(model, view, body);
    let mut hidden = 0usize;
    // On a small screen the rows that a decision needs least go first.
    let space = usize::from(body.height.saturating_sub(2));
    while groups.iter().map(|(_rank, lines)| lines.len()).sum::<usize>() > space {
        let most = groups.iter().map(|(rank, _lines)| *rank).max().unwrap_or(0);
        let Some(place) = groups.iter().rposition(|(rank, _)| *rank == most && most > 0) else {
            break;
        };
        let (rank, lines) = groups.remove(place);
        // The blank row says nothing.
        hidden = hidden.saturating_add(if rank < 10 { lines.len() } else { 0 });
    }
    let rows: Vec<(String, Role)> = groups.into_iter().flat_map(|(_rank, lines)| lines).collect();
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2);
    let narrow = body.width < WIDTH;
    let title = match narrow {
        true => format!("Request {} of {}", view.card.id.short(), view.card.agent_name),
        false => format!("Request {}", view.card.id.short()),
    };
    let note = match (closed, waiting) {
        (Some(over), _) => over.to_owned(),
        (None, Some(waiting)) if narrow => format!("{} left", left(waiting.left_ms(now_ms))),
        (None, Some(waiting)) => format!("expires in {}", left(waiting.left_ms(now_ms))),
        (None, None) => String::new(),
    };
    let note = match hidden {
        0 => note,
        hidden if narrow => format!("{hidden} hidden, {note}"),
        hidden => format!("{hidden} rows hidden, {note}"),
    };
    let inside = paint.dialog(body, (WIDTH, height), &title, &note);
    for (row, (text, role)) in rows.iter().enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, *role);
    }
}

/// What speaks against a payment stands out, on the card and in its preview.
pub(super) fn warning(card: &Card, line: &str) -> Option<Role> {
    match line.split(' ').next().unwrap_or_default() {
        "refused" => Some(Role::Alarm),
        "payee" if card.is_stranger() => Some(Role::Warn),
        "balance" if card.is_short() => Some(Role::Warn),
        _other => None,
    }
}

/// How well a row of the card can be missed; 0 cannot.
fn dispensable(line: &str) -> u8 {
    match line.split(' ').next().unwrap_or_default() {
        "leaves" | "to" | "refused" | "held" | "today" => 0,
        "payee" => 1,
        "request" => 2,
        "balance" => 3,
        "from" => 4,
        "policy" => 5,
        "resource" => 6,
        "valid" => 7,
        "token" => 8,
        "card" => 9,
        _head => 5,
    }
}

/// Where the decision stands, and which keys count now.
fn state(model: &Model, view: &CardView, closed: Option<&str>) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    if let Some(over) = closed {
        lines.push((format!("Nothing can be decided any more: {over}."), Role::Warn));
        lines.push(("esc closes".to_owned(), Role::Strong));
        return lines;
    }
    if view.changed {
        lines.push(("The card changed while it was open: read it again.".to_owned(), Role::Warn));
    }
    if let Some(fault) = &view.fault {
        lines.push((fault.clone(), Role::Alarm));
    }
    if view.card.type_amount && view.card.obstacle.is_none() && !model.setup.observe {
        lines.push((
            format!("Type the amount to approve, {}: [{:<12}]", view.card.usd, view.typed),
            Role::Strong,
        ));
    }
    let keys = if model.setup.observe {
        "observing: nothing can be decided here   esc closes".to_owned()
    } else if model.connection != Connection::Up {
        "no engine is connected: nothing can be decided   esc closes".to_owned()
    } else if view.sent {
        "sent, waiting for the engine …".to_owned()
    } else if model.now_ms < view.armed_at_ms {
        "y and n count in a moment   esc not now".to_owned()
    } else if view.card.obstacle.is_some() {
        "n deny   esc not now   (it cannot be approved)".to_owned()
    } else if view.card.type_amount {
        "then y approves   n deny   esc not now   (Enter does nothing)".to_owned()
    } else {
        "y approve   n deny   esc not now   (Enter does nothing)".to_owned()
    };
    lines.push((keys, Role::Strong));
    lines
}

/// Minutes and seconds until the end; the second in which it ends is still shown as one.
pub(super) fn left(left_ms: u64) -> String {
    countdown(left_ms.div_ceil(1_000))
}
