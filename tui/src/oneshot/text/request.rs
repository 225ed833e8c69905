//! Requests that wait for the operator, and decisions.

use bursar_core::answers::{DecidedAnswer, RequestAnswer};
use bursar_core::ids::RequestId;
use bursar_core::text::countdown;

use crate::oneshot::sheet::{Sheet, foreign};
use crate::wording;

/// Waiting requests with their whole card: nobody should have to decide on less. Others on one line.
pub(super) fn requests(to: &mut Sheet, requests: &[RequestAnswer]) {
    if requests.is_empty() {
        return to.line("No requests are waiting.");
    }
    for (index, request) in requests.iter().enumerate() {
        if index > 0 {
            to.blank();
        }
        let id = short(&request.id);
        match &request.card {
            Some(card) => {
                for line in card.lines() {
                    to.line(&line);
                }
                if card.obstacle.is_some() {
                    to.line(&format!("Decide with: bursar deny {id}"));
                } else {
                    to.line(&format!("Decide with: bursar approve {id}   or: bursar deny {id}"));
                }
            }
            None => line(to, &id, request),
        }
    }
}

fn line(to: &mut Sheet, id: &str, request: &RequestAnswer) {
    let RequestAnswer { lane, agent_id, status, amount, asset, payee, domain, created, .. } =
        request;
    let domain = domain.as_ref().map_or(String::new(), |domain| format!("  {}", foreign(domain)));
    let status = wording::status(status);
    let expires = request
        .expires_in_seconds
        .map_or(String::new(), |seconds| format!(", expires in {}", countdown(seconds)));
    to.line(&format!("{id}  {lane}  agent {agent_id}  {status}  {created}{expires}"));
    to.line(&format!("          {} to {payee}{domain}", what(amount, asset)));
}

/// An amount has its symbol with it, unless the token is unknown: then it is bare units of a contract.
fn what(amount: &str, asset: &str) -> String {
    if amount.bytes().all(|b| b.is_ascii_digit()) {
        format!("{amount} units of {asset}")
    } else {
        amount.to_owned()
    }
}

pub(super) fn decided(to: &mut Sheet, decided: &DecidedAnswer) {
    let DecidedAnswer { id, status, amount, payee } = decided;
    let id = short(id);
    match status.as_str() {
        "signed" => to.line(&format!("Approved {id}: {amount} to {payee} is signed.")),
        "executing" => {
            to.line(&format!("Approved {id}: {amount} to {payee} is being signed."));
            to.next("Follow it with", "bursar requests --all");
        }
        "denied" => to.line(&format!("Denied {id}: {amount} to {payee} is not paid.")),
        other => to.line(&format!("{id}: {amount} to {payee}: {}", foreign(other))),
    }
}

/// The first eight digits: enough to name a request, while the whole id would let its reader poll it.
pub(super) fn short(id: &str) -> String {
    id.parse::<RequestId>().map_or_else(|_not_whole| id.chars().take(8).collect(), |id| id.short())
}
