//! Marks requests, and decides the marked ones together.
//!
//! The card about marked requests has the guards of a single card. Each request is decided by its own command, with the
//! digest of the card at its mark, so the engine refuses a request that changed.

use bursar_control::answers::Answer;
use bursar_control::grammar::{Approve, Deny, Order};
use bursar_control::wire::Asking;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use bursar_core::status::DecidedStatus;
use crossterm::event::{KeyCode, KeyEvent};
use zeroize::Zeroizing;

use super::card::is_digit;
use super::effects::scrolled;
use crate::console::complete::with_hint;
use crate::console::keymap::KeyAction;
use crate::console::model::marked::MarkedView;
use crate::console::model::marked_run::MarkedRun;
use crate::console::model::overlay::{Hint, Overlay, TextView};
use crate::console::model::rows::short;
use crate::console::model::server::Topic;
use crate::console::model::{Connection, Intent, Model, Pane, Purpose};
use crate::console::view::visibility;

/// Maximum number of decisions of a run in flight.
const IN_FLIGHT_MAX: usize = 4;

/// Marks the selected request, or removes its mark, and moves on to the next one.
pub(super) fn toggle(model: &mut Model) {
    if model.focus == Pane::Approvals
        && let Some(index) = model.selected_index(Pane::Approvals)
    {
        model.toggle_mark(index);
        model.move_selection(1);
    }
}

/// Marks every shown request, or removes their marks.
pub(super) fn toggle_shown(model: &mut Model) {
    if model.focus == Pane::Approvals {
        let shown = model.shown_rows(Pane::Approvals);
        let indexes: Vec<usize> =
            (0..shown.len()).filter_map(|place| shown.index_at(place)).collect();
        model.toggle_marks(&indexes);
    }
}

/// Opens the card that approves or denies the marked requests.
pub(super) fn open(model: &mut Model, approve: bool) {
    if let Some(run) = &model.marked_run {
        let text = format!("Wait for the results of the last decision: {}", run.text());
        return model.note_failure(text);
    }
    if model.marks.is_empty() {
        return model.note("No request is marked: space marks one, * every one that is shown.");
    }
    let selection = model.select_marked(approve);
    let view = MarkedView::new(approve, selection, model.now_ms);
    model.overlay = Some(Overlay::Marked(Box::new(view)));
}

/// Updates the open card from the newest list of requests, and records which of its rows are visible.
pub(super) fn update_view(model: &mut Model) {
    let now_ms = model.now_ms;
    let Some(Overlay::Marked(view)) = &model.overlay else { return };
    let selection = model.select_marked(view.approve);
    if let Some(Overlay::Marked(view)) = &mut model.overlay {
        view.replace(selection, now_ms);
    }
    let Some(visible) = visibility::visible_marked(model) else { return };
    if let Some(Overlay::Marked(view)) = &mut model.overlay {
        view.seen.record(view.scroll.min(visible.last), visible.shown, visible.width);
        let is_seen = view.seen.contain(visible.rows, visible.width);
        view.hint.take_if(|hint| is_seen && *hint == Hint::RowsUnseen);
    }
}

/// Scrolls the card, and returns whether `action` scrolls.
fn scroll(model: &mut Model, action: KeyAction) -> bool {
    let (Some(visible), now_ms) = (visibility::visible_marked(model), model.now_ms) else {
        return false;
    };
    let Some(Overlay::Marked(view)) = &mut model.overlay else { return false };
    let Some(position) = scrolled(view.scroll, visible.last, visible.shown, action) else {
        return false;
    };
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
    let (now_ms, too_small) = (model.now_ms, model.is_too_small());
    let may_decide = may_decide(model);
    if action == Some(KeyAction::Close) {
        close(model);
        return Vec::new();
    }
    if action.is_some_and(|action| scroll(model, action)) {
        return Vec::new();
    }
    let Some(Overlay::Marked(view)) = &mut model.overlay else { return Vec::new() };
    let types_value = view.required_value().is_some();
    let stray = match action {
        Some(KeyAction::Yes) => None,
        _typed if is_digit(key.code) && types_value => None,
        _other if types_value => Some(Hint::OnlyDigits),
        _other if view.approve => Some(Hint::OnlyY),
        _other => Some(Hint::OnlyN),
    };
    if now_ms < view.armed_at_ms || too_small {
        view.guard_keys(now_ms);
        view.hint = Some(stray.unwrap_or(Hint::TooEarly));
        return Vec::new();
    }
    if !may_decide {
        return Vec::new();
    }
    view.hint = stray;
    match (action, key.code) {
        (Some(KeyAction::Yes), _) => model.unconfirmed_key = Some((KeyAction::Yes, now_ms)),
        (_, KeyCode::Char(digit @ ('0'..='9' | '.'))) if types_value => {
            view.type_digit(digit);
            view.fault = None;
        }
        (_, KeyCode::Backspace) if types_value => {
            view.typed_value.pop();
            view.fault = None;
        }
        // The key may have been typed or pasted for something else.
        _other => view.guard_keys(now_ms),
    }
    Vec::new()
}

