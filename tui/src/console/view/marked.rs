//! Draws the card of one decision about marked requests.

use ratatui::layout::Rect;

use super::paint::{Paint, wrap};
use crate::console::model::marked::MarkedView;
use crate::console::model::overlay::Hint;
use crate::console::model::rows::short;
use crate::console::model::{Connection, Model};
use crate::console::theme::Role;

const WIDTH: u16 = 80;
/// Number of columns for the names of rows.
const INDENT: usize = 11;

/// The visible part of the card.
#[derive(Debug)]
pub(crate) struct VisibleMarked {
    /// Number of all rows.
    pub(crate) rows: usize,
    /// Number of rows that are shown at a time.
    pub(crate) shown: usize,
    /// The last scroll position.
    pub(crate) last: usize,
    /// The columns at which the rows are wrapped.
    pub(crate) width: usize,
}

fn width(body: Rect) -> usize {
    usize::from(WIDTH.min(body.width).saturating_sub(4))
}

/// Returns the lines of the card: a name, its text and its role.
fn lines(view: &MarkedView) -> Vec<(&'static str, String, Role)> {
    let selection = &view.selection;
    let agents = selection.agents();
    let named: Vec<String> = agents.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let what = if view.approve { "approves" } else { "denies" };
    let mut lines = vec![(what, count_text(selection.chosen.len(), agents.len()), Role::Strong)];
    if !named.is_empty() {
        lines.push(("agents", named.join(", "), Role::Plain));
    }
    let payees = selection.payees();
    if !payees.is_empty() {
        let named: Vec<String> =
            payees.iter().map(|(name, count)| format!("{name} {count}")).collect();
        lines.push(("to", named.join(", "), Role::Plain));
    }
    lines.extend(selection.plans().map(|plan| ("plan", plan.to_owned(), Role::Strong)));
    for sum in selection.sums() {
        lines.push(("sum", sum, Role::Strong));
    }
    if !selection.chosen.is_empty() {
        lines.push(("worth", format!("{} USD", selection.usd()), Role::Plain));
    }
    for (why, ids) in &selection.left_out {
        let ids: Vec<String> = ids.iter().map(|id| short(id)).collect();
        lines.push(("left out", format!("{}: {}", why.text(), ids.join(", ")), Role::Warn));
    }
    lines
}

fn count_text(requests: usize, agents: usize) -> String {
    let requests = match requests {
        0 => return "no request: all marked ones are left out".to_owned(),
        1 => "1 request".to_owned(),
        more => format!("{more} requests"),
    };
    match agents {
        1 => format!("{requests} of 1 agent"),
        more => format!("{requests} of {more} agents"),
    }
}

fn rows(view: &MarkedView, width: usize) -> Vec<(String, Role)> {
    let lines = lines(view).into_iter();
    let rows = lines.flat_map(|(name, text, role)| {
        let rows = wrap(&format!("{name:<INDENT$}{text}"), width, INDENT);
        rows.into_iter().map(move |row| (row, role))
    });
    rows.collect()
}

/// Returns the state of the decision, and the keys that count now.
fn state(model: &Model, view: &MarkedView, unseen: bool) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    if view.has_changed {
        let text = "The requests changed while the card was open: read it again.";
        lines.push((text.to_owned(), Role::Warn));
    }
    if let Some(fault) = &view.fault {
        lines.push((fault.clone(), Role::Alarm));
    }
    if let Some(value) = view.required_value() {
        let text = format!("Type the sum to approve them ({value}): [{:<12}]", view.typed_value);
        lines.push((text, Role::Strong));
    }
    let what = if view.approve { "approve" } else { "deny" };
    let (keys, role) = if model.connection != Connection::Up {
        ("no engine is connected: no decisions   esc closes".to_owned(), Role::Strong)
    } else if let Some(hint) = view.hint {
        let why = match hint {
            Hint::RowsUnseen => "not yet: scroll (j) to the end",
            other => other.text(),
        };
        (format!("{why}   esc not now"), Role::Alarm)
    } else if model.now_ms < view.armed_at_ms {
        ("y works in a moment   esc not now".to_owned(), Role::Strong)
    } else if view.selection.chosen.is_empty() {
        ("esc closes".to_owned(), Role::Strong)
    } else if view.approve && model.server.is_locked() {
        ("wallet locked: esc, then u opens it".to_owned(), Role::Strong)
    } else if view.approve && unseen {
        (format!("scroll (j) to the end, then y {what}   esc not now"), Role::Strong)
    } else {
        (format!("y {what}   esc not now"), Role::Strong)
    };
    lines.push((keys, role));
    lines
}

/// The rows of the state take this much space at most. A fixed size keeps the rows above in their places.
const STATE_ROWS: usize = 6;

pub(super) fn visible(view: &MarkedView, body: Rect) -> VisibleMarked {
    let width = width(body);
    let rows = rows(view, width).len();
    let room = usize::from(body.height.saturating_sub(2)).saturating_sub(STATE_ROWS).max(1);
    let shown = rows.min(room);
    VisibleMarked { rows, shown, last: rows.saturating_sub(shown), width }
}

pub(super) fn draw(model: &Model, view: &MarkedView, paint: &mut Paint<'_>, body: Rect) {
    let VisibleMarked { rows: count, shown, last, width } = visible(view, body);
    let what = if view.approve { "Approve" } else { "Deny" };
    let title = match view.selection.chosen.len() {
        0 => format!("Nothing to {}", what.to_lowercase()),
        1 => format!("{what} 1 request?"),
        more => format!("{what} {more} requests?"),
    };
    let note = if last > 0 { "j k scroll" } else { "" };
    let unseen = !view.seen.contain(count, width);
    let state = state(model, view, unseen).into_iter();
    let state = state.flat_map(|(text, role)| {
        wrap(&text, width, 0).into_iter().map(move |line| (line, role)).collect::<Vec<_>>()
    });
    let visible = rows(view, width).into_iter().skip(view.scroll.min(last)).take(shown);
    let blank = [(String::new(), Role::Plain)];
    let all: Vec<(String, Role)> = visible.chain(blank).chain(state).collect();
    let height = u16::try_from(all.len()).unwrap_or(u16::MAX).saturating_add(2);
    let inside = paint.dialog(body, (WIDTH, height), &title, note);
    for (row, (text, role)) in all.iter().enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, *role);
    }
}
