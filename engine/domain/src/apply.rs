//! Applies events to the [`State`]; every recorded change is made here. Total and deterministic: it cannot fail and
//! reads only the state and the entry, so every replay gives the same state. Sums saturate because `decide` has
//! checked them.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::U256;
use bursar_core::card::{ByLane, HoldReason, Lane};
use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::money::{Atoms, Round, Usd};
use bursar_core::time::Utc;
use bursar_morpho::worth::most_lost;
use bursar_x402::authorization::Authorization;

use crate::agents::{Agent, Commission, FailedPlans, PolicyRecord, Refusals, Usage};
use crate::allowance::{Window, WindowStart};
use crate::approver::Approver;
use crate::deadline::Deadline;
use crate::event::{AddressAdded, Entry, Event, RequestDraft};
use crate::gas;
use crate::loans::{Confirmation, LoanPlace};
use crate::plan::{Execution, ExecutionEnd, PlanStep, Quote, StepPurpose, Volume, submission_id};
use crate::prompts::{DeviceTurn, Prompt, WaitEnd};
use crate::requests::{LaneAsk, Request, Status};
use crate::settlement::Settlement;
use crate::state::State;
use crate::trades::SwapPermit;
use crate::wallets::{PayingAddress, Seed, Wallet};

/// The record that an entry changed, after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedRecord {
    Request(Arc<Request>),
    Settlement(Arc<Settlement>),
}

/// Applies one journal entry and returns the record that it changed.
///
/// The journal's index keeps that record, including requests that are finished and leave the state.
pub fn apply(state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
    state.seq = entry.seq;
    state.clock = state.clock.max(entry.at);
    let changed = apply_event(state, entry);
    forget_lapsed(state);
    changed
}

