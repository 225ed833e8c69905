//! Publishes an agent's newest mandate at the registry of the setting `registry.url`.
//!
//! The upload is on disk before the registry is called. If the answer does not show the outcome, the mandate is looked
//! up by its id; while it is unknown, the upload stays open, and the next one begins with that lookup.

use std::sync::Arc;

use bursar_chain::ports::{Registry, RegistryFault, RegistryReply};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_domain::mandates::{IssuedMandate, MandateAction, Purpose, SignedMandate};
use bursar_domain::registrations::{Publication, Registration, Upload, UploadEnd};
use bursar_domain::{Action, State};
use bursar_mandate::{
    LookupReply, RegistryEntry, RegistryRefusal, UploadReply, Wanted, read_lookup, read_upload,
};

use crate::context::EngineContext;
use crate::operator::dialogue::Dialogue;
use crate::operator::dry_run::announce;
use crate::operator::support::confirm::agree;
use crate::operator::support::mandate_status::registry_label;
use crate::operator::support::rehearse;

/// Shows what the registry learns, asks, and publishes the agent's newest mandate.
///
/// # Errors
/// The mandate cannot be published, the operator declines, the registry refuses, or its answer shows no outcome.
pub(super) async fn run(
    engine: &Arc<EngineContext>,
    agent: &AgentId,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    let (upload, signed) = newest(&engine.core.view().state, agent)?;
    rehearse(engine, Action::Mandate(MandateAction::BeginUpload(upload.clone())))?;
    agree(dialogue, card(&upload.base, &signed), "Publish it there?").await?;
    publish(engine, upload, &signed, dialogue).await
}

/// Publishes the mandate that an agent's retirement just signed, at the registry for which the operator agreed.
///
/// # Errors
/// As those of [`run`].
pub(super) async fn run_agreed(
    engine: &Arc<EngineContext>,
    agent: &AgentId,
    base: &str,
    dialogue: &dyn Dialogue,
) -> Result<(), Fault> {
    let (upload, signed) = newest(&engine.core.view().state, agent)?;
    if upload.base != base {
        let message =
            "registry.url was changed meanwhile, so nothing was sent: run the command again.";
        return Err(Fault::because(Code::RequestNoLongerValid, message));
    }
    publish(engine, upload, &signed, dialogue).await
}

/// Returns the registry of the settings, if it publishes limits of this agent or may do so.
pub(super) fn publishing_registry<'a>(
    state: &'a State,
    agent: &AgentId,
) -> Option<&'a Registration> {
    let base = state.settings.registry.as_ref()?;
    let mut known = state.mandates.registrations(agent).iter();
    known.find(|one| one.base == *base && one.grants().next().is_some())
}

/// Returns the upload of an agent's newest signed mandate.
fn newest(state: &State, agent: &AgentId) -> Result<(Upload, Arc<SignedMandate>), Fault> {
    let base = state.settings.registry.clone().ok_or_else(|| {
        let message = "No registry is set: `config set registry.url <url>` names one.";
        Fault::because(Code::NothingFound, message)
    })?;
    let signed = state.mandates.signed.get(agent).ok_or_else(|| {
        let message =
            format!("The agent {agent} has no signed mandate: `mandate create {agent}` signs one.");
        Fault::because(Code::NothingFound, message)
    })?;
    let upload = Upload { agent: agent.clone(), id: signed.issued.draft.id, base };
    Ok((upload, Arc::clone(signed)))
}

/// Lists what the registry and its readers learn.
fn card(base: &str, signed: &SignedMandate) -> Vec<String> {
    let draft = &signed.issued.draft;
    let terms = &draft.terms;
    let limits = &terms.limits;
    let networks: Vec<String> =
        terms.networks.iter().map(|chain| format!("eip155:{chain}")).collect();
    let mut lines = vec![
        format!("{} and all its readers learn this mandate:", registry_label(base)),
        format!("  agent        {}", terms.agent),
        format!("  pays from    {}", terms.wallet.to_checksum(None)),
        format!(
            "  limits       {} {} a day, {} a payment, {} without asking",
            limits.daily, limits.currency, limits.per_request, limits.auto_below
        ),
        format!("  networks     {}", networks.join(", ")),
        format!("  credential   fingerprint {}", terms.fingerprint),
        format!("  policy id    {}", terms.policy_id),
    ];
    lines.push(match signed.issued.purpose {
        Purpose::Grant => {
            "It has no end date: `mandate retire` replaces it there, but copies remain.".to_owned()
        }
        Purpose::Retirement => {
            "It replaces the agent's limits there; copies of them remain.".to_owned()
        }
    });
    lines
}

