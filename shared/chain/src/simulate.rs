//! Simulates the calls of an account before they are signed. Uses the best available method: `eth_simulateV1`,
//! otherwise a state override with Multicall3, otherwise single calls. The result is a node's unverified
//! prediction of a future block: use it to reject failing calls, never to conclude that something happened.

use std::sync::{Mutex, PoisonError};

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::MULTICALL3;
use bursar_submit::Call;

use crate::abi::multicall3::IMulticall3;
use crate::ports::{BlockTag, Chain, ChainFault, SimulatedBlock, SimulatedCall, SimulationRequest};

/// If the cached method is not the best one, the nodes are probed again after this many simulations. A node may have
/// refused the best method only once, for example because it was busy.
const SIMULATIONS_BEFORE_PROBE: u32 = 100;

/// Number of simulations before the next probe if the nodes have just lost a method. It is small, because the better
/// method may soon return, and plans simulated by another method wait for the operator.
const SIMULATIONS_BEFORE_PROBE_AFTER_LOSS: u32 = 5;

/// The simulation methods of a chain's nodes, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulationMethod {
    /// `eth_simulateV1`. The only method that simulates [`SimulationRequest::block`].
    SimulateV1,
    /// `eth_call` with Multicall3's code at the account's address. The code makes the calls as that account, and each
    /// call sees the effects of the previous calls.
    StateOverride,
    /// Each call separately, on the newest block.
    SingleCalls,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    pub method: SimulationMethod,
    /// The results of the calls, in their order; `None` if a result is unknown.
    ///
    /// If calls are simulated one by one, a later call may fail only because the earlier calls had no effect. The
    /// result of such a call is unknown.
    pub calls: Vec<Option<SimulatedCall>>,
    /// The results of the reads, in their order.
    ///
    /// `None` if the method does not show the state after the calls.
    pub reads: Option<Vec<SimulatedCall>>,
}

impl Simulation {
    /// Returns the index and the outcome of the first call that fails in the simulation.
    pub fn failure(&self) -> Option<(usize, &SimulatedCall)> {
        let calls = self.calls.iter().enumerate();
        calls.filter_map(|(at, call)| Some((at, call.as_ref()?))).find(|(_at, call)| !call.ok)
    }
}

/// Simulates calls on one chain and remembers the method that its nodes support.
#[derive(Debug, Default)]
pub struct Simulator {
    cached: Mutex<Option<KnownMethod>>,
}

#[derive(Debug, Clone, Copy)]
struct KnownMethod {
    method: SimulationMethod,
    /// Simulations left before the next probe; not used for the best method.
    simulations_before_probe: u32,
}

/// The cached method before a probe.
enum CachedMethod {
    Use(SimulationMethod),
    ProbeAgain(SimulationMethod),
    Nothing,
}

impl Simulator {
    /// Returns the simulation method that the nodes support.
    ///
    /// It probes the nodes if the method is unknown. If the method is not the best, it probes again after
    /// `SIMULATIONS_BEFORE_PROBE` simulations, or after `SIMULATIONS_BEFORE_PROBE_AFTER_LOSS` if the nodes
    /// have just lost a method.
    ///
    /// # Errors
    /// No node gave a usable answer to the probe.
    pub async fn probe(&self, chain: &dyn Chain) -> Result<SimulationMethod, ChainFault> {
        let known = match self.cached_method() {
            CachedMethod::Use(method) => return Ok(method),
            CachedMethod::ProbeAgain(method) => Some(method),
            CachedMethod::Nothing => None,
        };
        let method = match (probe_method(chain).await, known) {
            (Ok(method), _known) => method,
            // The known method may still work.
            (Err(_fault), Some(known)) => known,
            (Err(fault), None) => return Err(fault),
        };
        self.cache_method(method, SIMULATIONS_BEFORE_PROBE);
        Ok(method)
    }

    fn cache_method(&self, method: SimulationMethod, left: u32) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(KnownMethod { method, simulations_before_probe: left });
    }

    fn cached_method(&self) -> CachedMethod {
        let mut known = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(KnownMethod { method, simulations_before_probe: left }) = known.as_mut() else {
            return CachedMethod::Nothing;
        };
        match (*method, left.checked_sub(1)) {
            (SimulationMethod::SimulateV1, _left) => CachedMethod::Use(*method),
            (_other, None) => CachedMethod::ProbeAgain(*method),
            (_other, Some(fewer)) => {
                *left = fewer;
                CachedMethod::Use(*method)
            }
        }
    }

    /// Simulates calls of one account, in sequence, and then its reads.
    ///
    /// If the nodes refuse the known method, it probes them again. A node can lose a method, and only a probe
    /// distinguishes that from a request that the node refuses.
    ///
    /// # Errors
    /// No node answered, or the nodes refused the simulation. A reverting call is not an error.
    pub async fn run(
        &self,
        chain: &dyn Chain,
        request: SimulationRequest,
    ) -> Result<Simulation, ChainFault> {
        let method = self.probe(chain).await?;
        let refused = match run_with_method(method, chain, &request).await {
            Err(fault @ (ChainFault::Rejected { .. } | ChainFault::Malformed { .. })) => fault,
            end => return end,
        };
        match probe_method(chain).await {
            Ok(other) if other != method => {
                self.cache_method(other, SIMULATIONS_BEFORE_PROBE_AFTER_LOSS);
                run_with_method(other, chain, &request).await
            }
            Ok(_) | Err(_) => Err(refused),
        }
    }
}

