//! The commands `address send`, `address sends` and `address cancel`.

pub(super) mod describe;
pub(super) mod plan;
mod resolve;
mod unavailable;

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_chain::chain_tasks;
use bursar_control::answers::{Answer, SendAnswer};
use bursar_control::grammar::SendOrder;
use bursar_control::send_card::SendCard;
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Round, TokenAmount, parse_decimal};
use bursar_core::networks::{NATIVE_DECIMALS, by_chain};
use bursar_core::status::SendStatus;
use bursar_core::text;
use bursar_domain::cards::DEFAULT_CONFIRM_TYPING_ABOVE;
use bursar_domain::outboxes::{Send, SendRecord, rules};
use bursar_domain::{Action, State};
use bursar_submit::{ChainState, Fees, Input, Outcome, Quote, Submission, raised_offer};

use super::device_status;
use super::dialogue::Dialogue;
use super::support::{Done, act, require_trusted_journal};
use crate::context::EngineContext;

/// How long a command waits for its transaction, in milliseconds of the engine's clock.
const WAIT_MS: u64 = 120_000;

pub(super) async fn send(
    engine: &Arc<EngineContext>,
    order: &SendOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    if let Some(id) = &order.faster {
        return send_faster(engine, id, order, dialogue).await;
    }
    let (send, card) = plan::plan(engine, order, dialogue.client()).await?;
    confirm(&engine.core.view().state, &send, &card, order, dialogue).await?;
    let id = send.id;
    act(engine, Action::Send(Box::new(send))).await?;
    if !order.no_wait {
        wait(engine, id, dialogue).await;
    }
    answer(engine, id)
}

/// Signs an open send again at a higher price.
async fn send_faster(
    engine: &Arc<EngineContext>,
    id: &str,
    order: &SendOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let record = find(&engine.core.view().state, id)?;
    let quote = quote(engine, &record).await?;
    let (fees, most) = offer_after_raise(&engine.core.view().state, &record, &quote)?;
    let agreed = order.yes || dialogue.asking() == Asking::Agreed;
    match (agreed, dialogue.asking() == Asking::Interactive) {
        (true, _) => {}
        (false, true) => {
            let lines = vec![format!(
                "The send {} then costs at most {most} of gas.",
                record.send.id.short()
            )];
            dialogue.confirm(lines, "Offer more?").await?;
        }
        (false, false) => {
            let why = format!("The gas then costs at most {most}: to agree, add --yes.");
            return Err(Fault::because(Code::ConfirmationNeeded, why));
        }
    }
    raise(engine, &record, quote, fees.max_price()).await?;
    if !order.no_wait {
        wait(engine, record.send.id, dialogue).await;
    }
    answer(engine, record.send.id)
}

/// Returns the higher offer of a send, and the maximum cost of its gas as text.
fn offer_after_raise(
    state: &State,
    record: &SendRecord,
    quote: &Quote,
) -> Result<(Fees, String), Fault> {
    let nothing = || {
        let why = "This send cannot offer a higher gas price: it is not signed yet, it has ended, or it offers the most that Bursar allows.";
        Fault::because(Code::BadInput, why)
    };
    let key = record.send.key();
    let rules = rules(&key, state.is_on_device(key.signer)).ok_or_else(nothing)?;
    let outbox = state.outboxes.get(&key);
    let raised =
        raised_offer(&outbox, &rules, record.send.submission(), quote).ok_or_else(nothing)?;
    let gas = U256::from(record.send.call.gas_limit);
    let cost = gas.checked_mul(U256::from(raised.max_price())).ok_or_else(nothing)?;
    let row = by_chain(key.chain).ok_or_else(nothing)?;
    let amount = TokenAmount { atoms: Atoms(cost), decimals: NATIVE_DECIMALS };
    Ok((raised, format!("{} {}", amount.to_column_text(), row.native)))
}

