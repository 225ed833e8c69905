//! The commands `mandate create`, `list`, `show`, `upload` and `retire`. The text of a mandate follows from the wallet's
//! state alone.

mod ap2;
mod upload;

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_control::answers::{Answer, MandateAnswer, MandateStatus, Warning};
use bursar_control::grammar::MandateOrder;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{AgentId, Name};
use bursar_core::networks;
use bursar_core::text;
use bursar_domain::agents::Agent;
use bursar_domain::mandates::{IssuedMandate, MandateAction, MandateGrant, SignedMandate};
use bursar_domain::registrations::Registration;
use bursar_domain::{Action, State};
use bursar_mandate::{MandateId, PolicyId};
use secrecy::ExposeSecret;

use super::dialogue::Dialogue;
use super::dry_run::announce;
use super::support::confirm::agree;
use super::support::mandate_status::{registrations, registry_label, signed_status};
use super::support::{Done, act, lookup, rehearse};
use crate::blocking::blocking;
use crate::context::{EngineContext, Mode};
use crate::journal::{SigningOrder, Subject};
use crate::ports::SignFault;
use crate::vault::credential::fingerprint;

/// What the operator must know before a mandate leaves the wallet.
const DISCLOSES: &str = "A mandate discloses the agent's limits, networks and address to every reader, and its \
                         signature remains valid: it has no end date.";

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: MandateOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        MandateOrder::Create { agent, new } => {
            let agent = lookup::agent(engine, &agent)?;
            create(engine, &agent, new, dialogue).await
        }
        MandateOrder::List => Ok(list(&engine.core.view().state)),
        MandateOrder::Show { agent, until: Some(until), ap2: true } => {
            let agent = lookup::agent(engine, &agent)?;
            let now = engine.core.now().utc;
            ap2::show(&engine.core.view().state, &agent, until.ahead_of(now), now)
        }
        MandateOrder::Show { agent, .. } => {
            let id = find(&engine.core.view().state, &agent)?;
            show(&engine.core.view().state, &id)
        }
        MandateOrder::Upload { agent } => {
            let id = find(&engine.core.view().state, &agent)?;
            upload::run(engine, &id, dialogue).await?;
            show(&engine.core.view().state, &id)
        }
        MandateOrder::Retire { agent, no_upload } => {
            let id = find(&engine.core.view().state, &agent)?;
            retire(engine, &id, no_upload, dialogue).await
        }
        MandateOrder::Verify { .. } => Err(Fault::because(
            Code::BadInput,
            "A file is checked without an engine: run `mandate verify` in a shell.",
        )),
    }
}

/// Signs a mandate with the agent's present terms, or shows the one that already states them.
pub(super) async fn create(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    is_new: bool,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    let (vault, id) = (Arc::clone(&engine.vault), agent.id.clone());
    let secret = blocking(move || vault.agent_secret(&id)).await??;
    let secret = secret.as_ref().map(|secret| secret.expose_secret());
    let fingerprint = fingerprint(&agent.id, &agent.credential, secret);
    let fingerprint = fingerprint.ok_or_else(|| {
        let message = format!(
            "The wallet file lacks this agent's secret: `agent instructions {} --regenerate` issues a new one.",
            agent.id
        );
        Fault::because(Code::NothingFound, message)
    })?;
    let grant = MandateGrant {
        agent: agent.id.clone(),
        id: MandateId::from_entropy(engine.random()?),
        policy_id: PolicyId::from_entropy(engine.random()?),
        credential: agent.credential.clone(),
        fingerprint,
        agent_member: engine.edition.wire.agent_member,
        issuer_version: env!("CARGO_PKG_VERSION").to_owned(),
        is_new,
    };
    issue(engine, &agent.id, dialogue, MandateAction::Grant(Box::new(grant))).await
}

/// Signs limits of zero, and publishes them where the registry of the settings publishes limits of the agent.
async fn retire(
    engine: &Arc<EngineContext>,
    agent: &AgentId,
    no_upload: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let id = MandateId::from_entropy(engine.random()?);
    let action = MandateAction::Retire { agent: agent.clone(), id };
    let state = &engine.core.view().state;
    let publishing = upload::publishing_registry(state, agent).filter(|_any| !no_upload);
    if let Some(publishing) = publishing {
        rehearse(engine, Action::Mandate(action.clone()))?;
        let host = registry_label(&publishing.base);
        let lines = vec![
            format!("{host} publishes limits of the agent {agent}, or may do so."),
            "A mandate with limits of zero replaces them there; copies of them remain.".to_owned(),
        ];
        agree(dialogue, lines, "Sign it and publish it there?").await?;
    }
    if let Some(publishing) = publishing {
        let host = registry_label(&publishing.base);
        announce(|| format!("signs limits of zero, and sends them to {host}"))?;
    }
    let done = issue(engine, agent, dialogue, action).await?;
    let Some(publishing) = publishing else { return Ok(done) };
    upload::run_agreed(engine, agent, &publishing.base, dialogue).await.map_err(|fault| {
        let message = format!("The retirement is signed. {}", fault.message);
        Fault::because(fault.code, message)
    })?;
    show(&engine.core.view().state, agent)
}

