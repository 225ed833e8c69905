//! Dry runs: a command runs up to its first change, which is recorded as part of a plan and not made.
//!
//! Every change goes through [`act`](super::support::act) or announces itself with [`announce`]. Both stop a dry run
//! with a fault; the plan, and not the fault, is then the answer.

use std::cell::RefCell;

use bursar_chain::ports::BoxFuture;
use bursar_control::answers::{ActivityRow, PlanAnswer};
use bursar_control::wire::{Asking, SecretPrompt};
use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use secrecy::SecretString;
use zeroize::Zeroizing;

use super::dialogue::Dialogue;

/// The dry run of one command.
#[derive(Default)]
struct DryRun {
    plan: PlanAnswer,
    /// Whether the command reached a change or a secret.
    is_stopped: bool,
}

tokio::task_local! {
    /// The dry run that this task performs.
    static DRY_RUN: RefCell<DryRun>;
}

/// Runs a command as a dry run. Returns its result, and the plan if a change or a secret stopped the command.
pub(super) async fn observe<T>(command: impl Future<Output = T>) -> (T, Option<PlanAnswer>) {
    DRY_RUN
        .scope(RefCell::default(), async {
            let result = command.await;
            let DryRun { plan, is_stopped } = DRY_RUN.with(RefCell::take);
            (result, is_stopped.then_some(plan))
        })
        .await
}

/// Returns whether this task performs a dry run.
pub(crate) fn is_dry_run() -> bool {
    DRY_RUN.try_with(|_run| ()).is_ok()
}

/// Stops a dry run before a change that no action of the core describes. Does nothing in a real run.
///
/// # Errors
/// In a dry run, always.
pub(crate) fn announce(change: impl FnOnce() -> String) -> Result<(), Fault> {
    announce_effect(None, change)
}

/// As [`announce`], for a change that allows more than before (`true`) or less.
///
/// # Errors
/// In a dry run, always.
pub(crate) fn announce_rule(loosens: bool, change: impl FnOnce() -> String) -> Result<(), Fault> {
    announce_effect(Some(loosens), change)
}

fn announce_effect(loosens: Option<bool>, change: impl FnOnce() -> String) -> Result<(), Fault> {
    if is_dry_run() { stop(vec![change()], loosens) } else { Ok(()) }
}

/// Adds changes to the plan, and stops the dry run.
pub(super) fn stop<T>(changes: Vec<String>, loosens: Option<bool>) -> Result<T, Fault> {
    let _real_run = DRY_RUN.try_with(|run| {
        let mut run = run.borrow_mut();
        run.is_stopped = true;
        run.plan.changes.extend(changes);
        run.plan.loosens = match (run.plan.loosens, loosens) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (known, new) => known.or(new),
        };
    });
    Err(Fault::new(Code::Cancelled))
}

/// Records a secret that the command would ask for after the change that stops its dry run.
pub(super) fn will_ask(secret: SecretPrompt) {
    let asked = match secret {
        SecretPrompt::Password => "the wallet's password",
        SecretPrompt::NewPassword => "a new password, twice",
        SecretPrompt::SeedPhrase => "a seed phrase",
    };
    note_question(Vec::new(), asked.to_owned());
}

/// Adds a question to the plan, with the lines that are shown before it.
pub(super) fn note_question(lines: Vec<String>, question: String) {
    let _real_run = DRY_RUN.try_with(|run| {
        let plan = &mut run.borrow_mut().plan;
        plan.shows.extend(lines);
        plan.asks.push(question);
    });
}

/// The dialogue of a dry run: it asks nothing, and answers every question with yes.
pub(super) struct DryDialogue<'a>(pub(super) &'a mut dyn Dialogue);

impl Dialogue for DryDialogue<'_> {
    fn asking(&self) -> Asking {
        Asking::Interactive
    }

    fn client(&self) -> Client {
        self.0.client()
    }

    fn progress<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()> {
        self.0.progress(text)
    }

    fn part(&self, _text: String) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { announce(|| "writes the file".to_owned()) })
    }

    fn entries(&mut self, entries: Vec<ActivityRow>) -> BoxFuture<'_, Result<(), Fault>> {
        self.0.entries(entries)
    }

    fn cancelled(&mut self) -> BoxFuture<'_, ()> {
        self.0.cancelled()
    }

    fn secret(&mut self, what: SecretPrompt) -> BoxFuture<'_, Result<SecretString, Fault>> {
        Box::pin(async move {
            will_ask(what);
            stop(Vec::new(), None)
        })
    }

    fn confirm<'a>(
        &'a mut self,
        lines: Vec<String>,
        question: &'a str,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            note_question(lines, question.to_owned());
            Ok(())
        })
    }

    fn ask_amount<'a>(
        &'a mut self,
        lines: Vec<String>,
        amount: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            note_question(lines, format!("the amount, typed: {amount}"));
            Ok(amount.to_owned())
        })
    }

    fn ask_name<'a>(
        &'a mut self,
        lines: Vec<String>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            note_question(lines, format!("the name, typed: {name}"));
            Ok(name.to_owned())
        })
    }

    fn send_secret(&self, _bytes: Zeroizing<Vec<u8>>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { stop(Vec::new(), None) })
    }
}
