//! Applies the rules to a hypothetical payment, trade or supply of an agent that has spent nothing.

use alloy_primitives::{Address, B256, U256};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Bps, Usd, parse_decimal};
use bursar_core::networks::{NATIVE_DECIMALS, Network};
use bursar_core::policy::Policy;
use bursar_core::time::Moment;
use bursar_morpho::{SharePrice, Trust, VenueId};
use bursar_x402::Echo;
use bursar_x402::authorization::MIN_VALIDITY_SECONDS;

use super::lending::{self, LoanContext};
use super::payments::{PaymentContext, assess};
use super::trading::{self, Commitments, TradeContext};
use super::{Verdict, clock_is_off};
use crate::assets::Price;
use crate::due::expiry_if_due;
use crate::effects::Effects;
use crate::loans::{LendingKind, LoanAction, LoanAsk, LoanQuote, LoanSize, Standing, VenueFacts};
use crate::refusal::Refusal;
use crate::requests::PaymentAsk;
use crate::state::State;
use crate::trades::{TradeAsk, TradeQuote, TradeToken, Venue};

/// A payee that is neither the payer nor the token.
const PAYEE: Address = Address::repeat_byte(0x11);

/// Returns what `policy` would decide now about a payment of `usd`.
pub fn rehearse(
    state: &State,
    policy: &Policy,
    network: &Network,
    usd: Usd,
    url: Option<String>,
    moment: &Moment,
    trusted: bool,
) -> Verdict {
    if state.frozen.is_some() {
        return Verdict::Refuse(Refusal::new(Code::AgentsFrozen));
    }
    let ask = PaymentAsk {
        chain: network.chain,
        asset: network.stablecoin.address,
        // The amount is never signed: the rules only check that it is not zero.
        amount: Atoms(U256::from(usd.0)),
        usd,
        price: Price::Reference,
        payee: PAYEE,
        valid_seconds: MIN_VALIDITY_SECONDS,
        request_url: url,
        resource_url: None,
        other_urls: Vec::new(),
        domain_contradicted: false,
        padding: 0,
        echo: Echo::none(),
    };
    assess(&PaymentContext {
        ask: &ask,
        from: Address::ZERO,
        policy,
        network_enabled: state.is_network_enabled(network.chain),
        trusted,
        is_clock_off: clock_is_off(moment),
        max_validity_s: state.settings.max_validity_s,
        spent: Usd::ZERO,
        reserved: Usd::ZERO,
        held_by_agent: 0,
        held_in_all: count_waiting(state, moment),
    })
}

/// Returns what `policy` would decide now about a measured trade.
///
/// `promised` is the amount that may still leave the paying address.
pub fn rehearse_trade(
    state: &State,
    policy: &Policy,
    ask: &TradeAsk,
    promised: Commitments,
    moment: &Moment,
    trusted: bool,
) -> Verdict {
    if state.frozen.is_some() {
        return Verdict::Refuse(Refusal::new(Code::AgentsFrozen));
    }
    trading::assess(&TradeContext {
        ask,
        quote: &ask.quote,
        policy,
        network_enabled: state.is_network_enabled(ask.chain),
        trusted,
        is_clock_off: clock_is_off(moment),
        now: u64::try_from(moment.utc.seconds()).unwrap_or(0),
        commitments: promised,
        spent: Usd::ZERO,
        reserved: Usd::ZERO,
        held_by_agent: 0,
        held_in_all: count_waiting(state, moment),
    })
}

