//! Helpers shared by the operator's commands.

pub(super) mod balance_error;
pub(super) mod confirm;
pub(super) mod describe;
pub(super) mod frame_budget;
pub(super) mod lookup;
pub(crate) mod password;

use bursar_control::answers::{Answer, SecretField, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_domain::{Action, Command, decide};

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
    engine.core.act(action).await
}

/// Checks whether the rules would accept an action now. Records nothing.
///
/// # Errors
/// The refusal that the action would meet now.
pub(crate) fn rehearse(engine: &EngineContext, action: Action) -> Result<(), Fault> {
    let view = engine.core.view();
    let asked = Command {
        moment: engine.core.now(),
        unlocked: engine.vault.is_unlocked(),
        trusted: view.untrusted_reason.is_none(),
        action,
    };
    decide(&view.state, &asked).map(drop).map_err(|refusal| core::fault(&refusal))
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
