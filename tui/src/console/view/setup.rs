//! The way from an empty folder to a paying agent, one step at a time, until the last one is done.

use ratatui::layout::Rect;

use super::paint::{Paint, wrapped};
use crate::console::model::setup::{Step, steps, try_line};
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let steps = steps(model);
    let done = steps.iter().filter(|step| step.done).count();
    let note = format!("{done} of {} done", steps.len());
    let inside = paint.pane(area, model.focus == Pane::Approvals, "1 First steps", &note);
    let room = usize::from(inside.width.saturating_sub(6));
    let next = steps.iter().position(|step| !step.done);
    let in_a_shell = try_line(model).is_some();
    let mut row = 0u16;
    for (place, step) in steps.iter().enumerate() {
        let Step { done, title, line, about } = step;
        let (mark, role) = match (*done, next == Some(place)) {
            (true, _) => ("x", Role::Quiet),
            (false, true) => (">", Role::Strong),
            (false, false) => (" ", Role::Plain),
        };
        paint.text(inside, 1, row, &format!("[{mark}] {title}"), role);
        row = row.saturating_add(1);
        if next == Some(place) {
            let prompt = if in_a_shell { "$ " } else { ":" };
            for part in wrapped(&format!("{prompt}{line}"), room, 2) {
                paint.text(inside, 5, row, &part, Role::Focus);
                row = row.saturating_add(1);
            }
            for part in wrapped(about, room, 0) {
                paint.text(inside, 5, row, &part, Role::Quiet);
                row = row.saturating_add(1);
            }
        }
    }
    let hint = match (model.setup.observe, in_a_shell) {
        (true, _) => "",
        (false, true) => {
            "y copies it. A small price is paid at once; the larger one you approve here."
        }
        (false, false) => "n writes the next command for you: change it, then Enter",
    };
    for part in wrapped(hint, room, 0) {
        row = row.saturating_add(1);
        paint.text(inside, 1, row, &part, Role::Plain);
    }
}