fn apply_event(state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
    let at = entry.at;
    match &entry.event {
        Event::WalletCreated { name, wallet_id } => {
            state.wallet = Some(Arc::new(Wallet {
                name: name.clone(),
                wallet_id: *wallet_id,
                created: at,
                seeds: BTreeMap::new(),
                addresses: BTreeMap::new(),
            }));
            // A person chose its password just now.
            state.unattended.active = false;
        }
        Event::SeedAdded { id, words } => {
            if let Some(wallet) = &mut state.wallet {
                Arc::make_mut(wallet).seeds.insert(*id, Seed { words: *words, created: at });
            }
        }
        Event::AddressAdded(added) => add_address(state, added, at),
        Event::PolicySet { name, version, policy, .. } => {
            state.policy_versions = state.policy_versions.max(*version);
            let record =
                PolicyRecord { name: name.clone(), version: *version, policy: (**policy).clone() };
            Arc::make_mut(&mut state.policies).insert(name.key(), Arc::new(record));
        }
        Event::PolicyDeleted { name } => {
            Arc::make_mut(&mut state.policies).remove(&name.key());
        }
        Event::AgentRegistered { id, name, credential } => {
            let agent = Agent {
                id: id.clone(),
                name: name.clone(),
                credential: credential.clone(),
                created: at,
                suspended: false,
                commission: None,
                reserved: ByLane::default(),
                refusals: Refusals::default(),
                open: 0,
                usage: Usage::default(),
                failed_plans: FailedPlans::default(),
            };
            Arc::make_mut(&mut state.agents).insert(id.clone(), Arc::new(agent));
        }
        Event::CredentialReplaced { agent, credential } => {
            with_agent(state, agent, |agent| agent.credential = credential.clone());
        }
        Event::AgentCommissioned { agent, policy, label, start, .. } => {
            let restored = state.restored;
            let given = state.policies.get(&policy.key());
            let daily = given.map(|record| record.policy.daily());
            let operations = given.map_or(0, |record| record.policy.lending.operations_per_day);
            with_agent(state, agent, |agent| {
                let running = agent.commission.take().map(|given| given.window);
                let first = start.clone().map(|start| {
                    // What the agent spent that day may be lost with the journal.
                    let lost = restored.is_some_and(|at| at >= start.utc && at >= agent.created);
                    let spent = daily.filter(|_limits| lost).unwrap_or_default();
                    let operations = if lost { operations } else { 0 };
                    Window { start, spent, operations }
                });
                agent.commission = running.or(first).map(|window| Commission {
                    policy: policy.clone(),
                    label: label.clone(),
                    window,
                });
            });
        }
        Event::AgentSuspended { agent } => with_agent(state, agent, |agent| agent.suspended = true),
        Event::AgentResumed { agent } => with_agent(state, agent, |agent| agent.suspended = false),
        Event::AllowanceRenewed { agent, start } => with_agent(state, agent, |agent| {
            if let Some(commission) = &mut agent.commission {
                commission.window = Window::unspent(start.clone());
            }
        }),
        Event::NetworkSet { chain, enabled } => {
            Arc::make_mut(&mut state.networks).insert(*chain, *enabled);
        }
        Event::Frozen => state.frozen = Some(at),
        Event::Thawed => state.frozen = None,
        Event::SendOrdered(send) => Arc::make_mut(&mut state.outboxes).add_send(send, at),
        Event::Outbox { key, event } => {
            Arc::make_mut(&mut state.outboxes).apply_event(key, event, at)
        }
        Event::JournalAccepted => {
            state.wallet_noted = 0;
            Arc::make_mut(&mut state.outboxes).drop_unsigned(at);
            // Accepting a journal does not accept the unsigned authorizations in it. They stay spent.
            let signed = |request: &Request| {
                matches!(request.status, Status::Authorized { signature: Some(_), .. })
            };
            let dropped: Vec<Arc<Request>> =
                state.authorized.values().filter(|request| !signed(request)).cloned().collect();
            for request in dropped {
                state.authorized.remove(&request.id);
                count_closed(state, &request);
            }
            let left = &state.authorized;
            state.lapses.retain(|(_at, id)| left.contains_key(id));
        }
        Event::PaymentAuthorized { asked, terms } => {
            let request = request(asked, entry, authorized(terms, at, Approver::Policy));
            with_agent(state, &asked.agent, |agent| agent.usage.count(at, asked.ask.padding()));
            spend(state, &request.agent, Lane::Payment, request.ask.usd());
            return Some(ChangedRecord::Request(await_redemption(state, request)));
        }
        Event::RequestHeld { asked, reason, deadline } => {
            return Some(ChangedRecord::Request(hold(state, asked, entry, *reason, deadline)));
        }
        Event::RequestRefused { asked, refusal } => {
            with_agent(state, &asked.agent, |agent| {
                agent.refusals.count(at);
                agent.usage.count(at, asked.ask.padding());
            });
            if let LaneAsk::Loan(loan) = &asked.ask {
                Arc::make_mut(&mut state.loans).note_refused(loan);
            }
            let status = Status::Refused { refusal: refusal.clone(), at, was_held: false };
            return Some(ChangedRecord::Request(Arc::new(request(asked, entry, status))));
        }
        Event::PaymentApproved { id, terms, by, asset } => {
            let mut request = release(state, id)?;
            if let Some((asset, payment)) = asset.as_ref().zip(request.ask.payment_mut()) {
                payment.set_asset((**asset).clone());
            }
            spend(state, &request.agent, Lane::Payment, request.ask.usd());
            request.status = authorized(terms, at, Approver::Operator(*by));
            return Some(ChangedRecord::Request(await_redemption(state, request)));
        }
        Event::ExecutionStarted { asked, until } => {
            return Some(ChangedRecord::Request(start_execution(state, asked, entry, until)));
        }
        Event::ExecutionApproved { id, by, until, quote, floor, counted } => {
            let mut request = release(state, id)?;
            let execution = Execution {
                by: Approver::Operator(*by),
                at,
                started: entry.seq,
                until: until.clone(),
                quote: quote.clone(),
                floor: *floor,
                counted: *counted,
                volume: Volume::Reserved,
                permit: None,
                steps: Vec::new(),
                end: None,
            };
            reserve(state, &request.agent, request.ask.lane(), *counted);
            note_loan(state, &request.ask, quote);
            if let (Some(loan), Some(quote)) = (request.loan(), quote.loan()) {
                Arc::make_mut(&mut state.loans).accept_price(loan, quote);
            }
            request.status = Status::Executing(Box::new(execution));
            return Some(ChangedRecord::Request(execute(state, request)));
        }
        Event::StepOpened { id, purpose, quote } => {
            let step = |execution: &mut Execution| {
                let submission = submission_id(*id, execution.steps.len());
                execution.steps.push(PlanStep { purpose: *purpose, submission, outcome: None });
                execution.quote = quote.clone();
                if *purpose != StepPurpose::Revocation {
                    let value = quote.value().unwrap_or(execution.counted);
                    execution.counted = execution.counted.max(value);
                }
            };
            let changed = change_execution(state, id, step)?;
            note_loan(state, &changed.ask, quote);
            return Some(ChangedRecord::Request(changed));
        }
        Event::PermitOrdered { id, permit } => {
            let order = |execution: &mut Execution| {
                let before = execution.permit.as_ref().map_or(0, |one| one.count);
                let count = before.saturating_add(1);
                execution.permit = Some(SwapPermit { permit: *permit, signature: None, count });
            };
            return change_execution(state, id, order).map(ChangedRecord::Request);
        }
        Event::PermitSigned { id, signature } => {
            let sign = |execution: &mut Execution| {
                if let Some(permit) = &mut execution.permit {
                    permit.signature = Some(*signature);
                }
            };
            return change_execution(state, id, sign).map(ChangedRecord::Request);
        }
        Event::StepEnded { id, outcome } => {
            let ended = change_execution(state, id, |execution| execution.end_step(*outcome));
            return ended.map(ChangedRecord::Request);
        }
        Event::ExecutionEnded { id, end } => {
            let ended =
                change_execution(state, id, |execution| execution.end_request(end.clone()))?;
            settle_loan(state, &ended, end);
            if gas::has_failed(state, &ended) {
                with_agent(state, &ended.agent, |agent| agent.failed_plans.count(at));
            }
            return Some(ChangedRecord::Request(ended));
        }
        Event::TradeFeeCounted { id, fee } => {
            let agent = state.executing.get(id)?.agent.clone();
            count_volume(state, &agent, Lane::Trade, *fee);
        }
        Event::PlanClosed { id } => {
            let mut request = Arc::make_mut(&mut state.executing).remove(id)?;
            let over = Arc::make_mut(&mut request);
            if let Status::Executing(execution) = over.status.clone() {
                over.status = Status::Ended(execution);
            }
            return Some(ChangedRecord::Request(request));
        }
        Event::RequestDenied { id, reason, by, told_until } => {
            let mut request = release(state, id)?;
            let (reason, told_until) = (reason.clone(), told_until.clone());
            request.status = Status::Denied { reason, at, by: *by, told_until };
            return Some(ChangedRecord::Request(Arc::new(request)));
        }
        Event::RequestExpired { id, told_until } => {
            let mut request = release(state, id)?;
            request.status = Status::Expired { at, told_until: told_until.clone() };
            return Some(ChangedRecord::Request(Arc::new(request)));
        }
        Event::RequestRejected { id, refusal } => {
            let mut request = release(state, id)?;
            request.status = Status::Refused { refusal: refusal.clone(), at, was_held: true };
            return Some(ChangedRecord::Request(Arc::new(request)));
        }
        Event::VenueTrusted { chain, venue, curator, owner } => {
            let (curator, owner) = (*curator, *owner);
            let given = Confirmation { curator, owner, at };
            Arc::make_mut(&mut state.loans).confirm(*chain, *venue, Some(given));
        }
        Event::VenueUntrusted { chain, venue } => {
            Arc::make_mut(&mut state.loans).confirm(*chain, *venue, None);
        }
        Event::WithdrawalBooked { id, received } => book_withdrawal(state, *id, *received),
        Event::LoanWrittenOff { place, from, to } => {
            let loss = from.left_after(*to);
            Arc::make_mut(&mut state.loans).returned(*place, loss, entry.seq);
        }
        Event::SettingChanged { to, .. } => to.apply(Arc::make_mut(&mut state.settings)),
        Event::SettlementReported { settlement, .. } => {
            return Some(ChangedRecord::Settlement(track_settlement(
                state,
                Arc::new((**settlement).clone()),
            )));
        }
        Event::SettlementChecked { id, found } => {
            let known = Arc::make_mut(&mut state.settling).remove(id)?;
            return Some(ChangedRecord::Settlement(track_settlement(
                state,
                Arc::new(known.checked(found)),
            )));
        }
        Event::AgentDeleted { agent } => {
            Arc::make_mut(&mut state.retired).insert(agent.clone());
            Arc::make_mut(&mut state.agents).remove(agent);
        }
        Event::AddressRenamed { from, to } => rename_address(state, from, to),
        Event::AddressDeleted { label } => {
            if let Some(wallet) = &mut state.wallet {
                Arc::make_mut(wallet).addresses.remove(&label.key());
            }
        }
        Event::WalletOpened { noted } | Event::WalletOpenedUnattended { noted } => {
            state.passwords_refused = 0;
            state.wallet_noted = noted.unwrap_or(state.wallet_noted);
            state.unattended.active = matches!(entry.event, Event::WalletOpenedUnattended { .. });
        }
        Event::UnattendedDayStarted { start } => state.unattended.begin(start.clone()),
        Event::WalletLocked { noted, .. } => {
            state.wallet_noted = noted.unwrap_or(state.wallet_noted);
        }
        Event::WalletDeleted => {
            state.wallet = None;
            state.wallet_noted = 0;
            state.passwords_refused = 0;
        }
        Event::PasswordRefused { times } => state.passwords_refused = *times,
        Event::JournalRestored { start } => restored(state, start, at),
        Event::RestoreDated { at } => state.restored = Some(*at),
        // Recorded for readers of the journal only.
        Event::PasswordChanged => {}
        // Every entry does this.
        Event::AuthorizationsLapsed => {}
        // Until a person opens the wallet. It is in force before the gate opens.
        Event::EngineStarted => state.unattended.active = true,
        Event::DeviceAwaited { asked, until } => {
            with_agent(state, &asked.agent, |agent| agent.usage.count(at, asked.ask.padding()));
            let turn = device_turn(Approver::Policy, at, until);
            let request = request(asked, entry, Status::AwaitingDevice(Box::new(turn)));
            return Some(ChangedRecord::Request(await_device(state, request)));
        }
        Event::DeviceAwaitApproved { id, by, until, asset } => {
            let mut request = release(state, id)?;
            if let Some((asset, payment)) = asset.as_ref().zip(request.ask.payment_mut()) {
                payment.set_asset((**asset).clone());
            }
            let turn = device_turn(Approver::Operator(*by), at, until);
            request.status = Status::AwaitingDevice(Box::new(turn));
            return Some(ChangedRecord::Request(await_device(state, request)));
        }
        Event::PaymentPrompted { id, terms } => {
            return change_turn(state, id, |turn| {
                turn.prompt = turn.prompt.take().filter(|prompt| prompt.count > 0);
                let first = Prompt { terms: terms.clone(), at, count: 0 };
                let prompt = turn.prompt.get_or_insert(first);
                prompt.count = prompt.count.saturating_add(1);
            });
        }
        Event::PromptFailed { id } => {
            return change_turn(state, id, |turn| {
                if let Some(prompt) = &mut turn.prompt {
                    prompt.count = prompt.count.saturating_sub(1);
                }
            });
        }
        Event::DeviceWaitEnded { id, end, told_until } => {
            // The person refused the only prompt with these terms.
            if *end == WaitEnd::Refused {
                change_turn(state, id, |turn| {
                    turn.prompt = turn.prompt.take().filter(|prompt| prompt.count > 1);
                });
            }
            let mut request = release(state, id)?;
            request.status = Status::NotSigned { end: *end, at, told_until: told_until.clone() };
            return Some(ChangedRecord::Request(Arc::new(request)));
        }
        Event::PaymentLapsed { id } => {
            let lapsed = Arc::make_mut(&mut state.unanswered).remove(id)?;
            unreserve(state, &lapsed.agent, Lane::Payment, lapsed.ask.usd());
        }
        Event::SignedOnDevice { id, signature } => {
            let mut request = (*Arc::make_mut(&mut state.waiting).remove(id)?).clone();
            let Status::AwaitingDevice(turn) = &request.status else { return None };
            let (by, terms) = (turn.by, turn.shown()?.terms.clone());
            unreserve(state, &request.agent, Lane::Payment, request.ask.usd());
            spend(state, &request.agent, Lane::Payment, request.ask.usd());
            request.status = Status::Authorized { terms, at, by, signature: Some(*signature) };
            return Some(ChangedRecord::Request(await_redemption(state, request)));
        }
        Event::PaymentSigned { id, signature } => {
            let request = Arc::make_mut(state.authorized.get_mut(id)?);
            if let Status::Authorized { signature: slot, .. } = &mut request.status {
                *slot = Some(*signature);
            }
            return Some(ChangedRecord::Request(Arc::new(request.clone())));
        }
    }
    None
}

