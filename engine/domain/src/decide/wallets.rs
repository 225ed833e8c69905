//! The wallet in the journal. A change is written to the wallet file first and takes effect once its event is
//! recorded. A deletion records its event first.

use std::sync::Arc;

use bursar_core::client::Client;
use bursar_core::codes::Code;
use bursar_core::ids::{Name, SeedId};
use bursar_core::time::Moment;

use crate::agents::Credential;
use crate::allowance::WindowStart;
use crate::command::{Command, RecoveredWallet};
use crate::deadline::Deadline;
use crate::decision::{Decision, require_unlocked};
use crate::due::expiry_if_due;
use crate::event::{AddressAdded, Event};
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;
use crate::wallets::{Backing, PayingAddress, Wallet};

pub(super) fn create(state: &State, name: &Name, wallet_id: [u8; 16]) -> Result<Decision, Refusal> {
    if state.wallet.is_some() {
        return Err(Refusal::new(Code::WalletExists));
    }
    Ok(Decision::done(vec![Event::WalletCreated { name: name.clone(), wallet_id }]))
}

/// Imports the contents of a wallet file into a journal without a wallet.
///
/// The wallet's own journal is lost, and with it the record of requests that agents have signed. Requests signed
/// before the recovery are refused from now on, because they may be repeats.
pub(super) fn recover(
    state: &State,
    command: &Command,
    found: &RecoveredWallet,
) -> Result<Decision, Refusal> {
    let mut events = create(state, &found.name, found.wallet_id)?.events;
    events
        .extend(found.seeds.iter().map(|(id, words)| Event::SeedAdded { id: *id, words: *words }));
    for (id, check) in &found.agents {
        let credential = Credential::Hmac { secret_hash: *check };
        match state.agents.get(id) {
            // The agent outlived the deletion of its wallet, and its secret is the same.
            Some(known) if known.credential == credential => continue,
            Some(_other) => {
                let message = format!(
                    "The journal has an agent {id} with another secret: recover into an empty data folder."
                );
                return Err(Refusal::because(Code::InUse, message));
            }
            None => {}
        }
        // Only the lost journal contained the agent's name.
        let name =
            format!("recovered {id}").parse().map_err(|_bad| Refusal::new(Code::InternalError))?;
        events.push(Event::AgentRegistered { id: id.clone(), name, credential });
    }
    events.extend(end_after_restore(state, &command.moment));
    Ok(Decision::done(events))
}

/// Deletes the wallet. The journal continues.
///
/// The agents are suspended and stay charged with today's spending. A new wallet may have an address with the same
/// label, and must not pay for these agents without the operator's decision.
pub(super) fn delete(state: &State, command: &Command, lost: bool) -> Result<Decision, Refusal> {
    if !lost {
        require_unlocked(command)?;
    }
    wallet(state)?;
    if state.outboxes.with_open_submissions().next().is_some() {
        let message = "A transaction is in flight: see `address sends`.";
        return Err(Refusal::because(Code::InUse, message));
    }
    let runs = |request: &Request| request.execution().is_some_and(|plan| plan.end.is_none());
    if state.executing.values().any(|request| runs(request)) {
        let message = "A trade is being executed: wait for its end, or freeze the agents.";
        return Err(Refusal::because(Code::InUse, message));
    }
    let mut events = Vec::new();
    for request in state.held.values() {
        let ended = expiry_if_due(request, &command.moment).ok_or_else(|| {
            let message = "A request is waiting for your decision: decide it first.";
            Refusal::because(Code::InUse, message)
        })?;
        events.push(ended);
    }
    if !state.waiting.is_empty() {
        let message = "A request is waiting for a Ledger: sign it there, or deny it.";
        return Err(Refusal::because(Code::InUse, message));
    }
    let working = state.agents.values().filter(|agent| !agent.suspended);
    events.extend(working.map(|agent| Event::AgentSuspended { agent: agent.id.clone() }));
    events.push(Event::WalletDeleted);
    Ok(Decision::done(events))
}

pub(super) fn add_seed(
    state: &State,
    command: &Command,
    id: SeedId,
    words: u8,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    if wallet(state)?.next_seed() != id {
        return Err(Refusal::because(Code::InUse, format!("{id} is not the id of the next seed.")));
    }
    Ok(Decision::done(vec![Event::SeedAdded { id, words }]))
}

