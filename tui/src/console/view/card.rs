//! Draws the card of one request: the amount, the payee, and why the request is held. The engine creates the card,
//! and one-shot commands show the same lines. If the lines do not fit, the most important come first, and the card
//! scrolls. The state of the decision is always visible.

mod state;
mod visibility;

use bursar_control::card_text;
use bursar_core::card::Card;
use bursar_core::risk::Level;
use bursar_core::text::{Zone, countdown};
use ratatui::layout::Rect;

pub(crate) use self::visibility::{UnseenRows, VisibleRows};
use super::paint::{Paint, wrap};
use crate::console::model::overlay::{CardView, RowKey};
use crate::console::model::{Connection, Model};
use crate::console::theme::Role;

/// Width of a card. It is enough for a row with an address, and for a digest.
const WIDTH: u16 = 80;
/// Number of columns for the names of rows.
pub(super) const INDENT: usize = 11;

/// The rank of warnings, which are drawn right after the payment itself.
const WARNING_RANK: u8 = 1;
/// The highest rank of rows that must have been visible before an approval counts.
const NEEDED_RANK_MAX: u8 = 2;

struct Row {
    key: RowKey,
    text: String,
    role: Role,
    /// The importance of the row: the lowest rank matters most.
    rank: u8,
}

impl Row {
    fn is_needed(&self) -> bool {
        self.rank <= NEEDED_RANK_MAX
    }
}

struct Layout {
    rows: Vec<Row>,
    /// The state of the decision, always visible.
    state: Vec<(String, Role)>,
    /// Number of the card's rows that are shown at a time.
    visible_count: usize,
    width: usize,
    unseen: Option<UnseenRows>,
}

impl Layout {
    fn last_scroll(&self) -> usize {
        self.rows.len().saturating_sub(self.visible_count)
    }

    fn visible_rows(&self, view: &CardView) -> impl Iterator<Item = &Row> {
        self.rows.iter().skip(view.scroll.min(self.last_scroll())).take(self.visible_count)
    }
}

fn layout(model: &Model, view: &CardView, body: Rect) -> Layout {
    let waiting = model.server.find_queued(&view.id);
    let closed = waiting.map_or(Some("gone"), |waiting| waiting.closed_reason(model.now_ms));
    let width = usize::from(WIDTH.min(body.width).saturating_sub(4));
    let mut rows = card_rows(view, &model.zone(), width, closed.is_some());
    let fits = |lines: &[(String, Role)]| -> Vec<(String, Role)> {
        let broken = |(text, role): &(String, Role)| {
            wrap(text, width, 0).into_iter().map(|line| (line, *role)).collect::<Vec<_>>()
        };
        lines.iter().flat_map(broken).collect()
    };
    let unseen = find_unseen(view, width, &rows);
    let mut state = state::lines(model, view, closed, unseen.as_ref());
    if model.setup.is_sealed() {
        // The card opened by itself.
        state.iter_mut().for_each(|(text, _role)| *text = text.replace("esc not now", "esc later"));
    }
    let mut state = fits(&state);
    let room = usize::from(body.height.saturating_sub(2));
    if rows.len().saturating_add(state.len()) < room {
        // An empty line separates the state from the rows, if there is room.
        state.insert(0, (String::new(), Role::Plain));
    }
    let space = room.saturating_sub(state.len()).max(1);
    if rows.len() > space {
        rows.sort_by_key(|row| row.rank);
    }
    Layout { rows, state, visible_count: space, width, unseen }
}

fn find_unseen(view: &CardView, width: usize, rows: &[Row]) -> Option<UnseenRows> {
    // If not all rows fit, they are drawn in the order of their ranks.
    let missing =
        || rows.iter().filter(|row| row.is_needed() && !view.was_visible(width, &row.key));
    let next = missing().min_by_key(|row| (row.rank, row.key))?;
    let before = rows.iter().filter(|row| (row.rank, row.key) < (next.rank, next.key)).count();
    let above = before < view.scroll;
    let to = if above { next } else { missing().max_by_key(|row| (row.rank, row.key))? };
    // The name of a wrapped row is in its first piece.
    let (line, _piece) = to.key;
    let named = rows.iter().find(|row| row.key == (line, 0)).unwrap_or(to);
    Some(UnseenRows { above, target_row: name_of(&named.text).to_owned() })
}