/// Counts the day's allowances as spent, because spending since the backup is unknown.
///
/// Nothing stays reserved: held requests have ended.
fn restored(state: &mut State, start: &WindowStart, at: Utc) {
    state.restored = Some(at);
    // What was spent since the backup is not known.
    state.unattended.begin(start.clone());
    state.unattended.spend_all();
    let policies = Arc::clone(&state.policies);
    for agent in Arc::make_mut(&mut state.agents).values_mut() {
        let agent = Arc::make_mut(agent);
        agent.failed_plans.use_up(at);
        let Some(commission) = &mut agent.commission else { continue };
        let policy = policies.get(&commission.policy.key());
        let daily = policy.map(|record| record.policy.daily()).unwrap_or_default();
        let window = &mut commission.window;
        if start.day > window.start.day {
            *window = Window::unspent(start.clone());
        }
        for lane in Lane::ALL {
            let spent = window.spent.of_mut(lane);
            *spent = (*spent).max(*daily.of(lane));
        }
        let operations = policy.map_or(0, |record| record.policy.lending.operations_per_day);
        window.operations = window.operations.max(operations);
    }
}

fn add_address(state: &mut State, added: &AddressAdded, at: Utc) {
    if let Some(wallet) = &mut state.wallet {
        let address = PayingAddress {
            label: added.label.clone(),
            description: added.description.clone(),
            index: added.index,
            backing: added.backing,
            path: added.path.clone(),
            address: added.address,
            created: at,
        };
        Arc::make_mut(wallet).addresses.insert(added.label.key(), Arc::new(address));
    }
}

