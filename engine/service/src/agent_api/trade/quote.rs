//! The `quote` object of a trade.

use alloy_primitives::Address;
use bursar_core::json::{Object, Value};
use bursar_domain::effects::Effects;
use bursar_domain::plan_text;
use bursar_domain::trades::{TradeAsk, TradeToken, Venue};
use bursar_uniswap::Decoded;

use crate::agent_api::numbers::{decimal, percent};
use crate::agent_api::plans::integer;

/// Returns the `quote` object of a trade: its measurement.
pub(super) fn quote(trade: &TradeAsk) -> Value {
    let quote = &trade.quote;
    let address = |token: &TradeToken| token.address.unwrap_or_default().to_checksum(None);
    let (version, fee, spacing, hooks) = match &trade.venue {
        Venue::Wrap | Venue::Unwrap => ("v3", 0, None, None),
        Venue::V3 { fee, .. } => ("v3", *fee, None, None),
        // This is only the fee of the first pool: `route` has the fees of all pools.
        Venue::V3Path { hops } => ("v3", hops.first().map_or(0, |hop| hop.fee), None, None),
        Venue::V4 { fee, tick_spacing, hooks, .. } => {
            ("v4", *fee, Some(i64::from(*tick_spacing)), Some(hooks.to_checksum(None)))
        }
    };
    let micros = |usd: bursar_core::money::Usd| decimal(&usd.to_string());
    Object::new()
        .with("token_in", address(&trade.token_in))
        .with("token_out", address(&trade.token_out))
        .with("fee_tier", u64::from(fee))
        .with("pool", trade.venue.pool_text())
        .with("amount_in_atomic", integer(trade.amount_in))
        .with("amount_out_expected", integer(quote.out))
        .with("amount_out_min", integer(trade.floor(quote)))
        .with("token_in_decimals", u64::from(trade.token_in.decimals))
        .with("token_out_decimals", u64::from(trade.token_out.decimals))
        .with("effective_slippage_bps", u64::from(trade.slippage.0))
        .with("gas_estimate", quote.gas)
        .with("notional_usdg", quote.value_in.map_or(Value::Null, micros))
        .with(
            "price_impact_pct",
            quote.impact.map_or(Value::Null, |impact| decimal(&percent(impact))),
        )
        .with("symbol_in", trade.token_in.symbol.as_str())
        .with("symbol_out", trade.token_out.symbol.as_str())
        .with("dex_version", version)
        .with("tick_spacing", spacing)
        .with("hooks", hooks)
        .with("route", route(trade))
        .with("effects", effects(trade))
        .into()
}

/// Returns the `effects` object of a trade: the results of rehearsing its plan.
fn effects(trade: &TradeAsk) -> Value {
    let quote = &trade.quote;
    let call = |(kind, text): (&Decoded, String)| {
        Value::from(Object::new().with("kind", kind_of(kind)).with("text", text))
    };
    let calls: Vec<Value> =
        quote.calls.iter().zip(plan_text::calls(trade, quote)).map(call).collect();
    Object::new()
        .with("proven", quote.effects == Effects::Proven)
        .with("amount_in", integer(trade.amount_in))
        .with("amount_out", quote.received.map_or(Value::Null, integer))
        .with("transactions", u64::try_from(plan_text::transactions(quote)).unwrap_or(u64::MAX))
        .with("calls", Value::from(calls))
        .into()
}

fn kind_of(call: &Decoded) -> &'static str {
    match call {
        Decoded::Approve { .. } => "approve",
        Decoded::Permit { .. } => "permit",
        Decoded::Wrap { .. } => "wrap",
        Decoded::Unwrap { .. } => "unwrap",
        Decoded::Swap { .. } => "swap",
        Decoded::Unknown { .. } => "unknown",
    }
}

/// Returns the pools of the swap in their order, each with the token that it pays out. Empty for wrapping.
fn route(trade: &TradeAsk) -> Value {
    let hop = |pool: String, fee: u32, output: Address| {
        Value::from(
            Object::new()
                .with("pool", pool)
                .with("fee_tier", u64::from(fee))
                .with("token_out", output.to_checksum(None)),
        )
    };
    let output = trade.token_out.address.unwrap_or_default();
    let hops: Vec<Value> = match &trade.venue {
        Venue::Wrap | Venue::Unwrap => Vec::new(),
        Venue::V3 { fee, .. } => {
            let network = bursar_core::networks::by_chain(trade.chain);
            let wrapped = network.and_then(|network| network.exchange);
            let wrapped = wrapped.map(|exchange| exchange.wrapped_native);
            // A pool of v3 pays the wrapped coin, which the router unwraps.
            let paid = trade.token_out.address.or(wrapped).unwrap_or_default();
            vec![hop(trade.venue.pool_text(), *fee, paid)]
        }
        Venue::V4 { fee, .. } => vec![hop(trade.venue.pool_text(), *fee, output)],
        Venue::V3Path { hops } => {
            let hops = hops.iter();
            hops.map(|one| hop(one.pool.to_checksum(None), one.fee, one.output)).collect()
        }
    };
    Value::from(hops)
}