/// Sends a mandate to the registry, or finds it there after an upload whose outcome is unknown.
async fn publish(
    engine: &Arc<EngineContext>,
    upload: Upload,
    signed: &SignedMandate,
    dialogue: &dyn Dialogue,
) -> Result<(), Fault> {
    let host = registry_label(&upload.base);
    announce(|| format!("sends the mandate {} to {host}", upload.id))?;
    let Ok(_one_at_a_time) = engine.uploads.try_lock() else {
        let message = "Another upload is running: try again when it has ended.";
        return Err(Fault::because(Code::Busy, message));
    };
    let known = publications(engine, &upload);
    if let Some(known) = known.iter().find(|one| one.id() == upload.id) {
        dialogue.progress(&format!("looking the mandate up at {host}")).await;
        let shown = Call::new(engine, &upload, &known.issued).look_up(id_there(known)).await;
        // A retirement only withdraws, so it is sent again also if the registry answers no lookup.
        let is_withdrawal = known.issued.purpose == Purpose::Retirement;
        match shown
            .or_else(|fault| if is_withdrawal { Ok(LookupReply::Unclear) } else { Err(fault) })?
        {
            LookupReply::Published(entry) => {
                record(engine, &upload, UploadEnd::Published(entry)).await?;
                return drop_replaced(engine, &upload, dialogue).await;
            }
            LookupReply::Absent => record(engine, &upload, UploadEnd::Absent).await?,
            LookupReply::Changed => {
                let text =
                    format!("{host} shows a copy that this wallet did not sign: replacing it");
                dialogue.progress(&text).await;
            }
            LookupReply::Unclear => {}
        }
    }
    engine.core.act(Action::Mandate(MandateAction::BeginUpload(upload.clone()))).await?;
    engine.hit("registry.begun")?;
    dialogue.progress(&format!("publishing the mandate at {host}")).await;
    let document = signed.issued.draft.signed(&signed.signature).to_compact();
    let end = Call::new(engine, &upload, &signed.issued).publish(document).await;
    engine.hit("registry.answered")?;
    let end = end?;
    record(engine, &upload, end.clone()).await?;
    engine.hit("registry.ended")?;
    if let UploadEnd::Refused(refusal) = end {
        let message = format!("{host} does not publish the mandate: {refusal}.");
        return Err(Fault::because(Code::RegistryRefused, message));
    }
    drop_replaced(engine, &upload, dialogue).await
}

/// Asks for the agent's earlier mandates at the registry, and forgets those that it no longer publishes.
async fn drop_replaced(
    engine: &EngineContext,
    upload: &Upload,
    dialogue: &dyn Dialogue,
) -> Result<(), Fault> {
    for earlier in publications(engine, upload) {
        if earlier.id() == upload.id {
            continue;
        }
        dialogue.progress(&format!("checking that it replaced {}", earlier.id())).await;
        let about = Upload { id: earlier.id(), ..upload.clone() };
        let reply = Call::new(engine, &about, &earlier.issued).look_up(id_there(&earlier)).await;
        // Without a clear answer it counts as published.
        if let Ok(LookupReply::Absent) = reply {
            record(engine, &about, UploadEnd::Absent).await?;
        }
    }
    Ok(())
}

/// Returns the agent's mandates that the registry of an upload received.
fn publications(engine: &EngineContext, upload: &Upload) -> Vec<Publication> {
    let view = engine.core.view();
    let mut known = view.state.mandates.registrations(&upload.agent).iter();
    let known = known.find(|one| one.base == upload.base);
    known.map_or_else(Vec::new, |known| known.publications.clone())
}

/// Returns the id by which the registry knows a mandate.
fn id_there(publication: &Publication) -> String {
    let confirmed = publication.last_confirmed.as_ref();
    confirmed.map_or_else(|| publication.id().to_string(), |known| known.entry.id.clone())
}