/// Issues a mandate, signs it, and shows it.
///
/// A lock, a freeze or a suspended agent voids the right to sign. The action is then decided again, which gives the
/// right again or refuses.
async fn issue(
    engine: &Arc<EngineContext>,
    agent: &AgentId,
    dialogue: &dyn Dialogue,
    action: MandateAction,
) -> Result<Done, Fault> {
    loop {
        require_device_queue(engine, agent)?;
        let issued = act(engine, Action::Mandate(action.clone())).await?;
        engine.hit("mandate.issued")?;
        let Some(order) = issued.orders.into_iter().next() else { break };
        if sign(engine, order, dialogue).await? {
            break;
        }
    }
    show(&engine.core.view().state, agent)
}

/// Signs an issued mandate and records the signature. Returns false if the right to sign was void.
async fn sign(
    engine: &EngineContext,
    order: SigningOrder,
    dialogue: &dyn Dialogue,
) -> Result<bool, Fault> {
    let SigningOrder { slip, terms } = order;
    let Subject::Mandate(id) = slip.subject() else {
        return Err(Fault::new(Code::InternalError));
    };
    let (epoch, digest) = (slip.epoch(), slip.digest());
    let signer = &engine.execution.signer;
    let (by_person, address) = (signer.asks_a_person(&slip), slip.signer());
    // A command that is its own engine has no queue of devices, so the signer would never answer.
    if by_person && engine.mode == Mode::Maintenance {
        return Err(Fault::new(Code::EngineDown));
    }
    if by_person {
        let text = format!("waiting for the Ledger, which shows this mandate: hash {digest}");
        dialogue.progress(&text).await;
    }
    let signed = signer.sign(slip, terms).await;
    engine.hit("mandate.made")?;
    match signed {
        Ok(signature) => {
            record(engine, MandateAction::Sign { id, signature }).await?;
            engine.hit("mandate.recorded")?;
            Ok(true)
        }
        Err(SignFault::Stale) if epoch != engine.vault.epoch() => Ok(false),
        Err(SignFault::Stale) => {
            let message = "The mandate was not signed in time: `mandate create` asks again.";
            Err(Fault::because(Code::RequestExpired, message))
        }
        Err(SignFault::Refused(why)) if by_person => {
            record(engine, MandateAction::Decline { id }).await?;
            let message = format!("The mandate was not signed: {why}.");
            Err(Fault::because(Code::LedgerRejected, message))
        }
        Err(SignFault::NoKey) => {
            // Otherwise it would block the agent's mandates until the address returns.
            record(engine, MandateAction::Decline { id }).await?;
            let message = format!(
                "The wallet has no key for {}: add that address again, then repeat the command.",
                address.to_checksum(None)
            );
            Err(Fault::because(Code::NothingFound, message))
        }
        Err(fault @ SignFault::Refused(_)) => Err(Fault::because(
            Code::InternalError,
            format!("The mandate was not signed: {fault}."),
        )),
    }
}

async fn record(engine: &EngineContext, action: MandateAction) -> Result<(), Fault> {
    engine.core.act(Action::Mandate(action)).await.map(drop)
}

/// Refuses an address on a Ledger if this command is its own engine, which has no queue of devices.
fn require_device_queue(engine: &EngineContext, agent: &AgentId) -> Result<(), Fault> {
    let state = &engine.core.view().state;
    let label = state.agents.get(agent).and_then(|agent| agent.commission.as_ref());
    let address = label.and_then(|given| state.wallet.as_ref()?.address(&given.label));
    let on_device = address.is_some_and(|known| state.is_on_device(known.address));
    if on_device && engine.mode == Mode::Maintenance {
        return Err(Fault::new(Code::EngineDown));
    }
    Ok(())
}

/// Returns the warning that a mandate outlasts the agent's permission; `None` if none is in force.
pub(super) fn outlasts(state: &State, agent: &AgentId) -> Option<Warning> {
    let publishing = state.mandates.registrations(agent).iter();
    let publishing = publishing.filter(|one| one.grants().next().is_some());
    let hosts: Vec<String> = publishing.map(|one| registry_label(&one.base)).collect();
    let is_granted = state.mandates.in_force(agent).is_some() || !hosts.is_empty();
    is_granted.then(|| {
        let published = match hosts.join(", ") {
            none if none.is_empty() => String::new(),
            hosts => format!(", and {hosts} still publishes limits of this agent"),
        };
        let message = format!(
            "The signature of its mandate remains valid{published}: `mandate retire {agent}` signs one with limits of zero."
        );
        Warning { code: "MANDATE_STAYS_VALID".to_owned(), message }
    })
}

fn list(state: &State) -> Done {
    let agents = state.mandates.signed.keys().chain(state.mandates.unsigned.keys());
    let agents: BTreeSet<&AgentId> = agents.collect();
    let mandates = agents.into_iter().filter_map(|agent| answer(state, agent)).collect();
    Answer::Mandates { mandates }.into()
}

