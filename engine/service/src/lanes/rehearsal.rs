//! Rehearses the transactions of a plan: all of them are simulated from our address in the next block before they are
//! shown or executed. Each lane checks the simulated effects itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, U256};
use bursar_chain::data_fee;
use bursar_chain::ports::{
    Chain, ChainFault, NextBlock, ReadCall, SimulatedCall, SimulationRequest,
};
use bursar_chain::simulate::{Simulation, Simulator};
use bursar_core::codes::Code;
use bursar_core::networks::{ChainId, Gas};
use bursar_core::time::Utc;
use bursar_domain::Refusal;
use bursar_domain::plan::{Quote, StepPurpose};
use bursar_submit::fees::{self, FeeFacts};
use bursar_submit::{Call, Fees};
use bursar_uniswap::Permit;

use super::batch::chain_unavailable;

/// The gas limit of an approval in a rehearsal. The executed step gets a limit from the gas that the rehearsal used.
pub(super) const APPROVAL_GAS: u64 = 300_000;

/// One part of a plan, with the call that the rehearsal makes for it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    pub(super) call: Call,
}

/// How a part is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    /// By a transaction that makes the same call as the rehearsal.
    Step(StepPurpose),
    /// By a signature that the swap contains. It needs no transaction; the rehearsal sets the allowance by a call
    /// instead.
    Permit(Permit),
}

/// The next step of a plan.
#[derive(Debug)]
pub(super) struct NextStep {
    pub(super) part: Part,
    /// Maximum price to offer for a unit of gas, in wei.
    pub(super) gas_price_max: u128,
    /// The call must be broadcast before this moment.
    pub(super) until: Utc,
    /// The quote from which the call was built.
    pub(super) quote: Quote,
}

/// The simulators, one per chain, each of which remembers the simulation method that its nodes support.
#[derive(Debug, Default)]
pub(super) struct Simulators {
    // A lock instead of an owning task: it is never held across an await.
    simulators: Mutex<BTreeMap<ChainId, Arc<Simulator>>>,
}

impl Simulators {
    pub(super) fn of(&self, chain: ChainId) -> Arc<Simulator> {
        let mut known = self.simulators.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(chain).or_default())
    }
}

/// The sender of the parts, and the chain state that the fees depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) owner: Address,
    pub(super) gas: &'a Gas,
    pub(super) facts: &'a FeeFacts,
    /// The time of the newest block, in Unix seconds.
    pub(super) block_time: u64,
    /// The owner's balance of the native coin, in wei.
    pub(super) native: U256,
}

/// The result of a rehearsal.
#[derive(Debug)]
pub(super) struct RehearsalResult {
    pub(super) simulated: Simulation,
    /// The data fee of each part, in wei.
    data_fees: Vec<U256>,
}