pub(super) fn add_address(
    state: &State,
    command: &Command,
    added: &AddressAdded,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let wallet = wallet(state)?;
    if let Backing::Seed(seed) = added.backing
        && !wallet.seeds.contains_key(&seed)
    {
        return Err(Refusal::because(Code::NothingFound, format!("There is no seed {seed}.")));
    }
    if wallet.address(&added.label).is_some() {
        return Err(Refusal::because(
            Code::NameTaken,
            format!("There is already an address labelled {}.", added.label),
        ));
    }
    if let Some(same) = wallet.addresses.values().find(|known| known.address == added.address) {
        return Err(Refusal::because(
            Code::NameTaken,
            format!("The wallet has this address already, labelled {}.", same.label),
        ));
    }
    Ok(Decision::done(vec![Event::AddressAdded(Box::new(added.clone()))]))
}

pub(super) fn rename_address(
    state: &State,
    command: &Command,
    from: &Name,
    to: &Name,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let known = address(state, from)?;
    let taken = wallet(state)?.address(to).filter(|other| other.label.key() != known.label.key());
    if taken.is_some() {
        return Err(Refusal::because(
            Code::NameTaken,
            format!("There is already an address labelled {to}."),
        ));
    }
    if known.label == *to {
        return Ok(Decision::done(Vec::new()));
    }
    let (from, to) = (known.label.clone(), to.clone());
    Ok(Decision::done(vec![Event::AddressRenamed { from, to }]))
}

pub(super) fn delete_address(
    state: &State,
    command: &Command,
    label: &Name,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let known = address(state, label)?;
    let user = state.agents.values().find(|agent| {
        agent.commission.as_ref().is_some_and(|given| given.label.key() == known.label.key())
    });
    if let Some(agent) = user {
        return Err(Refusal::because(
            Code::InUse,
            format!(
                "Agent {} ({}) pays from this address: give it another with `agent edit \
                 --address` first.",
                agent.id, agent.name
            ),
        ));
    }
    // An approval of a held request would still sign with this address.
    let mut held = state.held.values().filter(|request| request.from == known.address);
    if held.any(|request| expiry_if_due(request, &command.moment).is_none()) {
        let message = "A request for a payment from this address is pending: decide it first.";
        return Err(Refusal::because(Code::InUse, message));
    }
    if state.waiting.values().any(|request| request.from == known.address) {
        let message = "A request for a payment from this address waits for its Ledger: sign it there, or deny it.";
        return Err(Refusal::because(Code::InUse, message));
    }
    if state.executing.values().any(|request| request.from == known.address) {
        let message = "A trade from this address is being executed: wait for its end.";
        return Err(Refusal::because(Code::InUse, message));
    }
    if state.outboxes.with_open_submissions().any(|outbox| outbox.key.signer == known.address) {
        let message = "A transaction from this address is in flight: see `address sends`.";
        return Err(Refusal::because(Code::InUse, message));
    }
    Ok(Decision::done(vec![Event::AddressDeleted { label: known.label.clone() }]))
}

fn address<'a>(state: &'a State, label: &Name) -> Result<&'a Arc<PayingAddress>, Refusal> {
    wallet(state)?.address(label).ok_or_else(|| {
        Refusal::because(
            Code::NothingFound,
            format!("There is no address {label}: see `address list`."),
        )
    })
}

fn wallet(state: &State) -> Result<&Arc<Wallet>, Refusal> {
    state.wallet.as_ref().ok_or(Refusal::new(Code::NoWallet))
}

/// The denial reason of a request that was held when the backup was made. It must not suggest paying again.
const RESTORED_REASON: &str = "The wallet was restored from a backup in which this request waited. It may have been approved \
                        after the backup was made: your operator must check the payments before you pay again.";

/// Ends all undecided and unsigned requests of a backup: they may have been approved and signed after the backup.
pub(super) fn end_after_restore(state: &State, moment: &Moment) -> Vec<Event> {
    let ended = state.held.keys().chain(state.waiting.keys()).map(|id| Event::RequestDenied {
        id: *id,
        reason: Some(RESTORED_REASON.to_owned()),
        by: Client::Inside,
        repeatable_until: Deadline::after(moment),
    });
    let noted = Event::JournalRestored { start: WindowStart::first(moment) };
    ended.chain([noted]).collect()
}
