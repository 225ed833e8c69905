//! The card of a held request. It is built only here, so that all screens show the same card.

use alloy_primitives::{Address, U256};
use bursar_core::card::{
    self, AssetCard, Balance, Card, Change, HoldReason, Lane, LoanCard, LoanTerms, Terms,
    TradeCard, TradeTerms,
};
use bursar_core::ids::Name;
use bursar_core::money::{Atoms, TokenAmount, Usd};
use bursar_core::networks::{NATIVE_DECIMALS, Network, by_chain};
use bursar_core::policy::{Policy, TradingPolicy};
use bursar_core::text;
use bursar_core::time::{Moment, Utc};
use bursar_x402::authorization::MIN_VALIDITY_SECONDS;

use crate::agents::Agent;
use crate::approval::approval_refusal;
use crate::assess::lending;
use crate::assets::ForeignAsset;
use crate::effects::Effects;
use crate::loan_context::{Lender, context};
use crate::loan_text;
use crate::loans::{LoanAsk, LoanSize, Standing};
use crate::payees;
use crate::plan::PLAN_MS;
use crate::plan_text;
use crate::requests::{LaneAsk, PaymentAsk, Request, Status};
use crate::state::State;
use crate::trades::{TradeAsk, TradeToken};

/// Lowest possible threshold for typing the amount at an approval, while `confirm_typing_above` is not set.
pub const DEFAULT_CONFIRM_TYPING_ABOVE: Usd = Usd::dollars(5);

/// Maximum number of characters of a token's name or version on a card.
const DOMAIN_CHARS_MAX: usize = 40;

/// Returns the label of an address of this wallet.
pub fn own_label(state: &State, address: Address) -> Option<Name> {
    let mut known = state.wallet.as_ref()?.addresses.values();
    known.find(|known| known.address == address).map(|known| known.label.clone())
}

/// Returns the current label of the paying address. Its old label may belong to another address now.
fn current_label(state: &State, request: &Request) -> Name {
    own_label(state, request.from).unwrap_or_else(|| request.label.clone())
}

/// Returns the paying address's balance before and after the payment, in the request's asset.
pub fn balance(payment: &PaymentAsk, held: TokenAmount, symbol: &str, read: Utc) -> Balance {
    let after = held.atoms.0.checked_sub(payment.amount.0);
    let after = after.map(|left| TokenAmount { atoms: Atoms(left), decimals: held.decimals });
    Balance {
        before: held.to_string(),
        after: after.map(|after| after.to_string()),
        symbol: symbol.to_owned(),
        read: text::utc(read),
    }
}

