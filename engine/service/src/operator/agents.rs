//! The command `agent …`. A bearer token is shown once, because the journal stores only its hash. An HMAC secret is
//! in the wallet file and can be shown again.

use std::sync::Arc;

use bursar_control::answers::{Answer, CredentialsAnswer, SecretField, Warning};
use bursar_control::grammar::AgentOrder;
use bursar_core::auth::AuthMode;
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_domain::Action;
use bursar_domain::agents::{Agent, Credential};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use super::denials::{deny_each, pending_of};
use super::dialogue::Dialogue;
use super::dry_run::{announce, is_dry_run};
use super::mandates;
use super::support::confirm::type_name;
use super::support::{Done, act, describe, lookup, rehearse, require_trusted_journal};
use super::wallet::open::reissue;
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::context::agent_url::AgentUrl;
use crate::vault::credential::token_text;
use crate::vault::file::AgentSecret;

pub(super) async fn run(
    engine: &Arc<EngineContext>,
    order: AgentOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        AgentOrder::List => {
            let view = engine.core.view();
            let agents = view.state.agents.values();
            let agents = agents.map(|agent| describe::agent(engine, &view.state, agent));
            let mut agents: Vec<_> = agents.collect();
            // The codes are random, so their order would tell the operator nothing.
            agents.sort_by_cached_key(|agent| agent.name.to_lowercase());
            Ok(Answer::Agents { agents }.into())
        }
        AgentOrder::Show { agent } => show(engine, &lookup::agent(engine, &agent)?.id),
        AgentOrder::Register { name, auth } => register(engine, name, auth, dialogue).await,
        AgentOrder::Commission { agent, policy, label, mandate } => {
            let agent = lookup::agent(engine, &agent)?;
            let id = agent.id.clone();
            act(engine, Action::Commission { agent: id.clone(), policy, label }).await?;
            let mut done = show(engine, &id)?;
            if mandate {
                done.warnings.extend(sign_mandate(engine, &agent, &*dialogue).await);
            }
            Ok(done)
        }
        AgentOrder::Edit { agent, policy, address } => {
            let agent = lookup::agent(engine, &agent)?;
            edit(engine, &agent, policy, address).await
        }
        AgentOrder::Delete { agent, confirm } => {
            let agent = lookup::agent(engine, &agent)?;
            delete(engine, &agent, confirm, dialogue).await
        }
        AgentOrder::Instructions { agent, regenerate } => {
            let agent = lookup::agent(engine, &agent)?;
            if regenerate {
                replace(engine, &agent, dialogue).await
            } else {
                show_secret(engine, &agent, dialogue).await
            }
        }
        AgentOrder::Suspend { agent, deny } => {
            let id = lookup::agent(engine, &agent)?.id.clone();
            suspend(engine, &id, deny, dialogue.client()).await
        }
        AgentOrder::Resume { agent } => {
            let id = lookup::agent(engine, &agent)?.id.clone();
            act(engine, Action::Resume { agent: id.clone() }).await?;
            reissue(engine).await;
            show(engine, &id)
        }
        AgentOrder::Renew { agent } => {
            let id = lookup::agent(engine, &agent)?.id.clone();
            act(engine, Action::Renew { agent: id.clone() }).await?;
            show(engine, &id)
        }
    }
}

/// Signs a mandate for an agent that was just commissioned. The commission stands if this fails, so what happened is a
/// warning.
async fn sign_mandate(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    dialogue: &dyn Dialogue,
) -> Vec<Warning> {
    match mandates::create(engine, agent, false, dialogue).await {
        Ok(signed) => {
            let message = format!("Its mandate is signed: `mandate show {}` shows it.", agent.id);
            let note = Warning { code: "MANDATE_SIGNED".to_owned(), message };
            std::iter::once(note).chain(signed.warnings).collect()
        }
        Err(fault) => {
            let message = format!(
                "{} The agent is commissioned; `mandate create {}` tries again.",
                fault.message, agent.id
            );
            vec![Warning { code: fault.code.text().to_owned(), message }]
        }
    }
}

