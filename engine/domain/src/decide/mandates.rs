//! Mandates: granted and retired by the operator, signed by the key of the paying address.

mod uploads;

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::AgentId;
use bursar_core::money::Usd;
use bursar_core::time::{Moment, Utc};
use bursar_mandate::{Draft, Limits, MandateId, Terms};
use bursar_x402::signature::Signature65;

use super::agents::registered_agent;
use crate::agents::Agent;
use crate::command::Command;
use crate::deadline::Deadline;
use crate::decision::{Decision, Effect, Reply, require_sealed};
use crate::event::Event;
use crate::mandate_terms::{PresentTerms, stale_reasons};
use crate::mandates::{
    IssuedMandate, MandateAction, MandateEnd, MandateEvent, MandateGrant, Purpose, SignedMandate,
};
use crate::refusal::Refusal;
use crate::registrations::Registration;
use crate::state::State;

pub(super) fn decide(
    state: &State,
    command: &Command,
    action: &MandateAction,
) -> Result<Decision, Refusal> {
    match action {
        MandateAction::Grant(given) => grant(state, command, given),
        MandateAction::Retire { agent, id } => retire(state, command, agent, *id),
        MandateAction::Sign { id, signature } => record_signature(state, command, *id, signature),
        MandateAction::Decline { id } => Ok(decline(state, command, *id)),
        MandateAction::BeginUpload(upload) => uploads::begin(state, command, upload),
        MandateAction::EndUpload { upload, end } => uploads::end(state, command, upload, end),
    }
}

/// Issues a mandate with the present terms.
///
/// If one with these terms waits for its signature, or is signed, that one is the answer: the same text is signed once.
fn grant(state: &State, command: &Command, grant: &MandateGrant) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let agent = workable_agent(state, grant)?;
    let present = PresentTerms::of(state, agent)?;
    let mut events = Vec::new();
    if let Some(open) = state.mandates.unsigned.get(&agent.id) {
        let is_over = open.is_overdue(&command.moment);
        if open.purpose == Purpose::Retirement && !is_over {
            let message = format!(
                "Its mandate is being retired: `mandate retire {}` signs that first.",
                agent.id
            );
            return Err(Refusal::because(Code::InUse, message));
        }
        if !is_over && is_current(open, &present) && open.credential == grant.credential {
            return Ok(sign_open(agent.id.clone()));
        }
        events.push(displaced(open, &command.moment));
    }
    let newest = state.mandates.signed.get(&agent.id);
    let is_good = |signed: &SignedMandate| {
        signed.issued.purpose == Purpose::Grant && stale_reasons(state, signed).is_empty()
    };
    if events.is_empty() && !grant.is_new && newest.is_some_and(|signed| is_good(signed)) {
        return Ok(Decision::done(Vec::new()));
    }
    let known_id = state.mandates.policy_ids.get(&present.serial);
    let draft = Draft {
        id: grant.id,
        issued: issue_time(state, &command.moment, &agent.id),
        agent_member: grant.agent_member,
        issuer_version: grant.issuer_version.clone(),
        terms: Terms {
            agent: agent.id.clone(),
            fingerprint: grant.fingerprint,
            policy_id: known_id.copied().unwrap_or(grant.policy_id),
            limits: present.limits,
            networks: present.networks,
            wallet: present.wallet,
        },
    };
    let issued = IssuedMandate {
        text: draft.text(),
        until: device_deadline(state, command, &draft),
        draft,
        purpose: Purpose::Grant,
        policy: present.policy,
        serial: present.serial,
        credential: grant.credential.clone(),
    };
    Ok(issue(events, issued))
}

/// Returns the agent of a grant, if it may work and still has the credential of the fingerprint.
fn workable_agent<'a>(state: &'a State, grant: &MandateGrant) -> Result<&'a Arc<Agent>, Refusal> {
    let agent = registered_agent(state, &grant.agent)?;
    if state.frozen.is_some() {
        return Err(Refusal::new(Code::AgentsFrozen));
    }
    if agent.suspended {
        let message = format!("It is suspended: `agent resume {}` first.", agent.id);
        return Err(Refusal::because(Code::AgentSuspended, message));
    }
    if agent.credential != grant.credential {
        return Err(Refusal::because(
            Code::Busy,
            "Its credentials were replaced meanwhile: run the command again.",
        ));
    }
    Ok(agent)
}

/// Issues the mandate that replaces an agent's newest one: the same terms with limits of zero.
///
/// It also works for a suspended or deleted agent and during a freeze, because it only withdraws.
fn retire(
    state: &State,
    command: &Command,
    agent: &AgentId,
    id: MandateId,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let mut events = Vec::new();
    if let Some(open) = state.mandates.unsigned.get(agent) {
        if open.purpose == Purpose::Retirement && !open.is_overdue(&command.moment) {
            return Ok(sign_open(agent.clone()));
        }
        events.push(displaced(open, &command.moment));
    }
    let Some(signed) = state.mandates.signed.get(agent) else {
        let message = format!("The agent {agent} has no signed mandate: see `mandate list`.");
        return Err(Refusal::because(Code::NothingFound, message));
    };
    let earlier = match signed.issued.purpose {
        Purpose::Grant => &signed.issued,
        Purpose::Retirement => match published_by_another(state, &signed.issued) {
            Some(published) => published,
            None => return Ok(Decision::done(events)),
        },
    };
    let terms = Terms {
        limits: Limits {
            daily: Usd::ZERO,
            per_request: Usd::ZERO,
            auto_below: Usd::ZERO,
            ..earlier.draft.terms.limits.clone()
        },
        ..earlier.draft.terms.clone()
    };
    let issued = issue_time(state, &command.moment, agent);
    let draft = Draft { id, issued, terms, ..earlier.draft.clone() };
    let retirement = IssuedMandate {
        text: draft.text(),
        until: device_deadline(state, command, &draft),
        draft,
        purpose: Purpose::Retirement,
        ..earlier.clone()
    };
    Ok(issue(events, retirement))
}

