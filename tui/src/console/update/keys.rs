//! Passes a key to the open overlay or command line, and handles the keys of the panes.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind};

use super::effects::{guard_keys, leave};
use super::{card, copying, filter, marks, notices, overlays, run_line};
use crate::console::keymap::table::action;
use crate::console::keymap::{Context, KeyAction};
use crate::console::model::context::context;
use crate::console::model::line::Line;
use crate::console::model::opening::RowOpening;
use crate::console::model::overlay::Overlay;
use crate::console::model::server::Topic;
use crate::console::model::setup;
use crate::console::model::{FREEZE_WINDOW_MS, Intent, Model, PASTE_GAP_MS, Pane};
use bursar_control::grammar::{Order, WalletOrder};

/// A second freeze key that comes too late shows a message, but only within this time.
const FREEZE_LATE_MS: u64 = 10_000;
/// A note that was shown for this long disappears with the next key.
const NOTE_READ_MS: u64 = 2_000;

pub(super) fn handle_key(model: &mut Model, key: &KeyEvent) -> Vec<Intent> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    notices::note_look(model);
    model.last_key_ms = model.now_ms;
    let stops = action(Context::Panes, key) == Some(KeyAction::Freeze);
    if model.unconfirmed_key.take().is_some() {
        // Two keys this close together are a paste, so neither counts, unless the second is a freeze key.
        guard_keys(model);
        card::two_keys_at_once(model);
        if !stops {
            return Vec::new();
        }
    }
    if model
        .last_note
        .as_ref()
        .is_some_and(|note| note.at_ms.saturating_add(NOTE_READ_MS) <= model.now_ms)
    {
        model.last_note = None;
    }
    let context = context(model);
    if matches!(context, Context::Panes | Context::Line | Context::Filter) {
        model.last_pane_key_ms = model.now_ms;
    }
    // The freeze key, and the keys that only affect the terminal, have an effect in every context.
    match action(Context::Panes, key) {
        Some(KeyAction::Freeze) => return freeze(model),
        Some(KeyAction::Redraw) => return vec![Intent::Redraw],
        Some(KeyAction::Suspend) => return suspend(model),
        _by_context => {}
    }
    if let Some(at) = model.freeze_at_ms.take() {
        // A key other than the freeze key was pressed, so a second freeze key no longer freezes: removes the hint.
        model.last_note.take_if(|note| note.at_ms == at);
    }
    let action =
        action(context, key).filter(|action| !model.setup.observe || action.allowed_for_observer());
    match context {
        Context::Panes => action.map_or_else(Vec::new, |action| handle_pane_key(model, action)),
        Context::Card | Context::CardToDeny => card::handle_key(model, key, action),
        Context::ApproveMarked | Context::DenyMarked => marks::handle_key(model, key, action),
        Context::Filter => filter::handle_key(model, key, action),
        Context::YesNo => overlays::handle_yes_no_key(model, action),
        Context::Field => overlays::handle_field_key(model, key, action),
        Context::Reading | Context::Words => {
            if key.code == KeyCode::Esc {
                // Escape also discards a line that did not parse. Other keys that close the text return to the line.
                model.line = None;
            }
            overlays::handle_reading_key(model, action)
        }
        Context::Line => run_line::handle_key(model, key, action),
    }
}

fn freeze(model: &mut Model) -> Vec<Intent> {
    if model.setup.observe {
        return Vec::new();
    }
    match model.freeze_at_ms.take().map(|at| model.now_ms.saturating_sub(at)) {
        Some(..FREEZE_WINDOW_MS) => {
            model.last_note = None;
            marks::stop(model);
            run_line::run(model, Order::Freeze);
        }
        Some(..=FREEZE_LATE_MS) => {
            model.hint_freeze("Too late: nothing was frozen. Press ^X twice within two seconds.");
        }
        _first => model.hint_freeze("Press ^X again to freeze every agent."),
    }
    Vec::new()
}

/// Executes a key that decides, once the pause after it shows that it was typed alone.
pub(super) fn apply_unconfirmed_key(model: &mut Model) -> Vec<Intent> {
    let is_due = |at: u64| model.now_ms >= at.saturating_add(PASTE_GAP_MS);
    let Some((action, _at)) = model.unconfirmed_key.filter(|(_action, at)| is_due(*at)) else {
        return Vec::new();
    };
    model.unconfirmed_key = None;
    match &model.overlay {
        Some(Overlay::Card(_)) => {
            card::decide(model, action);
            Vec::new()
        }
        Some(Overlay::Marked(_)) => {
            marks::decide(model);
            Vec::new()
        }
        _question => overlays::confirm_yes(model),
    }
}

