//! Turns an operator's order into commands and an answer. Knows no terminal: what must be asked goes
//! through the [`Dialogue`].

mod activity;
mod addresses;
mod agents;
mod audit;
mod backup;
mod balances;
mod cards;
mod config;
mod describe;
pub mod doctor;
mod fitting;
mod history;
mod policies;
mod requests;
mod sends;
mod server;
mod silence;
pub(crate) mod wallet;

use std::sync::Arc;

use bursar_core::answers::{Answer, Reply, SecretField, Warning};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::Order;
use bursar_core::wire::{Asking, SecretPrompt};
use bursar_domain::{Action, Command, decide};
use secrecy::{ExposeSecret, SecretString};
use unicode_normalization::UnicodeNormalization;

pub(crate) use self::backup::sweep as sweep_backup;
use crate::control::Dialogue;
use crate::core::{self, Outcome};
use crate::engine::{Mode, Shared, blocking};

/// What a command ends with, before it is a [`Reply`].
pub(crate) struct Done {
    answer: Answer,
    warnings: Vec<Warning>,
    secret: Option<SecretField>,
}

impl From<Answer> for Done {
    fn from(answer: Answer) -> Self {
        Self { answer, warnings: Vec::new(), secret: None }
    }
}

/// Runs one order to its end. A command that became the engine for itself opens the wallet when it turns
/// out to need it: there is nobody else who could have.
pub(crate) async fn run(engine: &Arc<Shared>, order: Order, dialogue: &mut Dialogue) -> Reply {
    let first = dispatch(engine, order.clone(), dialogue).await;
    let done = match first {
        Err(fault) if fault.code == Code::WalletLocked && engine.mode == Mode::Maintenance => {
            unlock_and_run(engine, order, dialogue).await
        }
        other => other,
    };
    match done {
        Ok(done) => Reply { result: Ok(done.answer), warnings: done.warnings, secret: done.secret },
        Err(mut fault) => {
            if fault.code == Code::JournalFailed {
                let file = engine.folder.file("journal.redb");
                fault.message = format!("{} ({})", fault.message, file.display());
            }
            if let Some(detail) = &fault.detail {
                tracing::warn!(code = %fault.code, detail, "a command failed");
            }
            Reply { result: Err(fault), warnings: Vec::new(), secret: None }
        }
    }
}

async fn unlock_and_run(
    engine: &Arc<Shared>,
    order: Order,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    let password = password(dialogue, SecretPrompt::Password).await?;
    let mut warnings = wallet::open_with(engine, password).await?;
    let mut done = dispatch(engine, order, dialogue).await?;
    warnings.append(&mut done.warnings);
    Ok(Done { warnings, ..done })
}

async fn dispatch(
    engine: &Arc<Shared>,
    order: Order,
    dialogue: &mut Dialogue,
) -> Result<Done, Fault> {
    match order {
        Order::Wallet(order) => wallet::run(engine, order, dialogue).await,
        Order::Seed(order) => addresses::seed(engine, order, dialogue).await,
        Order::Address(order) => addresses::address(engine, order, dialogue).await,
        Order::Balances(order) => balances::run(engine, order).await,
        Order::Policy(order) => policies::run(engine, order).await,
        Order::Agent(order) => agents::run(engine, order, dialogue).await,
        Order::Server(order) => server::server(engine, order).await,
        Order::Requests(order) => requests::list(engine, &order).await,
        Order::Approve(order) => requests::approve(engine, &order, dialogue).await,
        Order::Deny(order) => requests::deny(engine, &order, dialogue).await,
        Order::History(order) => history::run(engine, order, dialogue).await,
        Order::Activity(order) => activity::list(engine, &order).await,
        Order::Watch(order) => activity::watch(engine, &order, dialogue).await,
        Order::Receipt(order) => history::receipt(engine, &order).await,
        Order::Config(order) => config::run(engine, order).await,
        Order::Network(order) => server::network(engine, order).await,
        Order::Freeze => server::freeze(engine).await,
        Order::Thaw => server::thaw(engine, dialogue).await,
        Order::Status => server::status(engine).await,
        Order::Doctor => doctor::run(engine, dialogue).await,
        Order::Audit(order) => audit::run(engine, order, dialogue).await,
    }
}

/// Has an action decided.
async fn act(engine: &Shared, action: Action) -> Result<Outcome, Fault> {
    engine.core.act(action).await
}

/// Whether an action would be refused as things stand; nothing happens.
fn rehearse(engine: &Shared, action: Action) -> Result<(), Fault> {
    let view = engine.core.view();
    let asked = Command {
        moment: engine.core.now(),
        unlocked: engine.vault.is_unlocked(),
        trusted: view.untrusted.is_none(),
        action,
    };
    decide(&view.state, &asked).map(drop).map_err(|refusal| core::fault(&refusal))
}

/// Asks for the password. The same passphrase typed on another keyboard is the same password.
async fn password(dialogue: &mut Dialogue, what: SecretPrompt) -> Result<SecretString, Fault> {
    Ok(normalized(&dialogue.secret(what).await?))
}

/// Unicode NFC.
pub(crate) fn normalized(password: &SecretString) -> SecretString {
    // A string that grew would leave parts of the password in memory that was given back.
    let text = password.expose_secret();
    let length = text.nfc().map(char::len_utf8).sum();
    let mut normal = String::with_capacity(length);
    normal.extend(text.nfc());
    SecretString::from(normal)
}

/// What changes the wallet file waits until the journal is trusted: an older journal does not name what it
/// does not know, and would have it overwritten.
fn needs_trust(engine: &Shared) -> Result<(), Fault> {
    match &engine.core.view().untrusted {
        None => Ok(()),
        Some(_why) => Err(Fault::new(Code::JournalUntrusted)),
    }
}

/// Asks for a yes before something that cannot be taken back.
async fn agree(dialogue: &mut Dialogue, lines: Vec<String>, question: &str) -> Result<(), Fault> {
    match dialogue.asking() {
        Asking::Agreed => Ok(()),
        Asking::Interactive => dialogue.confirm(lines, question).await,
        Asking::Silent => Err(Fault::because(
            Code::ConfirmationNeeded,
            "This needs your agreement, and there is no terminal to ask on: add --yes.",
        )),
    }
}

/// Has the name of what is lost for good typed: a yes is given too easily, also by `--yes`.
async fn type_name(
    dialogue: &mut Dialogue,
    lines: Vec<String>,
    name: &str,
    given: Option<String>,
) -> Result<(), Fault> {
    let typed = match (given, dialogue.asking()) {
        (Some(given), _) => given,
        (None, Asking::Interactive) => dialogue.typed_name(lines, name).await?,
        (None, Asking::Agreed | Asking::Silent) => {
            let message = "This cannot be undone, so you must give the name: add --confirm <name>.";
            return Err(Fault::because(Code::ConfirmationNeeded, message));
        }
    };
    if typed.trim() == name {
        return Ok(());
    }
    Err(Fault::because(Code::Declined, format!("Nothing was done: the name is {name}.")))
}

/// Asks for the password of the open wallet again.
async fn prove_operator(engine: &Arc<Shared>, dialogue: &mut Dialogue) -> Result<(), Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    let password = password(dialogue, SecretPrompt::Password).await?;
    let turn = wallet::turn(engine).await?;
    let vault = Arc::clone(&engine.vault);
    let verified = blocking(move || vault.verify_password(&password)).await?;
    turn.over(verified).await
}
