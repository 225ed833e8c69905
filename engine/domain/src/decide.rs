//! Turns a command into events, effects and a reply. This file lists every case; its submodules implement them.

mod agents;
mod intake;
mod journal;
mod loans;
mod mandates;
mod outboxes;
mod payees;
mod payments;
mod permits;
mod plans;
mod policies;
mod prompts;
mod proofs;
mod requests;
mod settings;
mod settlements;
mod steps;
mod trades;
mod unattended;
mod venues;
mod wallets;

use bursar_core::codes::Code;

use crate::command::{Action, Command};
use crate::decision::Decision;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::state::State;

/// Returns the events that end every unsigned plan, because the wallet is locked now.
pub fn stop_plans(state: &State) -> Vec<Event> {
    plans::stop_all(state, Code::WalletLocked)
}

/// Decides one command against the state, without changing it.
///
/// # Errors
/// The command is refused and there is nothing to record. A refusal that records events is a reply instead.
pub fn decide(state: &State, command: &Command) -> Result<Decision, Refusal> {
    match &command.action {
        Action::CreateWallet { name, wallet_id } => wallets::create(state, name, *wallet_id),
        Action::AddSeed { id, words } => wallets::add_seed(state, command, *id, *words),
        Action::AddAddress(added) => wallets::add_address(state, command, added),
        Action::CreatePolicy { name, policy } => policies::create(state, command, name, policy),
        Action::EditPolicy { name, policy } => policies::edit(state, command, name, policy),
        Action::DeletePolicy { name } => policies::delete(state, name),
        Action::RegisterAgent { id, name, credential } => {
            agents::register(state, command, id, name, credential)
        }
        Action::ReplaceCredential { agent, credential } => {
            agents::replace_credential(state, command, agent, credential)
        }
        Action::Commission { agent, policy, label } => {
            agents::commission(state, command, agent, policy, label)
        }
        Action::Suspend { agent } => agents::suspend(state, command, agent),
        Action::Resume { agent } => agents::resume(state, command, agent),
        Action::Renew { agent } => agents::renew(state, command, agent),
        Action::DeleteAgent { agent } => agents::delete(state, command, agent),
        Action::RenameAddress { from, to } => wallets::rename_address(state, command, from, to),
        Action::DeleteAddress { label } => wallets::delete_address(state, command, label),
        Action::SetNetwork { chain, enabled } => {
            settings::set_network(state, command, *chain, *enabled)
        }
        Action::Set(setting) => settings::set(state, command, setting),
        Action::RecordUnlock { noted_entry: noted, attended } => {
            Ok(journal::record_unlock(state, command, *noted, *attended))
        }
        Action::RecordPasswordChange => Ok(journal::record_password_change(command)),
        Action::RecordWrongPassword => Ok(journal::record_wrong_password(state)),
        Action::NameEdition => Ok(journal::name_edition(state)),
        Action::RecordStart => Ok(journal::record_start(state)),
        Action::RecordRestore => Ok(journal::record_restore(state, command)),
        Action::DeleteWallet { is_file_gone: lost } => wallets::delete(state, command, *lost),
        Action::RecoverWallet(found) => wallets::recover(state, command, found),
        Action::Freeze => Ok(agents::freeze(state, command)),
        Action::Thaw => agents::thaw(state, command),
        Action::AcceptJournal => journal::accept(state, command),
        Action::TrustVenue(given) => venues::trust(state, command, given),
        Action::UntrustVenue { chain, venue } => venues::untrust(state, *chain, *venue),
        Action::NamePayee { payee, label } => payees::name(state, command, *payee, label.as_ref()),
        Action::BookWithdrawal { id, received } => venues::book(state, command, *id, *received),
        Action::WriteOff { place, to } => venues::write_off(state, command, place, *to),
        Action::Ask(ask) => requests::ask(state, command, ask),
        Action::Recall(recall) => requests::recall(state, command, recall),
        Action::Approve(approval) => requests::approve(state, command, approval),
        Action::Deny { id, reason, by } => requests::deny(state, command, *id, reason, *by),
        Action::Signed { id, signature } => Ok(payments::record_signature(state, *id, signature)),
        Action::Prompt { id, nonce } => prompts::prompt(state, command, *id, *nonce),
        Action::FailPrompt { id } => prompts::fail(state, command, *id),
        Action::RefusedOnDevice { id } => prompts::refuse(state, command, *id),
        Action::SignedOnDevice { id, signature } => prompts::accept(state, command, *id, signature),
        Action::Report(report) => settlements::report(state, command, report),
        Action::Checked { id, tx_hash, found } => {
            Ok(settlements::record_check(state, *id, *tx_hash, found))
        }
        Action::OpenStep(order) => steps::open_step(state, command, order),
        Action::OrderPermit(order) => permits::order(state, command, order),
        Action::PermitSigned { id, permit, signature } => {
            permits::record_signature(state, command, *id, permit, signature)
        }
        Action::EndExecution { id, steps, end, fee } => {
            plans::end(state, command, *id, *steps, end, *fee)
        }
        Action::ClosePlan { id } => plans::close(state, command, *id),
        Action::Send(send) => outboxes::send(state, command, send),
        Action::Outbox { key, input } => outboxes::apply_input(state, command, key, input),
        Action::ResumeOutbox(key) => Ok(outboxes::resume(state, command, key)),
        Action::Mandate(action) => mandates::decide(state, command, action),
        Action::Proof(action) => proofs::decide(state, command, action),
        Action::Tick => Ok(requests::tick(state, command)),
        Action::Reissue => Ok(payments::reissue(state, command)),
    }
}
