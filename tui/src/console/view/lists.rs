//! The panes of agents, policies and payments.

use bursar_control::answers::MandateStatus;
use bursar_core::codes::Code;
use bursar_core::status::AgentStatus;
use ratatui::layout::Rect;

use super::paint::{Column, Paint, left, right, wrap};
use crate::console::complete::with_hint;
use crate::console::model::List;
use crate::console::model::payments::{self, Outcome, PaymentRow};
use crate::console::model::rows::short;
use crate::console::model::server::{Server, Topic};
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

/// Draws a pane with a line `above`, if there is one, and a table, or a sentence if there are no rows.
fn list(
    model: &Model,
    paint: &mut Paint<'_>,
    area: Rect,
    (pane, topic, above): (Pane, Topic, Option<String>),
    (columns, empty): (&[Column<'_>], &str),
    mut row: impl FnMut(usize) -> Vec<(String, Role)>,
) {
    let focused = model.focus == pane;
    let shown = model.shown_rows(pane);
    let failed = failure(model, paint, topic);
    let note = count_note(shown.len(), failed.as_deref());
    let mut inside = paint.pane(area, focused, &title(model, pane), &note);
    if let Some(above) = above.filter(|_line| inside.height > 2) {
        paint.text(inside, 0, 0, &above, Role::Plain);
        inside = Rect {
            y: inside.y.saturating_add(1),
            height: inside.height.saturating_sub(1),
            ..inside
        };
    }
    if shown.len() == 0 {
        let lines = match model.active_filter(List::Pane(pane)) {
            Some(_filter) => without_matches(inside),
            None => without_rows(inside, failed.as_deref(), empty),
        };
        return paint_lines(paint, inside, &lines);
    }
    let selected = focused.then(|| model.selected_row(pane));
    paint.table(inside, columns, (shown.len(), selected), |place| {
        shown.index_at(place).map_or_else(Vec::new, &mut row)
    });
}

/// Returns the title of a pane: its number, its name and its filter.
pub(super) fn title(model: &Model, pane: Pane) -> String {
    let filter = model.active_filter(List::Pane(pane));
    let filter = filter.map_or_else(String::new, |filter| format!(" /{}", filter.text()));
    format!("{} {}{filter}", pane.number(), pane.title())
}

/// Returns the lines of a pane whose filter hides every row.
pub(super) fn without_matches(inside: Rect) -> Vec<(String, Role)> {
    let room = usize::from(inside.width.saturating_sub(2));
    let lines = wrap("No row matches the filter: esc shows all rows.", room, 0);
    lines.into_iter().map(|line| (line, Role::Quiet)).collect()
}

/// Returns why the last query of a topic failed. The header names the networks that do not answer.
pub(super) fn query_failure(server: &Server, topic: Topic) -> Option<String> {
    let fault = server.query_failures.get(&topic)?;
    let is_silence = fault.code == Code::ChainUnavailable && server.silent().next().is_some();
    Some(match is_silence {
        true => "A network does not answer: see the top line.".to_owned(),
        false => with_hint(fault),
    })
}

/// Returns why the last query of a topic failed. Without an engine it returns `None`, because all data is old and
/// cannot be reloaded.
pub(super) fn failure(model: &Model, paint: &Paint<'_>, topic: Topic) -> Option<String> {
    query_failure(&model.server, topic).filter(|_why| !paint.is_outdated)
}

/// Returns the note of a pane's title: its number of rows, and whether they are outdated.
pub(super) fn count_note(count: usize, failed: Option<&str>) -> String {
    match (count, failed) {
        (0, _) => String::new(),
        (count, None) => count.to_string(),
        (count, Some(_why)) => format!("{count}, old !  press r"),
    }
}

/// Returns the lines of a pane without rows: why the query failed, or `empty` if it did not fail.
pub(super) fn without_rows(inside: Rect, failed: Option<&str>, empty: &str) -> Vec<(String, Role)> {
    let (text, role) = match failed {
        Some(why) => (format!("{why} Press r to retry."), Role::Warn),
        None => (empty.to_owned(), Role::Quiet),
    };
    let room = usize::from(inside.width.saturating_sub(2));
    wrap(&text, room, 0).into_iter().map(|line| (line, role)).collect()
}

/// Draws lines in place of a table.
pub(super) fn paint_lines(paint: &mut Paint<'_>, inside: Rect, lines: &[(String, Role)]) {
    for (row, (line, role)) in (1..).zip(lines) {
        paint.text(inside, 1, row, line, *role);
    }
}

pub(super) fn agents(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let agents = model.server.agents.as_deref().unwrap_or_default();
    let first = agents.iter().find_map(|agent| agent.renews_at.as_deref());
    let shift = model.zone().offset_at(first.unwrap_or_default());
    let renews = format!("RENEWS {shift}");
    let width = u16::try_from(renews.len()).unwrap_or(0).max(11);
    let columns = [
        left("AGENT", 8).open(),
        left("CODE", 6).rank(1),
        left("STATUS", 10),
        right("TODAY", 10),
        left(&renews, width).rank(2),
    ];
    list(
        model,
        paint,
        area,
        (Pane::Agents, Topic::Agents, None),
        (&columns, "No agent is registered."),
        |index| {
            let Some(agent) = agents.get(index) else { return Vec::new() };
            let today = match &agent.daily_limit {
                Some(limit) => format!("{}/{limit}", agent.spent_today),
                None => "-".to_owned(),
            };
            let role = match agent.status {
                AgentStatus::Active => Role::Good,
                AgentStatus::Suspended => Role::Alarm,
                AgentStatus::Uncommissioned | AgentStatus::LimitReached => Role::Warn,
            };
            let stale = matches!(
                agent.mandate,
                Some(MandateStatus::Stale | MandateStatus::RetiredPublished)
            );
            let status = match (&agent.problem, agent.renewal_held) {
                (Some(_why), _) => "problem !".to_owned(),
                (None, true) => "renew !".to_owned(),
                (None, false) if stale => "mandate !".to_owned(),
                (None, false) => agent.status.text().to_owned(),
            };
            vec![
                (agent.name.clone(), Role::Plain),
                (agent.agent_id.clone(), Role::Quiet),
                (status, role),
                (today, Role::Plain),
                (
                    agent.renews_at.as_deref().map_or(String::new(), |at| shift.day_and_minute(at)),
                    Role::Quiet,
                ),
            ]
        },
    );
}

pub(super) fn policies(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let columns = [
        left("POLICY", 8).open(),
        right("A DAY", 9),
        right("A PAYMENT", 9).rank(2),
        right("AUTO BELOW", 10),
        right("AGENTS", 6).rank(3),
    ];
    list(
        model,
        paint,
        area,
        (Pane::Policies, Topic::Policies, None),
        (&columns, "There is no policy yet."),
        |index| {
            let policies = model.server.policies.as_ref();
            let Some(policy) = policies.and_then(|all| all.get(index)) else { return Vec::new() };
            let payments = &policy.payments;
            let amount = |text: &str| (text.to_owned(), Role::Plain);
            let auto = if payments.enabled { payments.auto_below.as_str() } else { "off" };
            vec![
                (policy.name.clone(), Role::Plain),
                amount(&payments.daily),
                amount(&payments.per_request),
                amount(auto),
                (policy.agents.to_string(), Role::Quiet),
            ]
        },
    );
}

/// Returns the host or payee of a payment, or the current step or the bought token of a trade.
pub(super) fn payments(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let rows = payments::rows(&model.server);
    let shift = model.zone().offset_at(rows.first().map_or("", PaymentRow::created));
    let zone = shift.to_string();
    let columns = [
        left(&zone, 11).rank(2),
        left("ID", 8).rank(5),
        left("AGENT", 10).rank(3),
        left("TO", 17).open().rank(1),
        right("AMOUNT", 14),
        left("STATE", 9),
        left("TRANSACTION", TRANSACTION_CHARS).rank(4),
    ];
    let sums = payments::sums_of_today(model.server.agents.as_deref());
    let source = (Pane::Payments, Topic::Payments, sums);
    list(model, paint, area, source, (&columns, "No payments yet."), |index| {
        let Some(row) = rows.get(index) else { return Vec::new() };
        let (state, outcome) = row.state();
        let role = match outcome {
            Outcome::Done => Role::Good,
            Outcome::Failed => Role::Alarm,
            Outcome::Waiting => Role::Warn,
            Outcome::Open => Role::Plain,
        };
        let hash = row.transaction().map_or(String::new(), short_hash);
        vec![
            (shift.day_and_minute(row.created()), Role::Quiet),
            (short(row.id()), Role::Quiet),
            (row.agent().to_owned(), Role::Plain),
            (row.recipient(), Role::Plain),
            (row.amount(), Role::Strong),
            (state.to_owned(), role),
            (hash, Role::Quiet),
        ]
    });
}

/// Number of columns of a shortened hash.
const TRANSACTION_CHARS: u16 = 13;

/// Shortens the hash of a transaction to its ends; the receipt shows it in full.
fn short_hash(hash: &str) -> String {
    match (hash.get(..8), hash.len().checked_sub(4).and_then(|end| hash.get(end..))) {
        (Some(begin), Some(end)) if hash.len() > 13 => format!("{begin}~{end}"),
        _short => hash.to_owned(),
    }
}
