//! Functions that the commands of lending share.

use alloy_primitives::{Address, U256};
use bursar_control::answers::VenueTrust;
use bursar_control::grammar::VenueName;
use bursar_control::wire::Asking;
use bursar_core::amount::Amount;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Atoms;
use bursar_core::networks::Network;
use bursar_domain::loans::{Standing, VenueRecord};
use bursar_morpho::VenueId;
use bursar_morpho::trust::Trust;

use crate::context::EngineContext;
use crate::operator::dialogue::Dialogue;
use crate::operator::support::lookup;

pub(super) fn has_lending(network: &Network) -> bool {
    network.lending.is_some()
}

/// Asks for confirmation, unless `yes` is set or the program has already confirmed.
pub(super) async fn confirm(
    lines: Vec<String>,
    question: &str,
    yes: bool,
    dialogue: &mut dyn Dialogue,
) -> Result<(), Fault> {
    match (yes, dialogue.asking()) {
        (true, _) | (false, Asking::Agreed) => Ok(()),
        (false, Asking::Interactive | Asking::DryRun) => dialogue.confirm(lines, question).await,
        (false, Asking::Silent) => Err(Fault::because(
            Code::ConfirmationNeeded,
            "There is no terminal to ask on: add --yes.",
        )),
    }
}

/// Returns the network of a venue: the only possible network, or the only one on which the wallet has used or lists
/// the venue.
pub(super) fn only_network(
    engine: &EngineContext,
    name: &VenueName,
) -> Result<(&'static Network, VenueId), Fault> {
    let venue = name.venue.parse::<VenueId>();
    let venue = venue.map_err(|invalid| Fault::because(Code::BadInput, format!("{invalid}.")))?;
    let networks = lookup::networks(engine, name.network.as_deref(), has_lending, "lending")?;
    let view = engine.core.view();
    let is_there = |network: &&&'static Network| {
        let chain = network.chain;
        let is_pinned = network.lending.is_some_and(|contracts| match venue {
            VenueId::Vault(vault) => contracts.pinned_vaults.contains(&vault),
            VenueId::Market(_) => false,
        });
        let is_lent =
            view.state.loans.lent.keys().any(|one| (one.chain, one.venue) == (chain, venue));
        is_pinned || is_lent || view.state.loans.venue(chain, venue).is_some()
    };
    let known: Vec<&&'static Network> = networks.iter().filter(is_there).collect();
    match (networks.as_slice(), known.as_slice()) {
        ([only], _any) => Ok((only, venue)),
        ([], _any) => Err(Fault::because(Code::NothingFound, "No enabled network has Morpho.")),
        (_several, [only]) => Ok((only, venue)),
        (several, _none_or_several) => Err(lookup::several_networks(several.iter().copied())),
    }
}

pub(super) fn amount(network: &Network, atoms: U256) -> Amount {
    Amount::of_stablecoin(Atoms(atoms), &network.stablecoin)
}

/// Returns the trust to show to the operator, from the venue's trust, its curator and owner, and the operator's
/// record.
pub(super) fn standing(
    trust: &Trust,
    parties: (Option<Address>, Option<Address>),
    record: Option<&VenueRecord>,
) -> VenueTrust {
    match (Standing::judge(trust, parties, record), trust) {
        (Standing::Trusted, Trust::Curated) => VenueTrust::Curated,
        (Standing::Trusted, Trust::Pinned) => VenueTrust::Pinned,
        (Standing::Trusted, Trust::NewNeedsConfirmation(_) | Trust::Refused(_)) => {
            VenueTrust::Confirmed
        }
        (Standing::Changed, _) => VenueTrust::Changed,
        (Standing::Unconfirmed, _) => VenueTrust::New,
        (Standing::Untrusted, _) => VenueTrust::Refused,
    }
}

pub(super) fn reason(trust: &Trust) -> String {
    match trust {
        Trust::Curated => "its curator and its owner are trusted".to_owned(),
        Trust::Pinned => "its address is on Bursar's list, and its curator is trusted".to_owned(),
        Trust::NewNeedsConfirmation(unproven) => unproven.to_string(),
        Trust::Refused(untrusted) => untrusted.to_string(),
    }
}