/// Returns a trade of `usd` with these prices and nothing unusual, so that only limits of a policy can hold it.
///
/// It trades known tokens in a pool without a hook, its simulation succeeded, and its address can pay for it. `None`
/// if the network has no exchange.
pub fn plain_trade(network: &Network, usd: Usd, slippage: Bps, impact: Bps) -> Option<TradeAsk> {
    let exchange = network.exchange?;
    let coin = &network.stablecoin;
    let token = |address, symbol: &str, decimals| TradeToken {
        address: Some(address),
        symbol: symbol.to_owned(),
        decimals,
    };
    // The amount is never sent: the rules only compare amounts with each other.
    let amount = Atoms(U256::from(usd.0));
    let quote = TradeQuote {
        out: amount,
        impact: Some(impact),
        value_in: Some(usd),
        value_out: Some(usd),
        native_balance: U256::MAX,
        balance_in: amount.0,
        effects: Effects::Proven,
        ..TradeQuote::default()
    };
    Some(TradeAsk {
        chain: network.chain,
        token_in: token(coin.address, coin.symbol, coin.decimals),
        token_out: token(exchange.wrapped_native, "WETH", NATIVE_DECIMALS),
        amount_in: amount,
        venue: Venue::V4 { fee: 500, tick_spacing: 10, hooks: Address::ZERO, pool: B256::ZERO },
        slippage,
        deadline: None,
        quote,
        counted_value: usd,
    })
}

/// Returns what `policy` would decide now about a supply of an address that has lent `total_lent` in total.
pub fn rehearse_supply(
    state: &State,
    policy: &Policy,
    ask: &LoanAsk,
    deployed: Usd,
    moment: &Moment,
    trusted: bool,
) -> Verdict {
    if state.frozen.is_some() {
        return Verdict::Refuse(Refusal::new(Code::AgentsFrozen));
    }
    lending::assess(&LoanContext {
        ask,
        quote: &ask.quote,
        policy,
        network_enabled: state.is_network_enabled(ask.chain),
        trusted,
        is_clock_off: clock_is_off(moment),
        now: u64::try_from(moment.utc.seconds()).unwrap_or(0),
        commitments: NO_COMMITMENTS,
        standing: Standing::Trusted,
        best_price: None,
        is_first_supply: false,
        total_lent: Some(deployed),
        reserved: Usd::ZERO,
        operations: 0,
        held_by_agent: 0,
        held_in_all: count_waiting(state, moment),
    })
}

/// Returns a supply of `usd` with nothing unusual, so that only limits of a policy can hold it.
///
/// It goes to a curated venue with enough liquidity to withdraw. Its simulation succeeded, and its address owns so
/// much that no share limit applies. `None` if nothing can be lent on the network.
pub fn plain_supply(network: &Network, usd: Usd) -> Option<LoanAsk> {
    network.lending?;
    let assets = parse_decimal(&usd.to_string(), network.stablecoin.decimals).ok().map(Atoms)?;
    let venue = VenueFacts {
        kind: LendingKind::VaultV2,
        name: String::new(),
        symbol: String::new(),
        curator: None,
        owner: None,
        trust: Trust::Curated,
        lends_stablecoin: true,
        share_decimals: network.stablecoin.decimals,
        resists_donations: true,
        price: SharePrice::new(assets.0, U256::from(1)),
        free_liquidity: Some(Atoms(U256::MAX)),
    };
    let mut quote = LoanQuote {
        venue: Some(Box::new(venue)),
        assets,
        redeem_value: assets,
        native_balance: U256::MAX,
        balance: U256::MAX,
        effects: Effects::Proven,
        ..LoanQuote::default()
    };
    quote.exposure.networks.push(network.chain);
    quote.exposure.liquid = Usd(u64::MAX);
    Some(LoanAsk {
        chain: network.chain,
        action: LoanAction::Supply,
        // The supply is never sent: the rules only read the facts in the quote.
        venue: VenueId::Vault(PAYEE),
        size: LoanSize::Assets(assets),
        deadline: None,
        quote,
        counted_value: usd,
    })
}

/// The commitments of an address with no transaction in flight and no signed payment.
pub const NO_COMMITMENTS: Commitments = Commitments { native: U256::ZERO, token_in: U256::ZERO };

fn count_waiting(state: &State, moment: &Moment) -> usize {
    let held = state.held.values().filter(|request| expiry_if_due(request, moment).is_none());
    held.count().saturating_add(state.waiting_at(moment).count())
}
