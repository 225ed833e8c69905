//! Trades: read the request, measure the market, rehearse the plan, and execute it step by step.
//!
//! The rules are in `bursar-domain`, and call data and prices in `bursar-uniswap`. This module connects both to the
//! chain: each measurement is made again when the operator approves, and before each step of a plan.

mod allowances;
mod asset;
mod asset_routes;
mod effects;
mod eth_price;
mod input;
mod lane;
mod market;
mod measured;
mod permit;
mod plan;
mod pools;
mod propose;
mod reads;
mod routes;
mod spec;
mod steps;
mod stocks;
mod wiring;

pub use input::{TRADE_FIELDS, TradeInput};
pub use lane::Trading;
pub use measured::Measured;
pub use propose::{Proposal, default_slippage};
pub(super) use steps::approved_token_and_spender;
pub use wiring::{UnexpectedContract, Wiring};
