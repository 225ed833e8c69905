//! The layout for each size of the terminal.

use ratatui::layout::{Constraint, Layout, Rect};

use crate::console::model::{Model, Pane};

/// Minimum width for two columns of panes.
const TWO_COLUMNS_WIDTH: u16 = 100;
/// Minimum width and height for three columns of panes.
const THREE_COLUMNS_SIZE: (u16, u16) = (180, 50);
/// Height of a card's preview with its border, in an area of fewer than [`TALL_ROWS_MIN`] rows.
const PREVIEW_HEIGHT: u16 = 8;
/// Height of the preview in an area of at least [`TALL_ROWS_MIN`] rows.
const TALL_PREVIEW_HEIGHT: u16 = 10;
const TALL_ROWS_MIN: u16 = 24;
/// Height of the preview in an area of at least [`WHOLE_ROWS_MIN`] rows. Most cards fit into it completely.
const WHOLE_PREVIEW_HEIGHT: u16 = 19;
const WHOLE_ROWS_MIN: u16 = 34;

#[derive(Debug)]
pub(super) struct Areas {
    pub(super) header: Rect,
    /// The tabs; `None` if all panes are shown.
    pub(super) tabs: Option<Rect>,
    /// Everything between header and bar.
    pub(super) body: Rect,
    pub(super) panes: Vec<(Pane, Rect)>,
    pub(super) preview: Option<Rect>,
    pub(super) bar: Rect,
    /// The command line, or the result of the last action.
    pub(super) bottom: Rect,
}

impl Areas {
    pub(super) fn of(model: &Model, whole: Rect) -> Self {
        let three = whole.width >= THREE_COLUMNS_SIZE.0 && whole.height >= THREE_COLUMNS_SIZE.1;
        let one = whole.width < TWO_COLUMNS_WIDTH;
        // If not all panes are shown, tabs with the names of all panes are drawn.
        let tabs = model.is_zoomed || !three;
        let [header, tab_line, body, bar, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(u16::from(tabs)),
            Constraint::Min(0),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(whole);
        let mut areas = Self {
            header,
            tabs: tabs.then_some(tab_line),
            body,
            panes: Vec::new(),
            preview: None,
            bar,
            bottom,
        };
        if model.is_zoomed {
            areas.panes.push((model.focus, body));
        } else if three {
            areas.three_columns(model);
        } else if one {
            areas.one_column(model);
        } else {
            areas.two_columns(model);
        }
        areas
    }

    fn one_column(&mut self, model: &Model) {
        if model.focus == Pane::Activity {
            self.panes.push((Pane::Activity, self.body));
            return;
        }
        let feed = if self.body.height >= 20 { 5 } else { 0 };
        let [main, below] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(feed)]).areas(self.body);
        self.with_preview(model, model.focus, main);
        if feed > 0 {
            self.panes.push((Pane::Activity, below));
        }
    }

    fn two_columns(&mut self, model: &Model) {
        let feed = (self.body.height / 4).max(5);
        let [upper, below] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(feed)]).areas(self.body);
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(60), Constraint::Percentage(40)])
                .areas(upper);
        let [balances, agents] =
            Layout::vertical([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(right);
        let main = match model.focus {
            Pane::Policies | Pane::Payments => model.focus,
            Pane::Approvals | Pane::Balances | Pane::Agents | Pane::Activity => Pane::Approvals,
        };
        self.with_preview(model, main, left);
        self.panes.push((Pane::Balances, balances));
        self.panes.push((Pane::Agents, agents));
        self.panes.push((Pane::Activity, below));
    }

    fn three_columns(&mut self, model: &Model) {
        let feed = self.body.height / 4;
        let [upper, below] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(feed)]).areas(self.body);
        let [left, middle, right] = Layout::horizontal([
            Constraint::Percentage(44),
            Constraint::Percentage(28),
            Constraint::Percentage(28),
        ])
        .areas(upper);
        let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
        let [balances, sent] = Layout::vertical(halves).areas(middle);
        let [agents, policies] = Layout::vertical(halves).areas(right);
        self.with_preview(model, Pane::Approvals, left);
        for (pane, area) in [
            (Pane::Balances, balances),
            (Pane::Payments, sent),
            (Pane::Agents, agents),
            (Pane::Policies, policies),
            (Pane::Activity, below),
        ] {
            self.panes.push((pane, area));
        }
    }

    /// Adds the main pane. If it is the queue and has room, also adds a preview of the selected card below it.
    fn with_preview(&mut self, model: &Model, pane: Pane, area: Rect) {
        let has_one = pane == Pane::Approvals && !model.server.queue.is_empty();
        if !has_one || area.height < PREVIEW_HEIGHT.saturating_add(6) {
            self.panes.push((pane, area));
            return;
        }
        let height = match area.height {
            WHOLE_ROWS_MIN.. => WHOLE_PREVIEW_HEIGHT,
            TALL_ROWS_MIN.. => TALL_PREVIEW_HEIGHT,
            _less => PREVIEW_HEIGHT,
        };
        let [list, preview] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(height)]).areas(area);
        self.panes.push((pane, list));
        self.preview = Some(preview);
    }
}
