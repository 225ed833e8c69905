//! The commands `venues`, `venue`, `positions` and `position`: where a stablecoin can be lent, and what this wallet has
//! lent.

mod own;
mod trust;

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_control::answers::{
    Answer, PositionAnswer, PositionsAnswer, UnreadAnswer, UnreadVenueAnswer, VenueAnswer,
    VenueTrust, VenuesAnswer,
};
use bursar_control::grammar::{PositionOrder, PositionsOrder, VenueName, VenueOrder, VenuesOrder};
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::{Network, VaultKind};
use bursar_domain::wallets::PayingAddress;
use bursar_morpho::VenueId;
use bursar_morpho::trust::Trust;

use super::dialogue::Dialogue;
use super::support::{Done, lookup};
use crate::context::EngineContext;
use crate::lanes::lending::{Position, Venue};

fn lends(network: &Network) -> bool {
    network.lending.is_some()
}

pub(super) async fn venues(engine: &Arc<EngineContext>, order: VenuesOrder) -> Result<Done, Fault> {
    let networks = lookup::networks(engine, order.network.as_deref(), lends, "lending")?;
    let (mut venues, mut unread) = (Vec::new(), Vec::new());
    let surveys = networks.iter().map(|network| engine.lending.survey(network));
    for (network, survey) in networks.iter().zip(futures::future::join_all(surveys).await) {
        let missing = |venue: Option<String>, reason: String| UnreadVenueAnswer {
            network: network.title.to_owned(),
            venue,
            reason,
        };
        match survey {
            Ok(survey) => {
                venues.extend(survey.venues.iter().map(|venue| describe(network, venue)));
                let unreadable = survey.unreadable.iter().map(|(venue, reason)| {
                    missing(Some(venue.to_checksum(None)), (*reason).to_owned())
                });
                unread.extend(unreadable);
            }
            Err(refusal) => unread.push(missing(None, refusal.describe())),
        }
    }
    Ok(Answer::Venues(VenuesAnswer { venues, unread }).into())
}

pub(super) async fn venue(
    engine: &Arc<EngineContext>,
    order: VenueOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        VenueOrder::Trust { venue, yes } => trust::trust(engine, &venue, yes, dialogue).await,
        VenueOrder::Untrust { venue } => trust::untrust(engine, &venue).await,
    }
}

pub(super) async fn position(
    engine: &Arc<EngineContext>,
    order: PositionOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        PositionOrder::Withdraw { venue, amount, address, yes } => {
            let named = own::Named::find(engine, &venue, address.as_ref())?;
            own::withdraw(engine, named, &amount, yes, dialogue).await
        }
        PositionOrder::WriteOff { venue, address, yes } => {
            let named = own::Named::find(engine, &venue, address.as_ref())?;
            own::write_off(engine, named, yes, dialogue).await
        }
    }
}

/// Asks for a yes.
async fn confirm(
    lines: Vec<String>,
    question: &str,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    match (yes, dialogue.asking()) {
        (true, _) | (false, Asking::Agreed) => Ok(()),
        (false, Asking::Interactive) => dialogue.confirm(lines, question).await,
        (false, Asking::Silent) => Err(Fault::because(
            Code::ConfirmationNeeded,
            "There is no terminal to ask on: add --yes.",
        )),
    }
}

/// Returns the only network that a venue can be on.
fn only_network(
    engine: &EngineContext,
    name: &VenueName,
) -> Result<(&'static Network, VenueId), Fault> {
    let venue = name.venue.parse::<VenueId>();
    let venue = venue.map_err(|invalid| Fault::because(Code::BadInput, format!("{invalid}.")))?;
    let networks = lookup::networks(engine, name.network.as_deref(), lends, "lending")?;
    match networks.as_slice() {
        [only] => Ok((only, venue)),
        [] => Err(Fault::because(Code::NothingFound, "No enabled network has Morpho.")),
        _several => {
            let message = "Several networks have Morpho: choose one with --network.";
            Err(Fault::because(Code::BadInput, message))
        }
    }
}