/// Closes the card. Requests that it named as ended or changed lose their marks.
fn close(model: &mut Model) {
    if let Some(Overlay::Marked(view)) = model.overlay.take() {
        let named = view.selection.ids_without_mark();
        model.marks.retain(|id, _digest| !named.contains(&id.as_str()));
    }
}

fn may_decide(model: &Model) -> bool {
    model.connection == Connection::Up && !model.setup.observe
}

/// Decides the chosen requests, after the pause that shows that the key was typed alone.
pub(super) fn decide(model: &mut Model) {
    let (now_ms, too_small) = (model.now_ms, model.is_too_small());
    let is_ready = may_decide(model) && !too_small;
    let (locked, unseen) = (model.server.is_locked(), visibility::has_unseen_marked(model));
    let Some(Overlay::Marked(view)) = &mut model.overlay else { return };
    if !is_ready || now_ms < view.armed_at_ms {
        return;
    }
    if view.selection.chosen.is_empty() {
        view.fault = Some("No marked request is left to decide.".to_owned());
        return;
    }
    if view.approve {
        if locked {
            view.fault = Some("The wallet is locked: press esc, then u to open it.".to_owned());
            return;
        }
        if unseen {
            view.hint = Some(Hint::RowsUnseen);
            return;
        }
        if let Some(value) = view.required_value()
            && let Err(why) = check_typed(&view.typed_value, value)
        {
            view.fault = Some(why);
            return;
        }
    }
    let (approve, chosen) = (view.approve, std::mem::take(&mut view.selection.chosen));
    close(model);
    let total = chosen.len();
    let run = MarkedRun { approve, total, waiting: chosen.into(), ..MarkedRun::default() };
    model.marked_run = Some(run);
    send_next(model);
}

/// Sends the next decisions. Few are in flight at once, so that other commands do not wait behind all of them.
fn send_next(model: &mut Model) {
    let mut next = Vec::new();
    let Some(run) = &mut model.marked_run else { return };
    while run.open.len() < IN_FLIGHT_MAX {
        let Some(one) = run.waiting.pop_front() else { break };
        run.open.insert(one.id.clone());
        next.push(one);
    }
    let approve = run.approve;
    for one in next {
        let order = match approve {
            true => Order::Approve(Approve {
                id: one.id.clone(),
                card: Some(one.digest),
                yes: true,
                confirm: None,
                wait: None,
            }),
            false => Order::Deny(Deny::one(one.id.clone())),
        };
        let asking = if approve { Asking::Agreed } else { Asking::Silent };
        model.call(Purpose::DecideMarked { id: one.id }, order, asking);
    }
}

/// Stops the decisions that were not sent. Returns whether there were any.
pub(super) fn stop(model: &mut Model) -> bool {
    let Some(run) = &mut model.marked_run else { return false };
    let has_any = !run.waiting.is_empty();
    run.stop();
    if has_any {
        show_progress(model);
    }
    has_any
}

fn check_typed(typed: &str, value: Usd) -> Result<(), String> {
    match Usd::parse(typed.trim()) {
        Ok(typed) if typed == value => Ok(()),
        Ok(typed) => Err(format!("The sum is {value}, not {typed}.")),
        Err(_unfinished) => Err(format!("Type the sum first: {value}.")),
    }
}

/// Handles the result of one of the decisions.
pub(super) fn handle_result(model: &mut Model, id: &str, result: Result<Answer, Fault>) {
    model.mark_stale(&[Topic::Requests, Topic::Agents, Topic::Status, Topic::Payments]);
    model.marks.remove(id);
    let Some(run) = &mut model.marked_run else { return };
    run.open.remove(id);
    let approve = run.approve;
    match result {
        Ok(answer) => {
            let waits_for_device = matches!(
                &answer,
                Answer::Decided(done) if done.status == DecidedStatus::AwaitingDevice
            );
            if !waits_for_device {
                let what = if approve { "approved" } else { "denied" };
                model.server.record_decision(id, what, model.now_ms);
            }
        }
        Err(fault) => run.failed.push((short(id), with_hint(&fault))),
    }
    send_next(model);
    show_progress(model);
}

fn show_progress(model: &mut Model) {
    let Some(run) = &model.marked_run else { return };
    let mut text = run.text();
    if !run.is_over() {
        return model.note(format!("{text} esc stops the rest."));
    }
    let run = model.marked_run.take().unwrap_or_default();
    if run.stopped > 0 {
        text.push_str(&format!(" {} were stopped before they were sent.", run.stopped));
    }
    let failed = run.failed;
    if failed.is_empty() {
        return model.note(text);
    }
    model.note_failure(&*text);
    let lines: Vec<String> = failed.iter().map(|(id, why)| format!("{id}: {why}")).collect();
    let text = Zeroizing::new(format!("{text}\n\n{}", lines.join("\n")));
    model.unread.push_back(TextView::new("Not decided", text));
}

/// Ends the run of decisions, because the connection was lost. Returns whether results are missing.
pub(super) fn forget_run(model: &mut Model) -> bool {
    model.marked_run.take().is_some()
}
