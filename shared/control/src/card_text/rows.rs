//! The rows that cards of several lanes have.

use std::fmt;

use bursar_core::card::{Card, DeviceCard, HoldReason};
use bursar_core::money::Usd;
use bursar_core::risk::Level;

/// A row of a card, with untrusted text quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The name in the first column, and the only text of a card's head.
    pub name: String,
    pub level: Level,
    pub value: String,
}

impl Row {
    pub(super) fn new(name: impl Into<String>, value: String) -> Self {
        Self { name: name.into(), level: Level::Note, value }
    }

    /// Raises the level to a warning if `warns`.
    pub(super) fn warn_if(self, warns: bool) -> Self {
        let level = if warns { Level::Warning } else { self.level };
        Self { level, ..self }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11}{}{}", self.name, self.level.mark(), self.value)
    }
}

/// Returns [`HoldReason::sentence`]; for [`HoldReason::AboveThreshold`], a sentence with the amount and the limit.
pub fn hold_text(reason: HoldReason, amount: Usd, auto_below: Usd) -> String {
    // If the operator has raised the limit since the hold, the current limit would not explain the hold.
    if reason == HoldReason::AboveThreshold && amount >= auto_below {
        let reaches = if amount == auto_below { "reaches" } else { "is over" };
        return format!("{amount} {reaches} the automatic limit of {auto_below}");
    }
    reason.sentence().to_owned()
}

pub(super) fn row(name: &str, value: String) -> Row {
    Row::new(name, value)
}

/// Formats the first rows: the request, its agent, and why it waits for the operator.
pub(super) fn head_rows(card: &Card) -> Vec<Row> {
    let terms = &card.terms;
    let mut lines = vec![
        Row::new(format!("{}  {}", card.id.short(), terms.lane.text()), String::new()),
        row("agent", format!("{} ({})", card.agent_name, terms.agent)),
    ];
    if card.device.is_none() {
        lines.push(row("held", hold_text(card.hold, card.usd, card.auto_below)));
    }
    lines
}

/// Formats the policy's limits. `action` is what the first limit applies to.
pub(super) fn policy_row(card: &Card, action: &str) -> Row {
    let policy = format!("{} v{}", card.policy, card.policy_version);
    let (most, auto_below) = (card.per_request_max, card.auto_below);
    row("policy", format!("{policy}: at most {most} a {action}, automatic below {auto_below}"))
}

/// Formats the rows about the device: the operator's next action, and the values that the device shows.
pub(super) fn device_lines(device: &DeviceCard) -> Vec<Row> {
    let shows = device.shows.iter().map(|(name, value)| row("shows", format!("{name} {value}")));
    let state = row("device", device.state.clone());
    let note = device.note.iter().map(|note| row("note", note.clone()));
    let emulator = device.emulator.iter();
    let emulator = emulator.map(|at| {
        row("emulator", format!("{at}: NOT a Ledger, its key is in software")).warn_if(true)
    });
    emulator.chain([state]).chain(shows).chain(note).collect()
}

pub(super) fn gas_text(gas: &str, transactions: usize) -> String {
    match transactions {
        0 => format!("at most {gas}"),
        1 => format!("at most {gas} for 1 transaction"),
        several => format!("at most {gas} for {several} transactions"),
    }
}

/// Formats each row as a line.
pub(super) fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.to_string().trim_end().to_owned()).collect()
}
