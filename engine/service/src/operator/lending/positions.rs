//! The command `positions`: what the addresses of this wallet have lent, as read from the venues.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_control::answers::{Answer, PositionAnswer, PositionsAnswer, UnreadAnswer, VenueTrust};
use bursar_control::grammar::PositionsOrder;
use bursar_core::amount::Amount;
use bursar_core::fault::Fault;
use bursar_core::money::{Atoms, parse_decimal};
use bursar_core::networks::Network;
use bursar_domain::loans::LoanPlace;
use bursar_domain::wallets::PayingAddress;
use bursar_domain::{Refusal, State};
use bursar_morpho::VenueId;
use bursar_morpho::trust::Trust;

use super::support::{amount, has_lending, reason, standing};
use crate::context::EngineContext;
use crate::lanes::lending::{KnownVenues, OwnVenue, Position};
use crate::operator::support::{Done, lookup};

pub(in crate::operator) async fn positions(
    engine: &Arc<EngineContext>,
    order: PositionsOrder,
) -> Result<Done, Fault> {
    let networks = lookup::networks(engine, order.network.as_deref(), has_lending, "lending")?;
    let addresses = lookup::addresses(engine, order.address.as_ref(), "positions")?;
    let state = engine.core.view().state.clone();
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
        let markets = addresses.iter().map(|known| markets(engine, &state, network, known));
        let markets = futures::future::join_all(markets).await;
        for ((known, of_owner), markets) in addresses.iter().zip(all).zip(markets) {
            read = read.saturating_add(of_owner.read_count);
            for (venue, reason) in of_owner.unreadable {
                let reason = format!("the vault {}: {reason}", venue.to_checksum(None));
                unread.push(missing(known, reason));
            }
            let found = of_owner.positions.iter();
            positions.extend(found.map(|found| describe_vault(&state, network, known, found)));
            match markets {
                Ok(found) => {
                    read = read.saturating_add(found.read_count);
                    positions.extend(found.positions);
                    unread.extend(found.unread.into_iter().map(|reason| missing(known, reason)));
                }
                Err(refusal) => unread.push(missing(known, refusal.describe())),
            }
        }
    }
    Ok(Answer::Positions(PositionsAnswer { positions, unread, read }).into())
}

/// The markets in which an address has a position.
#[derive(Default)]
struct Markets {
    positions: Vec<PositionAnswer>,
    /// Why a market could not be read.
    unread: Vec<String>,
    /// The number of positions that were read, empty ones included.
    read_count: usize,
}

async fn markets(
    engine: &EngineContext,
    state: &State,
    network: &'static Network,
    known: &PayingAddress,
) -> Result<Markets, Refusal> {
    let mut all = Markets::default();
    let places = KnownVenues::of_wallet(state, known.address);
    for own in engine.lending.own_markets(network, known.address, &places).await? {
        let OwnVenue { venue, shares, worth, withdrawable } = own;
        let Some(worth) = worth else {
            all.unread.push(format!("the market {venue} gives no valid answer"));
            continue;
        };
        all.read_count = all.read_count.saturating_add(1);
        if shares.is_zero() {
            continue;
        }
        match engine.lending.examine(network, venue).await {
            Ok(facts) => all.positions.push(PositionAnswer {
                name: facts.name,
                trust: standing(
                    &facts.trust,
                    (facts.curator, facts.owner),
                    state.loans.venue(network.chain, venue),
                ),
                reason: match facts.trust {
                    Trust::Curated | Trust::Pinned => "a trusted vault lends to it".to_owned(),
                    Trust::NewNeedsConfirmation(_) | Trust::Refused(_) => reason(&facts.trust),
                },
                withdrawable: withdrawable.map(|atoms| amount(network, atoms)),
                ..describe(state, network, known, Holding { venue, shares, worth })
            }),
            Err(refusal) => all.unread.push(format!("the market {venue}: {}", refusal.describe())),
        }
    }
    Ok(all)
}

fn describe_vault(
    state: &State,
    network: &Network,
    known: &PayingAddress,
    found: &Position,
) -> PositionAnswer {
    let venue = VenueId::Vault(found.venue);
    let holding = Holding { venue, shares: found.shares, worth: found.worth };
    PositionAnswer {
        name: found.name.clone(),
        trust: standing(
            &found.trust,
            (Some(found.curator), Some(found.owner)),
            state.loans.venue(network.chain, venue),
        ),
        reason: reason(&found.trust),
        withdrawable: found.withdrawable.map(|atoms| amount(network, atoms)),
        obstacle: found.obstacle.map(str::to_owned),
        ..describe(state, network, known, holding)
    }
}

/// Shares of a venue and their worth.
struct Holding {
    venue: VenueId,
    shares: U256,
    worth: U256,
}

/// Describes shares of a venue and their worth, without other facts about the venue.
fn describe(
    state: &State,
    network: &Network,
    known: &PayingAddress,
    Holding { venue, shares, worth }: Holding,
) -> PositionAnswer {
    let place = LoanPlace { owner: known.address, chain: network.chain, venue };
    PositionAnswer {
        label: known.label.as_str().to_owned(),
        address: known.address.to_checksum(None),
        network: network.title.to_owned(),
        caip2: network.caip2(),
        venue: venue.to_string(),
        name: String::new(),
        trust: VenueTrust::Refused,
        reason: String::new(),
        shares: Amount::without_token(Atoms(shares), "shares"),
        worth: amount(network, worth),
        earned: earnings(state, network, &place, worth),
        withdrawable: None,
        obstacle: None,
    }
}

/// Returns the worth minus the net amount that was lent there according to the journal.
fn earnings(state: &State, network: &Network, place: &LoanPlace, worth: U256) -> Option<Amount> {
    let net = state.loans.lent.get(place)?.net.to_string();
    let net = parse_decimal(&net, network.stablecoin.decimals).ok()?;
    Some(match worth.checked_sub(net) {
        Some(above) => amount(network, above),
        None => amount(network, net.saturating_sub(worth)).negated(),
    })
}
