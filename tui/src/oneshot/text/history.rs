//! Past requests.

use bursar_control::answers::{ExportAnswer, HistoryAnswer, HistoryRow, LoanAnswer, TradeAnswer};
use bursar_core::limits::HISTORY_ROWS_MAX;
use bursar_core::status::RequestStatus;

use super::request::short;
use crate::oneshot::sheet::{Sheet, quote_foreign, quote_shell_word};
use crate::wording;

/// Prints whole addresses and hashes on separate lines, because others can imitate a shortened address or hash.
pub(super) fn history(to: &mut Sheet, history: &HistoryAnswer) {
    let Some(newest) = history.requests.first() else {
        return to.line("No request matches.");
    };
    for request in &history.requests {
        row(to, request);
    }
    if history.requests.iter().any(|request| request.status == RequestStatus::Signed) {
        to.blank();
        to.line("Signed payments count as spent: the merchant can still redeem the signature.");
    }
    if history.more {
        let count = history.requests.len().saturating_mul(5).min(HISTORY_ROWS_MAX);
        to.next(
            "Older requests",
            &format!("repeat with --limit {count}   all requests: bursar history export <file>"),
        );
    }
    to.next("See one in full with", &format!("bursar receipt {}", short(&newest.id)));
}

fn row(to: &mut Sheet, request: &HistoryRow) {
    let HistoryRow { id, created, ended, status, agent_id, agent, payee, host, tx_hash, .. } =
        request;
    let (amount, token) = match (&request.amount.coins, &request.symbol_text()) {
        (Some(amount), Some(symbol)) => {
            let is_named = !request.is_foreign() || *symbol == request.asset;
            (format!("{amount} {symbol}"), (!is_named).then_some(&request.asset))
        }
        _unknown => (format!("{} units", request.amount.atoms), Some(&request.asset)),
    };
    let (agent, status) = (agent.as_ref().unwrap_or(agent_id), wording::status(*status));
    let step = request.step.as_ref().map_or(String::new(), |step| format!(" ({step})"));
    to.line(&format!("{}  {created}  {status:<9}{step}  {amount}  {agent}", short(id)));
    if let Some(token) = token {
        to.line(&format!("          of {token}"));
    }
    match (&request.trade, &request.loan) {
        (None, Some(loan)) => print_loan(to, loan),
        (None, None) => {
            let host = host
                .as_ref()
                .map_or(String::new(), |host| format!("  host {}", quote_foreign(host)));
            let name = request.payee_name.as_ref();
            let name =
                name.map_or(String::new(), |name| format!("  {}", quote_foreign(name.as_str())));
            to.line(&format!("          to {payee}{name}{host}"));
        }
        (Some(trade), _) => print_trade(to, trade),
    }
    if let Some(ended) = ended {
        to.line(&format!("          {status} at {ended}"));
    }
    if let Some(hash) = tx_hash {
        to.line(&format!("          tx {hash}"));
    }
    if let Some(why) = &request.refused {
        // The reason contains our own words and the name of a policy. The operator's own reason is quoted in it.
        to.line(&format!("          because {why}"));
    }
}

/// Prints the amount that a loan moved, and its venue.
fn print_loan(to: &mut Sheet, loan: &LoanAnswer) {
    let LoanAnswer { action, venue, venue_name, moved, position, .. } = loan;
    let way = if action == "supply" { "to" } else { "from" };
    to.line(&format!("          {action} {way} {}  {venue}", quote_foreign(venue_name)));
    if let Some(moved) = moved {
        let left = position.as_ref().and_then(|left| left.coins.as_ref());
        let then = left.map_or(String::new(), |left| format!(", then {left} in it"));
        to.line(&format!("          moved {}{then}", moved.text));
    }
}

/// Prints the token and the amount that a trade bought.
fn print_trade(to: &mut Sheet, trade: &TradeAnswer) {
    let TradeAnswer { symbol_out, asset_out, amount_out, .. } = trade;
    let symbol = quote_foreign(symbol_out);
    match amount_out.as_ref().and_then(|amount| amount.coins.as_ref()) {
        Some(amount) => to.line(&format!("          for {amount} {symbol}  {asset_out}")),
        None => to.line(&format!("          for {symbol}  {asset_out}")),
    }
}

pub(super) fn export_result(to: &mut Sheet, exported: &ExportAnswer) {
    let requests = if exported.rows == 1 { "request" } else { "requests" };
    to.line(&format!("Wrote {} {requests} to {}.", exported.rows, exported.file));
    to.next(
        "Only you may read it. View it with",
        &format!("less {}", quote_shell_word(&exported.file)),
    );
}
