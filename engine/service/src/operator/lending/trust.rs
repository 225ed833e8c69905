//! The commands `venue trust` and `venue untrust`.

use std::sync::Arc;

use bursar_control::answers::{Answer, VenueSetAnswer};
use bursar_control::grammar::VenueName;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::networks::Network;
use bursar_core::text;
use bursar_domain::Action;
use bursar_domain::command::VenueTrust;
use bursar_domain::loans::VenueFacts;
use bursar_morpho::{Trust, VenueId};

use super::support::{confirm, only_network};
use crate::context::EngineContext;
use crate::operator::dialogue::Dialogue;
use crate::operator::support::{Done, act, require_trusted_journal};

/// Maximum number of characters of a venue's own name that are shown.
const NAME_CHARS_MAX: usize = 60;

pub(super) async fn trust(
    engine: &Arc<EngineContext>,
    name: &VenueName,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let (network, venue) = only_network(engine, name)?;
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    let facts = engine.lending.examine(network, venue).await?;
    let refused = |message: String| Err(Fault::because(Code::BadInput, message));
    match &facts.trust {
        Trust::Curated | Trust::Pinned => {
            return refused("Bursar trusts this venue already: see `venues`.".to_owned());
        }
        Trust::Refused(untrusted) => {
            return refused(format!("This venue cannot be trusted: {untrusted}."));
        }
        Trust::NewNeedsConfirmation(_) => {}
    }
    confirm(lines(network, venue, &facts), "Let agents use it?", yes, dialogue).await?;
    let (curator, owner) = (facts.curator, facts.owner);
    let given = VenueTrust { chain: network.chain, venue, curator, owner };
    act(engine, Action::TrustVenue(Box::new(given))).await?;
    Ok(set(network, venue, true))
}

pub(super) async fn untrust(engine: &Arc<EngineContext>, name: &VenueName) -> Result<Done, Fault> {
    let (network, venue) = only_network(engine, name)?;
    act(engine, Action::UntrustVenue { chain: network.chain, venue }).await?;
    Ok(set(network, venue, false))
}

fn set(network: &Network, venue: VenueId, trusted: bool) -> Done {
    let (network, venue) = (network.title.to_owned(), venue.to_string());
    Answer::VenueSet(VenueSetAnswer { network, venue, trusted }).into()
}

fn lines(network: &Network, venue: VenueId, facts: &VenueFacts) -> Vec<String> {
    let row = |name: &str, value: String| format!("{name:<11}{value}");
    let account = |one: Option<alloy_primitives::Address>| {
        one.map_or("none".to_owned(), |one| one.to_checksum(None))
    };
    vec![
        row("venue", format!("{} on {}", text::quoted(&facts.name, NAME_CHARS_MAX), network.title)),
        row("at", venue.to_string()),
        row("kind", facts.kind.text().to_owned()),
        row("curator", account(facts.curator)),
        row("owner", account(facts.owner)),
        row("doubt", facts.doubt()),
        row("note", "the trust ends when its curator or owner changes".to_owned()),
    ]
}