/// Returns the card that shows what an approval of `request` would do now.
///
/// A request that waits for a device can only be denied. `None` if the request does not wait for a person, or if its
/// agent or policy no longer exists: then there is nothing to approve.
pub fn card(state: &State, request: &Request, moment: &Moment) -> Option<Card> {
    let (reason, left_ms) = hold_and_time(state, request, moment)?;
    let agent = state.agents.get(&request.agent)?;
    let policy = state.policy(&agent.commission.as_ref()?.policy)?;
    let network = request.ask.network()?;
    let lane = request.ask.lane();
    let terms = terms(request, network);
    let limits = limits(&policy.policy, lane);
    let payment = request.ask.payment();
    let unpriced = payment.is_some_and(PaymentAsk::is_unpriced);
    let usd = match request.loan() {
        // A withdrawal counts against no limit, but its amount is typed like any other.
        Some(loan) => loan.value(&loan.quote).unwrap_or(Usd(u64::MAX)),
        None => request.ask.usd(),
    };
    let spent = *state.spent(agent, moment).of(lane);
    let digest = card::digest(&terms, reason, policy.serial);
    let typed_from = typing_threshold(state, limits.per_request);
    Some(Card {
        id: request.id,
        terms,
        hold: reason,
        obstacle: approval_refusal(state, request, moment).map(|refusal| refusal.describe()),
        policy: policy.name.clone(),
        policy_version: policy.version,
        policy_serial: policy.serial,
        agent_name: agent.name.clone(),
        label: current_label(state, request),
        network_title: format!("{} ({})", network.title, network.chain),
        amount: request.ask.amount_text(),
        unpriced,
        usd,
        spent: Change { before: spent, after: spent.checked_add(usd).ok()? },
        daily_limit: limits.daily,
        per_request_max: limits.per_request,
        auto_below: limits.auto_below,
        reserved: *agent.reserved.of(lane),
        expires_in_seconds: left_ms.div_ceil(1000),
        // If the request has no price, the operator types the price that is measured at the approval.
        type_amount: usd >= typed_from || unpriced,
        digest,
        payee_label: payment.and_then(|payment| own_label(state, payment.payee)),
        payee_name: payees::label(state, request).cloned(),
        // The caller that shows the card fills in these fields. The core's decisions do not depend on them.
        risks: Vec::new(),
        paid_before: None,
        paid_before_unknown_reason: None,
        balance: None,
        balance_unknown_reason: None,
        trade: request.trade().map(|trade| Box::new(trade_card(trade, &policy.policy.trading))),
        loan: request
            .loan()
            .map(|loan| Box::new(loan_card(state, agent, request, loan, &policy.policy, moment))),
        asset: payment.and_then(|payment| Some(Box::new(asset_card(payment.foreign()?, network)))),
        device: None,
    })
}

/// Returns why the request waits for a person, and the milliseconds left. `None` if it does not wait.
fn hold_and_time(state: &State, request: &Request, moment: &Moment) -> Option<(HoldReason, u64)> {
    match &request.status {
        Status::Held { reason, deadline } => Some((*reason, deadline.left_ms(moment))),
        Status::AwaitingDevice(_) => Some((HoldReason::Device, request.device_left_ms(moment)?)),
        Status::Executing(_) if state.is_at_device(request) => {
            Some((HoldReason::Device, state.device_signature_left_ms(request, moment)))
        }
        Status::Authorized { .. }
        | Status::Executing(_)
        | Status::Ended(_)
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::NotSigned { .. } => None,
    }
}

/// The limits of a policy in one lane.
struct Limits {
    daily: Usd,
    per_request: Usd,
    auto_below: Usd,
}

fn limits(policy: &Policy, lane: Lane) -> Limits {
    let (daily, per_request, auto_below) = match lane {
        Lane::Payment => {
            let limits = &policy.payments;
            (limits.daily, limits.per_request, limits.auto_below)
        }
        Lane::Trade => {
            let limits = &policy.trading;
            (limits.daily, limits.per_trade, limits.auto_below)
        }
        Lane::Loan => {
            let limits = &policy.lending;
            // Lending has no daily limit in dollars.
            (Usd::ZERO, limits.max_deposit, limits.auto_below)
        }
    };
    Limits { daily, per_request, auto_below }
}

fn terms(request: &Request, network: &Network) -> Terms {
    match &request.ask {
        LaneAsk::Payment(payment) => payment_terms(request, payment, network),
        LaneAsk::Trade(trade) => trade_terms(request, trade, network),
        LaneAsk::Loan(loan) => loan_terms(request, loan, network),
    }
}

fn payment_terms(request: &Request, payment: &PaymentAsk, network: &Network) -> Terms {
    Terms {
        lane: Lane::Payment,
        agent: request.agent.clone(),
        address: request.from.to_checksum(None),
        network: network.caip2(),
        asset: payment.asset.to_checksum(None),
        payee: payment.payee.to_checksum(None),
        amount: payment.amount.to_string(),
        valid_seconds: payment.valid_seconds.max(MIN_VALIDITY_SECONDS),
        request_url: payment.request_url.clone(),
        resource_url: payment.resource_url.clone(),
        other_urls: payment.other_urls.clone(),
        trade: None,
        loan: None,
    }
}

