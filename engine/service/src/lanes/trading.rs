//! Trades: read the request, measure the market, rehearse the plan, and execute it step by step.
//!
//! The rules are in `bursar-domain`, and call data and prices in `bursar-uniswap`. This module connects both to the
//! chain: each measurement is made again when the operator approves, and before each step of a plan.

mod eth_price;
mod input;
mod market;
mod plan;
mod propose;
mod worker;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::simulate::Simulator;
use bursar_core::networks::ChainId;

use crate::ports::Ports;
use eth_price::EthPrice;

pub use input::{InputFault, TradeInput};
pub use worker::{Worker, run};

/// What measurements share: the price of ETH, and the simulation method of each chain.
#[derive(Debug)]
pub struct Trading {
    ports: Ports,
    eth_price: EthPrice,
    // A lock instead of an owning task: it is never held across an await.
    simulators: Mutex<BTreeMap<ChainId, Arc<Simulator>>>,
}

impl Trading {
    /// Creates the lane. Opens no connection.
    pub fn new(ports: &Ports) -> Self {
        let eth_price = EthPrice::new(ports.prices.clone(), Arc::clone(&ports.clock));
        Self { ports: ports.clone(), eth_price, simulators: Mutex::default() }
    }

    fn simulator(&self, chain: ChainId) -> Arc<Simulator> {
        let mut simulators = self.simulators.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(simulators.entry(chain).or_default())
    }
}