/// Records what the registry answered about a mandate.
async fn record(engine: &EngineContext, upload: &Upload, end: UploadEnd) -> Result<(), Fault> {
    let host = registry_label(&upload.base);
    let answered = match &end {
        UploadEnd::Published(entry) => format!("{host} publishes the mandate as {}", entry.id),
        UploadEnd::Refused(refusal) => format!("{host} does not publish the mandate: {refusal}"),
        UploadEnd::Absent => format!("{host} does not publish the mandate"),
    };
    let ended = MandateAction::EndUpload { upload: upload.clone(), end };
    engine.core.act(Action::Mandate(ended)).await.map(drop).map_err(|fault| {
        let message = format!(
            "{answered}. That could not be recorded ({}): {} looks it up.",
            fault.message.trim_end_matches('.'),
            again(&upload.agent)
        );
        Fault::because(Code::RegistryUnclear, message)
    })
}

fn again(agent: &AgentId) -> String {
    format!("`mandate upload {agent}`")
}

/// The calls about one mandate.
struct Call<'a> {
    registry: &'a dyn Registry,
    upload: &'a Upload,
    wanted: Wanted,
}

impl<'a> Call<'a> {
    fn new(engine: &'a EngineContext, upload: &'a Upload, issued: &IssuedMandate) -> Self {
        let signer = issued.draft.terms.wallet;
        let wanted = Wanted { id: upload.id, text: issued.text.clone(), signer };
        Self { registry: &*engine.ports.registry, upload, wanted }
    }

    /// Asks for the mandate under an id. A reply that does not show whether it is there is an error.
    async fn look_up(&self, id: String) -> Result<LookupReply, Fault> {
        let reply = self.registry.look_up(&self.upload.base, &id).await;
        let reply = reply.map_err(|fault| self.unclear(&fault.to_string()))?;
        match read_lookup(reply.status, &reply.body, &self.wanted) {
            LookupReply::Unclear => Err(self.unclear(&status_text(&reply))),
            known => Ok(known),
        }
    }

    /// Sends the mandate. If the reply does not show the outcome, looks it up once.
    async fn publish(&self, document: String) -> Result<UploadEnd, Fault> {
        let reply = self.registry.publish(&self.upload.base, document).await;
        let (id, why) = match reply {
            Ok(reply) => match read_upload(reply.status, &reply.body, self.wanted.id) {
                UploadReply::Published(entry) => return Ok(UploadEnd::Published(entry)),
                UploadReply::Refused(refusal) => return Ok(UploadEnd::Refused(refusal)),
                UploadReply::Renamed(entry) => return self.confirm(entry).await,
                UploadReply::Unclear => (self.wanted.id.to_string(), status_text(&reply)),
            },
            Err(fault @ RegistryFault::NoReply { .. }) => {
                (self.wanted.id.to_string(), fault.to_string())
            }
            Err(unsent) => {
                let message = format!("Nothing was sent: {unsent}.");
                return Err(Fault::because(Code::RegistryUnclear, message));
            }
        };
        match self.look_up(id).await? {
            LookupReply::Published(entry) => Ok(UploadEnd::Published(entry)),
            LookupReply::Changed => Ok(UploadEnd::Refused(RegistryRefusal::DuplicateId)),
            LookupReply::Absent | LookupReply::Unclear => Err(self.unclear(&why)),
        }
    }

    /// Confirms that the registry has the mandate under the id that it chose.
    async fn confirm(&self, entry: RegistryEntry) -> Result<UploadEnd, Fault> {
        match self.look_up(entry.id.clone()).await? {
            LookupReply::Published(_same) => Ok(UploadEnd::Published(entry)),
            _other => Err(self.unclear("it answered with the id of another mandate")),
        }
    }

    fn unclear(&self, why: &str) -> Fault {
        let message = format!(
            "Whether {} publishes the mandate is unknown ({why}): {} looks it up before it sends it again.",
            registry_label(&self.upload.base),
            again(&self.upload.agent)
        );
        Fault::because(Code::RegistryUnclear, message)
    }
}

fn status_text(reply: &RegistryReply) -> String {
    format!("an answer of HTTP status {} that does not show it", reply.status)
}
