//! Draws the first steps, which lead from an empty data folder to a paying agent.

use ratatui::layout::Rect;

use super::paint::{Paint, wrap};
use crate::console::model::setup::{Step, steps, try_line};
use crate::console::model::{Model, Pane};
use crate::console::theme::Role;

pub(super) fn draw(model: &Model, paint: &mut Paint<'_>, area: Rect) {
    let steps = steps(model);
    let done = steps.iter().filter(|step| step.is_done).count();
    let note = format!("{done} of {} done", steps.len());
    let inside = paint.pane(area, model.focus == Pane::Approvals, "1 First steps", &note);
    let room = usize::from(inside.width.saturating_sub(6));
    let next = steps.iter().position(|step| !step.is_done);
    let in_a_shell = try_line(model).is_some();
    let mut rows: Vec<(u16, String, Role)> = Vec::new();
    let mut here = 0usize;
    // The rows at which the steps begin.
    let mut begins = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Step { is_done: done, title, line, about } = step;
        let (mark, role) = match (*done, next == Some(index)) {
            (true, _) => ("x", Role::Quiet),
            (false, true) => (">", Role::Strong),
            (false, false) => (" ", Role::Plain),
        };
        begins.push(rows.len());
        rows.push((1, format!("[{mark}] {title}"), role));
        if next == Some(index) {
            let prompt = if in_a_shell { "$ " } else { ":" };
            let line = wrap(&format!("{prompt}{line}"), room, 2);
            rows.extend(line.into_iter().map(|part| (5, part, Role::Focus)));
            rows.extend(wrap(about, room, 0).into_iter().map(|part| (5, part, Role::Quiet)));
            here = rows.len();
        }
    }
    let hint = match (model.setup.observe, in_a_shell) {
        (true, _) => "",
        (false, true) => "c copies it. The small price is paid at once; you approve the large one.",
        (false, false) => "n writes the next command: edit it, then press Enter",
    };
    rows.push((1, String::new(), Role::Plain));
    rows.extend(wrap(hint, room, 0).into_iter().map(|part| (1, part, Role::Plain)));
    // If room is short, rows are left out from the top, so that the next step is visible. At the last step, the hint
    // must be visible, too.
    let last = next.is_none_or(|next| next.saturating_add(1) == steps.len());
    let end = if last { rows.len() } else { here.saturating_add(2) };
    let height = usize::from(inside.height);
    let skipped = end.saturating_sub(height);
    // If not all steps are visible, the last row shows the number of steps that follow.
    let seen = skipped.saturating_add(height);
    let whole = begins.iter().all(|begin| *begin < seen);
    let room = if whole { height } else { height.saturating_sub(1) };
    for (row, (column, text, role)) in (0..).zip(rows.iter().skip(skipped).take(room)) {
        paint.text(inside, *column, row, text, *role);
    }
    if !whole {
        let last = skipped.saturating_add(room);
        let more = begins.iter().filter(|begin| **begin >= last).count();
        let row = u16::try_from(room).unwrap_or(u16::MAX);
        let steps = if more == 1 { "step follows" } else { "steps follow" };
        paint.text(inside, 1, row, &format!("    {more} more {steps}"), Role::Quiet);
    }
}