fn rename_address(state: &mut State, from: &Name, to: &Name) {
    if let Some(wallet) = &mut state.wallet {
        let addresses = &mut Arc::make_mut(wallet).addresses;
        if let Some(mut address) = addresses.remove(&from.key()) {
            Arc::make_mut(&mut address).label = to.clone();
            addresses.insert(to.key(), address);
        }
    }
    for agent in Arc::make_mut(&mut state.agents).values_mut() {
        if agent.commission.as_ref().is_some_and(|given| given.label.key() == from.key())
            && let Some(given) = &mut Arc::make_mut(agent).commission
        {
            given.label = to.clone();
        }
    }
}

fn with_agent(state: &mut State, id: &AgentId, change: impl FnOnce(&mut Agent)) {
    if let Some(agent) = Arc::make_mut(&mut state.agents).get_mut(id) {
        change(Arc::make_mut(agent));
    }
}

fn request(asked: &RequestDraft, entry: &Entry, status: Status) -> Request {
    Request {
        id: asked.id,
        seq: entry.seq,
        agent: asked.agent.clone(),
        created: entry.at,
        label: asked.label.clone(),
        from: asked.from,
        ask: asked.ask.clone(),
        identity: asked.identity.clone(),
        status,
    }
}

fn authorized(terms: &Authorization, at: Utc, by: Approver) -> Status {
    Status::Authorized { terms: terms.clone(), at, by, signature: None }
}