fn asset_card(asset: &ForeignAsset, network: &Network) -> AssetCard {
    let coin = &network.stablecoin;
    let money = |atoms: Atoms| {
        format!("{} {}", TokenAmount { atoms, decimals: coin.decimals }, coin.symbol)
    };
    let domain = asset.confirmed_domain().map(|domain| {
        let quoted = |part: &str| text::quoted(part, DOMAIN_CHARS_MAX);
        format!("{} version {}", quoted(&domain.name), quoted(&domain.version))
    });
    let quote = asset.quote.as_ref();
    AssetCard {
        domain,
        costs: quote.map(|quote| money(quote.cost)),
        route: quote.map(|quote| quote.route.describe()),
        sells_for: quote.and_then(|quote| quote.sale_proceeds).map(money),
        tenfold: quote.and_then(|quote| quote.tenfold_cost).map(money),
        average_off: quote.and_then(|quote| quote.average_deviation).map(|off| off.to_string()),
        quoted: quote.map(|quote| text::utc(quote.at)),
    }
}

fn trade_terms(request: &Request, trade: &TradeAsk, network: &Network) -> Terms {
    let address = |token: &TradeToken| token.address.unwrap_or_default().to_checksum(None);
    let own = request.from.to_checksum(None);
    Terms {
        lane: Lane::Trade,
        agent: request.agent.clone(),
        address: own.clone(),
        network: network.caip2(),
        asset: address(&trade.token_in),
        payee: own,
        amount: trade.amount_in.to_string(),
        valid_seconds: u64::try_from(PLAN_MS / 1000).unwrap_or(0),
        request_url: None,
        resource_url: None,
        other_urls: Vec::new(),
        trade: Some(TradeTerms {
            token_out: address(&trade.token_out),
            minimum_out: trade.floor(&trade.quote).to_string(),
            pool: trade.venue.pool_text(),
        }),
        loan: None,
    }
}

fn loan_terms(request: &Request, loan: &LoanAsk, network: &Network) -> Terms {
    let own = request.from.to_checksum(None);
    let (amount, unit) = match loan.size {
        LoanSize::Assets(assets) => (assets.0, "assets"),
        LoanSize::Shares(shares) => (shares, "shares"),
        LoanSize::All => (U256::ZERO, "all"),
    };
    Terms {
        lane: Lane::Loan,
        agent: request.agent.clone(),
        address: own.clone(),
        network: network.caip2(),
        asset: network.stablecoin.address.to_checksum(None),
        payee: own,
        amount: amount.to_string(),
        valid_seconds: u64::try_from(PLAN_MS / 1000).unwrap_or(0),
        request_url: None,
        resource_url: None,
        other_urls: Vec::new(),
        trade: None,
        loan: Some(LoanTerms {
            action: loan.action.text().to_owned(),
            venue: loan.venue.to_string(),
            unit: unit.to_owned(),
        }),
    }
}

