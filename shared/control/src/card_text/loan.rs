//! The rows of a loan's card.

use bursar_core::card::{Card, LoanCard, LoanTerms};
use bursar_core::text::{self, Zone};

use super::rows::{Row, device_lines, gas_text, head_rows, policy_row, row};

/// Maximum number of characters that a card shows of a venue's name.
const VENUE_NAME_WIDTH: usize = 40;

/// Formats the card of a loan.
pub(super) fn rows(card: &Card, loan: &LoanCard, zone: Option<&Zone>) -> Vec<Row> {
    let terms = &card.terms;
    let action = terms.loan.as_ref().map_or("", |terms| terms.action.as_str());
    let mut lines = head_rows(card);
    lines.extend(measured_rows(loan, terms.loan.as_ref(), &card.network_title, zone));
    lines.extend([row("address", format!("{} ({})", terms.address, card.label))]);
    lines.extend(card.device.iter().flat_map(|device| device_lines(device)));
    lines.extend([
        row(
            "today",
            format!(
                "{} of {} operations, without this {action}",
                loan.operations, loan.operations_max
            ),
        ),
        policy_row(card, "deposit"),
        row("expires", format!("in {}", text::countdown(card.expires_in_seconds))),
        row("card", card.digest.clone()),
    ]);
    if let Some(obstacle) = &card.obstacle {
        lines.push(row("refused", format!("cannot be approved now: {obstacle}")));
    }
    lines
}

/// Formats what was measured about a loan.
fn measured_rows(
    loan: &LoanCard,
    terms: Option<&LoanTerms>,
    network: &str,
    zone: Option<&Zone>,
) -> Vec<Row> {
    let quoted = zone.map_or_else(|| loan.quoted.clone(), |zone| zone.moment(&loan.quoted));
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let (action, venue) = terms.map_or(("", ""), |terms| (&*terms.action, &*terms.venue));
    let moves = match terms.map(|terms| terms.unit.as_str()) {
        Some("all") => format!("everything, about {}", loan.moves),
        Some("shares") => format!("{}, about {}", loan.shares, loan.moves),
        _assets => loan.moves.clone(),
    };
    let name = text::quoted(&loan.venue_name, VENUE_NAME_WIDTH);
    let mut lines = vec![
        row(
            if action == "supply" { "lends" } else { "withdraws" },
            format!("{moves} on {network}"),
        ),
        row("venue", format!("{name}, {}", loan.kind)),
        row("at", venue.to_owned()),
        row("trust", loan.trust.clone()).warn_if(!loan.is_trusted),
    ];
    lines.extend(loan.curator.as_ref().map(|curator| row("curator", curator.clone())));
    lines.extend(loan.owner.as_ref().map(|owner| row("owner", owner.clone())));
    if let Some(worth) = &loan.worth {
        lines.push(row("gets", format!("{}, worth {worth}  (quoted {quoted})", loan.shares)));
        let lent = match &loan.lent {
            Some(lent) => {
                format!("{} -> {} of at most {} USD", lent.before, lent.after, loan.ceiling)
            }
            None => "cannot be read completely: nothing can be added".to_owned(),
        };
        lines.push(row("lent", lent));
    } else {
        lines.push(row("gives", format!("{}  (quoted {quoted})", loan.shares)));
    }
    let withdrawable = known(&loan.withdrawable);
    lines.extend([
        row("position", format!("{}, {withdrawable} can be withdrawn now", loan.position)),
        row("free", format!("{} for all lenders of the venue", known(&loan.free))),
        row("gas", gas_text(&loan.gas, loan.transactions)),
        row(
            "effects",
            if loan.effects_proven {
                "simulated: only this moves, nothing else changes".to_owned()
            } else {
                "NOT simulated as a whole".to_owned()
            },
        )
        .warn_if(!loan.effects_proven),
    ]);
    let calls = loan.calls.iter().enumerate();
    lines.extend(
        calls.map(|(index, call)| row(&format!("step {}", index.saturating_add(1)), call.clone())),
    );
    lines
}
