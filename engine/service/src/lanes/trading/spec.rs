//! A trade as it is measured and executed, and the pools of its venue.

use alloy_primitives::{Address, B256, Bytes};
use bursar_core::codes::Code;
use bursar_core::money::Atoms;
use bursar_core::networks::{Exchange, Network, UniswapV4};
use bursar_domain::Refusal;
use bursar_domain::trades::{PathHop, TradeToken, Venue};
use bursar_uniswap::{Currency, Flow, PoolKey, V3Path, V3Pool, V4Path, read};

/// Maximum number of decimals of a token; with more, no amount of 256 bits would reach one whole token.
pub(super) const DECIMALS_MAX: u8 = 77;

/// A trade as it is measured and executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec<'a> {
    pub(super) network: &'static Network,
    pub(super) exchange: &'static Exchange,
    /// The paying address.
    pub(super) owner: Address,
    pub(super) token_in: &'a TradeToken,
    pub(super) token_out: &'a TradeToken,
    pub(super) amount_in: Atoms,
    pub(super) venue: &'a Venue,
}

impl Spec<'_> {
    pub(super) fn currency(token: &TradeToken) -> Currency {
        token.address.map_or(Currency::Native, Currency::Token)
    }

    /// Returns the contract that must be allowed to take the input token; `None` if no allowance is needed.
    pub(super) fn spender(&self) -> Option<Address> {
        self.token_in.address?;
        match self.venue {
            Venue::V3 { .. } | Venue::V3Path { .. } => Some(self.exchange.v3.router),
            Venue::V4 { .. } => Some(self.exchange.permit2),
            Venue::Wrap | Venue::Unwrap => None,
        }
    }

    /// Returns the call data that reads the router's allowance within Permit2; `None` at a venue that does not use
    /// Permit2.
    pub(super) fn router_allowance(&self) -> Option<Bytes> {
        let token = self.token_in.address?;
        let router = self.exchange.v4.router;
        let uses = matches!(self.venue, Venue::V4 { .. });
        uses.then(|| read::permit2_allowance_call(self.owner, token, router))
    }

    /// Returns the path through v3; `None` at another venue.
    pub(super) fn v3_path(&self) -> Option<V3Path> {
        let wrapped = self.exchange.wrapped_native;
        let (input, output) = (Self::currency(self.token_in), Self::currency(self.token_out));
        let (input, output) = (input.or_wrapped(wrapped), output.or_wrapped(wrapped));
        let pools = match self.venue {
            Venue::V3 { fee, .. } => vec![V3Pool::new(input, output, *fee).ok()?],
            Venue::V3Path { hops } => {
                let before = std::iter::once(input).chain(hops.iter().map(|hop| hop.output));
                let pool =
                    |(hop, from): (&PathHop, Address)| V3Pool::new(from, hop.output, hop.fee);
                hops.iter().zip(before).map(pool).collect::<Result<_, _>>().ok()?
            }
            Venue::Wrap | Venue::Unwrap | Venue::V4 { .. } => return None,
        };
        V3Path::new(input, &pools).ok().filter(|path| path.output() == output)
    }

    /// Returns how the events of the last pool report its output, as a [`Flow`]; `None` for a venue without pools.
    pub(super) fn pool_output(&self) -> Option<Flow> {
        if let Some((pool, path)) = self.v4_path() {
            let UniswapV4 { pool_manager, router, .. } = self.exchange.v4;
            return Some(Flow::V4Pool { pool_manager, router, pool, currency: path.output() });
        }
        let path = self.v3_path()?;
        let last = path.hops().last()?;
        let is_token0 = last.pool.token0() == last.output;
        Some(Flow::V3Pool { pool: last.pool.address(&self.exchange.v3), is_token0 })
    }

    /// Returns the path through the v4 pool; `None` at another venue.
    pub(super) fn v4_path(&self) -> Option<(PoolKey, V4Path)> {
        let Venue::V4 { fee, tick_spacing, hooks, .. } = self.venue else { return None };
        let (input, output) = (Self::currency(self.token_in), Self::currency(self.token_out));
        let pool = PoolKey::new(input, output, *fee, *tick_spacing, *hooks).ok()?;
        let path = V4Path::new(input, &[pool]).ok()?;
        Some((pool, path))
    }
}

/// Returns the pool of a v3 request.
///
/// # Errors
/// `NO_POOL` if no pool can have these tokens and this fee.
pub(super) fn v3_pool(
    exchange: &Exchange,
    token_in: Currency,
    token_out: Currency,
    fee: u32,
) -> Result<Address, Refusal> {
    let wrapped = exchange.wrapped_native;
    let pool = V3Pool::new(token_in.or_wrapped(wrapped), token_out.or_wrapped(wrapped), fee);
    pool.map(|pool| pool.address(&exchange.v3)).map_err(|_same| Refusal::new(Code::NoPool))
}

/// Returns the id of the pool of a v4 request.
///
/// # Errors
/// `NO_POOL` if no pool can have these fields.
pub(super) fn v4_pool(
    token_in: Currency,
    token_out: Currency,
    fee: u32,
    tick_spacing: i32,
    hooks: Address,
) -> Result<B256, Refusal> {
    let pool = PoolKey::new(token_in, token_out, fee, tick_spacing, hooks);
    pool.map(|pool| pool.id()).map_err(|_invalid| Refusal::new(Code::NoPool))
}
