//! The panes of agents, policies and sent payments.

use bursar_control::answers::HistoryRow;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::status::{AgentStatus, RequestStatus};
use bursar_core::text::quoted;
use ratatui::layout::Rect;

use super::paint::{Column, Paint, left, right, wrap};
use crate::console::model::List;
use crate::console::model::rows::short;
use crate::console::model::server::Topic;
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

/// Maximum number of characters that are shown of an unverified token's symbol, which is quoted.
pub(super) const FOREIGN_SYMBOL_CHARS_MAX: usize = 12;

/// Draws a pane with a table, or with a sentence if there are no rows.
fn list(
    model: &Model,
    paint: &mut Paint<'_>,
    area: Rect,
    (pane, topic): (Pane, Topic),
    (columns, empty): (&[Column<'_>], &str),
    mut row: impl FnMut(usize) -> Vec<(String, Role)>,
) {
    let focused = model.focus == pane;
    let shown = model.shown_rows(pane);
    let failed = failure(model, paint, topic);
    let note = count_note(shown.len(), failed);
    let inside = paint.pane(area, focused, &title(model, pane), &note);
    if shown.len() == 0 {
        let lines = match model.active_filter(List::Pane(pane)) {
            Some(_filter) => without_matches(inside),
            None => without_rows(inside, failed, empty),
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

/// Returns why the last query of a topic failed. Without an engine it returns `None`, because all data is old and
/// cannot be reloaded.
pub(super) fn failure<'m>(model: &'m Model, paint: &Paint<'_>, topic: Topic) -> Option<&'m str> {
    model.server.query_failures.get(&topic).map(String::as_str).filter(|_why| !paint.is_outdated)
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
        (Pane::Agents, Topic::Agents),
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
            let status = match (&agent.problem, agent.renewal_held) {
                (Some(_why), _) => "problem !".to_owned(),
                (None, true) => "renew !".to_owned(),
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
        (Pane::Policies, Topic::Policies),
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
/// Returns a payee with the operator's name for it.
pub(super) fn named(payee: &str, name: Option<&PayeeLabel>) -> String {
    let name = name.map(|name| format!("  {}", quoted(name.as_str(), usize::MAX)));
    format!("{payee}{}", name.unwrap_or_default())
}

fn recipient(row: &HistoryRow) -> String {
    let Some(trade) = &row.trade else {
        return named(row.host.as_ref().unwrap_or(&row.payee), row.payee_name.as_ref());
    };
    let symbol = quoted(&trade.symbol_out, FOREIGN_SYMBOL_CHARS_MAX);
    match (&row.step, &trade.amount_out) {
        (Some(step), _) => step.clone(),
        (None, Some(amount)) => format!("for {amount} {symbol}"),
        (None, None) => format!("for {symbol}"),
    }
}

pub(super) fn sent(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let sent = model.server.sent.as_deref().unwrap_or_default();
    let shift = model.zone().offset_at(sent.first().map_or("", |row| row.created.as_str()));
    let zone = shift.to_string();
    let columns = [
        left(&zone, 11).rank(2),
        left("ID", 8).rank(3),
        left("TO", 16).open().rank(1),
        right("AMOUNT", 14),
        left("STATUS", 8),
    ];
    list(model, paint, area, (Pane::Sent, Topic::Sent), (&columns, "No payments yet."), |index| {
        let Some(row) = sent.get(index) else { return Vec::new() };
        let amount = match (&row.amount, &row.symbol_text()) {
            (Some(amount), Some(symbol)) => format!("{amount} {symbol}"),
            _unknown => format!("{} units", row.amount_atomic),
        };
        let role = match row.status {
            RequestStatus::Verified | RequestStatus::Settled | RequestStatus::Executed => {
                Role::Good
            }
            RequestStatus::Refused | RequestStatus::Failed => Role::Alarm,
            RequestStatus::Pending | RequestStatus::AwaitingDevice => Role::Warn,
            RequestStatus::Executing
            | RequestStatus::Signed
            | RequestStatus::Submitted
            | RequestStatus::Refuted
            | RequestStatus::Denied
            | RequestStatus::NotSigned
            | RequestStatus::Expired => Role::Plain,
        };
        vec![
            (shift.day_and_minute(&row.created), Role::Quiet),
            (short(&row.id), Role::Quiet),
            (recipient(row), Role::Plain),
            (amount, Role::Strong),
            (row.status.text().to_owned(), role),
        ]
    });
}
