//! Applies a message to the model, and returns the resulting intents.

mod card;
mod copying;
mod dialogs;
mod effects;
mod filter;
mod frames;
mod keys;
mod marks;
mod notices;
mod overlays;
mod run_line;

use bursar_control::grammar::{Order, WatchOrder};
use bursar_control::wire::Asking;
use bursar_core::fault::Fault;
use crossterm::event::KeyEvent;

use super::model::List;
use super::model::feed::SEARCHED_ENTRIES;
use super::model::overlay::{CardView, Overlay};
use super::model::rows::page_order;
use super::model::server::Topic;
use super::model::{Connection, Intent, Model, Pane, Purpose, clamp_size};
use crate::console::theme::Palette;
use crate::link::Received;

/// Everything that can happen to a console.
#[derive(Debug)]
pub(crate) enum Message {
    Connected,
    Lost(Fault),
    Frame(Received),
    Key(KeyEvent),
    Paste(String),
    Resize(u16, u16),
    /// Only time has passed.
    Tick,
    /// The console could neither draw nor read keys for a while.
    Stalled,
}

/// Applies one message; every change of the model goes through here. `now_ms` is this process's monotonic clock.
pub(crate) fn update(model: &mut Model, message: Message, now_ms: u64) -> Vec<Intent> {
    model.advance_to(now_ms);
    let mut intents = keys::apply_unconfirmed_key(model);
    intents.extend(match message {
        Message::Connected => handle_connected(model),
        Message::Lost(fault) => handle_lost(model, fault),
        Message::Frame(frame) => frames::handle_frame(model, frame),
        Message::Key(key) => keys::handle_key(model, &key),
        Message::Paste(text) => overlays::handle_paste(model, &text),
        Message::Resize(width, height) => {
            model.size = clamp_size((width, height));
            Vec::new()
        }
        Message::Tick => Vec::new(),
        Message::Stalled => {
            effects::guard_keys(model);
            Vec::new()
        }
    });
    open_next_overlay(model);
    dialogs::open_next(model);
    dialogs::note_shown(model);
    watch(model);
    model.reorder_requests();
    update_card(model);
    card::record_visible_rows(model);
    marks::update_view(model);
    overlays::record_visible_text(model);
    load_viewed_page(model);
    let may_draw = model.theme().palette != Palette::Mono && !model.setup.ascii;
    intents.extend((may_draw && model.icons.asks_terminal()).then_some(Intent::AskPictures));
    intents.extend(notices::announce(model));
    intents.extend(model.send_queued_calls());
    intents
}

fn handle_connected(model: &mut Model) -> Vec<Intent> {
    let again = matches!(model.connection, Connection::Lost(_));
    model.forget_calls();
    model.connection = Connection::Up;
    let mut topics = Topic::ALL.to_vec();
    if model.has_feed {
        // The watch delivers the entries after the last known one, so the first page is not needed.
        topics.retain(|topic| *topic != Topic::Feed);
    }
    effects::guard_keys(model);
    model.mark_stale(&topics);
    model.clear_note();
    if again {
        model.note("Connected to the engine again.");
    }
    Vec::new()
}

/// Starts the watch, which streams the entries after the newest known one.
fn watch(model: &mut Model) {
    let is_due = model.has_feed && model.now_ms >= model.watch_from_ms;
    if !is_due || model.connection != Connection::Up || model.in_flight(&Purpose::Watch) {
        return;
    }
    let since = model.server.feed.head();
    let order = Order::Watch(WatchOrder { since: Some(since) });
    model.call(Purpose::Watch, order, Asking::Silent);
}

fn handle_lost(model: &mut Model, fault: Fault) -> Vec<Intent> {
    let decided = model.purposes.values().any(|known| matches!(known, Purpose::Decide { .. }));
    let asked = model.purposes.values().any(|known| matches!(known, Purpose::Line { .. }));
    let decided = marks::forget_run(model) || decided;
    model.forget_calls();
    if let Some(Overlay::Ask(_)) = &model.overlay {
        model.overlay = None;
    }
    if let Some(Overlay::Card(card)) = &mut model.overlay {
        card.is_sent = false;
        card.guard_keys(model.now_ms);
    }
    if decided || asked {
        model.note_failure(
            "Connection lost before the engine answered. Check the result once reconnected.",
        );
    }
    model.clear_note();
    model.connection = Connection::Lost(fault);
    Vec::new()
}

/// Shows the next question or answer once no other overlay is open.
fn open_next_overlay(model: &mut Model) {
    // The next question of a command replaces the one that was just answered.
    if let Some(Overlay::Ask(asked)) = &model.overlay
        && asked.is_sent
        && let Some(index) = model.prompts.iter().position(|next| next.call == asked.call)
    {
        model.overlay = model.prompts.remove(index).map(Overlay::Ask);
    }
    // Nothing opens under the hands of an operator who types.
    let is_typing = model.line.is_some() || model.filtering.is_some();
    if model.overlay.is_none() && !is_typing {
        let now_ms = model.now_ms;
        model.overlay = match model.prompts.pop_front() {
            Some(mut question) => {
                question.guard(now_ms);
                Some(Overlay::Ask(question))
            }
            None => match model.unread.pop_front() {
                Some(view) => Some(Overlay::Text(view)),
                None => reopen_card(model).map(|card| Overlay::Card(Box::new(card))),
            },
        };
    }
}

/// Returns the card that the operator closed to open the wallet, once `wallet open` has ended.
fn reopen_card(model: &mut Model) -> Option<CardView> {
    if model.in_flight(&Purpose::Line { order: "wallet.open" }) {
        return None;
    }
    let id = model.card_to_reopen.take()?;
    CardView::of(model.server.find_queued(&id)?, model.now_ms)
}

/// Updates an open card from the newest list of requests.
fn update_card(model: &mut Model) {
    let now_ms = model.now_ms;
    let Some(Overlay::Card(view)) = &mut model.overlay else { return };
    let Some(waiting) = model.server.find_queued(&view.id) else { return };
    if let Some(card) = waiting.request.card.as_ref().filter(|_card| waiting.end.is_none()) {
        view.replace_card(card, now_ms);
    }
}

/// Requests a page of entries that the feed shows but has not loaded.
fn load_viewed_page(model: &mut Model) {
    let viewed_entry =
        model.selected.get(&Pane::Activity).filter(|_key| model.focus == Pane::Activity);
    if model.focus == Pane::Activity {
        model.server.refused_count = 0;
    }
    model.server.viewed_entry = viewed_entry.and_then(|key| key.parse().ok());
    if model.active_filter(List::Pane(Pane::Activity)).is_some() {
        // A filter searches the newest entries, so these are kept.
        model.server.viewed_entry = None;
    }
    let missing = match model.active_filter(List::Pane(Pane::Activity)) {
        Some(_filter) => model.server.feed.missing_page(None, SEARCHED_ENTRIES),
        // Load one screen in both directions.
        None => {
            let reach = usize::from(model.size.1);
            model.server.feed.missing_page(model.server.viewed_entry, reach)
        }
    };
    if let (Some(page), false) = (missing, model.in_flight(&Purpose::Page)) {
        let order = page_order(Some(page.before), page.limit);
        model.call(Purpose::Page, Order::Activity(order), Asking::Silent);
    }
}