impl Sender<'_> {
    /// Returns the fees to offer for gas now.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`: the fees of the network are not known, or gas costs more than Bursar's maximum.
    pub(super) fn offer(&self) -> Result<Fees, Refusal> {
        let quote = fees::quote(self.gas, self.facts).map_err(|_unusable| chain_unavailable())?;
        fees::offer_within(&quote, self.gas.ceiling).ok_or_else(|| {
            let message = "Gas costs more than Bursar's maximum: try again when it is cheaper.";
            Refusal::because(Code::ChainUnavailable, message)
        })
    }

    /// Returns the expected price of a unit of gas now, in wei.
    ///
    /// # Errors
    /// Those of [`Sender::offer`].
    pub(super) fn gas_price(&self) -> Result<u128, Refusal> {
        Ok(self.expected_price(&self.offer()?))
    }

    fn expected_price(&self, fees: &Fees) -> u128 {
        match *fees {
            Fees::Legacy { gas_price } => gas_price,
            Fees::Dynamic { max_fee, tip } => {
                max_fee.min(self.facts.base_fee.unwrap_or(0).saturating_add(tip))
            }
        }
    }

    /// Returns the highest price that a step of the plan may offer for a unit of gas, in wei.
    pub(super) fn gas_price_max(&self, fees: &Fees) -> u128 {
        fees.max_price().saturating_mul(2).min(self.gas.ceiling)
    }

    /// Simulates the parts and the reads after them, and reads the data fee of each part at the same time.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`, or `INSUFFICIENT_FUNDS` if the owner cannot pay for the gas.
    pub(super) async fn rehearse(
        &self,
        chain: &dyn Chain,
        simulator: &Simulator,
        fees: &Fees,
        parts: &[Part],
        reads: Vec<ReadCall>,
    ) -> Result<RehearsalResult, Refusal> {
        let next = self.facts.block.map(|block| NextBlock {
            number: block.saturating_add(1),
            timestamp: self.block_time.saturating_add(1),
            base_fee: self.facts.base_fee,
            gas_price: self.expected_price(fees),
        });
        let mut calls: Vec<Call> = parts.iter().map(|part| part.call.clone()).collect();
        let is_short = self.lower_limits(&mut calls, self.expected_price(fees));
        let request = SimulationRequest { from: self.owner, calls, reads, block: next };
        let data_fees = parts.iter().map(|part| {
            let fields = match part.kind {
                // Bytes of the signature and the other fields of a transaction.
                PartKind::Step(_) => 200,
                // Inside the swap's call data, a permit takes more bytes than the call that rehearses it.
                PartKind::Permit(_) => 400,
            };
            let bytes = part.call.data.len().saturating_add(fields);
            data_fee::upper_bound(chain, self.gas, bytes)
        });
        let simulated = simulator.run(chain, request);
        let data_fees = futures::future::try_join_all(data_fees);
        let both = futures::future::try_join(simulated, data_fees).await;
        let (simulated, data_fees) = both.map_err(|fault| match fault {
            // A node refuses a sender that cannot pay for its gas.
            ChainFault::Rejected { .. } if is_short => unfunded_refusal(),
            _other => chain_unavailable(),
        })?;
        // A call that runs out of gas returns no data.
        let is_starved = |(_at, failed): (usize, &SimulatedCall)| failed.data.is_empty();
        if is_short && simulated.failure().is_some_and(is_starved) {
            return Err(unfunded_refusal());
        }
        Ok(RehearsalResult { simulated, data_fees })
    }

    /// Lowers the gas limits to the gas that the owner can pay for. Returns whether it lowered them.
    ///
    /// The limits of a rehearsal are far above the gas that it uses, but nodes refuse a sender that cannot pay for its
    /// limits.
    fn lower_limits(&self, calls: &mut [Call], price: u128) -> bool {
        let value = calls.iter().fold(U256::ZERO, |sum, call| sum.saturating_add(call.value));
        let limits = calls.iter().fold(0u64, |sum, call| sum.saturating_add(call.gas_limit));
        let free = self.native.saturating_sub(value).checked_div(U256::from(price));
        let Some(paid) = free.filter(|paid| *paid < U256::from(limits)) else { return false };
        for call in calls {
            let part = U256::from(call.gas_limit).saturating_mul(paid);
            let part = part.checked_div(U256::from(limits)).unwrap_or_default();
            call.gas_limit = part.saturating_to();
        }
        true
    }
}

fn unfunded_refusal() -> Refusal {
    let message = "The paying address does not hold enough ETH for gas.";
    Refusal::because(Code::InsufficientFunds, message)
}

impl RehearsalResult {
    /// Sets the gas limit of each part from the gas that it used, with a margin: a later block may need more.
    pub(super) fn set_gas_limits(&self, parts: &mut [Part]) {
        for (part, outcome) in parts.iter_mut().zip(&self.simulated.calls) {
            if let Some(used) = outcome.as_ref().and_then(|call| call.gas_used) {
                part.call.gas_limit = used.saturating_add(used / 2).saturating_add(30_000);
            }
        }
    }

    /// Returns the highest possible cost of all parts together, in wei, at a gas price of `ceiling`.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE` on overflow.
    pub(super) fn worst_cost(&self, parts: &[Part], ceiling: u128) -> Result<U256, Refusal> {
        let costs = parts.iter().zip(&self.data_fees);
        let sum = costs.into_iter().try_fold(U256::ZERO, |cost, (part, data_fee)| {
            let gas = U256::from(part.call.gas_limit).checked_mul(U256::from(ceiling))?;
            cost.checked_add(gas)?.checked_add(*data_fee)
        });
        sum.ok_or_else(chain_unavailable)
    }
}