/// Simulates calls and reads by one method.
async fn run_with_method(
    method: SimulationMethod,
    chain: &dyn Chain,
    request: &SimulationRequest,
) -> Result<Simulation, ChainFault> {
    let (calls, reads) = match method {
        SimulationMethod::SimulateV1 => {
            let SimulatedBlock { calls, reads } = chain.simulate(request.clone()).await?;
            (calls.into_iter().map(Some).collect(), Some(reads))
        }
        SimulationMethod::StateOverride => {
            let SimulatedBlock { calls, reads } = with_state_override(chain, request).await?;
            (calls.into_iter().map(Some).collect(), Some(reads))
        }
        SimulationMethod::SingleCalls => {
            (one_by_one(chain, request.from, &request.calls).await?, None)
        }
    };
    Ok(Simulation { method, calls, reads })
}

async fn probe_method(chain: &dyn Chain) -> Result<SimulationMethod, ChainFault> {
    // A call from an unrelated account: this only probes whether the method exists.
    let unrelated = MULTICALL3;
    let harmless = SimulationRequest::of(unrelated, vec![Call::empty(unrelated, 0)]);
    match chain.simulate(harmless).await {
        Ok(_block) => return Ok(SimulationMethod::SimulateV1),
        Err(ChainFault::Rejected { .. } | ChainFault::Malformed { .. }) => {}
        Err(fault) => return Err(fault),
    }
    let code = chain.code_at(MULTICALL3, BlockTag::Latest).await?;
    if code.is_empty() {
        return Ok(SimulationMethod::SingleCalls);
    }
    // An address without code answers with data only if the node applied the override.
    let account = Address::with_last_byte(0xff);
    let no_calls = IMulticall3::aggregate3ValueCall { calls: Vec::new() }.abi_encode();
    let run = Call { to: account, value: U256::ZERO, data: no_calls.into(), gas_limit: 0 };
    match chain.call_as(account, run, Some(code)).await {
        Ok(answer) if !answer.is_empty() => Ok(SimulationMethod::StateOverride),
        Ok(_) | Err(ChainFault::Rejected { .. } | ChainFault::Reverted { .. }) => {
            Ok(SimulationMethod::SingleCalls)
        }
        Err(fault) => Err(fault),
    }
}

async fn with_state_override(
    chain: &dyn Chain,
    request: &SimulationRequest,
) -> Result<SimulatedBlock, ChainFault> {
    let SimulationRequest { from, calls, reads, block: _ } = request;
    let code = chain.code_at(MULTICALL3, BlockTag::Latest).await?;
    let unusable = |reason: &str| ChainFault::Rejected { code: 0, message: reason.to_owned() };
    let value = calls.iter().try_fold(U256::ZERO, |sum, call| sum.checked_add(call.value));
    let value = value.ok_or_else(|| unusable("the values of the calls overflow"))?;
    let run = |target: &Address, value: U256, data: &Bytes| IMulticall3::Call3Value {
        target: *target,
        allowFailure: true,
        value,
        callData: data.clone(),
    };
    let each = calls.iter().map(|call| run(&call.to, call.value, &call.data));
    let each = each.chain(reads.iter().map(|read| run(&read.to, U256::ZERO, &read.data)));
    let data = IMulticall3::aggregate3ValueCall { calls: each.collect() }.abi_encode();
    let run = Call { to: *from, value, data: data.into(), gas_limit: 0 };
    let answer = chain.call_as(*from, run, Some(code)).await?;
    let answers = IMulticall3::aggregate3ValueCall::abi_decode_returns_validate(&answer)
        .map_err(|_odd| unusable("the simulated Multicall3 returned no results"))?;
    if Some(answers.len()) != calls.len().checked_add(reads.len()) {
        return Err(unusable("the simulated Multicall3 returned the wrong number of results"));
    }
    let mut outcomes: Vec<SimulatedCall> = answers
        .into_iter()
        .map(|answer| SimulatedCall::without_details(answer.success, answer.returnData))
        .collect();
    let reads = outcomes.split_off(calls.len());
    Ok(SimulatedBlock { calls: outcomes, reads })
}

async fn one_by_one(
    chain: &dyn Chain,
    from: Address,
    calls: &[Call],
) -> Result<Vec<Option<SimulatedCall>>, ChainFault> {
    let mut outcomes = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        let outcome = |ok, data| Some(SimulatedCall::without_details(ok, data));
        outcomes.push(match chain.call_as(from, call.clone(), None).await {
            Ok(data) => outcome(true, data),
            Err(ChainFault::Reverted { data }) if at == 0 => outcome(false, data),
            Err(ChainFault::Reverted { .. }) => None,
            Err(fault) => return Err(fault),
        });
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
