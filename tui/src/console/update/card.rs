//! Deciding. Nothing but the card's own keys decides, and they are dead for a moment after it opened,
//! changed, or was pressed too early: what was typed or pasted at something else ends here.

use bursar_core::grammar::Order;
use bursar_core::grammar::{Approve, Deny};
use bursar_core::money::Usd;
use bursar_core::wire::Asking;
use crossterm::event::{KeyCode, KeyEvent};

use crate::console::keymap::Deed;
use crate::console::model::overlay::{CardView, Overlay};
use crate::console::model::{Intent, Model, Purpose};

pub(super) fn pressed(model: &mut Model, key: &KeyEvent, deed: Option<Deed>) -> Vec<Intent> {
    let now_ms = model.now_ms;
    let too_small = model.is_too_small();
    let may_decide = model.may_decide();
    let Some(Overlay::Card(view)) = &mut model.overlay else { return Vec::new() };
    if deed == Some(Deed::Close) {
        model.overlay = None;
        return Vec::new();
    }
    if now_ms < view.armed_at_ms || too_small {
        view.guard(now_ms);
        return Vec::new();
    }
    if !may_decide {
        return Vec::new();
    }
    match (deed, key.code) {
        (Some(Deed::Yes), _) => approve(model),
        (Some(Deed::No), _) => {
            let id = view.id.clone();
            view.sent = true;
            let order = Order::Deny(Deny { id: id.clone(), reason: Vec::new() });
            model.call(Purpose::Decide { id, approve: false }, order, Asking::Silent);
        }
        (_, KeyCode::Char(digit @ ('0'..='9' | '.'))) if view.card.type_amount => {
            view.type_digit(digit);
        }
        (_, KeyCode::Backspace) => {
            view.typed.pop();
        }
        _other => {}
    }
    Vec::new()
}

fn approve(model: &mut Model) {
    let Some(Overlay::Card(view)) = &mut model.overlay else { return };
    if let Err(why) = may_be_approved(view) {
        view.fault = Some(why);
        return;
    }
    let id = view.id.clone();
    view.sent = true;
    view.fault = None;
    let order = Order::Approve(Approve {
        id: id.clone(),
        card: Some(view.card.digest.clone()),
        yes: true,
        confirm: view.card.type_amount.then_some(view.card.usd),
    });
    model.call(Purpose::Decide { id, approve: true }, order, Asking::Agreed);
}

/// What the engine would refuse is not even sent; it judges all the same.
fn may_be_approved(view: &CardView) -> Result<(), String> {
    if let Some(obstacle) = &view.card.obstacle {
        return Err(obstacle.clone());
    }
    if !view.card.type_amount {
        return Ok(());
    }
    match Usd::parse(view.typed.trim()) {
        Ok(typed) if typed == view.card.usd => Ok(()),
        Ok(typed) => Err(format!("The amount is {}, not {typed}.", view.card.usd)),
        Err(_unfinished) => Err(format!("Type the amount first: {}.", view.card.usd)),
    }
}
