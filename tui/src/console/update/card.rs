//! Handles the keys of a card.
//!
//! Keys that decide or type the amount are ignored for a moment after the card opened, and approvals also after it
//! changed. A key that is too early restarts that time. So input that was typed or pasted for something else decides
//! nothing. An approval counts only if every row that it needs was visible.

use bursar_control::grammar::Order;
use bursar_control::grammar::{Approve, Deny, WalletOrder};
use bursar_control::wire::Asking;
use bursar_core::money::Usd;
use crossterm::event::{KeyCode, KeyEvent};

use super::effects::scrolled;
use super::{dialogs, run_line};
use crate::console::keymap::KeyAction;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::{CardView, Hint, Overlay};
use crate::console::model::{Intent, Model, Purpose};
use crate::console::view::visibility;

/// Records which rows of the open card are visible.
pub(super) fn record_visible_rows(model: &mut Model) {
    let Some(visible) = visibility::visible_rows(model) else { return };
    if let Some(Overlay::Card(view)) = &mut model.overlay {
        view.record_visible(visible.width, visible.rows.into_iter());
    }
    let is_done = visibility::card_unseen(model).is_none();
    if let Some(Overlay::Card(view)) = &mut model.overlay
        && is_done
    {
        view.hint.take_if(|hint| *hint == Hint::RowsUnseen);
    }
}

/// Rejects pasted text: it neither decides nor fills in the amount.
pub(super) fn reject_paste(model: &mut Model) {
    match &mut model.overlay {
        Some(Overlay::Card(view)) => view.hint = Some(Hint::Pasted),
        Some(Overlay::Marked(view)) => view.hint = Some(Hint::Pasted),
        _other => {}
    }
}

/// Shows a hint after two keys that were so close together that they count as a paste.
pub(super) fn two_keys_at_once(model: &mut Model) {
    match &mut model.overlay {
        Some(Overlay::Card(view)) => view.hint = Some(Hint::TwoKeys),
        Some(Overlay::Marked(view)) => view.hint = Some(Hint::TwoKeys),
        _other => {}
    }
}

/// Scrolls the card, and returns whether `action` scrolls. Scrolling restarts the time during which decisions are
/// ignored.
fn scroll(model: &mut Model, action: KeyAction) -> bool {
    let (Some(visible), now_ms) = (visibility::visible_rows(model), model.now_ms) else {
        return false;
    };
    let Some(Overlay::Card(view)) = &mut model.overlay else { return false };
    let page = visible.rows.len().saturating_sub(1);
    let Some(position) = scrolled(view.scroll, visible.last, page, action) else { return false };
    view.scroll = position;
    view.guard_keys(now_ms);
    view.hint = None;
    true
}

pub(super) fn handle_key(
    model: &mut Model,
    key: &KeyEvent,
    action: Option<KeyAction>,
) -> Vec<Intent> {
    let now_ms = model.now_ms;
    let too_small = model.is_too_small();
    let may_decide = model.may_decide();
    let locked = model.server.is_locked();
    if is_unnoticed(model) {
        return Vec::new();
    }
    if action.is_some_and(|action| close(model, action) || scroll(model, action)) {
        return Vec::new();
    }
    if matches!(action, Some(KeyAction::Open | KeyAction::OpenToDeny)) {
        return switch_card(model, action == Some(KeyAction::OpenToDeny));
    }
    if action == Some(KeyAction::Copy) {
        // The key may have been pasted together with one that decides.
        if let Some(Overlay::Card(view)) = &mut model.overlay {
            view.guard_keys(now_ms);
        }
        return super::copying::copy(model);
    }
    // A retry decides nothing, so it needs no pause.
    if action == Some(KeyAction::Retry) && model.retry_device() {
        return Vec::new();
    }
    let Some(Overlay::Card(view)) = &mut model.overlay else { return Vec::new() };
    let stray = match action {
        Some(KeyAction::Yes | KeyAction::No) => None,
        Some(KeyAction::Unlock) if locked => None,
        _other if !view.may_be_approved() => Some(Hint::OnlyN),
        _other if is_digit(key.code) && view.requires_typed_amount() => None,
        _other if view.requires_typed_amount() => Some(Hint::OnlyDigits),
        _other => Some(Hint::OnlyY),
    };
    if now_ms < view.deniable_at_ms || too_small {
        view.guard_keys(now_ms);
        view.hint = Some(stray.unwrap_or(Hint::TooEarly));
        return Vec::new();
    }
    if !may_decide {
        return Vec::new();
    }
    view.hint = stray;
    match (action, key.code) {
        (Some(KeyAction::Unlock), _) if locked => return unlock(model),
        (Some(KeyAction::Yes), _) if now_ms < view.armed_at_ms => {
            view.armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS);
            view.hint = Some(Hint::TooEarly);
        }
        (Some(action @ (KeyAction::Yes | KeyAction::No)), _) => {
            model.unconfirmed_key = Some((action, now_ms))
        }
        (_, KeyCode::Char(digit @ ('0'..='9' | '.'))) if view.requires_typed_amount() => {
            view.type_digit(digit);
            view.fault = None;
        }
        (_, KeyCode::Backspace) if view.requires_typed_amount() => {
            view.typed_amount.pop();
            view.fault = None;
        }
        // The key may have been typed or pasted for something else.
        _other => view.guard_keys(now_ms),
    }
    Vec::new()
}

