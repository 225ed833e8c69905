//! Applies events to the [`State`]; every recorded change is made here.
//!
//! `apply` is total and deterministic: it cannot fail and reads only the state and the entry, so every replay gives
//! the same state. This file lists every event; its submodules make the changes.

mod agents;
mod allowances;
mod journal;
mod loans;
mod mandates;
mod payees;
mod payments;
mod permits;
mod plans;
mod policies;
mod prompts;
mod requests;
mod settlements;
mod wallets;

use std::sync::Arc;

use crate::approver::Approver;
use crate::event::{Entry, Event};
use crate::loans::Confirmation;
use crate::requests::{Request, Status};
use crate::settlement::Settlement;
use crate::state::State;

/// The record that an entry changed, after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedRecord {
    Request(Arc<Request>),
    Settlement(Arc<Settlement>),
}

/// Applies one journal entry and returns the record that it changed.
///
/// The journal's index stores the record, so a finished request stays readable after it leaves the state.
pub fn apply(state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
    state.seq = entry.seq;
    state.clock = state.clock.max(entry.at);
    let changed = apply_event(state, entry);
    payments::forget_lapsed(state);
    changed
}

fn apply_event(state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
    let at = entry.at;
    match &entry.event {
        Event::WalletCreated { name, wallet_id } => wallets::create(state, name, *wallet_id, at),
        Event::SeedAdded { id, words } => wallets::add_seed(state, *id, *words, at),
        Event::AddressAdded(added) => wallets::add_address(state, added, at),
        Event::AddressRenamed { from, to } => wallets::rename_address(state, from, to),
        Event::AddressDeleted { label } => wallets::delete_address(state, label),
        Event::WalletOpened { noted_entry: noted } => {
            wallets::record_unlock(state, *noted);
            state.unattended.active = false;
        }
        Event::WalletOpenedUnattended { noted_entry: noted } => {
            wallets::record_unlock(state, *noted);
            state.unattended.active = true;
        }
        // The limits for unattended use apply from the start of the engine until a person unlocks the wallet.
        Event::EngineStarted => state.unattended.active = true,
        Event::UnattendedDayStarted { start } => state.unattended.begin(start.clone()),
        Event::WalletLocked { noted_entry, .. } => wallets::record_noted_entry(state, *noted_entry),
        Event::WalletDeleted => wallets::delete(state),
        // This event changes no state: it only informs readers of the journal.
        Event::PasswordChanged => {}
        Event::PasswordRefused { times } => state.passwords_refused = *times,
        Event::JournalAccepted => journal::accept(state, at),
        Event::JournalRestored { start } => journal::restore(state, start, at),
        Event::RestoreDated { at } => state.restored = Some(*at),
        Event::SettingChanged { to, .. } => to.apply(Arc::make_mut(&mut state.settings)),
        Event::NetworkSet { chain, enabled } => {
            Arc::make_mut(&mut state.networks).insert(*chain, *enabled);
        }
        Event::PolicySet { name, serial, policy, .. } => {
            policies::set(state, name, *serial, policy);
        }
        Event::PolicyDeleted { name } => policies::delete(state, name),
        Event::AgentRegistered { id, name, credential } => {
            agents::register(state, id, name, credential, at);
        }
        Event::CredentialReplaced { agent, credential } => {
            agents::change(state, agent, |agent| agent.credential = credential.clone());
        }
        Event::AgentCommissioned { agent, policy, label, start, .. } => {
            agents::commission(state, agent, policy, label, start.as_ref());
        }
        Event::AgentSuspended { agent } => agents::change(state, agent, |one| one.suspended = true),
        Event::AgentResumed { agent } => agents::change(state, agent, |one| one.suspended = false),
        Event::AgentDeleted { agent } => agents::delete(state, agent),
        Event::AllowanceRenewed { agent, start } => allowances::renew(state, agent, start),
        Event::Frozen => state.frozen = Some(at),
        Event::Thawed => state.frozen = None,
        Event::SendOrdered(send) => Arc::make_mut(&mut state.outboxes).add_send(send, at),
        Event::Outbox { key, event } => {
            Arc::make_mut(&mut state.outboxes).apply_event(key, event, at);
        }
        Event::VenueTrusted { chain, venue, curator, owner } => {
            let given = Confirmation { curator: *curator, owner: *owner, at };
            Arc::make_mut(&mut state.loans).confirm(*chain, *venue, Some(given));
        }
        Event::VenueUntrusted { chain, venue } => loans::untrust(state, *chain, *venue),
        Event::WithdrawalBooked { id, received } => loans::book_withdrawal(state, *id, *received),
        Event::LoanWrittenOff { place, from, to } => {
            loans::subtract(state, *place, from.left_after(*to));
        }
        Event::Mandate(event) => mandates::apply(state, event, at),
        // This event changes no state: proofs are read from the journal.
        Event::Proof(_) => {}
        Event::EditionNamed { edition } => state.journal_edition = *edition,
        Event::PayeeNamed { payee, label } => payees::name(state, *payee, label.as_ref()),
        Event::TradeFeeCounted { id, fee } => plans::count_fee(state, id, *fee),
        Event::PaymentLapsed { id } => prompts::lapse(state, id),
        // `apply` drops lapsed authorizations after every entry, so this event changes nothing.
        Event::AuthorizationsLapsed => {}
        Event::SettlementReported { settlement, .. } => {
            return Some(ChangedRecord::Settlement(settlements::report(state, settlement)));
        }
        Event::SettlementChecked { id, found } => {
            return settlements::check(state, id, found).map(ChangedRecord::Settlement);
        }
        Event::PaymentAuthorized { draft, terms } => {
            return changed_record(payments::authorize(state, entry, draft, terms));
        }
        Event::RequestHeld { draft, reason, deadline } => {
            return changed_record(requests::hold(state, entry, draft, *reason, deadline));
        }
        Event::RequestRefused { draft, refusal } => {
            return changed_record(requests::refuse(state, entry, draft, refusal));
        }
        Event::DeviceAwaited { draft, until } => {
            return changed_record(prompts::add_awaiting(state, entry, draft, until));
        }
        Event::ExecutionStarted { draft, until } => {
            return changed_record(plans::start(state, entry, draft, until));
        }
        Event::PaymentApproved { id, terms, by, asset } => {
            let status = payments::authorized_status(terms, at, Approver::Operator(*by));
            return changed_record(payments::approve(state, id, asset.as_deref(), status));
        }
        Event::DeviceAwaitApproved { id, by, until, asset } => {
            let status = prompts::awaiting_device_status(Approver::Operator(*by), at, until);
            return changed_record(prompts::approve(state, id, asset.as_deref(), status));
        }
        Event::ExecutionApproved { id, by, until, quote, floor, counted_value } => {
            let (quote, floor, counted_value) = (quote.clone(), *floor, *counted_value);
            let measured = plans::PlanMeasurement { quote, floor, counted_value };
            let plan = plans::new(entry, Approver::Operator(*by), until, measured);
            return changed_record(plans::approve(state, id, plan));
        }
        Event::RequestDenied { id, reason, by, repeatable_until } => {
            let (reason, repeatable_until) = (reason.clone(), repeatable_until.clone());
            let status = Status::Denied { reason, at, by: *by, repeatable_until };
            return changed_record(requests::end(state, id, status));
        }
        Event::RequestExpired { id, repeatable_until } => {
            let status = Status::Expired { at, repeatable_until: repeatable_until.clone() };
            return changed_record(requests::end(state, id, status));
        }
        Event::RequestRejected { id, refusal } => {
            let status = Status::Refused { refusal: refusal.clone(), at, was_held: true };
            return changed_record(requests::end(state, id, status));
        }
        Event::PaymentSigned { id, signature } => {
            return changed_record(payments::sign(state, id, signature));
        }
        Event::PaymentPrompted { id, terms } => {
            return changed_record(prompts::count_prompt(state, id, terms, at));
        }
        Event::SignedOnDevice { id, signature } => {
            return changed_record(prompts::sign(state, id, signature, at));
        }
        Event::PromptFailed { id } => return changed_record(prompts::uncount_prompt(state, id)),
        Event::DeviceWaitEnded { id, end, repeatable_until } => {
            return changed_record(prompts::end(state, id, *end, at, repeatable_until));
        }
        Event::StepOpened { id, purpose, quote } => {
            return changed_record(plans::open_step(state, id, *purpose, quote));
        }
        Event::StepEnded { id, outcome } => {
            return changed_record(plans::change(state, id, |plan| plan.end_step(*outcome)));
        }
        Event::PermitOrdered { id, permit } => {
            return changed_record(permits::order(state, id, permit));
        }
        Event::PermitSigned { id, signature } => {
            return changed_record(permits::sign(state, id, signature));
        }
        Event::ExecutionEnded { id, end } => return changed_record(plans::end(state, id, end, at)),
        Event::PlanClosed { id } => return changed_record(plans::close(state, id)),
    }
    None
}

fn changed_record(request: impl Into<Option<Arc<Request>>>) -> Option<ChangedRecord> {
    request.into().map(ChangedRecord::Request)
}
