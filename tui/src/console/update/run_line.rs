//! The command line: the same grammar as `bursar …`, sent as the same orders.

use bursar_core::grammar::{HistoryOrder, Order};
use bursar_core::wire::Asking;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::console::complete;
use crate::console::keymap::Deed;
use crate::console::model::overlay::{Overlay, Told};
use crate::console::model::{Connection, Intent, Model, Purpose};
use zeroize::Zeroizing;

pub(super) fn pressed(model: &mut Model, key: &KeyEvent, deed: Option<Deed>) -> Vec<Intent> {
    match deed {
        Some(Deed::Close) => {
            model.line = None;
            return Vec::new();
        }
        Some(Deed::Enter) => return entered(model),
        _other => {}
    }
    let completed = (deed == Some(Deed::Complete))
        .then(|| model.line.as_ref().map(|line| complete::complete(&line.text(), &model.server)))
        .flatten();
    let Some(line) = &mut model.line else { return Vec::new() };
    if let Some(completed) = completed {
        line.replace(&completed.line);
        if completed.choices.len() > 1 {
            model.note(completed.choices.join("  "));
        }
        return Vec::new();
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match (deed, key.code) {
        (Some(Deed::Older), _) => line.older(&model.past),
        (Some(Deed::Newer), _) => line.newer(&model.past),
        (_, KeyCode::Char('a')) if control => line.home(),
        (_, KeyCode::Char('e')) if control => line.end(),
        (_, KeyCode::Char('u')) if control => line.kill_to_start(),
        (_, KeyCode::Char('w')) if control => line.kill_word(),
        (_, KeyCode::Char(ch)) if !control => line.insert(ch),
        (_, KeyCode::Backspace) => line.backspace(),
        (_, KeyCode::Delete) => line.delete(),
        (_, KeyCode::Left) => line.left(),
        (_, KeyCode::Right) => line.right(),
        (_, KeyCode::Home) => line.home(),
        (_, KeyCode::End) => line.end(),
        _other => {}
    }
    Vec::new()
}

fn entered(model: &mut Model) -> Vec<Intent> {
    let Some(line) = model.line.take() else { return Vec::new() };
    let text = line.text().trim().to_owned();
    if text.is_empty() {
        return Vec::new();
    }
    model.past.remember(&text);
    if matches!(text.as_str(), "q" | "quit" | "exit") {
        return if model.setup.owner { super::keys::leave(model) } else { vec![Intent::Quit] };
    }
    // A shell's habit, and what every hint of ours says.
    let bare = text.strip_prefix("bursar ").unwrap_or(&text);
    match Order::parse_line(bare) {
        // Only what is a command is kept: a phrase pasted here by mistake is none.
        Ok(order) => {
            run(model, order);
            return vec![Intent::Remember(text)];
        }
        Err(error) => {
            let mut told = Told::new(text, Zeroizing::new(error.to_string()));
            told.failed = true;
            model.overlay = Some(Overlay::Told(told));
        }
    }
    Vec::new()
}

/// Sends a command of the operator's.
pub(super) fn run(model: &mut Model, order: Order) {
    if model.connection != Connection::Up {
        return model.complain("No engine is connected: nothing was sent.");
    }
    match &order {
        Order::Watch(_) => return model.note("The Activity pane (5) shows what happens."),
        Order::History(HistoryOrder { export: Some(_), .. }) => {
            return model.complain("Files are written by `bursar history export` in a shell.");
        }
        _any => {}
    }
    let name = order.name();
    model.call(Purpose::Line { order: name }, order, Asking::Interactive);
}