fn show(state: &State, agent: &AgentId) -> Result<Done, Fault> {
    let answer = answer(state, agent).ok_or_else(|| {
        let message =
            format!("The agent {agent} has no mandate: `mandate create {agent}` signs one.");
        Fault::because(Code::NothingFound, message)
    })?;
    let warning = |code: &str, message| Warning { code: code.to_owned(), message };
    let mut warnings = Vec::new();
    if answer.mandate.is_some() {
        warnings.push(warning("DISCLOSES", DISCLOSES.to_owned()));
    }
    let published = state.mandates.published_after_retirement(agent);
    warnings.extend(published.map(|one| warning("STILL_PUBLISHED", still_published(state, one))));
    Ok(Done { answer: Answer::Mandate(Box::new(answer)), warnings, secret: None })
}

/// Describes the mandates that an address signed and that a registry publishes, or may publish: without the address's
/// key they cannot be retired there.
pub(super) fn published_by(state: &State, address: Address) -> Vec<String> {
    let mut lines = Vec::new();
    for (agent, registrations) in &state.mandates.registrations {
        let signed = |one: &&Registration| {
            one.grants().any(|grant| grant.issued.draft.terms.wallet == address)
        };
        lines.extend(registrations.iter().filter(signed).map(|one| {
            format!(
                "{} publishes limits of the agent {agent} that this address signed: `mandate retire {agent}` first, \
                 while the address is here.",
                registry_label(&one.base)
            )
        }));
    }
    lines
}

/// Returns the warning of a restore about the mandates that the backup does not contain.
pub(super) fn unknown_after_restore() -> Warning {
    let message = "Mandates that were signed, published or retired after the backup are unknown here, and their \
                   signatures remain valid: see `mandate list`, and sign new ones with `mandate create <agent> --new`.";
    Warning { code: "MANDATES_UNKNOWN".to_owned(), message: message.to_owned() }
}

/// Names the command that replaces the limits that a registry still publishes.
fn still_published(state: &State, registration: &Registration) -> String {
    let host = registry_label(&registration.base);
    let is_set = state.settings.registry.as_ref() == Some(&registration.base);
    let first = match is_set {
        true => String::new(),
        false => "set registry.url to it, then ".to_owned(),
    };
    format!(
        "Retired here, still published at {host}: {first}`mandate retire` replaces the limits there."
    )
}

/// Returns the agent with this name or code; a deleted agent by its code, if it has a mandate.
fn find(state: &State, name: &Name) -> Result<AgentId, Fault> {
    if let Some(agent) = state.find_agent(name) {
        return Ok(agent.id.clone());
    }
    let deleted = name.as_str().parse().ok();
    deleted.filter(|id| state.mandates.signed.contains_key(id)).ok_or_else(|| {
        Fault::because(Code::NothingFound, format!("There is no agent {name}: see `agent list`."))
    })
}

/// Describes the newest mandate of an agent: the signed one, or the one that waits for its signature.
fn answer(state: &State, agent: &AgentId) -> Option<MandateAnswer> {
    match (state.mandates.signed.get(agent), state.mandates.unsigned.get(agent)) {
        (Some(signed), _) => Some(signed_answer(state, signed)),
        (None, Some(open)) => Some(describe(state, open)),
        (None, None) => None,
    }
}

fn signed_answer(state: &State, signed: &SignedMandate) -> MandateAnswer {
    let issued = &signed.issued;
    let (status, reasons) = signed_status(state, signed);
    let document = issued.draft.signed(&signed.signature).to_compact();
    MandateAnswer {
        status,
        stale_reasons: reasons.into_iter().map(str::to_owned).collect(),
        // The wallet's own text is JSON.
        mandate: serde_json::from_str(&document).ok(),
        ..describe(state, issued)
    }
}

/// Describes an issued mandate, as not signed.
fn describe(state: &State, issued: &IssuedMandate) -> MandateAnswer {
    let draft = &issued.draft;
    let terms = &draft.terms;
    let known = state.agents.get(&terms.agent);
    let title = |chain: &_| {
        networks::by_chain(*chain).map_or_else(|| chain.to_string(), |row| row.title.to_owned())
    };
    MandateAnswer {
        agent_id: terms.agent.to_string(),
        agent: known.map(|agent| agent.name.as_str().to_owned()),
        id: draft.id.to_string(),
        status: MandateStatus::Unsigned,
        stale_reasons: Vec::new(),
        issued: text::utc(draft.issued),
        policy: issued.policy.as_str().to_owned(),
        currency: terms.limits.currency.clone(),
        daily: terms.limits.daily.to_string(),
        per_request: terms.limits.per_request.to_string(),
        auto_below: terms.limits.auto_below.to_string(),
        networks: terms.networks.iter().map(title).collect(),
        address: terms.wallet.to_checksum(None),
        fingerprint: terms.fingerprint.to_string(),
        digest: draft.digest().to_string(),
        mandate: None,
        registries: registrations(state, &terms.agent),
    }
}
