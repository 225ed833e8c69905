//! The command `quote`: measures and rehearses a trade like an agent's, and records nothing.

use std::sync::Arc;

use bursar_control::answers::{Answer, QuoteAnswer, RouteAnswer, VerdictAnswer};
use bursar_control::grammar::QuoteOrder;
use bursar_core::address::{self, AddressError};
use bursar_core::codes::Code;
use bursar_core::edition::EditionRules;
use bursar_core::fault::Fault;
use bursar_core::json::Object;
use bursar_core::networks::{DEFAULT_TRADING, Network, by_chain};
use bursar_core::policy::TradingPolicy;
use bursar_core::text;
use bursar_domain::agents::PolicyRecord;
use bursar_domain::assess::rehearsal;
use bursar_domain::cards;
use bursar_domain::trades::{RouteQuote, TradeAsk};
use bursar_domain::wallets::PayingAddress;
use bursar_uniswap::pool::FEE_TIERS;

use super::support::{Done, describe, lookup};
use crate::context::EngineContext;
use crate::lanes::InputFault;
use crate::lanes::trading::{Proposal, TradeInput};

/// Maximum number of routes that are shown.
const ROUTES_SHOWN_MAX: usize = 5;

pub(super) async fn run(engine: &Arc<EngineContext>, order: QuoteOrder) -> Result<Done, Fault> {
    let view = engine.core.view();
    let wallet = lookup::wallet(engine)?;
    let known = lookup::find_address(&wallet, &order.label)?;
    let policy = order.policy.as_ref().map(|name| {
        let found = view.state.policy(name).cloned();
        found.ok_or_else(|| {
            let why = format!("There is no policy {name}: see `policy list`.");
            Fault::because(Code::NothingFound, why)
        })
    });
    let policy = policy.transpose()?;
    let network =
        network(&view.state.edition, &order, |row| view.state.is_network_enabled(row.chain))?;
    let input = input(&order, network)?;
    let defaults = TradingPolicy::default();
    let trading = policy.as_ref().map_or(&defaults, |record| &record.policy.trading);
    let by_device = view.state.is_on_device(known.address);
    let proposed = engine.trading.propose(&input, known.address, by_device, trading).await?;
    let Proposal { ask, measured } = proposed;
    measured?;
    let mut routes = engine.trading.compare(&ask, known.address).await?;
    let own = RouteQuote { venue: ask.venue.clone(), out: ask.quote.out };
    if !routes.iter().any(|route| route.venue == own.venue) {
        // Insert the trade's own route behind routes with the same output.
        let at = routes.partition_point(|route| route.out >= own.out);
        routes.insert(at, own);
    }
    let verdict = policy.as_ref().map(|record| verdict(engine, record, &ask, known));
    let route = |route: RouteQuote| RouteAnswer {
        route: route.venue.describe(),
        amount_out: ask.amount(&ask.token_out, route.out),
    };
    let address = |token: &bursar_domain::trades::TradeToken| {
        token.address.unwrap_or_default().to_checksum(None)
    };
    Ok(Answer::Quote(Box::new(QuoteAnswer {
        network: format!("{} ({})", network.title, network.chain),
        caip2: network.caip2(),
        label: known.label.as_str().to_owned(),
        address: known.address.to_checksum(None),
        token_in: address(&ask.token_in),
        token_out: address(&ask.token_out),
        amount_in: ask.amount(&ask.token_in, ask.amount_in),
        amount_out: ask.amount(&ask.token_out, ask.quote.out),
        minimum_out: ask.amount(&ask.token_out, ask.floor(&ask.quote)),
        trade: cards::trade_card(&ask, trading),
        routes: routes.into_iter().take(ROUTES_SHOWN_MAX).map(route).collect(),
        verdict,
    }))
    .into())
}

/// Returns the named network, or the default network of agents' trades.
fn network(
    edition: &EditionRules,
    order: &QuoteOrder,
    enabled: impl Fn(&Network) -> bool,
) -> Result<&'static Network, Fault> {
    let row = match &order.network {
        Some(name) => lookup::network(edition, name)?,
        None => by_chain(DEFAULT_TRADING).ok_or(Fault::new(Code::UnknownNetwork))?,
    };
    if enabled(row) {
        return Ok(row);
    }
    let message = format!(
        "{} is disabled: enable it with `network enable`, or choose another with --network.",
        row.title
    );
    Err(Fault::because(Code::NetworkDisabled, message))
}

/// Writes the order as an agent's `trade` object, so that the same parser reads both.
fn input(order: &QuoteOrder, network: &'static Network) -> Result<TradeInput, Fault> {
    let mut trade = Object::new()
        .with("chain_id", network.chain.0)
        .with("token_in", token(network, &order.token_in)?)
        .with("token_out", token(network, &order.token_out)?)
        .with("amount_in", order.amount.as_str());
    if let Some(slippage) = order.slippage {
        trade = trade.with("max_slippage_bps", u64::from(slippage.0));
    }
    trade = match order.fee {
        None => trade.with("route", "best"),
        Some(fee) if order.v4 => {
            let usual = FEE_TIERS.iter().find(|tier| tier.fee == fee);
            let usual = usual.and_then(|tier| u32::try_from(tier.tick_spacing).ok());
            let spacing = order.tick_spacing.or(usual).ok_or_else(|| {
                let message = "This fee has no usual tick spacing: add --tick-spacing.";
                Fault::because(Code::BadInput, message)
            })?;
            let none = alloy_primitives::Address::ZERO.to_string();
            trade
                .with("fee_tier", u64::from(fee))
                .with("tick_spacing", u64::from(spacing))
                .with("hooks", order.hooks.clone().unwrap_or(none))
        }
        Some(fee) => trade.with("fee_tier", u64::from(fee)),
    };
    TradeInput::read(&trade).map_err(|fault| match fault {
        InputFault::Malformed(fault) => Fault::because(Code::BadInput, fault.message),
        InputFault::Refused(refusal) => refusal.into(),
    })
}

/// Returns the address of a token, or `ETH`.
fn token(network: &Network, text: &str) -> Result<String, Fault> {
    if let Some(known) = network.known_token(text) {
        return Ok(known.address.map_or("ETH".to_owned(), |address| address.to_string()));
    }
    let address = address::parse(text).map_err(|error| match error {
        AddressError::Checksum => Fault::because(Code::BadInput, format!("{error}.")),
        AddressError::Form | AddressError::Zero => {
            let message = format!(
                "{} is not a known token on {}: give the address of a token contract, or another --network.",
                text::snippet(text),
                network.title
            );
            Fault::because(Code::NothingFound, message)
        }
    })?;
    Ok(address.to_string())
}

fn verdict(
    engine: &EngineContext,
    record: &PolicyRecord,
    ask: &TradeAsk,
    known: &PayingAddress,
) -> VerdictAnswer {
    let view = engine.core.view();
    let (moment, trusted) = (engine.core.now(), view.untrusted_reason.is_none());
    let token = ask.token_in.address;
    let promised = view.state.commitments(known.address, ask.chain, token, &moment, None);
    let verdict =
        rehearsal::rehearse_trade(&view.state, &record.policy, ask, promised, &moment, trusted);
    let auto_below = record.policy.trading.auto_below;
    let (verdict, code, reason) =
        describe::verdict(&verdict, ask.counted_value, auto_below, "executed without asking you");
    VerdictAnswer { policy: record.name.as_str().to_owned(), verdict, code, reason }
}
