//! Reads the `trade` object of a request (wallet specification, "Trade request"), without I/O.

use alloy_primitives::Address;
use bursar_core::address::{self, AddressError};
use bursar_core::codes::Code;
use bursar_core::json::{Object, Value};
use bursar_core::money::Bps;
use bursar_core::networks::{self, ChainId, Exchange, Network};
use bursar_domain::Refusal;
use bursar_uniswap::Currency;

use crate::lanes::fields::{self, InputFault, malformed};

/// The fee tier of a trade that names no fee tier, in hundredths of a basis point.
const DEFAULT_FEE: u32 = 3_000;

/// The largest slippage that an agent may request, in basis points.
const SLIPPAGE_MAX: u64 = 5_000;

/// The fields of the `trade` object; every other field is refused.
pub const TRADE_FIELDS: &[&str] = &[
    "token_in",
    "token_out",
    "amount_in",
    "chain_id",
    "fee_tier",
    "tick_spacing",
    "hooks",
    "dex_version",
    "route",
    "max_slippage_bps",
    "deadline",
];

/// A trade as its agent requested it.
#[derive(Debug, Clone)]
pub struct TradeInput {
    pub(super) network: &'static Network,
    pub(super) exchange: &'static Exchange,
    pub(super) token_in: Currency,
    pub(super) token_out: Currency,
    /// A decimal amount of whole tokens, as text.
    pub(super) amount_in: String,
    pub(super) pool: PoolInput,
    /// `None` if the request names no slippage; the default then applies.
    pub(super) slippage: Option<Bps>,
    /// In Unix seconds.
    pub(super) deadline: Option<u64>,
}

/// The pool that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PoolInput {
    V3 {
        fee: u32,
    },
    V4 {
        fee: u32,
        tick_spacing: i32,
        hooks: Address,
    },
    /// The request names no pool, and the wallet takes the best route.
    Best,
}

impl TradeInput {
    /// Reads the `trade` object.
    ///
    /// # Errors
    /// A field is missing, invalid or unknown, or the network has no exchange.
    pub fn read(trade: &Object) -> Result<Self, InputFault> {
        fields::check_only_fields(trade, "trade", TRADE_FIELDS)?;
        fields::require_fields(trade, &["token_in", "token_out", "amount_in"])?;
        let chain = fields::number(trade, "chain_id")?.map_or(networks::DEFAULT_TRADING, ChainId);
        let unsupported = || {
            let message = format!("Trading is not supported on chain {chain}.");
            InputFault::Refused(Refusal::because(Code::UnknownNetwork, message))
        };
        let network = networks::by_chain(chain).ok_or_else(unsupported)?;
        let exchange = network.exchange.ok_or_else(unsupported)?;
        let (token_in, token_out) = (token(trade, "token_in")?, token(trade, "token_out")?);
        if token_in == token_out {
            return Err(malformed("token_in and token_out must differ."));
        }
        let slippage = match fields::number(trade, "max_slippage_bps")? {
            None => None,
            Some(bps) if bps <= SLIPPAGE_MAX => u16::try_from(bps).ok().map(Bps),
            Some(_high) => return Err(malformed("max_slippage_bps must be 0 to 5000.")),
        };
        Ok(Self {
            network,
            exchange,
            token_in,
            token_out,
            amount_in: fields::decimal(trade, "amount_in")?,
            pool: pool(trade)?,
            slippage,
            deadline: fields::number(trade, "deadline")?,
        })
    }

    /// Returns the chain id of the trade's network.
    pub fn chain(&self) -> ChainId {
        self.network.chain
    }

    /// Returns `Some(true)` if the trade wraps the native coin, `Some(false)` if it unwraps it, and `None` for a swap.
    pub(super) fn wraps(&self) -> Option<bool> {
        let wrapped = Currency::Token(self.exchange.wrapped_native);
        if matches!(self.pool, PoolInput::V4 { .. }) {
            return None;
        }
        match (self.token_in, self.token_out) {
            (Currency::Native, out) if out == wrapped => Some(true),
            (input, Currency::Native) if input == wrapped => Some(false),
            _swap => None,
        }
    }
}

fn token(trade: &Object, name: &str) -> Result<Currency, InputFault> {
    let wrong =
        || malformed(format!("{name} must be a token's address, 0x and 40 hex digits, or ETH."));
    let text = trade.get(name).and_then(Value::as_str).ok_or_else(wrong)?;
    if text.eq_ignore_ascii_case("eth") {
        return Ok(Currency::Native);
    }
    let address = address::read(text).map_err(|error| match error {
        AddressError::Form | AddressError::Zero => wrong(),
        AddressError::Checksum => malformed(format!("{name}: {error}.")),
    })?;
    Ok(Currency::from_address(address))
}