fn spend(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    state.unattended.spend(usd);
    count_volume(state, agent, lane, usd);
}

fn count_volume(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    with_agent(state, agent, |agent| {
        if let Some(commission) = &mut agent.commission {
            let spent = commission.window.spent.of_mut(lane);
            *spent = Usd(spent.0.saturating_add(usd.0));
        }
    });
}

fn hold(
    state: &mut State,
    asked: &RequestDraft,
    entry: &Entry,
    reason: HoldReason,
    deadline: &Deadline,
) -> Arc<Request> {
    let held = request(asked, entry, Status::Held { reason, deadline: deadline.clone() });
    with_agent(state, &asked.agent, |agent| {
        agent.usage.count(entry.at, asked.ask.padding());
    });
    reserve(state, &asked.agent, asked.ask.lane(), asked.ask.usd());
    if let LaneAsk::Loan(loan) = &asked.ask {
        Arc::make_mut(&mut state.loans).note_quote(loan, &loan.quote);
    }
    let held = Arc::new(held);
    Arc::make_mut(&mut state.held).insert(asked.id, Arc::clone(&held));
    held
}

fn reserve(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    with_agent(state, agent, |agent| {
        let reserved = agent.reserved.of_mut(lane);
        *reserved = Usd(reserved.0.saturating_add(usd.0));
    });
}

fn unreserve(state: &mut State, agent: &AgentId, lane: Lane, usd: Usd) {
    with_agent(state, agent, |agent| {
        let reserved = agent.reserved.of_mut(lane);
        *reserved = reserved.left_after(usd);
    });
}