fn card_rows(view: &CardView, zone: &Zone, width: usize, is_over: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (line, row) in card_text::rows(&view.card, Some(zone)).into_iter().enumerate() {
        let plain = match row.name.as_str() {
            // The frame shows the time left.
            "expires" => continue,
            "leaves" | "to" | "gives" | "gets" => Role::Strong,
            "held" => Role::Warn,
            "card" => Role::Quiet,
            _other => Role::Plain,
        };
        let role = match is_over {
            true => Role::Quiet,
            false => warning(&view.card, &row).unwrap_or(plain),
        };
        let rank = rank(&view.card, &row);
        let pieces = wrap(&row.to_string(), width, INDENT).into_iter().enumerate();
        rows.extend(pieces.map(|(piece, text)| Row { key: (line, piece), text, role, rank }));
    }
    rows
}

pub(super) fn visible_rows(model: &Model, view: &CardView, body: Rect) -> VisibleRows {
    let layout = layout(model, view, body);
    VisibleRows {
        rows: layout.visible_rows(view).map(|row| row.key).collect(),
        last: layout.last_scroll(),
        width: layout.width,
    }
}

/// Returns where the unseen rows are that an approval needs; `None` if there are none.
pub(super) fn next_unseen(model: &Model, view: &CardView, body: Rect) -> Option<UnseenRows> {
    layout(model, view, body).unseen
}

pub(super) fn draw(model: &Model, view: &CardView, paint: &mut Paint<'_>, body: Rect) {
    let layout = layout(model, view, body);
    let all = layout.rows.len();
    let shown = all.min(layout.visible_count);
    let height = u16::try_from(shown.saturating_add(layout.state.len())).unwrap_or(u16::MAX);
    let first = view.scroll.min(layout.last_scroll());
    let position = match all > shown {
        true => {
            let (from, to) = (first.saturating_add(1), first.saturating_add(shown));
            format!("rows {from}-{to} of {all}, ")
        }
        false => String::new(),
    };
    let note = format!("{position}{}", time_note(model, view));
    let id = view.card.id.short();
    let title = if view.opened_to_deny { format!("Deny {id}?") } else { format!("Request {id}") };
    let inside = paint.dialog(body, (WIDTH, height.saturating_add(2)), &title, &note);
    let rows = layout.visible_rows(view).map(|row| (&row.text, row.role));
    let rows = rows.chain(layout.state.iter().map(|(text, role)| (text, *role)));
    for (row, (text, role)) in rows.enumerate() {
        paint.text(inside, 0, u16::try_from(row).unwrap_or(u16::MAX), text, role);
    }
}

fn time_note(model: &Model, view: &CardView) -> String {
    let Some(waiting) = model.server.find_queued(&view.id) else { return "gone".to_owned() };
    if matches!(model.connection, Connection::Lost(_)) {
        return "old".to_owned();
    }
    match waiting.closed_reason(model.now_ms) {
        Some(closed) => closed.to_owned(),
        None => format!("expires in {}", time_left_text(waiting.left_ms(model.now_ms))),
    }
}

/// Returns the role of a row that warns of the request; `None` for any other row.
pub(super) fn warning(card: &Card, row: &card_text::Row) -> Option<Role> {
    let waits = card.device.as_ref().is_some_and(|device| !device.is_prompting);
    match (row.level, row.name.as_str()) {
        (Level::Danger, _) | (_, "refused" | "emulator") => Some(Role::Alarm),
        (Level::Warning, _) => Some(Role::Warn),
        (Level::Note, "device") if waits => Some(Role::Warn),
        (Level::Note, _) => None,
    }
}

fn name_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Returns the rank of a row: rows with the lowest rank matter most. An unknown row has the rank [`NEEDED_RANK_MAX`].
pub(super) fn rank(card: &Card, row: &card_text::Row) -> u8 {
    match row.name.as_str() {
        _warns if warning(card, row).is_some() => WARNING_RANK,
        "agent" | "held" | "leaves" | "to" | "gives" | "gets" | "at" | "at least" | "lends"
        | "withdraws" | "venue" => 0,
        "lent" | "device" => 1,
        "balance" => 3,
        "from" | "address" => 4,
        "policy" => 5,
        "resource" => 6,
        "valid" => 7,
        "token" | "token in" | "token out" if card.asset.is_none() => 8,
        "card" => 10,
        // The head of the card, which the frame repeats.
        name if name.starts_with(&card.id.short()) => 9,
        _needed => NEEDED_RANK_MAX,
    }
}

/// Formats the time left in minutes and seconds, rounded up to a whole second.
pub(super) fn time_left_text(left_ms: u64) -> String {
    countdown(left_ms.div_ceil(1_000))
}
