//! The command `deny`, for one request or several.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_control::answers::{Answer, DenialsAnswer, NotDenied};
use bursar_control::grammar::Deny;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::status::DecidedStatus;
use bursar_domain::{Action, Request};

use super::cards::CardContext;
use super::dialogue::Dialogue;
use super::endings::explain_end;
use super::requests::{ID_DIGITS_MIN, card, decided_answer, find, pending};
use super::support::confirm::agree;
use super::support::{Done, act, lookup};
use crate::context::EngineContext;

/// Maximum number of characters of a reason.
const REASON_CHARS_MAX: usize = 200;

pub(super) async fn deny(
    engine: &Arc<EngineContext>,
    order: &Deny,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let reason = order.reason_text();
    if reason.chars().count() > REASON_CHARS_MAX || reason.chars().any(char::is_control) {
        return Err(Fault::because(
            Code::BadInput,
            "A reason has at most 200 printable characters.",
        ));
    }
    let reason = Some(reason).filter(|reason| !reason.is_empty());
    let Some(prefix) = order.single_id() else {
        if engine.core.view().state.wallet.is_none() {
            return Err(Fault::new(Code::NoWallet));
        }
        refuse_id(engine, order)?;
        let agent = order.agent.as_ref().map(|name| lookup::agent(engine, name)).transpose()?;
        return deny_several(engine, agent.as_ref().map(|agent| &agent.id), reason, dialogue).await;
    };
    let view = engine.core.view();
    let request = find(engine, &view.state, prefix, ID_DIGITS_MIN)?;
    let context = CardContext::without_balances(engine);
    let card = card(engine, &view.state, &request, &context)?;
    let denied = Action::Deny { id: request.id, reason, by: dialogue.client() };
    act(engine, denied).await.map_err(|fault| explain_end(engine, request.id, fault))?;
    Ok(decided_answer(&card, DecidedStatus::Denied))
}

/// Refuses an id together with `--agent` or `--all`, which would make it the reason.
fn refuse_id(engine: &EngineContext, order: &Deny) -> Result<(), Fault> {
    let word = order.id.as_deref().unwrap_or_default();
    let is_long = word.chars().filter(|one| *one != '-').count() >= ID_DIGITS_MIN;
    let mut pending = pending_of(engine, None).into_iter();
    if is_long && pending.any(|request| request.id.has_prefix(word)) {
        let message = "Give either the id of one request, or --agent or --all.";
        return Err(Fault::because(Code::BadInput, message));
    }
    Ok(())
}

/// Denies all pending requests, or those of one agent, after one confirmation.
async fn deny_several(
    engine: &Arc<EngineContext>,
    agent: Option<&AgentId>,
    reason: Option<String>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let chosen = pending_of(engine, agent);
    if let (Some(question), lines) = denial_question(engine, &chosen) {
        agree(dialogue, lines, &question).await?;
    }
    let answer = deny_each(engine, &chosen, reason.as_ref(), dialogue.client()).await;
    Ok(Answer::Denials(answer).into())
}

/// Returns the pending requests, or those of one agent.
pub(super) fn pending_of(engine: &EngineContext, agent: Option<&AgentId>) -> Vec<Arc<Request>> {
    let mut pending = pending(&engine.core.view().state, &engine.core.now());
    pending.retain(|request| agent.is_none_or(|agent| request.agent == *agent));
    pending
}

/// Returns the question before several denials, and its lines: each agent with its number of requests, and how many of
/// them were approved and wait for a Ledger.
fn denial_question(
    engine: &EngineContext,
    chosen: &[Arc<Request>],
) -> (Option<String>, Vec<String>) {
    let view = engine.core.view();
    let name = |id: &AgentId| view.state.agents.get(id).map(|agent| agent.name.to_string());
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for request in chosen {
        let name = name(&request.agent).unwrap_or_else(|| request.agent.to_string());
        let (count, approved) = counts.entry(name).or_default();
        *count = count.saturating_add(1);
        *approved = approved.saturating_add(usize::from(!request.is_held()));
    }
    let line = |(name, (count, approved)): (&String, &(usize, usize))| match approved {
        0 => format!("{count} of {name}"),
        approved => format!("{count} of {name}, {approved} of them approved and at a Ledger"),
    };
    let lines = counts.iter().map(line).collect();
    let question = match chosen.len() {
        0 => None,
        1 => Some("Deny this request?".to_owned()),
        more => Some(format!("Deny these {more} requests?")),
    };
    (question, lines)
}

/// Denies requests, each by its own entry of the journal.
pub(super) async fn deny_each(
    engine: &Arc<EngineContext>,
    chosen: &[Arc<Request>],
    reason: Option<&String>,
    by: Client,
) -> DenialsAnswer {
    let mut answer = DenialsAnswer { denied: Vec::new(), not_denied: Vec::new() };
    for request in chosen {
        let id = request.id.to_string();
        let denied = Action::Deny { id: request.id, reason: reason.cloned(), by };
        match act(engine, denied).await.map_err(|fault| explain_end(engine, request.id, fault)) {
            Ok(_denied) => answer.denied.push(id),
            Err(Fault { code, message, .. }) => {
                answer.not_denied.push(NotDenied { id, code, message });
            }
        }
    }
    answer
}