/// Reads the current prices for a send.
async fn quote(engine: &EngineContext, record: &SendRecord) -> Result<Quote, Fault> {
    let send = &record.send;
    let network = by_chain(send.chain).ok_or(Fault::new(Code::InternalError))?;
    let unavailable = || {
        let message = format!("The price of gas on {} cannot be read: try again.", network.title);
        Fault::because(Code::ChainUnavailable, message)
    };
    let chain = engine.ports.chains.get(&send.chain).ok_or_else(unavailable)?;
    let quote = chain_tasks::quote(&*chain, send.from, &network.gas).await;
    quote.map_err(|_fault| unavailable())
}

/// Orders another attempt of a send that offers at most `most` wei per unit of gas.
async fn raise(
    engine: &EngineContext,
    record: &SendRecord,
    quote: Quote,
    most: u128,
) -> Result<(), Fault> {
    let send = &record.send;
    let input = Box::new(Input::Raise { id: send.submission(), quote, most });
    act(engine, Action::Outbox { key: send.key(), input }).await.map(|_authorized| ())
}

/// Asks for confirmation. A large amount, or one of unknown value, must be typed; otherwise a yes is enough.
async fn confirm(
    state: &State,
    send: &Send,
    card: &SendCard,
    order: &SendOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    let agreed = order.yes || dialogue.asking() == Asking::Agreed;
    let interactive = dialogue.asking() == Asking::Interactive;
    if !must_be_typed(state, send) {
        return match (agreed, interactive) {
            (true, _) => Ok(()),
            (false, true) => dialogue.confirm(card.lines(), "Send it?").await,
            (false, false) => Err(Fault::because(
                Code::ConfirmationNeeded,
                "There is no terminal to ask on: check the balance, then add --yes.",
            )
            .with_hint("balances")),
        };
    }
    let amount = send.amount.plain();
    let given = match &order.confirm {
        Some(given) => given.clone(),
        None if interactive => dialogue.ask_amount(card.lines(), &amount).await?,
        None => {
            let message = format!("You must type this amount: add --confirm {amount}.");
            return Err(Fault::because(Code::ConfirmationNeeded, message));
        }
    };
    let same = parse_decimal(given.trim(), send.amount.decimals)
        .is_ok_and(|typed| typed == send.amount.atoms.0);
    if same {
        return Ok(());
    }
    let message = format!("Nothing was sent: the amount is {amount}, and another one was given.");
    Err(Fault::because(Code::Declined, message))
}

/// Whether the amount must be typed: it is large, or it has no price because it is not in the network's stablecoin.
fn must_be_typed(state: &State, send: &Send) -> bool {
    let row = by_chain(send.chain);
    let dollar = row.filter(|row| send.token == Some(row.stablecoin.address));
    let usd =
        dollar.and_then(|row| send.amount.atoms.to_usd(row.stablecoin.decimals, Round::Up).ok());
    let typed_from = state.settings.confirm_typing_above.unwrap_or(DEFAULT_CONFIRM_TYPING_ABOVE);
    usd.is_none_or(|usd| usd >= typed_from)
}

/// Waits until the transaction is in a block, the wait times out or the program cancels. The transaction continues in
/// any case.
pub(super) async fn wait(engine: &Arc<EngineContext>, id: RequestId, dialogue: &mut dyn Dialogue) {
    let mut views = engine.core.watch();
    let mut devices = engine.device_status.clone();
    let clock = &engine.ports.clock;
    let until = clock.mono_ms().saturating_add(WAIT_MS);
    let mut shown = String::new();
    loop {
        let state = views.borrow_and_update().state.clone();
        let Ok(record) = find(&state, &id.to_string()) else { return };
        let now = describe(engine, &record);
        let is_refused = was_raise_refused(engine, &state, &record);
        if record.ended.is_some() || now.status == SendStatus::Included || is_refused {
            return;
        }
        if now.told != shown {
            dialogue.progress(&now.told).await;
            shown = now.told;
        }
        // cancel-safe: all branches only wait.
        tokio::select! {
            () = engine.stopping.cancelled() => return,
            () = clock.sleep_until(until) => return,
            () = dialogue.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            Ok(()) = devices.changed() => {}
        }
    }
}