/// Returns whether the card opened by itself so lately that the key was meant for something else. The key has no effect,
/// and the time begins again.
fn is_unnoticed(model: &mut Model) -> bool {
    let now_ms = model.now_ms;
    let Some(Overlay::Card(view)) = &mut model.overlay else { return false };
    let is_early = view.opened_by_itself && now_ms < view.deniable_at_ms;
    if is_early {
        view.guard_keys(now_ms);
        view.hint = Some(Hint::TooEarly);
    }
    is_early
}

/// Closes the card, and returns whether `action` does that.
fn close(model: &mut Model, action: KeyAction) -> bool {
    match action {
        KeyAction::Close => model.overlay = None,
        KeyAction::LeaveAll if model.setup.is_sealed() => dialogs::leave_all(model),
        _other => return false,
    }
    true
}

/// Turns the card into the one that denies the request, or back into the one that approves it.
fn switch_card(model: &mut Model, to_deny: bool) -> Vec<Intent> {
    let now_ms = model.now_ms;
    if let Some(Overlay::Card(view)) = &mut model.overlay
        && !view.is_sent
    {
        view.switch(to_deny);
        view.hint = None;
        view.guard_keys(now_ms);
    }
    Vec::new()
}

pub(super) fn is_digit(code: KeyCode) -> bool {
    matches!(code, KeyCode::Char('0'..='9' | '.') | KeyCode::Backspace)
}

/// Runs `wallet open`, which asks for the password. Afterwards this card opens again.
fn unlock(model: &mut Model) -> Vec<Intent> {
    if let Some(Overlay::Card(view)) = model.overlay.take() {
        model.card_to_reopen = Some(view.id.clone());
    }
    run_line::run(model, Order::Wallet(WalletOrder::Open));
    Vec::new()
}

/// Executes a key that decides and that was typed alone.
pub(super) fn decide(model: &mut Model, action: KeyAction) {
    let (now_ms, may_decide, too_small) = (model.now_ms, model.may_decide(), model.is_too_small());
    let Some(Overlay::Card(view)) = &mut model.overlay else { return };
    let armed = if action == KeyAction::Yes { view.armed_at_ms } else { view.deniable_at_ms };
    if !may_decide || too_small || now_ms < armed {
        return;
    }
    match action {
        KeyAction::Yes => approve(model),
        _no => {
            let id = view.id.clone();
            view.is_sent = true;
            let order = Order::Deny(Deny::one(id.clone()));
            model.call(Purpose::Decide { id, approve: false }, order, Asking::Silent);
        }
    }
}

fn approve(model: &mut Model) {
    let locked = model.server.is_locked();
    let unseen = visibility::card_unseen(model).is_some();
    let Some(Overlay::Card(view)) = &mut model.overlay else { return };
    if view.opened_to_deny {
        return;
    }
    // An obstacle is reported first, because no key on the card can remove it.
    if let Some(obstacle) = &view.card.obstacle {
        view.fault = Some(format!("Not approved: {obstacle}"));
        return;
    }
    if let Some(device) = &view.card.device {
        view.fault = Some(device.state.clone());
        return;
    }
    if locked {
        view.fault = Some("The wallet is locked: press u to open it.".to_owned());
        return;
    }
    if unseen {
        view.hint = Some(Hint::RowsUnseen);
        return;
    }
    let confirm = match typed_amount(view) {
        Ok(confirm) => confirm,
        Err(why) => {
            view.fault = Some(why);
            return;
        }
    };
    let id = view.id.clone();
    view.is_sent = true;
    view.fault = None;
    let order = Order::Approve(Approve {
        id: id.clone(),
        card: Some(view.card.digest.clone()),
        yes: true,
        confirm,
        wait: None,
    });
    model.call(Purpose::Decide { id, approve: true }, order, Asking::Agreed);
}

/// Returns the typed amount if the card requires one. The engine checks the amount, too. The error is a sentence for
/// the operator.
fn typed_amount(view: &CardView) -> Result<Option<Usd>, String> {
    if !view.card.type_amount {
        return Ok(None);
    }
    match Usd::parse(view.typed_amount.trim()) {
        // If the card has no price, the engine compares the amount with the price at the approval.
        Ok(typed) if view.card.unpriced || typed == view.card.usd => Ok(Some(typed)),
        Err(_unfinished) if view.card.unpriced => {
            Err("First type how many dollars it may cost: the approval checks the price."
                .to_owned())
        }
        Ok(typed) => Err(format!("The amount is {}, not {typed}.", view.card.usd)),
        Err(_unfinished) => Err(format!("Type the amount first: {}.", view.card.usd)),
    }
}
