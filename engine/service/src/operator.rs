//! Runs the operator's commands. Questions to the operator go through the `Dialogue`, never
//! through a terminal.

mod activity;
mod addresses;
mod agents;
mod allowances;
mod audit;
pub(crate) mod backup;
mod balances;
mod cards;
mod config;
mod denials;
mod device_card;
mod device_status;
pub(crate) mod dialogue;
pub mod doctor;
pub(crate) mod dry_run;
mod endings;
mod entries;
mod history;
mod icons;
mod ledger;
mod lending;
mod mandates;
mod names;
mod payees;
mod policies;
mod proofs;
mod quotes;
mod repricing;
mod requests;
mod sends;
mod server;
mod support;
pub(crate) mod wallet;

use std::sync::Arc;

use bursar_control::answers::{Answer, Reply};
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, SecretPrompt};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

pub use self::support::password::check_password;

use self::dialogue::Dialogue;
use self::dry_run::DryDialogue;
use self::support::Done;
use self::support::password::password;
use self::wallet::open::open_with;
use crate::context::{EngineContext, Mode};

/// Runs one command and returns its reply.
///
/// If no engine runs, the command's own process is the engine, and opens the wallet if the command needs it.
pub(crate) async fn run(
    engine: &Arc<EngineContext>,
    order: Order,
    dialogue: &mut dyn Dialogue,
) -> Reply {
    if dialogue.asking() == Asking::DryRun {
        return run_dry(engine, order, dialogue).await;
    }
    let first = dispatch(engine, order.clone(), dialogue).await;
    let done = match first {
        Err(fault) if fault.code == Code::WalletLocked && engine.mode == Mode::Maintenance => {
            unlock_and_run(engine, order, dialogue).await
        }
        other => other,
    };
    reply(engine, done)
}

/// Runs one command up to its first change, and replies with the plan.
///
/// A command that changes nothing runs as usual.
async fn run_dry(engine: &Arc<EngineContext>, order: Order, dialogue: &mut dyn Dialogue) -> Reply {
    let mut dry = DryDialogue(dialogue);
    let (done, stopped) = dry_run::observe(dispatch(engine, order, &mut dry)).await;
    match stopped {
        Some(plan) => Reply { result: Ok(Answer::Plan(plan)), warnings: Vec::new(), secret: None },
        None => reply(engine, done),
    }
}

fn reply(engine: &EngineContext, done: Result<Done, Fault>) -> Reply {
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
    engine: &Arc<EngineContext>,
    order: Order,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let password = password(dialogue, SecretPrompt::Password).await?;
    let mut warnings = open_with(engine, password, true).await?;
    let mut done = dispatch(engine, order, dialogue).await?;
    warnings.append(&mut done.warnings);
    Ok(Done { warnings, ..done })
}

/// Fails with `BAD_INPUT` if the edition does not have the command.
fn require_command(engine: &EngineContext, order: &Order) -> Result<(), Fault> {
    let name = order.name();
    let command = name.split('.').next().unwrap_or(name);
    let commands = engine.edition.commands;
    if !commands.lacks(command) {
        return Ok(());
    }
    let message = format!("{} has no command `{command}`: see `help`.", commands.program);
    Err(Fault::because(Code::BadInput, message))
}

async fn dispatch(
    engine: &Arc<EngineContext>,
    order: Order,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    require_command(engine, &order)?;
    match order {
        Order::Wallet(order) => wallet::run(engine, order, dialogue).await,
        Order::Seed(order) => addresses::seed(engine, order, dialogue).await,
        Order::Address(order) => addresses::address(engine, order, dialogue).await,
        Order::Balances(order) => balances::run(engine, order).await,
        Order::Policy(order) => policies::run(engine, order, dialogue).await,
        Order::Agent(order) => agents::run(engine, order, dialogue).await,
        Order::Server(order) => server::server(engine, order).await,
        Order::Requests(order) => requests::list(engine, &order).await,
        Order::Approve(order) => requests::approve(engine, &order, dialogue).await,
        Order::Deny(order) => denials::deny(engine, &order, dialogue).await,
        Order::Quote(order) => quotes::run(engine, order).await,
        Order::Allowances(order) => allowances::run(engine, order, dialogue).await,
        Order::Venues(order) => lending::venues(engine, order).await,
        Order::Venue(order) => lending::venue(engine, order, dialogue).await,
        Order::Positions(order) => lending::positions(engine, order).await,
        Order::Position(order) => lending::position(engine, order, dialogue).await,
        Order::Mandate(order) => mandates::run(engine, order, dialogue).await,
        Order::Payee(order) => payees::run(engine, order).await,
        Order::History(order) => history::run(engine, order, dialogue).await,
        Order::Activity(order) => activity::list(engine, &order).await,
        Order::Watch(order) => activity::watch(engine, &order, dialogue).await,
        Order::Receipt(order) => history::receipt(engine, order, dialogue).await,
        Order::Config(order) => config::run(engine, order).await,
        Order::Network(order) => server::network(engine, order).await,
        Order::Freeze => server::freeze(engine).await,
        Order::Thaw => server::thaw(engine, dialogue).await,
        Order::Status(order) => server::status(engine, order).await,
        Order::Doctor => doctor::run(engine, dialogue).await,
        Order::Audit(order) => audit::run(engine, order, dialogue).await,
        Order::Names => names::list(engine),
        Order::Icons => icons::list(engine),
    }
}