/// Answers a command that made a send and waited for it.
///
/// # Errors
/// The send failed: refused on its device, dropped, cancelled, reverted or displaced.
pub(super) fn answer(engine: &EngineContext, id: RequestId) -> Result<Done, Fault> {
    let state = &engine.core.view().state;
    let record = find(state, &id.to_string())?;
    if was_raise_refused(engine, state, &record) {
        let message = format!(
            "The send {} keeps its earlier gas price: the higher one was refused on the Ledger.",
            id.short()
        );
        return Err(Fault::because(Code::LedgerRejected, message).with_hint("address sends"));
    }
    let answer = describe(engine, &record);
    match failure(engine, &record) {
        None => Ok(Answer::Send(answer).into()),
        Some(code) => {
            let message = format!("The send {} did not take effect: {}.", id.short(), answer.told);
            Err(Fault::because(code, message).with_hint("address sends"))
        }
    }
}

/// Whether an earlier attempt of a send is signed, and a person refused the newest attempt.
fn was_raise_refused(engine: &EngineContext, state: &State, record: &SendRecord) -> bool {
    let outbox = state.outboxes.get(&record.send.key());
    let open = outbox.open.get(&record.send.submission());
    let newest = open.and_then(|one| one.attempts.len().checked_sub(1));
    open.is_some_and(Submission::is_signed)
        && newest.is_some_and(|attempt| {
            device_status::was_attempt_refused(engine, (record.send.submission(), attempt))
        })
}

/// Returns the code of a failed send; `None` if it succeeded or is still open.
fn failure(engine: &EngineContext, record: &SendRecord) -> Option<Code> {
    let Some((outcome, _at)) = &record.ended else {
        let outbox = engine.core.view().state.outboxes.get(&record.send.key());
        let one = outbox.open.get(&record.send.submission())?;
        let reverted = matches!(&one.chain_state, ChainState::Included(block) if !block.ok);
        return reverted.then_some(Code::ExecutionError);
    };
    code_of(outcome, device_status::was_refused(engine, record.send.submission()))
}

fn code_of(outcome: &Outcome, was_refused_on_device: bool) -> Option<Code> {
    match outcome {
        Outcome::Succeeded { .. } => None,
        Outcome::Reverted { .. } | Outcome::NonceTaken => Some(Code::ExecutionError),
        Outcome::Dropped if was_refused_on_device => Some(Code::LedgerRejected),
        Outcome::Dropped | Outcome::Cancelled { .. } => Some(Code::Declined),
    }
}

/// Describes a send, and what its device waits for.
pub(super) fn describe(engine: &EngineContext, record: &SendRecord) -> SendAnswer {
    let mut answer = describe::send(&engine.core.view().state, record);
    match device_status::send_wait_text(engine, record.send.submission()) {
        Some(state) if record.ended.is_none() && answer.status != SendStatus::Included => {
            answer.told = state;
        }
        None if answer.status == SendStatus::Dropped
            && device_status::was_refused(engine, record.send.submission()) =>
        {
            answer.told = "refused on the Ledger: nothing was sent".to_owned();
        }
        None if is_behind_another(&engine.core.view().state, record) => {
            answer.told = device_status::later_send_text();
        }
        // The wallet does not raise the gas price of such a send automatically.
        _signed if is_left_alone(&engine.core.view().state, record) => {
            let id = record.send.id.short();
            answer.told = format!("{}; `address send --faster {id}` offers more", answer.told);
        }
        _other => {}
    }
    answer
}

pub(super) fn list(engine: &EngineContext) -> Result<Done, Fault> {
    let view = engine.core.view();
    let mut records: Vec<&Arc<SendRecord>> = view.state.outboxes.sends.values().collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.at));
    let sends = records.into_iter().map(|record| describe(engine, record));
    Ok(Answer::Sends { sends: sends.collect() }.into())
}