/// Starts the plan of a request that the policy allowed.
fn start_execution(
    state: &mut State,
    asked: &RequestDraft,
    entry: &Entry,
    until: &Deadline,
) -> Arc<Request> {
    with_agent(state, &asked.agent, |agent| {
        agent.usage.count(entry.at, asked.ask.padding());
    });
    reserve(state, &asked.agent, asked.ask.lane(), asked.ask.usd());
    // The event has no payment, because a payment has no plan.
    let planned: Option<(Quote, Atoms)> = match &asked.ask {
        LaneAsk::Trade(trade) => Some((trade.quote.clone().into(), trade.floor(&trade.quote))),
        LaneAsk::Loan(loan) => Some((loan.quote.clone().into(), Atoms::default())),
        LaneAsk::Payment(_) => None,
    };
    let status = match planned {
        Some((quote, floor)) => {
            note_loan(state, &asked.ask, &quote);
            Status::Executing(Box::new(Execution {
                by: Approver::Policy,
                at: entry.at,
                started: entry.seq,
                until: until.clone(),
                quote,
                floor,
                counted: asked.ask.usd(),
                volume: Volume::Reserved,
                permit: None,
                steps: Vec::new(),
                end: None,
            }))
        }
        None => {
            Status::Refused { refusal: Code::InternalError.into(), at: entry.at, was_held: false }
        }
    };
    execute(state, request(asked, entry, status))
}

/// Notes a measurement of a loan that was allowed, or is being executed.
fn note_loan(state: &mut State, ask: &LaneAsk, quote: &Quote) {
    if let (LaneAsk::Loan(loan), Quote::Loan(quote)) = (ask, quote) {
        let loans = Arc::make_mut(&mut state.loans);
        loans.note_quote(loan, quote);
        loans.note_use(loan);
    }
}

/// Subtracts what a withdrawal brought back, and what a purchase of shares did not take.
///
/// A node reported it, so it frees no more than was signed for: of a withdrawal the amount, or what the shares were worth
/// in the rehearsal; of a purchase the part that a deposit may lose; of another supply nothing.
fn settle_loan(state: &mut State, request: &Request, end: &ExecutionEnd) {
    let (LaneAsk::Loan(loan), ExecutionEnd::Executed { received: Some(moved), .. }) =
        (&request.ask, end)
    else {
        return;
    };
    let (Some(network), Some(execution)) = (request.ask.network(), request.execution()) else {
        return;
    };
    let Some(quote) = execution.quote.loan() else { return };
    let decimals = network.stablecoin.decimals;
    let back = if !loan.supplies() {
        let back = (*moved).min(quote.assets).to_usd(decimals, Round::Down);
        back.unwrap_or(Usd(u64::MAX))
    } else if quote.buys_shares() {
        let taken = moved.to_usd(decimals, Round::Up).unwrap_or(Usd(u64::MAX));
        let most = most_lost(U256::from(execution.counted.0));
        execution.counted.left_after(taken).min(Usd(most.saturating_to()))
    } else {
        return;
    };
    let seq = state.seq;
    Arc::make_mut(&mut state.loans).returned(loan.place(request.from), back, seq);
}

/// Subtracts what a withdrawal of the operator brought back.
fn book_withdrawal(state: &mut State, id: RequestId, received: Option<Atoms>) {
    let Some(send) = Arc::make_mut(&mut state.outboxes).book(id) else { return };
    let (Some(venue), Some(received)) = (send.withdrawn_from(), received) else { return };
    let place = LoanPlace { owner: send.from, chain: send.chain, venue };
    // As for the withdrawals of agents: no more than was signed for.
    let back = received
        .min(send.amount.atoms)
        .to_usd(send.amount.decimals, Round::Down)
        .unwrap_or(Usd(u64::MAX));
    let seq = state.seq;
    Arc::make_mut(&mut state.loans).returned(place, back, seq);
}

fn count_operation(state: &mut State, agent: &AgentId) {
    with_agent(state, agent, |agent| {
        if let Some(commission) = &mut agent.commission {
            let operations = &mut commission.window.operations;
            *operations = operations.saturating_add(1);
        }
    });
}

fn execute(state: &mut State, request: Request) -> Arc<Request> {
    let request = Arc::new(request);
    Arc::make_mut(&mut state.executing).insert(request.id, Arc::clone(&request));
    request
}

