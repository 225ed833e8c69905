//! Runs the command line, which has the grammar of the `bursar` program. Some commands run only in a shell.

use bursar_control::grammar::Order;
use bursar_control::wire::Asking;
use bursar_core::ids::RequestId;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::console::complete;
use crate::console::keymap::KeyAction;
use crate::console::model::exports::FileQuestion;
use crate::console::model::overlay::{CardView, Overlay, TextView};
use crate::console::model::{Connection, Intent, Model, Pane, Purpose};
use crate::console::shell_only;
use zeroize::Zeroizing;

pub(super) fn handle_key(
    model: &mut Model,
    key: &KeyEvent,
    action: Option<KeyAction>,
) -> Vec<Intent> {
    match action {
        Some(KeyAction::Close) => {
            model.line = None;
            return Vec::new();
        }
        Some(KeyAction::Enter) => return run_entered_line(model),
        _other => {}
    }
    let typed = model.line.as_ref().filter(|_line| action == Some(KeyAction::Complete));
    let completed =
        typed.map(|line| complete::complete(&line.text(), &model.server, &model.setup.commands));
    let Some(line) = &mut model.line else { return Vec::new() };
    if let Some(completed) = completed {
        line.replace(&completed.line);
        model.choices = completed.choices;
        return Vec::new();
    }
    model.choices.clear();
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (action, key.code) {
        (Some(KeyAction::Older), _) => line.older(&model.line_history),
        (Some(KeyAction::Newer), _) => line.newer(&model.line_history),
        (_, KeyCode::Char('a')) if control => line.home(),
        (_, KeyCode::Char('e')) if control => line.end(),
        (_, KeyCode::Char('u')) if control => line.kill_to_start(),
        (_, KeyCode::Char('w')) if control => line.kill_word(),
        (_, KeyCode::Char(ch)) if !control => line.insert(ch),
        (_, KeyCode::Backspace) => line.backspace(),
        (_, KeyCode::Delete) => line.delete(),
        (_, KeyCode::Left) => line.move_left(),
        (_, KeyCode::Right) => line.move_right(),
        (_, KeyCode::Home) => line.home(),
        (_, KeyCode::End) => line.end(),
        _other => {}
    }
    Vec::new()
}

fn run_entered_line(model: &mut Model) -> Vec<Intent> {
    let Some(line) = model.line.take() else { return Vec::new() };
    let text = line.text().trim().to_owned();
    if text.is_empty() {
        return Vec::new();
    }
    if matches!(text.as_str(), "q" | "quit" | "exit") {
        return if model.setup.owner { super::effects::leave(model) } else { vec![Intent::Quit] };
    }
    // Hints for a shell begin with the program's name too.
    let commands = model.setup.commands;
    let line_text = commands.without_program(&text);
    if let Some(why) = shell_only::program_refusal(line_text, &commands, model.setup.is_sealed()) {
        model.note_failure(why);
        return Vec::new();
    }
    match commands.parse_line(line_text) {
        Ok(order) => {
            // Keep only valid commands: other input may be a seed phrase that was pasted by mistake.
            model.line_history.remember(&text);
            run(model, order);
            // A URL may hold an API key.
            if text.contains("://") { Vec::new() } else { vec![Intent::Remember(text)] }
        }
        Err(error) => {
            let mut view = TextView::new(text, Zeroizing::new(error.to_string()));
            view.failed = true;
            model.overlay = Some(Overlay::Text(view));
            // Keep the line, so that the operator can correct it.
            model.line = Some(line);
            Vec::new()
        }
    }
}

/// Runs a command of the operator.
pub(super) fn run(model: &mut Model, order: Order) {
    if model.connection != Connection::Up {
        return model.note_failure("No engine is connected: nothing was sent.");
    }
    if let Some(exports) = &model.setup.exports
        && let Some(asked) = FileQuestion::of(&order, exports, model.now_ms)
    {
        match asked {
            Ok(question) if question.file.is_none() && model.is_sending_decisions() => {
                model.note_failure("Decisions are still being sent: esc stops the rest.");
            }
            Ok(mut question) if question.file.is_none() => {
                question.lines.push(match model.pending_count() {
                    0 => "No requests are waiting.".to_owned(),
                    waiting => format!("Waiting requests, which can still expire: {waiting}."),
                });
                model.overlay = Some(Overlay::AskFile(Box::new(question)));
            }
            Ok(question) => model.overlay = Some(Overlay::AskFile(Box::new(question))),
            Err(why) => model.note_failure(why),
        }
        return;
    }
    if let Some(why) = shell_only::refusal(&order) {
        return model.note_failure(why);
    }
    match &order {
        Order::Watch(_) => return model.note("Use the Activity pane (5) instead."),
        // Opens the request's card, because an approval covers only terms that were shown.
        Order::Approve(approve) => return open_card(model, &approve.id),
        _any => {}
    }
    let name = order.name();
    if model.in_flight(&Purpose::Line { order: name }) {
        return model.note_failure(format!("`{}` is already running.", name.replace('.', " ")));
    }
    send(model, order);
}

/// Runs the command of the open question about a file. A restore runs once the window is closed.
pub(super) fn run_with_file(model: &mut Model) -> Vec<Intent> {
    let Some(Overlay::AskFile(question)) = model.overlay.take() else { return Vec::new() };
    let FileQuestion { order, file, .. } = *question;
    if model.connection != Connection::Up {
        model.note_failure("No engine is connected: nothing was sent.");
        return Vec::new();
    }
    let Some(file) = file else {
        model.run_closed = Some(order);
        return vec![Intent::Quit];
    };
    let name = order.name();
    if model.in_flight(&Purpose::Line { order: name }) {
        model.note_failure(format!("`{}` is already running.", name.replace('.', " ")));
        return Vec::new();
    }
    let id = send(model, order);
    vec![Intent::CreateFile { id, file }]
}

fn open_card(model: &mut Model, prefix: &str) {
    let fits = |id: &str| id.parse::<RequestId>().is_ok_and(|id| id.has_prefix(prefix));
    let found: Vec<usize> = (0..model.server.queue.len())
        .filter(|index| model.server.queue.get(*index).is_some_and(|row| fits(&row.request.id)))
        .collect();
    let [index] = found.as_slice() else {
        return model.note_failure(match found.len() {
            0 => format!("No request starts with {prefix}."),
            _several => format!("Several requests start with {prefix}: type more of the id."),
        });
    };
    model.card_to_reopen = None;
    model.focus = Pane::Approvals;
    let card = model.server.queue.get(*index);
    if let Some(row) = card {
        model.selected.insert(Pane::Approvals, row.request.id.clone());
    }
    let card = card.and_then(|waiting| CardView::of(waiting, model.now_ms));
    model.overlay = card.map(|card| Overlay::Card(Box::new(card)));
}

/// Sends a command of the operator and returns its id.
pub(super) fn send(model: &mut Model, order: Order) -> u64 {
    let name = order.name();
    let id = model.call(Purpose::Line { order: name }, order.clone(), Asking::Interactive);
    model.orders.insert(id, order);
    id
}
