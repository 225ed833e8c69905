//! Vaults, and positions in them.

use bursar_control::answers::{
    PositionAnswer, PositionsAnswer, VenueAnswer, VenueSetAnswer, VenueTrust, VenuesAnswer,
    WrittenOffAnswer,
};

use crate::oneshot::sheet::{Sheet, quote_foreign};

/// Number of characters of an address. The id of a market has more.
const ADDRESS_CHARS: usize = 42;

pub(super) fn venues(to: &mut Sheet, answer: &VenuesAnswer) {
    for (index, venue) in answer.venues.iter().enumerate() {
        if index > 0 {
            to.blank();
        }
        one_venue(to, venue);
    }
    if answer.venues.is_empty() && answer.unread.is_empty() {
        to.line("No enabled network has Morpho: nothing to read.");
    }
    if !answer.venues.is_empty() && !answer.unread.is_empty() {
        to.blank();
    }
    for unread in &answer.unread {
        let venue = unread.venue.as_ref().map_or(String::new(), |venue| format!("{venue} on "));
        to.line(&format!("NOT READ: {venue}{}: {}", unread.network, unread.reason));
    }
}

fn one_venue(to: &mut Sheet, venue: &VenueAnswer) {
    let VenueAnswer { network, reason, .. } = venue;
    let mut rows = vec![
        (
            "vault",
            format!(
                "{} ({}) on {network}",
                quote_foreign(&venue.name),
                quote_foreign(&venue.symbol)
            ),
        ),
        ("address", venue.venue.clone()),
        ("kind", kind(&venue.kind).to_owned()),
        ("trust", format!("{}: {reason}", trust(venue.trust))),
        ("curator", venue.curator.clone()),
        ("owner", venue.owner.clone()),
    ];
    if let Some(total) = &venue.total_assets {
        let liquid = venue.liquid.as_ref().map_or("unknown", |liquid| &liquid.text);
        rows.push(("lends", total.text.clone()));
        rows.push(("liquid", format!("{liquid}, for all lenders together")));
    }
    to.rows(&rows);
}

fn kind(kind: &str) -> &str {
    match kind {
        "vault_v2" => "Morpho Vault V2",
        "metamorpho" => "MetaMorpho V1.1",
        other => other,
    }
}

fn trust(trust: VenueTrust) -> &'static str {
    match trust {
        VenueTrust::Curated | VenueTrust::Pinned => "trusted",
        VenueTrust::Confirmed => "confirmed by you",
        VenueTrust::New => "NOT CONFIRMED",
        VenueTrust::Changed => "CHANGED",
        VenueTrust::Refused => "REFUSED",
    }
}

pub(super) fn positions(to: &mut Sheet, answer: &PositionsAnswer) {
    for (index, position) in answer.positions.iter().enumerate() {
        if index > 0 {
            to.blank();
        }
        one_position(to, position);
    }
    if answer.positions.is_empty() && answer.read > 0 {
        to.line(&format!("No position: {} were read, and all are empty.", answer.read));
    } else if answer.positions.is_empty() && answer.unread.is_empty() {
        to.line("No enabled network has Morpho, or there is no address: nothing to read.");
    }
    if !answer.positions.is_empty() && !answer.unread.is_empty() {
        to.blank();
    }
    for unread in &answer.unread {
        to.line(&format!("NOT READ: {} on {}: {}", unread.label, unread.network, unread.reason));
    }
}

fn one_position(to: &mut Sheet, position: &PositionAnswer) {
    let PositionAnswer { label, address, network, venue, worth, .. } = position;
    let now = match (&position.obstacle, &position.withdrawable) {
        (Some(obstacle), _) => format!("NOTHING can be withdrawn: {obstacle}"),
        (None, Some(amount)) => format!("{} can be withdrawn", amount.text),
        (None, None) => "it is not known what can be withdrawn".to_owned(),
    };
    let kind = if venue.len() > ADDRESS_CHARS { "market" } else { "vault" };
    let mut rows = vec![
        ("position", format!("{} on {network}", worth.text)),
        ("of", format!("{address} ({label})")),
        (kind, format!("{venue} ({})", quote_foreign(&position.name))),
        ("trust", format!("{}: {}", trust(position.trust), position.reason)),
    ];
    rows.extend(position.earned.as_ref().map(|earned| ("earned", earned.text.clone())));
    rows.push(("now", now));
    to.rows(&rows);
}

pub(super) fn venue_set(to: &mut Sheet, answer: &VenueSetAnswer) {
    let VenueSetAnswer { network, venue, trusted } = answer;
    if *trusted {
        to.line(&format!("Agents may use {venue} on {network} while its curator and owner stay."));
    } else {
        to.line(&format!("Agents may no longer supply to {venue} on {network}."));
        to.next("Money that is there stays there: see", "bursar positions");
    }
}

pub(super) fn written_off(to: &mut Sheet, answer: &WrittenOffAnswer) {
    let WrittenOffAnswer { label, network, venue, before, after } = answer;
    to.line(&format!("{venue} on {network} counts {after} USD for {label} now, not {before}."));
}
