//! Agents: registering, commissioning, suspending, freezing, deleting, renewing allowances.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, Name};

use super::plans;
use crate::agents::{Agent, Credential};
use crate::allowance::{Renewal, WindowStart};
use crate::command::Command;
use crate::decision::{Decision, require_unlocked};
use crate::due::expiry_if_due;
use crate::event::{Assignment, Event};
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

pub(super) fn register(
    state: &State,
    command: &Command,
    id: &AgentId,
    name: &Name,
    credential: &Credential,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    // Commands accept a name or an id: a name that is another agent's id would be ambiguous.
    let used = state.agents.contains_key(id) || state.retired.contains(id);
    let taken = used || state.find_agent(name).is_some();
    if taken {
        return Err(Refusal::because(
            Code::NameTaken,
            format!("There is already an agent named {name}: choose another name."),
        ));
    }
    Ok(Decision::done(vec![Event::AgentRegistered {
        id: id.clone(),
        name: name.clone(),
        credential: credential.clone(),
    }]))
}

pub(super) fn replace_credential(
    state: &State,
    command: &Command,
    agent: &AgentId,
    credential: &Credential,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let agent = registered_agent(state, agent)?;
    Ok(Decision::done(vec![Event::CredentialReplaced {
        agent: agent.id.clone(),
        credential: credential.clone(),
    }]))
}

pub(super) fn commission(
    state: &State,
    command: &Command,
    agent: &AgentId,
    policy: &Name,
    label: &Name,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let agent = registered_agent(state, agent)?;
    let record = state.policy(policy).ok_or_else(|| {
        Refusal::because(
            Code::NothingFound,
            format!("There is no policy {policy}: see `policy list`."),
        )
    })?;
    let address =
        state.wallet.as_ref().and_then(|wallet| wallet.address(label)).ok_or_else(|| {
            Refusal::because(
                Code::NothingFound,
                format!("There is no address {label}: see `address list`."),
            )
        })?;
    // A new policy does not start a new allowance: the current one continues.
    let start = match &agent.commission {
        Some(_running) => None,
        None => Some(WindowStart::first(&command.moment)),
    };
    Ok(Decision::done(vec![Event::AgentCommissioned {
        agent: agent.id.clone(),
        policy: record.name.clone(),
        label: address.label.clone(),
        start,
        before: agent
            .commission
            .as_ref()
            .map(|given| Assignment { policy: given.policy.clone(), label: given.label.clone() }),
    }]))
}

pub(super) fn suspend(
    state: &State,
    command: &Command,
    agent: &AgentId,
) -> Result<Decision, Refusal> {
    let agent = registered_agent(state, agent)?;
    if agent.suspended {
        return Ok(Decision::done(Vec::new()));
    }
    let mut events = vec![Event::AgentSuspended { agent: agent.id.clone() }];
    let own = |request: &Request| request.agent == agent.id;
    events.extend(plans::stop(state, command, own, Code::AgentSuspended));
    Ok(Decision::done(events))
}

/// Deletes an agent. This only removes permissions, so the wallet may be locked.
pub(super) fn delete(
    state: &State,
    command: &Command,
    agent: &AgentId,
) -> Result<Decision, Refusal> {
    let agent = registered_agent(state, agent)?;
    let (mut events, mut waiting) = (Vec::new(), 0usize);
    for request in state.held.values().filter(|request| request.agent == agent.id) {
        // An expired hold needs no decision by the operator; only its expiry is not recorded yet.
        match expiry_if_due(request, &command.moment) {
            Some(ended) => events.push(ended),
            None => waiting = waiting.saturating_add(1),
        }
    }
    let runs = |request: &Request| {
        let execution = request.execution();
        execution.is_some_and(|one| one.end.is_none() || one.open_step().is_some())
    };
    if state.executing.values().any(|request| request.agent == agent.id && runs(request)) {
        let message =
            "A trade of this agent is being executed: suspend the agent, and delete it afterwards.";
        return Err(Refusal::because(Code::InUse, message));
    }
    if waiting > 0 {
        let (verb, them) = if waiting == 1 { ("waits", "it") } else { ("wait", "them") };
        // A suspension does not decide the held requests, so the message offers it only as a way to stop the agent.
        let stop = if agent.suspended {
            String::new()
        } else {
            format!(" To stop it now: `agent suspend {}`.", agent.id)
        };
        let message =
            format!("{waiting} of its requests {verb} for your decision: deny {them} first.{stop}");
        return Err(Refusal::because(Code::InUse, message));
    }
    if state.waiting.values().any(|request| request.agent == agent.id) {
        let message = "A request of this agent waits for its Ledger: sign it there, or deny it.";
        return Err(Refusal::because(Code::InUse, message));
    }
    events.push(Event::AgentDeleted { agent: agent.id.clone() });
    Ok(Decision::done(events))
}

pub(super) fn resume(
    state: &State,
    command: &Command,
    agent: &AgentId,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let agent = registered_agent(state, agent)?;
    let event = Event::AgentResumed { agent: agent.id.clone() };
    Ok(Decision::done(if agent.suspended { vec![event] } else { Vec::new() }))
}

pub(super) fn renew(
    state: &State,
    command: &Command,
    agent: &AgentId,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let agent = registered_agent(state, agent)?;
    let commission = agent.commission.as_ref().ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    match commission.window.start.renewal(&command.moment) {
        Renewal::HeldBack(start) | Renewal::Renew(start) => {
            Ok(Decision::done(vec![Event::AllowanceRenewed { agent: agent.id.clone(), start }]))
        }
        Renewal::Keep => Err(Refusal::because(
            Code::BadInput,
            "The current allowance continues: it renews at the first midnight at least 20 hours after its start.",
        )),
    }
}

/// Stops all agents. This only removes permissions, so the wallet may be locked.
pub(super) fn freeze(state: &State, command: &Command) -> Decision {
    if state.frozen.is_some() {
        return Decision::done(Vec::new());
    }
    let mut events = vec![Event::Frozen];
    events.extend(plans::stop(state, command, |_any| true, Code::AgentsFrozen));
    Decision::done(events)
}

pub(super) fn thaw(state: &State, command: &Command) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let events = if state.frozen.is_some() { vec![Event::Thawed] } else { Vec::new() };
    Ok(Decision::done(events))
}

pub(super) fn registered_agent<'a>(
    state: &'a State,
    agent: &AgentId,
) -> Result<&'a Arc<Agent>, Refusal> {
    state.agents.get(agent).ok_or_else(|| {
        Refusal::because(
            Code::NothingFound,
            format!("There is no agent {agent}: see `agent list`."),
        )
    })
}