pub(super) async fn cancel(engine: &EngineContext, id: &str) -> Result<Done, Fault> {
    let record = find(&engine.core.view().state, id)?;
    if was_cancelled(&engine.core.view().state, &record) {
        // Ask the device again: a person may have refused to sign the empty transaction there.
        let quote = quote(engine, &record).await?;
        raise(engine, &record, quote, u128::MAX).await?;
    }
    let input = Box::new(Input::Cancel { id: record.send.submission() });
    act(engine, Action::Outbox { key: record.send.key(), input }).await?;
    let record = find(&engine.core.view().state, &record.send.id.to_string())?;
    Ok(Answer::Send(describe(engine, &record)).into())
}

/// Whether a send whose key is in a device waits for another transaction of its address that the device has not
/// signed.
fn is_behind_another(state: &State, record: &SendRecord) -> bool {
    let key = record.send.key();
    let outbox = state.outboxes.get(&key);
    let is_next = |one: &Submission| one.nonce.is_none() && record.ended.is_none();
    state.is_on_device(key.signer)
        && outbox.open.get(&record.send.submission()).is_some_and(is_next)
        && outbox.open.values().any(|one| one.unsigned_attempt().is_some())
}

/// Whether a send whose key is in a device is signed but in no block, and no attempt of it waits for a signature.
fn is_left_alone(state: &State, record: &SendRecord) -> bool {
    let key = record.send.key();
    let outbox = state.outboxes.get(&key);
    let open = outbox.open.get(&record.send.submission());
    let waits = |one: &Submission| {
        one.is_signed()
            && !one.cancel
            && one.unsigned_attempt().is_none()
            && matches!(one.chain_state, ChainState::Pending)
    };
    state.is_on_device(key.signer) && open.is_some_and(waits)
}

/// Whether a send whose key is in a device was cancelled before, and no attempt of it waits for a signature.
fn was_cancelled(state: &State, record: &SendRecord) -> bool {
    let key = record.send.key();
    let outbox = state.outboxes.get(&key);
    let open = outbox.open.get(&record.send.submission());
    state.is_on_device(key.signer)
        && open.is_some_and(|one| one.cancel && one.unsigned_attempt().is_none())
}

pub(super) fn find(state: &State, prefix: &str) -> Result<Arc<SendRecord>, Fault> {
    let named = prefix.chars().any(|c| c != '-');
    let fits: Vec<&Arc<SendRecord>> = state
        .outboxes
        .sends
        .values()
        .filter(|record| named && record.send.id.has_prefix(prefix))
        .collect();
    match fits.as_slice() {
        [only] => Ok(Arc::clone(only)),
        [] => {
            let message = format!("No send begins with {}.", text::snippet(prefix));
            Err(Fault::because(Code::NothingFound, message).with_hint("address sends"))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|record| record.send.id.short()).collect();
            let message =
                format!("Several sends begin like this: {}. Give more characters.", ids.join(", "));
            Err(Fault::because(Code::Ambiguous, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;

    use super::*;

    #[test]
    fn an_unknown_send_is_named_in_short() {
        let fault = find(&State::default(), &"\u{fb00}".repeat(5_000)).unwrap_err();
        assert_eq!(fault.code, Code::NothingFound);
        assert_eq!(fault.message, format!("No send begins with {}….", "\u{fb00}".repeat(200)));
    }

    #[test]
    fn only_a_send_that_took_effect_succeeds() {
        let (hash, block) = (B256::repeat_byte(1), 7);
        for (outcome, refused, code) in [
            (Outcome::Succeeded { hash, block }, false, None),
            (Outcome::Reverted { hash, block }, false, Some(Code::ExecutionError)),
            (Outcome::Cancelled { hash, block }, false, Some(Code::Declined)),
            (Outcome::NonceTaken, false, Some(Code::ExecutionError)),
            (Outcome::Dropped, false, Some(Code::Declined)),
            (Outcome::Dropped, true, Some(Code::LedgerRejected)),
        ] {
            assert_eq!(code_of(&outcome, refused), code, "{outcome:?}");
            assert!(code.is_none_or(|code| code.exit() != 0), "{outcome:?}");
        }
    }
}
