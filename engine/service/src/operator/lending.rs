//! The commands `venues`, `venue`, `positions` and `position`: where a stablecoin can be lent, and what this wallet
//! has lent there.

mod own;
mod positions;
mod price;
mod support;
mod trust;

use std::sync::Arc;

use bursar_control::answers::{Answer, UnreadVenueAnswer, VenueAnswer, VenuesAnswer};
use bursar_control::grammar::{PositionOrder, VenueOrder, VenuesOrder};
use bursar_core::fault::Fault;
use bursar_core::networks::{Network, VaultKind};
use bursar_domain::State;
use bursar_morpho::VenueId;

use self::support::{amount, has_lending, reason, standing};
use super::dialogue::Dialogue;
use super::support::{Done, lookup};
use crate::context::EngineContext;
use crate::lanes::lending::VaultFacts;

pub(super) use positions::positions;

pub(super) async fn venues(engine: &Arc<EngineContext>, order: VenuesOrder) -> Result<Done, Fault> {
    let networks = lookup::networks(engine, order.network.as_deref(), has_lending, "lending")?;
    let state = engine.core.view().state.clone();
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
                venues.extend(survey.venues.iter().map(|venue| describe(&state, network, venue)));
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
        PositionOrder::Withdraw { venue, amount, address, force_deallocate, yes } => {
            let named = own::NamedPosition::find(engine, &venue, address.as_ref())?;
            let exit =
                if force_deallocate { own::ExitMethod::Forced } else { own::ExitMethod::Plain };
            own::withdraw(engine, own::Withdrawal { named, amount, exit }, yes, dialogue).await
        }
        PositionOrder::WriteOff { venue, address, yes } => {
            let named = own::NamedPosition::find(engine, &venue, address.as_ref())?;
            own::write_off(engine, named, yes, dialogue).await
        }
    }
}

fn describe(state: &State, network: &Network, venue: &VaultFacts) -> VenueAnswer {
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
        trust: standing(
            &venue.trust,
            (Some(venue.curator), Some(venue.owner)),
            state.loans.venue(network.chain, VenueId::Vault(venue.address)),
        ),
        reason: reason(&venue.trust),
        total_assets: total.map(|total| amount(network, total)),
        liquid: liquid.map(|liquid| amount(network, liquid)),
    }
}

fn kind(kind: VaultKind) -> &'static str {
    match kind {
        VaultKind::V2 => "vault_v2",
        VaultKind::MetaMorpho => "metamorpho",
    }
}
