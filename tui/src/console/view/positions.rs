//! The lower part of the Balances pane: the positions of all addresses, then addresses whose positions could not be
//! read.

mod window;

use bursar_control::answers::{PositionAnswer, UnreadAnswer, VenueTrust};
use bursar_core::text::{quoted, visible};
use ratatui::layout::Rect;

use super::lists::{failure, query_failure};
use super::paint::{Paint, wrap};
use crate::console::model::Model;
use crate::console::model::balances::{HoldingRow, positions};
use crate::console::model::server::Topic;
use crate::console::theme::Role;
use crate::wording;
use window::window;

/// Maximum number of characters that are shown of a venue's name, which is quoted.
const VENUE_CHARS_MAX: usize = 40;
const LABEL_WIDTH: u16 = 10;
const TRUST_WIDTH: u16 = 7;
/// Columns by which the lines of a row after the first are indented.
const INDENT: u16 = 2;
/// The column head for the two amounts of a position, which are on two lines.
const AMOUNTS: &str = "WORTH/WITHDRAWABLE";
/// Maximum number of lines of a notice above rows.
const NOTICE_LINES_MAX: usize = 2;
/// Number of lines of a row without an obstacle.
const ROW_LINES: u16 = 2;

/// The rows of positions, laid out for one width.
pub(super) struct PositionsPart<'a> {
    rows: Vec<HoldingRow<'a>>,
    /// Lines about all rows, or lines in place of rows.
    notice: Vec<String>,
    notice_role: Role,
    width: u16,
    /// Width of the amounts.
    amounts: u16,
}

/// A piece of a line. It starts at column `at` and takes at most `width` columns.
struct Piece {
    at: u16,
    width: u16,
    text: String,
    role: Role,
}

impl<'a> PositionsPart<'a> {
    /// Lays out the rows for which `is_shown` is true, by their index among the positions.
    pub(super) fn of(
        model: &'a Model,
        paint: &Paint<'_>,
        width: u16,
        is_shown: impl Fn(usize) -> bool,
    ) -> Self {
        let rows = positions(&model.server).enumerate();
        let rows = rows.filter(|(index, _row)| is_shown(*index)).map(|(_index, row)| row);
        let rows: Vec<_> = rows.collect();
        let failed = failure(model, paint, Topic::Positions);
        let (text, notice_role) = notice(model, failed.as_deref(), rows.len());
        let room = usize::from(width.saturating_sub(INDENT));
        let mut notice = if text.is_empty() { Vec::new() } else { wrap(&text, room, 2) };
        if !rows.is_empty() {
            notice.truncate(NOTICE_LINES_MAX);
        }
        let amounts = rows.iter().map(|row| match row {
            HoldingRow::Position(row) => {
                let withdrawable = row.withdrawable.as_ref().map_or(0, |amount| amount.text.len());
                row.worth.text.len().max(withdrawable)
            }
            HoldingRow::Balance(_) | HoldingRow::Unread { .. } => 0,
        });
        let amounts = amounts.max().unwrap_or(0).max(AMOUNTS.len());
        Self {
            rows,
            notice,
            notice_role,
            width,
            amounts: u16::try_from(amounts).unwrap_or(u16::MAX).min(width),
        }
    }

    /// Returns whether there are no rows to select.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether the part contains nothing that the operator needs.
    pub(super) fn is_optional(&self) -> bool {
        self.rows.is_empty() && self.notice_role == Role::Quiet
    }

    /// Returns the height of the whole part. The count stops once it exceeds `enough`.
    pub(super) fn height(&self, enough: u16) -> u16 {
        let head = u16::from(!self.rows.is_empty());
        let mut height = cells(self.notice.len()).saturating_add(head);
        for index in 0..self.rows.len() {
            if height > enough {
                break;
            }
            height = height.saturating_add(self.row_height(index));
        }
        height
    }

    fn row_height(&self, index: usize) -> u16 {
        match self.rows.get(index) {
            Some(HoldingRow::Position(PositionAnswer { obstacle: None, .. })) => ROW_LINES,
            Some(row) => cells(self.lines(row).len()),
            None => 0,
        }
    }

    /// Draws as many rows as fit, such that the selected row is visible.
    pub(super) fn draw(&self, paint: &mut Paint<'_>, area: Rect, selected: Option<usize>) {
        let mut left = area;
        let mut top = |height: u16| {
            let rest = left.height.saturating_sub(height);
            // Rows matter more than the lines above them.
            if !self.rows.is_empty() && rest < ROW_LINES {
                return None;
            }
            let taken = Rect { height: height.min(left.height), ..left };
            left = Rect { y: left.y.saturating_add(taken.height), height: rest, ..left };
            Some(taken)
        };
        let head = if self.rows.is_empty() { None } else { top(1) };
        let notice = top(cells(self.notice.len()));
        if let Some(head) = head {
            paint.text(head, 0, 0, "POSITIONS", Role::Quiet);
            paint.text(head, LABEL_WIDTH.saturating_add(1), 0, "NETWORK", Role::Quiet);
            paint.right_text(head, 0, AMOUNTS, Role::Quiet);
        }
        if let Some(notice) = notice {
            let role = if paint.is_outdated { Role::Quiet } else { self.notice_role };
            for (row, line) in (0..).zip(&self.notice) {
                paint.text(notice, 1, row, line, role);
            }
        }
        let shown = window(self.rows.len(), selected.unwrap_or(0), left.height, |index| {
            self.row_height(index)
        });
        let mut at = 0u16;
        for index in shown {
            let Some(row) = self.rows.get(index) else { break };
            for line in self.lines(row) {
                for piece in line {
                    let x = left.x.saturating_add(piece.at);
                    let cell = Rect { x, width: piece.width, ..left };
                    // Outdated data has no colour.
                    let role = if paint.is_outdated { Role::Quiet } else { piece.role };
                    paint.text(cell, 0, at, &piece.text, role);
                }
                if selected == Some(index) {
                    paint.highlight(left, at);
                }
                at = at.saturating_add(1);
            }
        }
    }