/// Suspends the console. A console that is the engine is not suspended, because the engine would stop answering agents
/// and other consoles.
fn suspend(model: &mut Model) -> Vec<Intent> {
    if model.setup.owner {
        model.note_failure(
            "This console is the engine and cannot be suspended: leave it, or use another console.",
        );
        return Vec::new();
    }
    vec![Intent::Suspend]
}

fn handle_pane_key(model: &mut Model, action: KeyAction) -> Vec<Intent> {
    match action {
        KeyAction::Up => model.move_selection(-1),
        KeyAction::Down => model.move_selection(1),
        KeyAction::PageUp => model.move_selection(-page_rows(model)),
        KeyAction::PageDown => model.move_selection(page_rows(model)),
        KeyAction::First => model.select_first(),
        KeyAction::Last => model.select_last(),
        KeyAction::Next => switch_pane(model, 1),
        KeyAction::Previous => switch_pane(model, Pane::ALL.len().saturating_sub(1)),
        KeyAction::Pane(number) => {
            if let Some(pane) = Pane::from_number(number) {
                model.focus = pane;
            }
        }
        KeyAction::Open => open(model),
        KeyAction::OpenToDeny => open_to_deny(model),
        KeyAction::Mark => marks::toggle(model),
        KeyAction::MarkAll => marks::toggle_shown(model),
        KeyAction::ApproveMarked => marks::open(model, true),
        KeyAction::DenyMarked => marks::open(model, false),
        KeyAction::Filter => filter::begin(model),
        KeyAction::ShowAll => {
            if !marks::stop(model) {
                filter::show_all(model);
            }
        }
        KeyAction::Zoom => model.is_zoomed = !model.is_zoomed,
        KeyAction::Sort => {
            model.server.queue.sort_by_key(|waiting| waiting.deadline_ms);
        }
        KeyAction::Refresh => {
            let all = Topic::ALL.into_iter().filter(|topic| *topic != Topic::Feed);
            model.mark_stale(&all.collect::<Vec<_>>());
            model.retry_device();
        }
        KeyAction::Qr => show_qr(model),
        KeyAction::Unlock => run_line::run(model, Order::Wallet(WalletOrder::Open)),
        KeyAction::Step if setup::try_line(model).is_some() => return copying::copy(model),
        KeyAction::Step => {
            if let Some(step) = setup::steps(model).into_iter().find(|step| !step.is_done) {
                model.line = Some(Line::of(&step.line));
            }
        }
        KeyAction::Copy => return copying::copy(model),
        KeyAction::Command => model.line = Some(Line::default()),
        KeyAction::Help => model.overlay = Some(Overlay::Help { scroll: 0 }),
        KeyAction::Quit if model.is_sending_decisions() => {
            model.note_failure("Decisions are still being sent: esc stops the rest.");
        }
        KeyAction::Quit => return leave(model),
        KeyAction::Freeze
        | KeyAction::Retry
        | KeyAction::Redraw
        | KeyAction::Suspend
        | KeyAction::Close
        | KeyAction::LeaveAll
        | KeyAction::Yes
        | KeyAction::No
        | KeyAction::Keep
        | KeyAction::Enter
        | KeyAction::Older
        | KeyAction::Newer
        | KeyAction::Complete
        | KeyAction::Check => {}
    }
    Vec::new()
}

fn show_qr(model: &mut Model) {
    match model.qr_order() {
        Some(order) => run_line::run(model, order),
        None => model.note_failure("Select an address in the pane Balances, then press Q."),
    }
}

fn open_to_deny(model: &mut Model) {
    open(model);
    if let Some(Overlay::Card(view)) = &mut model.overlay {
        view.opened_to_deny = true;
    }
}

/// Returns the number of rows of a page, about half a screen.
fn page_rows(model: &Model) -> isize {
    isize::from(i16::try_from((model.size.1 / 2).max(1)).unwrap_or(1))
}

fn switch_pane(model: &mut Model, by: usize) {
    let index = model.focus.number().saturating_sub(1).saturating_add(by);
    let number = index.checked_rem(Pane::ALL.len()).unwrap_or(0).saturating_add(1);
    model.focus = Pane::from_number(number).unwrap_or(model.focus);
}

/// Opens the selected row.
fn open(model: &mut Model) {
    model.card_to_reopen = None;
    match model.opening() {
        Some(RowOpening::Card(card)) => {
            model.select(model.focus, model.selected_row(model.focus));
            model.overlay = Some(Overlay::Card(card));
        }
        Some(RowOpening::Line(line)) => {
            if let Ok(order) = Order::parse_line(&line) {
                run_line::run(model, order);
            }
        }
        Some(RowOpening::Text(view)) => model.overlay = Some(Overlay::Text(view)),
        None => {}
    }
}
