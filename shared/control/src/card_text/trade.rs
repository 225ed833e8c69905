//! The rows of a trade's card, and of a quote.

use bursar_core::card::{Card, TradeCard};
use bursar_core::money::Usd;
use bursar_core::text::{self, Zone};

use super::rows::{Row, device_lines, gas_text, head_rows, policy_row, row, texts};

/// Formats the card of a trade.
pub(super) fn rows(card: &Card, trade: &TradeCard, zone: Option<&Zone>) -> Vec<Row> {
    let terms = &card.terms;
    let token_out = terms.trade.as_ref().map_or("", |trade| trade.token_out.as_str());
    let mut lines = head_rows(card);
    lines.extend(measurement_rows(
        trade,
        zone,
        &card.network_title,
        &TradeAddresses {
            address: &terms.address,
            label: card.label.as_str(),
            token_in: &terms.asset,
            token_out,
            counted: Some(card.usd),
        },
    ));
    lines.extend(card.device.iter().flat_map(|device| device_lines(device)));
    lines.extend([
        row(
            "today",
            format!(
                "traded {} -> {} of {} USD  ({} reserved by open trades)",
                card.spent.before, card.spent.after, card.daily_limit, card.reserved
            ),
        ),
        policy_row(card, "trade"),
        row("expires", format!("in {}", text::countdown(card.expires_in_seconds))),
        row("card", card.digest.clone()),
    ]);
    if let Some(obstacle) = &card.obstacle {
        lines.push(row("refused", format!("cannot be approved now: {obstacle}")));
    }
    lines
}

/// The address and the tokens of a trade, and the value that counts against the daily volume.
#[derive(Debug, Clone, Copy)]
pub struct TradeAddresses<'a> {
    pub address: &'a str,
    pub label: &'a str,
    pub token_in: &'a str,
    pub token_out: &'a str,
    /// The value that counts against the daily volume if the trade's own value is unknown.
    pub counted: Option<Usd>,
}

/// Formats what was measured about a trade, with times in UTC.
pub fn trade_rows(trade: &TradeCard, network: &str, place: &TradeAddresses<'_>) -> Vec<String> {
    texts(&measurement_rows(trade, None, network, place))
}

fn measurement_rows(
    trade: &TradeCard,
    zone: Option<&Zone>,
    network: &str,
    place: &TradeAddresses<'_>,
) -> Vec<Row> {
    let foreign = |text: &str| text::visible(text);
    let quoted = zone.map_or_else(|| trade.quoted.clone(), |zone| zone.moment(&trade.quoted));
    let impact = trade.impact.as_deref().unwrap_or("unknown");
    let mut lines = vec![
        row("gives", format!("{} on {network}", foreign(&trade.gives))),
        row("gets", format!("{}  (quoted {quoted})", foreign(&trade.gets))),
        row("at least", format!("{}  (slippage {})", foreign(&trade.at_least), trade.slippage)),
        row("address", format!("{} ({})", place.address, place.label)),
        row("token in", token_text(place.token_in, trade.token_in_note.as_ref()))
            .warn_if(trade.token_in_note.is_some()),
        row("token out", token_text(place.token_out, trade.token_out_note.as_ref()))
            .warn_if(trade.token_out_note.is_some()),
        row("pool", trade.pool.clone()),
    ];
    lines.extend(trade.best.as_ref().map(|best| row("best route", foreign(best))));
    lines.extend(trade.hooks.as_ref().map(|hooks| row("hook", hooks.clone())));
    lines.extend([
        row("impact", format!("{impact}, at most {} without approval", trade.max_impact)),
        row("value", value_text(trade, place.counted)),
        row("gas", gas_text(&trade.gas, trade.transactions)),
        row("effects", foreign(&effects_text(trade))).warn_if(!trade.effects_proven),
    ]);
    let calls = trade.calls.iter().enumerate();
    lines.extend(
        calls.map(|(index, call)| row(&format!("step {}", index.saturating_add(1)), foreign(call))),
    );
    lines
}

fn token_text(address: &str, note: Option<&String>) -> String {
    note.map_or_else(|| address.to_owned(), |note| format!("{address}  {note}"))
}

fn value_text(trade: &TradeCard, counted: Option<Usd>) -> String {
    let gives = match (&trade.value_in, counted) {
        (Some(value), _) => format!("gives {value} USD"),
        (None, Some(counted)) => format!("gives an unknown value (counts {counted} USD)"),
        (None, None) => "gives an unknown value".to_owned(),
    };
    match &trade.value_out {
        Some(value) => format!("{gives}, gets {value} USD"),
        None => format!("{gives}, gets an unknown value"),
    }
}

fn effects_text(trade: &TradeCard) -> String {
    match (&trade.received, trade.effects_proven) {
        (Some(received), true) => format!(
            "simulated: exactly {} leaves, {received} arrives, nothing else changes",
            trade.gives
        ),
        (None, true) => {
            "simulated: only the input leaves, and at least the minimum arrives".to_owned()
        }
        (Some(received), false) => format!(
            "NOT proven: {received} arrived in a simulation; the chain enforces only the minimum"
        ),
        (None, false) => "NOT simulated as a whole: the chain enforces only the minimum".to_owned(),
    }
}
