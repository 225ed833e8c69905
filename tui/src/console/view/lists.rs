//! Balances, agents, policies and sent payments.

use bursar_control::answers::HistoryRow;
use bursar_core::status::{AgentStatus, RequestStatus};
use bursar_core::text::quoted;
use ratatui::layout::Rect;

use super::paint::{Column, Paint, left, right, wrapped};
use crate::console::model::rows::{self, short};
use crate::console::model::server::Topic;
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

/// Longest shown symbol of an unverified token, which is quoted.
const FOREIGN: usize = 12;

/// Draws a pane with a table, or with a sentence if there are no rows.
fn list(
    model: &Model,
    paint: &mut Paint<'_>,
    area: Rect,
    pane: Pane,
    (columns, empty): (&[Column<'_>], &str),
    row: impl FnMut(usize) -> Vec<(String, Role)>,
) {
    let focused = model.focus == pane;
    let count = model.row_count(pane);
    let failed = topic(pane).and_then(|topic| model.server.failed.get(&topic));
    // Without an engine all data is old and cannot be reloaded.
    let failed = failed.filter(|_why| !paint.old);
    let note = match (count, failed) {
        (0, _) => String::new(),
        (count, None) => count.to_string(),
        (count, Some(_why)) => format!("{count}, old !  r reloads"),
    };
    let title = format!("{} {}", pane.number(), pane.title());
    let inside = paint.pane(area, focused, &title, &note);
    if count == 0 {
        let (text, role) = match failed {
            Some(why) => (format!("{why} r retries."), Role::Warn),
            None => (empty.to_owned(), Role::Quiet),
        };
        let room = usize::from(inside.width.saturating_sub(2));
        let mut lines: Vec<(String, Role)> =
            wrapped(&text, room, 0).into_iter().map(|line| (line, role)).collect();
        if pane == Pane::Balances {
            // Show the addresses to fund even if their balances are unknown.
            for known in model.server.addresses.iter().flatten() {
                lines.push((String::new(), Role::Plain));
                lines.push((known.label.clone(), Role::Plain));
                lines.push((known.address.clone(), Role::Plain));
            }
        }
        for (row, (line, role)) in lines.iter().enumerate() {
            let row = u16::try_from(row).unwrap_or(u16::MAX).saturating_add(1);
            paint.text(inside, 1, row, line, *role);
        }
        return;
    }
    let selected = focused.then(|| model.selected_row(pane));
    let inside = if pane == Pane::Balances { unknown(model, paint, inside) } else { inside };
    paint.table(inside, columns, (count, selected), row);
}

/// Draws the reason for an unknown amount below the table: that of the selected row, or else the first one. Returns
/// the area left for the table.
fn unknown(model: &Model, paint: &mut Paint<'_>, inside: Rect) -> Rect {
    let known = rows::balances(&model.server);
    let selected = known.get(model.selected_row(Pane::Balances));
    let here = selected.filter(|_row| model.focus == Pane::Balances);
    let reasons = here.into_iter().chain(&known).filter_map(rows::BalanceRow::unknown_reason);
    let Some(why) = reasons.into_iter().next() else { return inside };
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

/// Returns the topic of a pane that [`list`] draws.
fn topic(pane: Pane) -> Option<Topic> {
    match pane {
        Pane::Balances => Some(Topic::Balances),
        Pane::Agents => Some(Topic::Agents),
        Pane::Policies => Some(Topic::Policies),
        Pane::Sent => Some(Topic::Sent),
        Pane::Approvals | Pane::Activity => None,
    }
}

pub(super) fn balances(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let known = rows::balances(&model.server);
    let empty =
        if model.server.balances.is_none() { "not known yet" } else { "There is no address yet." };
    let columns = [
        left("ADDRESS", 10).rank(2),
        left("NETWORK", 8).open().rank(1),
        left("TOKEN", 7),
        right("AMOUNT", 14),
    ];
    list(model, paint, area, Pane::Balances, (&columns, empty), |index| {
        let Some(row) = known.get(index) else { return Vec::new() };
        let origin =
            [(row.address.label.clone(), Role::Plain), (row.network.name.clone(), Role::Quiet)];
        let (token, amount, role) = match row.held {
            // An unknown amount is marked, because it is not zero.
            None => (String::new(), "unknown !".to_owned(), Role::Warn),
            Some(held) => {
                let token =
                    if held.verified { held.symbol.clone() } else { quoted(&held.symbol, FOREIGN) };
                match &held.amount {
                    Some(amount) => (token, amount.clone(), Role::Plain),
                    None => (token, "unknown !".to_owned(), Role::Warn),
                }
            }
        };
        origin.into_iter().chain([(token, Role::Plain), (amount, role)]).collect()
    });
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
    list(model, paint, area, Pane::Agents, (&columns, "No agent is registered."), |index| {
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
    });
}

pub(super) fn policies(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let columns = [
        left("POLICY", 8).open(),
        right("A DAY", 9),
        right("A PAYMENT", 9).rank(2),
        right("AUTO BELOW", 10),
        right("AGENTS", 6).rank(3),
    ];
    list(model, paint, area, Pane::Policies, (&columns, "There is no policy yet."), |index| {
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
    });
}

/// Returns where a payment went, or what a trade does or bought.
fn recipient(row: &HistoryRow) -> String {
    let Some(trade) = &row.trade else {
        return row.host.clone().unwrap_or_else(|| row.payee.clone());
    };
    let symbol = quoted(&trade.symbol_out, FOREIGN);
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
    list(model, paint, area, Pane::Sent, (&columns, "No payments yet."), |index| {
        let Some(row) = sent.get(index) else { return Vec::new() };
        let amount = match (&row.amount, &row.symbol) {
            (Some(amount), Some(symbol)) => format!("{amount} {symbol}"),
            _unknown => format!("{} units", row.amount_atomic),
        };
        let role = match row.status {
            RequestStatus::Verified | RequestStatus::Settled | RequestStatus::Executed => {
                Role::Good
            }
            RequestStatus::Refused | RequestStatus::Failed => Role::Alarm,
            RequestStatus::Pending => Role::Warn,
            RequestStatus::Executing
            | RequestStatus::Signed
            | RequestStatus::Submitted
            | RequestStatus::Refuted
            | RequestStatus::Denied
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
