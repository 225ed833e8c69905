//! The help: the connected engine, the keys from their table, and a glossary.

use ratatui::layout::Rect;

use super::paint::{Paint, wrap};
use crate::console::keymap::Context;
use crate::console::keymap::table::KEYS;
use crate::console::model::List;
use crate::console::model::Model;
use crate::console::theme::Role;

const NAME_WIDTH: u16 = 24;
const WIDTH: u16 = 100;

/// Words on cards and in commands that need an explanation.
const GLOSSARY: [(&str, &str); 11] = [
    ("waiting", "A payment that is made only if you approve it before it expires"),
    ("leaves", "On a card: the amount that you would pay, and the network"),
    ("held", "On a card: why this payment needs your approval"),
    ("card", "On a card: the fingerprint of its terms. You approve exactly these terms"),
    ("auto below", "In a policy: payments below this are signed without your approval"),
    ("position", "What an address has lent in a venue, which is a vault of Morpho"),
    ("withdrawable", "Of a position: what could be withdrawn now; `?` if that is not known"),
    (
        "curated, pinned",
        "A venue that Bursar trusts: its curator is trusted, and its owner or address too",
    ),
    ("yours, changed", "A venue that you confirmed, or one that was trusted before"),
    ("new, refused", "A venue that is not confirmed, or that has something against it"),
    ("commission", "To give an agent its policy and its paying address"),
];

/// Returns the rows of the help that its filter shows: a heading or name, and its meaning.
pub(super) fn rows(model: &Model, body: Rect) -> Vec<(String, String)> {
    let mut rows = all_rows(model, body);
    if let Some(filter) = model.active_filter(List::Help) {
        rows.retain(|(name, about)| filter.shows(&format!("{name} {about}")));
    }
    rows
}

fn all_rows(model: &Model, body: Rect) -> Vec<(String, String)> {
    let room = usize::from(WIDTH.min(body.width).saturating_sub(NAME_WIDTH).saturating_sub(4));
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut entry = |name: String, about: &str| {
        let mut name = name;
        for about in wrap(about, room, 0) {
            rows.push((std::mem::take(&mut name), about));
        }
    };
    entry("Engine".to_owned(), engine(model));
    for context in Context::ALL {
        entry(context.title().to_owned(), "");
        for row in KEYS.iter().filter(|row| row.context == context) {
            if model.setup.observe && !row.action.allowed_for_observer() {
                continue;
            }
            let keys: Vec<&str> = row.keys.iter().map(|key| key.name).collect();
            entry(format!("  {}", keys.join("  ")), row.about);
        }
    }
    entry("Words".to_owned(), "");
    for (word, about) in GLOSSARY {
        entry(format!("  {word}"), about);
    }
    rows
}

fn engine(model: &Model) -> &'static str {
    match model.setup.owner {
        true => {
            "inside: this console is the engine. Leaving it stops the engine for agents and other consoles"
        }
        false => "attached: the engine is a separate process, and keeps running when you leave",
    }
}

pub(super) fn draw(model: &Model, scroll: usize, paint: &mut Paint<'_>, body: Rect) {
    let rows = rows(model, body);
    let height = u16::try_from(rows.len()).unwrap_or(u16::MAX).saturating_add(2);
    let title = match model.active_filter(List::Help) {
        Some(filter) => format!("Help /{}", filter.text()),
        None => "Help: keys, then words (G)".to_owned(),
    };
    let inside = paint.dialog(body, (WIDTH, height), &title, "j k scroll, / filter, esc closes");
    let scroll = scroll.min(rows.len().saturating_sub(usize::from(inside.height)));
    for (row, (name, about)) in rows.iter().skip(scroll).enumerate() {
        let row = u16::try_from(row).unwrap_or(u16::MAX);
        paint.text(inside, 0, row, name, Role::Strong);
        paint.text(inside, NAME_WIDTH, row, about, Role::Plain);
    }
}