pub(super) async fn positions(
    engine: &Arc<EngineContext>,
    order: PositionsOrder,
) -> Result<Done, Fault> {
    let networks = lookup::networks(engine, order.network.as_deref(), lends, "lending")?;
    let addresses = lookup::addresses(engine, order.address.as_ref(), "positions")?;
    let (mut positions, mut unread, mut read) = (Vec::new(), Vec::new(), 0usize);
    for network in networks {
        let owners: Vec<_> = addresses.iter().map(|known| known.address).collect();
        let missing = |known: &PayingAddress, reason: String| UnreadAnswer {
            label: known.label.as_str().to_owned(),
            network: network.title.to_owned(),
            reason,
        };
        let all = match engine.lending.positions(network, &owners).await {
            Ok(all) => all,
            Err(refusal) => {
                unread.extend(addresses.iter().map(|known| missing(known, refusal.describe())));
                continue;
            }
        };
        for (known, of_owner) in addresses.iter().zip(all) {
            read = read.saturating_add(of_owner.read);
            for (venue, reason) in of_owner.unreadable {
                let reason = format!("the vault {}: {reason}", venue.to_checksum(None));
                unread.push(missing(known, reason));
            }
            positions.extend(
                of_owner.found.iter().map(|found| describe_position(network, known, found)),
            );
        }
    }
    Ok(Answer::Positions(PositionsAnswer { positions, unread, read }).into())
}

fn describe(network: &Network, venue: &Venue) -> VenueAnswer {
    let total = venue.lends_stablecoin.then_some(venue.total_assets);
    let liquid = venue.liquid.filter(|_known| venue.lends_stablecoin);
    VenueAnswer {
        network: network.title.to_owned(),
        caip2: network.caip2(),
        venue: venue.address.to_checksum(None),
        kind: kind(venue.kind).to_owned(),
        name: venue.name.clone(),
        symbol: venue.symbol.clone(),
        curator: venue.curator.to_checksum(None),
        owner: venue.owner.to_checksum(None),
        trust: trust(&venue.trust),
        reason: reason(&venue.trust),
        total_assets: total.map(|total| text(network, total)),
        total_assets_atomic: total.map(|total| total.to_string()),
        liquid: liquid.map(|liquid| text(network, liquid)),
        liquid_atomic: liquid.map(|liquid| liquid.to_string()),
    }
}

fn describe_position(network: &Network, known: &PayingAddress, found: &Position) -> PositionAnswer {
    PositionAnswer {
        label: known.label.as_str().to_owned(),
        address: known.address.to_checksum(None),
        network: network.title.to_owned(),
        caip2: network.caip2(),
        venue: found.venue.to_checksum(None),
        name: found.name.clone(),
        trust: trust(&found.trust),
        reason: reason(&found.trust),
        shares_atomic: found.shares.to_string(),
        worth: text(network, found.worth),
        worth_atomic: found.worth.to_string(),
        withdrawable: found.withdrawable.map(|amount| text(network, amount)),
        withdrawable_atomic: found.withdrawable.map(|amount| amount.to_string()),
        obstacle: found.obstacle.map(str::to_owned),
    }
}

fn text(network: &Network, amount: U256) -> String {
    let coin = &network.stablecoin;
    let amount = TokenAmount { atoms: Atoms(amount), decimals: coin.decimals };
    format!("{amount} {}", coin.symbol)
}

fn kind(kind: VaultKind) -> &'static str {
    match kind {
        VaultKind::V2 => "vault_v2",
        VaultKind::MetaMorpho => "metamorpho",
    }
}

fn trust(trust: &Trust) -> VenueTrust {
    match trust {
        Trust::Curated => VenueTrust::Curated,
        Trust::Pinned => VenueTrust::Pinned,
        Trust::NewNeedsConfirmation(_) => VenueTrust::New,
        Trust::Refused(_) => VenueTrust::Refused,
    }
}

fn reason(trust: &Trust) -> String {
    match trust {
        Trust::Curated => "its curator and its owner are trusted".to_owned(),
        Trust::Pinned => "its address is on Bursar's list, and its curator is trusted".to_owned(),
        Trust::NewNeedsConfirmation(unproven) => unproven.to_string(),
        Trust::Refused(untrusted) => untrusted.to_string(),
    }
}
