//! Pending requests, and decisions.

use bursar_control::answers::{DecidedAnswer, DenialsAnswer, RequestAnswer};
use bursar_control::card_text;
use bursar_core::card::{Card, Lane};
use bursar_core::ids::RequestId;
use bursar_core::risk::Level;
use bursar_core::status::DecidedStatus;
use bursar_core::text::countdown;

use super::context::Context;
use crate::oneshot::sheet::{Sheet, quote_foreign};
use crate::wording;

/// Maximum number of cards that are shown unless the command asks for all.
const CARDS_SHOWN_MAX: usize = 3;

/// Prints pending requests with their whole card, which a decision needs, or as a table if there are many. Other
/// requests follow in two lines each.
pub(super) fn requests(to: &mut Sheet, requests: &[RequestAnswer], context: Context<'_>) {
    if requests.is_empty() {
        return to.line("No requests are waiting.");
    }
    let waiting: Vec<(&RequestAnswer, &Card)> =
        requests.iter().filter_map(|one| Some((one, one.card.as_ref()?))).collect();
    let is_table = waiting.len() > CARDS_SHOWN_MAX && !context.shows_cards;
    if is_table {
        let rows: Vec<_> = waiting.iter().map(|(request, card)| table_row(request, card)).collect();
        to.table(["ID", "LEFT", "AGENT", "AMOUNT", "TO", "NOTE"], &rows);
        to.next("Show their cards with", "bursar requests --cards");
    }
    let others = requests.iter().filter(|one| !is_table || one.card.is_none());
    for (index, request) in others.enumerate() {
        if index > 0 || is_table {
            to.blank();
        }
        let id = short(&request.id);
        match &request.card {
            Some(card) => {
                for line in card_text::lines(card) {
                    to.line(&line);
                }
                if card.device.is_some() {
                    to.line(&format!("Sign it on the Ledger, or: bursar deny {id}"));
                } else if card.obstacle.is_some() {
                    to.line(&format!("Decide with: bursar deny {id}"));
                } else {
                    to.line(&format!("Decide with: bursar approve {id}   or: bursar deny {id}"));
                }
            }
            None => line(to, &id, request),
        }
    }
}

/// Returns the cells of a waiting request.
fn table_row(request: &RequestAnswer, card: &Card) -> [String; 6] {
    let left = request.expires_in_seconds.map_or(String::new(), countdown);
    let named = request.payee_name.as_ref().map(|name| quote_foreign(name.as_str()));
    let host = || request.domain.as_deref().map(quote_foreign);
    let to = named.or_else(host).unwrap_or_else(|| request.payee.clone());
    let note = if card.device.is_some() {
        "waits for the Ledger"
    } else if card.obstacle.is_some() {
        "cannot be approved now"
    } else {
        match card.risks.first().map(|risk| risk.level) {
            Some(Level::Danger) => "!! DANGER",
            Some(Level::Warning) => "! WARNING",
            Some(Level::Note) | None => "",
        }
    };
    [
        short(&request.id),
        left,
        card.agent_name.to_string(),
        request.summary.clone(),
        to,
        note.to_owned(),
    ]
}

fn line(to: &mut Sheet, id: &str, request: &RequestAnswer) {
    let RequestAnswer { lane, agent_id, status, summary, payee, domain, created, .. } = request;
    let domain =
        domain.as_ref().map_or(String::new(), |domain| format!("  {}", quote_foreign(domain)));
    let status = wording::status(*status);
    let step = request.step.as_ref().map_or(String::new(), |step| format!(" ({step})"));
    let expires = request
        .expires_in_seconds
        .map_or(String::new(), |seconds| format!(", expires in {}", countdown(seconds)));
    to.line(&format!(
        "{id}  {}  agent {agent_id}  {status}{step}  {created}{expires}",
        lane.text()
    ));
    match lane {
        Lane::Payment => {
            to.line(&format!("          {summary} to {payee}{domain}"));
        }
        Lane::Trade | Lane::Loan => to.line(&format!("          {summary}")),
    }
}

pub(super) fn decision_result(to: &mut Sheet, decided: &DecidedAnswer) {
    let DecidedAnswer { id, lane, status, summary: amount, payee } = decided;
    let id = short(id);
    match (status, lane) {
        (DecidedStatus::Signed, _) => {
            to.line(&format!("Approved {id}: the payment of {amount} to {payee} is signed."));
        }
        (DecidedStatus::Executing, Lane::Payment) => {
            to.line(&format!("Approved {id}: the payment of {amount} to {payee} is being signed."));
            to.next("Follow it with", "bursar requests --all");
        }
        (DecidedStatus::AwaitingDevice, _) => {
            to.line(&format!("Approved {id}: sign {amount} to {payee} on the Ledger."));
            to.next("Follow it with", "bursar requests");
        }
        (DecidedStatus::Executing, Lane::Trade) => {
            to.line(&format!("Approved {id}: the trade of {amount} is being executed."));
            to.next("Follow it with", "bursar requests --all");
        }
        (DecidedStatus::Executed, lane) => {
            let lane = lane.text();
            to.line(&format!("Approved {id}: the {lane} of {amount} is executed."));
            to.next("See it with", &format!("bursar receipt {id}"));
        }
        (DecidedStatus::Executing, Lane::Loan) => {
            to.line(&format!("Approved {id}: the loan of {amount} is being executed."));
            to.next("Follow it with", "bursar requests --all");
        }
        (DecidedStatus::Denied, Lane::Loan) => {
            to.line(&format!("Denied {id}: the loan of {amount} will not be executed."));
        }
        (DecidedStatus::Denied, Lane::Payment) => {
            to.line(&format!("Denied {id}: the payment of {amount} to {payee} will not be made."));
        }
        (DecidedStatus::Denied, Lane::Trade) => {
            to.line(&format!("Denied {id}: the trade of {amount} will not be executed."));
        }
    }
}

/// Prints the results of a command that denied several requests.
pub(super) fn denials(to: &mut Sheet, answer: &DenialsAnswer) {
    let DenialsAnswer { denied, not_denied } = answer;
    match denied.len() {
        0 if not_denied.is_empty() => to.line("No requests are waiting there: nothing was denied."),
        0 => {}
        1 => to.line("Denied 1 request."),
        more => to.line(&format!("Denied {more} requests.")),
    }
    for request in not_denied {
        to.line(&format!("Not denied: {}. {}", short(&request.id), request.message));
    }
}

/// Returns the first eight digits of a request's id. With the whole id, a reader of the text could poll the request.
pub(super) fn short(id: &str) -> String {
    id.parse::<RequestId>().map_or_else(|_not_whole| id.chars().take(8).collect(), |id| id.short())
}