/// Suspends an agent, and denies its pending requests if `deny`. Otherwise a warning offers that.
async fn suspend(
    engine: &Arc<EngineContext>,
    id: &AgentId,
    deny: bool,
    by: Client,
) -> Result<Done, Fault> {
    let suspended = act(engine, Action::Suspend { agent: id.clone() }).await;
    if !is_dry_run() {
        suspended?;
        // The suspension voided the slips of all agents.
        reissue(engine).await;
    } else if !deny {
        suspended?;
    }
    let mut warnings = Vec::new();
    if deny {
        let denials = deny_each(engine, &pending_of(engine, Some(id)), None, by).await;
        warnings.extend(denials.not_denied.into_iter().map(|request| {
            let id = request.id.parse::<RequestId>().map_or(request.id, |id| id.short());
            let message = format!("Not denied: {id}. {}", request.message);
            Warning { code: request.code.text().to_owned(), message }
        }));
    }
    let mut done = show(engine, id)?;
    done.warnings.extend(warnings);
    let left = pending_of(engine, Some(id)).len();
    if left > 0 {
        let message = format!(
            "Its waiting requests ({left}) still wait for your decision: `deny --agent {id}` denies them."
        );
        done.warnings.push(Warning { code: "REQUESTS_WAIT".to_owned(), message });
    }
    done.warnings.extend(mandates::outlasts(&engine.core.view().state, id));
    Ok(done)
}

/// Changes the policy, the address or both. A value that is not given stays the same.
async fn edit(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    policy: Option<Name>,
    address: Option<Name>,
) -> Result<Done, Fault> {
    let given = agent.commission.as_ref().ok_or_else(|| {
        Fault::because(
            Code::AgentNotCommissioned,
            format!(
                "It has no policy and no address yet: `agent commission {} <policy> <label>`.",
                agent.id
            ),
        )
    })?;
    let policy = policy.unwrap_or_else(|| given.policy.clone());
    let label = address.unwrap_or_else(|| given.label.clone());
    act(engine, Action::Commission { agent: agent.id.clone(), policy, label }).await?;
    show(engine, &agent.id)
}

async fn delete(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    confirm: Option<String>,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    // Check the deletion before the operator has to type the name.
    let deletion = Action::DeleteAgent { agent: agent.id.clone() };
    rehearse(engine, deletion.clone())?;
    let works =
        agent.commission.as_ref().map_or("It has no policy and no address.".to_owned(), |given| {
            format!("It pays from {} under policy {}.", given.label, given.policy)
        });
    let lines = vec![
        format!("agent {} ({})", agent.id, agent.name),
        works,
        "It has no waiting requests. Its credentials stop working at once, permanently.".to_owned(),
        "Its history stays. Payments already signed can still be redeemed until they expire."
            .to_owned(),
    ];
    type_name(dialogue, lines, agent.name.as_str(), confirm).await?;
    let _one_at_a_time = engine.wallet_changes.lock().await;
    act(engine, deletion).await?;
    // The deletion voided the slips of all agents.
    reissue(engine).await;
    let (vault, id) = (Arc::clone(&engine.vault), agent.id.clone());
    let forgotten = blocking(move || vault.forget_agent(&id)).await?;
    let answer = Answer::Deleted { name: agent.name.as_str().to_owned() };
    // A failure here does not undo the deletion: the next unlock drops a secret that no event names.
    let warning = |fault: Fault| Warning { code: "WALLET_FILE".to_owned(), message: fault.message };
    let warnings = forgotten.err().map(warning).into_iter();
    let outlasts = mandates::outlasts(&engine.core.view().state, &agent.id);
    Ok(Done { answer, warnings: warnings.chain(outlasts).collect(), secret: None })
}

async fn register(
    engine: &Arc<EngineContext>,
    name: Name,
    auth: AuthMode,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let one_at_a_time = engine.wallet_changes.lock().await;
    let view = engine.core.view();
    if view.state.wallet.is_none() {
        return Err(Fault::new(Code::NoWallet));
    }
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    // Reject a taken name before a secret is written. The core decides again.
    if view.state.find_agent(&name).is_some() {
        return Err(Fault::because(
            Code::NameTaken,
            format!("There is already an agent named {name}: choose another name."),
        ));
    }
    announce(|| format!("registers the agent {name} and shows its credentials"))?;
    let mut id = AgentId::from_entropy(engine.random()?);
    while view.state.agents.contains_key(&id) || view.state.retired.contains(&id) {
        id = AgentId::from_entropy(engine.random()?);
    }
    let NewCredential { secret, credential } = new_credential(engine, &id, auth).await?;
    act(engine, Action::RegisterAgent { id: id.clone(), name, credential }).await?;
    // Releases the lock first: a program that stops reading must not block the wallet.
    drop(one_at_a_time);
    activate_and_show(engine, &id, secret.expose_secret(), dialogue).await
}