/// Changes an execution. If that ends its reservation, the value is spent or returned.
fn change_execution(
    state: &mut State,
    id: &RequestId,
    change: impl FnOnce(&mut Execution),
) -> Option<Arc<Request>> {
    let slot = Arc::make_mut(&mut state.executing).get_mut(id)?;
    let Status::Executing(execution) = &mut Arc::make_mut(slot).status else { return None };
    let (before, volume_before) = (execution.reserved(), execution.volume);
    change(execution);
    let (after, volume, counted) = (execution.reserved(), execution.volume, execution.counted);
    let released = before.left_after(after);
    let request = Arc::clone(slot);
    let lane = request.ask.lane();
    reserve(state, &request.agent, lane, after.left_after(before));
    if released > Usd::ZERO {
        unreserve(state, &request.agent, lane, released);
        if volume == Volume::Spent {
            spend(state, &request.agent, lane, released);
        }
    }
    if volume_before == Volume::Reserved
        && volume == Volume::Spent
        && let LaneAsk::Loan(loan) = &request.ask
    {
        count_operation(state, &request.agent);
        if loan.supplies() {
            let seq = state.seq;
            Arc::make_mut(&mut state.loans).supplied(loan.place(request.from), counted, seq);
        }
    }
    Some(request)
}

fn device_turn(by: Approver, at: Utc, until: &Deadline) -> DeviceTurn {
    DeviceTurn { by, at, until: until.clone(), prompt: None }
}

fn await_device(state: &mut State, request: Request) -> Arc<Request> {
    let request = Arc::new(request);
    reserve(state, &request.agent, Lane::Payment, request.ask.usd());
    Arc::make_mut(&mut state.waiting).insert(request.id, Arc::clone(&request));
    request
}

fn change_turn(
    state: &mut State,
    id: &RequestId,
    change: impl FnOnce(&mut DeviceTurn),
) -> Option<ChangedRecord> {
    let slot = Arc::make_mut(&mut state.waiting).get_mut(id)?;
    if let Status::AwaitingDevice(turn) = &mut Arc::make_mut(slot).status {
        change(turn);
    }
    Some(ChangedRecord::Request(Arc::clone(slot)))
}

/// Takes a request out of the queue of the operator or of the devices, and releases its reservation, unless a device may
/// have signed it.
fn release(state: &mut State, id: &RequestId) -> Option<Request> {
    if let Some(request) = Arc::make_mut(&mut state.waiting).remove(id) {
        if request.terms().is_some() {
            Arc::make_mut(&mut state.unanswered).insert(*id, Arc::clone(&request));
        } else {
            unreserve(state, &request.agent, Lane::Payment, request.ask.usd());
        }
        return Some((*request).clone());
    }
    let request = Arc::make_mut(&mut state.held).remove(id)?;
    unreserve(state, &request.agent, request.ask.lane(), request.ask.usd());
    Some((*request).clone())
}

/// Keeps a settlement in the state while its chain lookup is pending.
fn track_settlement(state: &mut State, settlement: Arc<Settlement>) -> Arc<Settlement> {
    let settling = Arc::make_mut(&mut state.settling);
    if settlement.pending_since().is_some() {
        settling.insert(settlement.id, Arc::clone(&settlement));
    } else {
        settling.remove(&settlement.id);
    }
    settlement
}

fn await_redemption(state: &mut State, request: Request) -> Arc<Request> {
    let request = Arc::new(request);
    // Always `Some`: both callers have just authorized the request.
    state.lapses.insert((request.lapses_at().unwrap_or(u64::MAX), request.id));
    state.authorized.insert(request.id, Arc::clone(&request));
    with_agent(state, &request.agent, |agent| agent.open = agent.open.saturating_add(1));
    request
}

fn count_closed(state: &mut State, request: &Request) {
    with_agent(state, &request.agent, |agent| agent.open = agent.open.saturating_sub(1));
}

/// Removes authorizations that can no longer be redeemed, by the journal's own time.
fn forget_lapsed(state: &mut State) {
    let now = u64::try_from(state.clock.seconds()).unwrap_or(0);
    while let Some(&(lapses_at, id)) = state.lapses.first() {
        if lapses_at > now {
            break;
        }
        state.lapses.remove(&(lapses_at, id));
        if let Some(lapsed) = state.authorized.remove(&id) {
            count_closed(state, &lapsed);
        }
    }
}