fn pool(trade: &Object) -> Result<PoolInput, InputFault> {
    match trade.get("route") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text == "best" => {
            let pool = ["fee_tier", "tick_spacing", "hooks", "dex_version"];
            let named =
                pool.iter().find(|name| !matches!(trade.get(name), None | Some(Value::Null)));
            return match named {
                None => Ok(PoolInput::Best),
                Some(name) => Err(malformed(format!("With route best, {name} must not be sent."))),
            };
        }
        Some(_other) => return Err(malformed("route must be best, or must not be sent.")),
    }
    let fee = match fields::number(trade, "fee_tier")? {
        None => DEFAULT_FEE,
        Some(fee) => u32::try_from(fee).map_err(|_huge| malformed("fee_tier is too large."))?,
    };
    let spacing = fields::number(trade, "tick_spacing")?;
    let hooks = match trade.get("hooks") {
        None | Some(Value::Null) => None,
        Some(_text) => Some(token(trade, "hooks")?.address()),
    };
    let version = match trade.get("dex_version") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if matches!(text.as_str(), "v3" | "v4") => Some(text.as_str()),
        Some(_other) => return Err(malformed("dex_version must be v3 or v4.")),
    };
    let has_v4_fields = spacing.is_some() || hooks.is_some();
    match (version, has_v4_fields) {
        (Some("v3"), true) => Err(malformed("tick_spacing and hooks are only for v4 pools.")),
        (Some("v4"), _) | (None, true) => {
            let (Some(spacing), Some(hooks)) = (spacing, hooks) else {
                return Err(malformed("A v4 pool needs tick_spacing and hooks."));
            };
            let tick_spacing = i32::try_from(spacing).ok().filter(|spacing| *spacing > 0);
            let tick_spacing =
                tick_spacing.ok_or_else(|| malformed("tick_spacing must be above zero."))?;
            if fee > 1_000_000 && fee != bursar_uniswap::pool::DYNAMIC_FEE {
                return Err(malformed(
                    "fee_tier must be 0 to 1000000, or 8388608 for a dynamic fee.",
                ));
            }
            Ok(PoolInput::V4 { fee, tick_spacing, hooks })
        }
        _v3 => match fee {
            0 | 100 | 500 | 3_000 | 10_000 => Ok(PoolInput::V3 { fee }),
            _other => Err(malformed("fee_tier must be 100, 500, 3000 or 10000.")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::json;

    const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    const HOOKS: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

    /// Reads a v4 trade in which `from` is replaced by `to`, and returns the text of its refusal.
    fn refusal(from: &str, to: &str) -> Option<String> {
        let text = format!(
            "{{\"chain_id\":8453,\"token_in\":\"{USDC}\",\"token_out\":\"ETH\",\"amount_in\":\"1.5\",\
             \"fee_tier\":500,\"tick_spacing\":10,\"hooks\":\"{HOOKS}\"}}"
        );
        let changed = text.replace(from, to);
        let value = json::parse(changed.as_bytes(), 8).unwrap();
        match TradeInput::read(value.as_object().unwrap()) {
            Ok(_read) => None,
            Err(InputFault::Malformed(fault)) => {
                assert_eq!(fault.code, Code::BadRequest);
                Some(fault.message.to_string())
            }
            Err(InputFault::Refused(refusal)) => panic!("{refusal:?}"),
        }
    }

    #[test]
    fn an_address_with_a_wrong_checksum_is_refused_by_the_name_of_its_field() {
        let upper = |text: &str| text.to_uppercase().replace('X', "x");
        for (name, address, wrong) in [
            ("token_in", USDC, USDC.replace("fCD6", "fcD6")),
            ("hooks", HOOKS, HOOKS.replace("Bc6", "bc6")),
        ] {
            for right in [address.to_owned(), address.to_lowercase(), upper(address)] {
                assert_eq!(refusal(address, &right), None, "{right}");
            }
            let said = refusal(address, &wrong).unwrap();
            assert!(said.starts_with(name) && said.contains("checksum"), "{said}");
        }
        let out = refusal("\"ETH\"", &format!("\"{}\"", HOOKS.replace("Bc6", "bc6"))).unwrap();
        assert!(out.starts_with("token_out"), "{out}");
        assert!(refusal("\"ETH\"", "\"0xETH\"").unwrap().contains("40 hex digits"));
    }

    #[test]
    fn an_unknown_field_is_refused_by_its_name() {
        for name in ["min_amount_out", "amount_out_min", "sender", "Fee_tier", ""] {
            for value in ["\"1\"", "null", "{}"] {
                let field = format!("{{\"{name}\":{value},\"chain_id\"");
                let said = refusal("{\"chain_id\"", &field).unwrap();
                assert!(said.starts_with(&format!("\"{name}\" is not a field of trade")), "{said}");
            }
        }
    }
}