/// Returns the part of the card that only a loan has, from the quote of the request.
fn loan_card(
    state: &State,
    agent: &Agent,
    request: &Request,
    loan: &LoanAsk,
    policy: &Policy,
    moment: &Moment,
) -> LoanCard {
    let quote = &loan.quote;
    let amount = |atoms: Atoms| loan.assets_text(atoms);
    let lender = Lender { agent, from: request.from, request: Some(request.id), started: None };
    let context = context(state, moment, true, lender, policy, (loan, quote));
    let lent = context.total_lent.filter(|_known| loan.is_supply()).and_then(|deployed| {
        let before = deployed.checked_add(context.reserved).ok()?;
        Some(Change { before, after: before.checked_add(loan.counted_value_at(quote)).ok()? })
    });
    let ceiling = context.total_lent.map_or(policy.lending.max_total, |deployed| {
        lending::ceiling(&policy.lending, quote.exposure.liquid, deployed)
    });
    let venue = quote.venue.as_deref();
    LoanCard {
        moves: amount(quote.assets),
        venue_name: venue.map_or(String::new(), |venue| venue.name.clone()),
        kind: venue.map_or("unknown", |venue| venue.kind.text()).to_owned(),
        curator: venue.and_then(|venue| venue.curator).map(|one| one.to_checksum(None)),
        owner: venue.and_then(|venue| venue.owner).map(|one| one.to_checksum(None)),
        trust: venue.map_or(String::new(), |venue| loan_text::standing(venue, context.standing)),
        is_trusted: context.standing == Standing::Trusted,
        shares: loan_text::shares_text(quote, quote.shares),
        worth: loan.is_supply().then(|| amount(quote.redeem_value)),
        position: amount(quote.position),
        withdrawable: quote.withdrawable.map(amount),
        free: venue.and_then(|venue| venue.free_liquidity).map(amount),
        lent,
        ceiling,
        operations: context.operations,
        operations_max: policy.lending.operations_per_day,
        gas: native_text(quote.plan_cost),
        transactions: quote.calls.len(),
        effects_proven: quote.effects == Effects::Proven,
        calls: loan_text::calls(loan, quote),
        quoted: text::utc(quote.at),
    }
}

fn native_text(wei: U256) -> String {
    let amount = TokenAmount { atoms: Atoms(wei), decimals: NATIVE_DECIMALS };
    format!("{} ETH", amount.to_column_text())
}

/// Warns of a token outside our table, especially if it imitates the symbol of a known token.
fn token_note(trade: &TradeAsk, token: &TradeToken) -> Option<String> {
    let network = by_chain(trade.chain)?;
    if network.known_tokens().any(|known| known.address == token.address) {
        return None;
    }
    let symbol = token.symbol.trim();
    let imitated = network.known_tokens().find(|known| known.symbol.eq_ignore_ascii_case(symbol));
    Some(match imitated {
        Some(known) => format!("NOT the known {}", known.symbol),
        None => "NOT KNOWN to Bursar: its symbol proves nothing".to_owned(),
    })
}

/// Returns the value from which an approval must be typed, for a policy whose largest request is `per_request`.
pub fn typing_threshold(state: &State, per_request: Usd) -> Usd {
    // A tenth of the policy's largest request: above that, an accidental approval is expensive.
    let tenth = Usd(per_request.0.checked_div(10).unwrap_or(0));
    state.settings.confirm_typing_above.unwrap_or(tenth.max(DEFAULT_CONFIRM_TYPING_ABOVE))
}

/// Returns the part of the card that only a trade has, from the quote of the request.
pub fn trade_card(trade: &TradeAsk, trading: &TradingPolicy) -> TradeCard {
    let quote = &trade.quote;
    let amount_out = |atoms| trade.amount_text(&trade.token_out, atoms);
    TradeCard {
        gives: trade.input_text(),
        gets: amount_out(quote.out),
        token_in_note: token_note(trade, &trade.token_in),
        token_out_note: token_note(trade, &trade.token_out),
        at_least: amount_out(trade.floor(quote)),
        pool: trade.venue.describe(),
        best: quote
            .best_route
            .as_ref()
            .filter(|best| best.venue != trade.venue)
            .map(|best| format!("{} by {}", amount_out(best.out), best.venue.describe())),
        impact: quote.impact.map(|impact| impact.to_string()),
        max_impact: trading.max_impact.to_string(),
        slippage: trade.slippage.to_string(),
        value_in: quote.value_in.map(|value| value.to_string()),
        value_out: quote.value_out.map(|value| value.to_string()),
        gas: native_text(quote.plan_cost),
        transactions: plan_text::transactions(quote),
        effects_proven: quote.effects == Effects::Proven,
        received: quote.received.map(amount_out),
        calls: plan_text::calls(trade, quote),
        hooks: trade.venue.hooks_text(),
        quoted: text::utc(quote.at),
    }
}