    fn lines(&self, row: &HoldingRow<'_>) -> Vec<Vec<Piece>> {
        match row {
            HoldingRow::Position(row) => self.position(row),
            HoldingRow::Unread { unread, .. } => self.unread(unread),
            HoldingRow::Balance(_) => Vec::new(),
        }
    }

    fn position(&self, row: &PositionAnswer) -> Vec<Vec<Piece>> {
        let (trust, role) = trust(row.trust);
        let blocked = row.obstacle.is_some() || row.withdrawable.is_none();
        let withdrawable = row.withdrawable.as_ref().map_or("?", |amount| &amount.text);
        let after_label = LABEL_WIDTH.saturating_add(1);
        let after_trust = INDENT.saturating_add(TRUST_WIDTH).saturating_add(1);
        let mut lines = vec![
            vec![
                piece(0, LABEL_WIDTH, &row.label, Role::Plain),
                self.open_piece(after_label, &row.network, Role::Quiet),
                self.amount(&row.worth.text, Role::Plain),
            ],
            // The trust comes before the name, so that no name can imitate it.
            vec![
                piece(INDENT, TRUST_WIDTH, trust, role),
                self.open_piece(after_trust, &quoted(&row.name, VENUE_CHARS_MAX), Role::Plain),
                self.amount(withdrawable, if blocked { Role::Warn } else { Role::Plain }),
            ],
        ];
        if let Some(obstacle) = &row.obstacle {
            lines.extend(self.warning(INDENT, &format!("! nothing can be withdrawn: {obstacle}")));
        }
        lines
    }

    fn unread(&self, unread: &UnreadAnswer) -> Vec<Vec<Piece>> {
        let UnreadAnswer { label, network, reason } = unread;
        self.warning(0, &format!("! not read: {label} on {network}: {reason}"))
    }

    fn warning(&self, at: u16, text: &str) -> Vec<Vec<Piece>> {
        let width = self.width.saturating_sub(at);
        let lines = wrap(&visible(text), usize::from(width), usize::from(INDENT));
        lines.iter().map(|line| vec![piece(at, width, line, Role::Warn)]).collect()
    }

    /// Returns a piece that takes all columns before the amount.
    fn open_piece(&self, at: u16, text: &str, role: Role) -> Piece {
        let end = self.width.saturating_sub(self.amounts).saturating_sub(1);
        piece(at, end.saturating_sub(at), text, role)
    }

    fn amount(&self, text: &str, role: Role) -> Piece {
        let at = self.width.saturating_sub(self.amounts);
        let width = usize::from(self.amounts);
        piece(at, self.amounts, &format!("{text:>width$}"), role)
    }
}

fn piece(at: u16, width: u16, text: &str, role: Role) -> Piece {
    Piece { at, width, text: text.to_owned(), role }
}

fn cells(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Returns the text about all rows, or in place of rows; may be empty.
fn notice(model: &Model, failed: Option<&str>, rows: usize) -> (String, Role) {
    let server = &model.server;
    let same = || query_failure(server, Topic::Balances).as_deref() == failed;
    match (failed, &server.positions) {
        // The balances show the same reason.
        (Some(_why), _) if same() => (String::new(), Role::Quiet),
        (Some(why), Some(_)) if rows > 0 => {
            (format!("! These positions are old: {why} Press r to retry."), Role::Warn)
        }
        (Some(why), _) => {
            (format!("! Positions are not known: {why} Press r to retry."), Role::Warn)
        }
        (None, None) if server.balances.as_ref().is_some_and(|known| !known.is_empty()) => {
            ("Positions are not known yet.".to_owned(), Role::Quiet)
        }
        (None, Some(known)) if rows == 0 && known.read > 0 => {
            ("No position in a venue that Bursar knows.".to_owned(), Role::Quiet)
        }
        (None, _) => (String::new(), Role::Quiet),
    }
}

fn trust(trust: VenueTrust) -> (&'static str, Role) {
    let role = match trust {
        VenueTrust::Curated | VenueTrust::Pinned | VenueTrust::Confirmed => Role::Good,
        VenueTrust::New => Role::Warn,
        VenueTrust::Changed | VenueTrust::Refused => Role::Alarm,
    };
    (wording::trust(trust), role)
}