async fn replace(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let one_at_a_time = engine.wallet_changes.lock().await;
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    announce(|| {
        let name = &agent.name;
        format!("issues new credentials to {name}: its old ones stop working at once")
    })?;
    let mode = agent.credential.mode();
    let NewCredential { secret, credential } = new_credential(engine, &agent.id, mode).await?;
    act(engine, Action::ReplaceCredential { agent: agent.id.clone(), credential }).await?;
    drop(one_at_a_time);
    let mut done = activate_and_show(engine, &agent.id, secret.expose_secret(), dialogue).await?;
    done.warnings.extend(mandates::outlasts(&engine.core.view().state, &agent.id));
    Ok(done)
}

/// Shows the secret of an HMAC agent again. A bearer token is not stored.
async fn show_secret(
    engine: &Arc<EngineContext>,
    agent: &Agent,
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    if agent.credential.mode() == AuthMode::Bearer {
        return Err(Fault::because(
            Code::NothingFound,
            "Only the hash of a bearer token is stored: add --regenerate to issue a new one.",
        ));
    }
    let (vault, id) = (Arc::clone(&engine.vault), agent.id.clone());
    let secret = blocking(move || vault.agent_secret(&id)).await??;
    let secret = secret.ok_or_else(|| {
        Fault::because(
            Code::NothingFound,
            "The wallet file lacks this agent's secret: add --regenerate to issue a new one.",
        )
    })?;
    dialogue.send_secret(token_text(secret.expose_secret())).await?;
    credentials(engine, &agent.id).await
}

/// A new secret and the credential that the journal records for it.
struct NewCredential {
    secret: AgentSecret,
    credential: Credential,
}

/// Draws a secret of 32 random bytes, and stores an HMAC agent's secret in the wallet file.
///
/// The credential of a bearer agent contains only the token's hash.
async fn new_credential(
    engine: &Arc<EngineContext>,
    id: &AgentId,
    auth: AuthMode,
) -> Result<NewCredential, Fault> {
    require_trusted_journal(engine)?;
    let secret = engine.random_secret()?;
    match auth {
        AuthMode::Bearer => {
            let sha256 = Sha256::digest(&*token_text(secret.expose_secret())).into();
            Ok(NewCredential { secret, credential: Credential::Bearer { sha256 } })
        }
        AuthMode::Hmac => {
            let (vault, id) = (Arc::clone(&engine.vault), id.clone());
            let stored = blocking(move || {
                let check = vault.store_agent_secret(&id, secret.expose_secret())?;
                Ok::<_, Fault>(NewCredential {
                    secret,
                    credential: Credential::Hmac { secret_hash: check },
                })
            });
            stored.await?
        }
    }
}

/// Activates and shows the secret. The caller has committed the event.
async fn activate_and_show(
    engine: &Arc<EngineContext>,
    id: &AgentId,
    secret: &[u8; 32],
    dialogue: &dyn Dialogue,
) -> Result<Done, Fault> {
    let hmac = engine.core.view().state.agents.get(id).map(|agent| agent.credential.mode());
    if hmac == Some(AuthMode::Hmac) {
        engine.vault.activate_agent_secret(id, secret);
    }
    dialogue.send_secret(token_text(secret)).await?;
    credentials(engine, id).await
}

async fn credentials(engine: &Arc<EngineContext>, id: &AgentId) -> Result<Done, Fault> {
    let view = engine.core.view();
    let agent = view.state.agents.get(id).ok_or(Fault::new(Code::InternalError))?;
    let AgentUrl { url, problem, is_serving: serving } = engine.agent_url().await;
    let answer = Answer::Credentials(CredentialsAnswer {
        agent_id: id.to_string(),
        name: agent.name.as_str().to_owned(),
        auth_mode: agent.credential.mode(),
        url,
        url_unknown_reason: problem,
        serving,
    });
    Ok(Done { answer, warnings: Vec::new(), secret: Some(SecretField::Token) })
}

fn show(engine: &EngineContext, id: &AgentId) -> Result<Done, Fault> {
    let view = engine.core.view();
    let agent = view.state.agents.get(id).ok_or(Fault::new(Code::NothingFound))?;
    Ok(Answer::Agent(describe::agent(engine, &view.state, agent)).into())
}
