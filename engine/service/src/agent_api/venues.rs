//! `POST /venues`: where an agent may lend, and what its address has lent there.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};
use bursar_core::money::Atoms;
use bursar_core::networks::Network;
use bursar_core::policy::Policy;
use bursar_domain::assess::lending::total_lent;
use bursar_domain::loans::Exposure;
use bursar_morpho::VenueId;

use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::lending_policy::lending_policy;
use super::message::Endpoint;
use super::numbers::decimal;
use super::objects::check_fields;
use super::plans::integer;
use super::reply::Answer;
use crate::lanes::lending::scan::ScanProgress;
use crate::lanes::lending::{KnownVenues, ListedMarket, Listing, OwnVenue, VaultFacts, network_of};

pub(super) async fn venues(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_venues(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_venues(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let none = Object::new();
    let object = match incoming.body.get("position") {
        None => &none,
        Some(Value::Object(object)) => object,
        Some(_other) => {
            let message = "position must be an object.";
            return Err(Fault::because(Code::BadRequest, message));
        }
    };
    check_fields(object)?;
    let caller = admit(api, Endpoint::Venues, &incoming)?;
    let state = &caller.view.state;
    let gone = || Fault::new(Code::AgentNotCommissioned);
    let policy = state.policy_of(caller.agent()).ok_or_else(gone)?;
    if !policy.lending.enabled {
        return Err(Fault::new(Code::DefiDisabled));
    }
    let (network, contracts) = network_of(object)?;
    if !state.is_network_enabled(network.chain) {
        return Err(Fault::new(Code::NetworkDisabled));
    }
    if !policy.networks.allows(network.chain) {
        return Err(Fault::new(Code::NetworkNotAllowed));
    }
    let owner = caller.paying_address().ok_or_else(gone)?.address;
    let known = KnownVenues::new(state, policy, owner);
    let listing = api.lending.listing(network, contracts).await?;
    let (exposure, own) = futures::future::join(
        api.lending.exposure(owner, &known),
        api.lending.own_venues(network, contracts, owner, &known),
    )
    .await;
    let venues = listed_venues(&caller, network, &listing, &own?);
    let body = Object::new()
        .with("status", "ok")
        .with("restricted", policy.lending.curated_only)
        .with("chain_id", network.chain.0)
        .with("venues", Value::from(venues))
        .with("policy", lending_policy(&caller, policy, Some(&exposure)));
    let body = body
        .with("exposure_complete", is_complete(&caller, policy, &exposure))
        .with("scan", scan_object(api.lending.scan().progress(network.chain)));
    Ok(Answer::new(200, body))
}

/// Describes how far the search for venues and deposits has come. No request waits for the search.
fn scan_object(progress: Option<ScanProgress>) -> Object {
    let next = progress.map(|progress| progress.next_block);
    let last = progress.and_then(|progress| progress.safe_block);
    Object::new()
        .with("complete", progress.is_some_and(|progress| progress.is_complete))
        .with("next_block", next)
        .with("last_block", last)
}

/// Returns whether the whole exposure could be read. If not, every supply is refused.
fn is_complete(caller: &Caller, policy: &Policy, exposure: &Exposure) -> bool {
    let loans = &caller.view.state.loans;
    let owner = caller.paying_address().map(|known| known.address);
    owner.is_some_and(|owner| total_lent(loans, owner, &policy.networks, exposure).is_some())
}

/// Lists the curated and confirmed venues, then other venues in which the address has a position.
fn listed_venues(
    caller: &Caller,
    network: &'static Network,
    listing: &Listing,
    own: &[OwnVenue],
) -> Vec<Value> {
    let find = |venue: VenueId| own.iter().find(|one| one.venue == venue);
    let confirmed = |venue: &VaultFacts| {
        let record = caller.view.state.loans.venue(network.chain, VenueId::Vault(venue.address));
        record.and_then(|record| record.confirmed).is_some_and(|given| {
            given.curator == Some(venue.curator) && given.owner == Some(venue.owner)
        })
    };
    let vaults = listing
        .vaults
        .iter()
        .filter(|venue| venue.lends_stablecoin && (venue.is_trusted() || confirmed(venue)));
    let mut shown: Vec<VenueId> = Vec::new();
    let mut all: Vec<Value> = Vec::new();
    for venue in vaults {
        shown.push(VenueId::Vault(venue.address));
        all.push(vault(network, venue, find(VenueId::Vault(venue.address))).into());
    }
    for one in &listing.markets {
        shown.push(VenueId::Market(one.id));
        all.push(market(network, one, find(VenueId::Market(one.id))).into());
    }
    let others = own.iter().filter(|one| !shown.contains(&one.venue) && !one.shares.is_zero());
    all.extend(others.map(|one| Value::from(other_venue(network, one))));
    all
}

fn venue_base(network: &Network, venue: VenueId, name: &str) -> Object {
    let kind = match venue {
        VenueId::Vault(_) => "vault",
        VenueId::Market(_) => "market",
    };
    let coin = &network.stablecoin;
    Object::new()
        .with("kind", kind)
        .with("protocol", "morpho")
        .with("venue", venue.to_string())
        .with("name", name)
        .with("asset", coin.address.to_checksum(None))
        .with("asset_decimals", u64::from(coin.decimals))
}

fn with_position(venue: Object, own: Option<&OwnVenue>) -> Object {
    let atoms = |value: Option<alloy_primitives::U256>| {
        value.map_or(Value::Null, |value| integer(Atoms(value)))
    };
    venue
        .with("your_position_assets", atoms(own.and_then(|own| own.worth)))
        .with("withdrawable_now", atoms(own.and_then(|own| own.withdrawable)))
}

fn vault(network: &Network, venue: &VaultFacts, own: Option<&OwnVenue>) -> Object {
    let all = venue_base(network, VenueId::Vault(venue.address), &venue.name)
        .with("symbol", venue.symbol.as_str())
        .with("curator", venue.curator.to_checksum(None))
        .with("total_assets", integer(Atoms(venue.total_assets)))
        .with("venue_withdrawable", venue.liquid.map_or(Value::Null, |one| integer(Atoms(one))))
        .with("curated", true);
    with_position(all, own)
}

fn market(network: &Network, one: &ListedMarket, own: Option<&OwnVenue>) -> Object {
    let all = venue_base(network, VenueId::Market(one.id), &one.name)
        .with("collateral", one.params.collateral_token.to_checksum(None))
        .with("collateral_symbol", one.collateral_symbol.as_str())
        .with("lltv_percent", decimal(&one.lltv_percent))
        .with("endorsed_by", one.endorsed_by.as_str())
        .with("curated", true);
    with_position(all, own)
}

/// Describes a venue that is neither curated nor confirmed, from which the address can withdraw its money.
fn other_venue(network: &Network, own: &OwnVenue) -> Object {
    with_position(venue_base(network, own.venue, ""), Some(own)).with("curated", false)
}
