//! Helpers shared by the operator's commands.

pub(super) mod balance_error;
pub(super) mod confirm;
pub(super) mod describe;
pub(super) mod frame_budget;
pub(super) mod lookup;
pub(super) mod mandate_status;
pub(crate) mod password;

use bursar_control::answers::{Answer, SecretField, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_domain::{Action, Command, Event, State, decide};

use super::dry_run::{self, is_dry_run};
use super::entries;
use crate::context::EngineContext;
use crate::core::{self, Outcome};

/// The result of a command, before it becomes a [`Reply`](bursar_control::answers::Reply).
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) secret: Option<SecretField>,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self { answer, warnings: Vec::new(), secret: None }
    }
}

/// Sends an action to the core.
///
/// # Errors
/// The refusal of the rules, `JOURNAL_FAILED` or `ENGINE_DOWN`.
pub(crate) async fn act(engine: &EngineContext, action: Action) -> Result<Outcome, Fault> {
    if is_dry_run() {
        return dry_act(engine, action);
    }
    engine.core.act(action).await
}

/// Adds what the action would record to the plan of a dry run, and stops it.
///
/// # Errors
/// Always: the refusal of the rules, or the fault that stops the dry run.
fn dry_act(engine: &EngineContext, action: Action) -> Result<Outcome, Fault> {
    let loosens = loosens(&engine.core.view().state, &action);
    let events = decided(engine, action)?;
    let loosens = loosens.filter(|_any| !events.is_empty());
    dry_run::stop(entries::preview(engine, events), loosens)
}

/// Returns whether an action allows more than before; `None` if it changes no rule.
fn loosens(state: &State, action: &Action) -> Option<bool> {
    match action {
        Action::EditPolicy { name, policy } => {
            state.policy(name).map(|record| policy.loosens(&record.policy))
        }
        Action::Set(setting) => Some(setting.loosens(&state.settings)),
        Action::SetNetwork { enabled, .. } => Some(*enabled),
        Action::Commission { agent, policy, .. } => {
            let before = state.agents.get(agent).and_then(|agent| state.policy_of(agent));
            let after = state.policy(policy).map(|record| &record.policy)?;
            Some(before.is_none_or(|before| after.loosens(before)))
        }
        Action::Resume { .. }
        | Action::Renew { .. }
        | Action::Thaw
        | Action::AcceptJournal
        | Action::TrustVenue(_)
        | Action::WriteOff { .. } => Some(true),
        Action::Suspend { .. }
        | Action::Freeze
        | Action::DeleteAgent { .. }
        | Action::UntrustVenue { .. } => Some(false),
        _no_rule => None,
    }
}

/// Checks whether the rules would accept an action now. Records nothing.
///
/// # Errors
/// The refusal that the action would meet now.
pub(crate) fn rehearse(engine: &EngineContext, action: Action) -> Result<(), Fault> {
    decided(engine, action).map(drop)
}

/// Returns the events that the rules would record for an action now. Records nothing.
fn decided(engine: &EngineContext, action: Action) -> Result<Vec<Event>, Fault> {
    let view = engine.core.view();
    let asked = Command {
        moment: engine.core.now(),
        unlocked: engine.vault.is_unlocked(),
        trusted: view.untrusted_reason.is_none(),
        action,
    };
    let decision = decide(&view.state, &asked).map_err(|refusal| core::fault(&refusal))?;
    Ok(decision.events)
}

/// Fails with `JOURNAL_UNTRUSTED` if the journal does not match the wallet.
///
/// An older journal does not name the newer seeds and agents, so a change of the wallet file could overwrite them.
pub(crate) fn require_trusted_journal(engine: &EngineContext) -> Result<(), Fault> {
    match &engine.core.view().untrusted_reason {
        None => Ok(()),
        Some(_why) => Err(Fault::new(Code::JournalUntrusted)),
    }
}
