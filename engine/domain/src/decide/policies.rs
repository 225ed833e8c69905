//! Policies: creating and loosening need an unlocked wallet, tightening does not.

use bursar_core::codes::Code;
use bursar_core::ids::Name;
use bursar_core::lane::Lane;
use bursar_core::policy::{AllowedNetworks, Policy};

use crate::command::Command;
use crate::decision::{Decision, require_unlocked};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn create(
    state: &State,
    command: &Command,
    name: &Name,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    require_known(state, policy)?;
    if state.policy(name).is_some() {
        return Err(Refusal::because(
            Code::NameTaken,
            format!("There is already a policy named {name}: choose another name, or edit it."),
        ));
    }
    Ok(Decision::done(vec![set(state, name, policy, None)]))
}

pub(super) fn edit(
    state: &State,
    command: &Command,
    name: &Name,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    let record = state.policy(name).ok_or_else(|| unknown_policy(name))?;
    require_known(state, policy)?;
    if policy.loosens(&record.policy) {
        require_unlocked(command)?;
    }
    if *policy == record.policy {
        return Ok(Decision::done(Vec::new()));
    }
    Ok(Decision::done(vec![set(state, &record.name, policy, Some(&record.policy))]))
}

pub(super) fn delete(state: &State, name: &Name) -> Result<Decision, Refusal> {
    let record = state.policy(name).ok_or_else(|| unknown_policy(name))?;
    let user = state.agents.values().find(|agent| {
        agent.commission.as_ref().is_some_and(|given| given.policy.key() == name.key())
    });
    if let Some(agent) = user {
        return Err(Refusal::because(
            Code::InUse,
            format!(
                "Agent {} ({}) uses this policy: give the agent another one first.",
                agent.id, agent.name
            ),
        ));
    }
    Ok(Decision::done(vec![Event::PolicyDeleted { name: record.name.clone() }]))
}

/// Fails with `BAD_INPUT` if the policy allows trades, loans or networks that the edition does not have.
fn require_known(state: &State, policy: &Policy) -> Result<(), Refusal> {
    let lanes = &state.edition.lanes;
    let lacks = (policy.trading.enabled && !lanes.contains(&Lane::Trade))
        || (policy.lending.enabled && !lanes.contains(&Lane::Loan));
    if lacks {
        let message = format!("This is {}: it does not trade or lend.", state.edition.name.text());
        return Err(Refusal::because(Code::BadInput, message));
    }
    if let AllowedNetworks::Only(chains) = &policy.networks
        && let Some(chain) = chains.iter().find(|chain| !state.edition.knows(**chain))
    {
        let message =
            format!("This edition does not know the network {chain}: see `network list`.");
        return Err(Refusal::because(Code::BadInput, message));
    }
    Ok(())
}

fn set(state: &State, name: &Name, policy: &Policy, before: Option<&Policy>) -> Event {
    let serial = state.policy_serial.saturating_add(1);
    let before = before.map(|before| Box::new(before.clone()));
    Event::PolicySet { name: name.clone(), serial, policy: Box::new(policy.clone()), before }
}

fn unknown_policy(name: &Name) -> Refusal {
    Refusal::because(Code::NothingFound, format!("There is no policy {name}: see `policy list`."))
}
