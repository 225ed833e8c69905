//! The facts that the auditor knows before the first observation, from the tables of the networks.

use alloy_primitives::Address;
use bursar_auditor::observations::LendingFact;
use bursar_auditor::{ExchangeFact, Facts, NetworkFact};
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::networks::{Exchange, NETWORKS, Network};

use crate::evm::notes::text;

/// Returns an edition's networks and their exchanges. The wallet remembers a signed request for `signed_days`.
pub(crate) fn of_networks(edition: EditionName, signed_days: i64) -> Facts {
    let rules = EditionRules::of(edition);
    let networks = rules.rows().map(|row| NetworkFact {
        chain: row.chain.0,
        on: rules.enables(row.chain),
        stablecoin: text(row.stablecoin.address),
        exchange: row.exchange.map(|exchange| exchange_fact(row, exchange)),
    });
    Facts { networks: networks.collect(), signed_days }
}

/// Returns the lending facts of the networks; none for a world without loans.
pub(crate) fn of_lending(loans: bool) -> Vec<LendingFact> {
    let rows = NETWORKS.iter().filter(|_row| loans);
    let facts = rows.filter_map(|row| {
        let lending = row.lending?;
        let texts = |all: &[Address]| -> Vec<String> { all.iter().map(|one| text(*one)).collect() };
        Some(LendingFact {
            chain: row.chain.0,
            singleton: text(lending.singleton),
            interest_model: text(lending.interest_model),
            trusted_curators: texts(lending.curators),
            trusted_owners: texts(lending.owners),
            pinned: texts(lending.pinned_vaults),
            confirmations: row.gas.confirmations,
        })
    });
    facts.collect()
}

fn exchange_fact(network: &Network, exchange: &Exchange) -> ExchangeFact {
    let coin = (text(network.stablecoin.address), network.stablecoin.decimals);
    let others = exchange.dollar_tokens.iter().map(|token| (text(token.address), token.decimals));
    ExchangeFact {
        v3_router: text(exchange.v3.router),
        universal_router: text(exchange.v4.router),
        permit2: text(exchange.permit2),
        wrapped: text(exchange.wrapped_native),
        dollars: std::iter::once(coin).chain(others).collect(),
        confirmations: network.gas.confirmations,
        deadline_s: exchange.deadline_seconds,
        feed_max_age_s: exchange.native_feed.map(|feed| feed.stale_seconds),
    }
}