/// Returns a mandate that the registry of the settings publishes and that this retirement does not replace, because the
/// agent then paid from another address.
fn published_by_another<'a>(
    state: &'a State,
    retirement: &IssuedMandate,
) -> Option<&'a IssuedMandate> {
    let Terms { agent, wallet, .. } = &retirement.draft.terms;
    let known = state.mandates.registrations(agent).iter();
    let known = known.filter(|one| state.settings.registry.as_ref() == Some(&one.base));
    let other =
        known.flat_map(Registration::grants).find(|one| one.issued.draft.terms.wallet != *wallet);
    other.map(|one| &*one.issued)
}

/// Records the signature of an issued mandate. A signature that is recorded already changes nothing.
fn record_signature(
    state: &State,
    command: &Command,
    id: MandateId,
    signature: &Signature65,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let is_known = |signed: &SignedMandate| {
        signed.issued.draft.id == id && signed.issued.is_signed_by(signature)
    };
    if state.mandates.signed.values().any(|signed| is_known(signed)) {
        return Ok(Decision::done(Vec::new()));
    }
    let gone = || {
        let message = "This mandate no longer waits for its signature: see `mandate list`.";
        Refusal::because(Code::RequestNoLongerValid, message)
    };
    let issued = state.mandates.find_unsigned(id).ok_or_else(gone)?;
    if issued.is_overdue(&command.moment) {
        return Ok(Decision::reply(
            vec![ended(issued, MandateEnd::TimedOut)],
            Reply::Refused(gone()),
        ));
    }
    if !issued.is_signed_by(signature) {
        let message = "The signature is not the paying address's, so the mandate is not signed.";
        return Err(Refusal::because(Code::InternalError, message));
    }
    let agent = issued.draft.terms.agent.clone();
    Ok(Decision::done(vec![Event::Mandate(MandateEvent::Signed {
        agent,
        id,
        signature: *signature,
    })]))
}

/// Ends a mandate that a person refused on the device.
///
/// Nothing is recorded while no seal would cover it. The deadline then ends the mandate.
fn decline(state: &State, command: &Command, id: MandateId) -> Decision {
    let open = state.mandates.find_unsigned(id).filter(|_any| require_sealed(command).is_ok());
    Decision::done(open.map(|open| ended(open, MandateEnd::Declined)).into_iter().collect())
}

/// Returns the ends of the mandates that no person signed in time.
pub(super) fn overdue(state: &State, moment: &Moment) -> Vec<Event> {
    let open = state.mandates.unsigned.values().filter(|open| open.is_overdue(moment));
    open.map(|open| ended(open, MandateEnd::TimedOut)).collect()
}

fn issue(mut events: Vec<Event>, issued: IssuedMandate) -> Decision {
    let agent = issued.draft.terms.agent.clone();
    events.push(Event::Mandate(MandateEvent::Issued(Box::new(issued))));
    Decision { events, ..sign_open(agent) }
}

fn sign_open(agent: AgentId) -> Decision {
    Decision { effects: vec![Effect::SignMandate(agent)], ..Decision::done(Vec::new()) }
}

/// Returns the end of a mandate in whose place another one is issued.
fn displaced(open: &IssuedMandate, moment: &Moment) -> Event {
    let is_over = open.is_overdue(moment);
    ended(open, if is_over { MandateEnd::TimedOut } else { MandateEnd::Superseded })
}

fn ended(open: &IssuedMandate, end: MandateEnd) -> Event {
    Event::Mandate(MandateEvent::Ended {
        agent: open.draft.terms.agent.clone(),
        id: open.draft.id,
        end,
    })
}

/// Returns whether an issued grant states the present terms.
fn is_current(open: &IssuedMandate, present: &PresentTerms) -> bool {
    let terms = &open.draft.terms;
    open.purpose == Purpose::Grant
        && open.serial == present.serial
        && terms.limits == present.limits
        && terms.networks == present.networks
        && terms.wallet == present.wallet
}

/// Returns the time of issue: at least a second after the agent's earlier mandates, whatever the clock shows.
fn issue_time(state: &State, moment: &Moment, agent: &AgentId) -> Utc {
    let signed = state.mandates.signed.get(agent).map(|signed| &signed.issued);
    let open = state.mandates.unsigned.get(agent).map(|open| &**open);
    let earlier = signed.into_iter().chain(open).map(|one| one.draft.issued.plus_ms(1_000));
    let now = moment.utc.max(state.clock);
    Utc::from_seconds(earlier.fold(now, Utc::max).seconds())
}

/// Returns the deadline for a signature on a device; `None` if the wallet has the key.
fn device_deadline(state: &State, command: &Command, draft: &Draft) -> Option<Deadline> {
    state.is_on_device(draft.terms.wallet).then(|| Deadline::after(&command.moment))
}
