//! Simulates the calls of an account before they are signed. Uses the best available method: `eth_simulateV1`,
//! otherwise a state override with Multicall3, otherwise single calls. The result is a node's unverified
//! prediction of a future block: use it to reject failing calls, never to conclude that something happened.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_core::networks::MULTICALL3;
use bursar_submit::Call;
use tokio::sync::OnceCell;

use crate::abi::multicall3::IMulticall3;
use crate::ports::{BlockTag, Chain, ChainFault, SimulatedCall};

/// The simulation methods of a chain's nodes, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimulationMethod {
    /// `eth_simulateV1`.
    SimulateV1,
    /// `eth_call` with Multicall3's code at the account's address. That code calls as the account, and each call
    /// sees the effects of the previous ones.
    StateOverride,
    /// Each call separately, on the newest block.
    SingleCalls,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    pub method: SimulationMethod,
    /// One for each call, in their order. `None` if unknown: a later call that fails alone may fail only
    /// because the previous calls did not happen.
    pub calls: Vec<Option<SimulatedCall>>,
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
    method: OnceCell<SimulationMethod>,
}

impl Simulator {
    /// Determines the method that the nodes support. [`Simulator::run`] also does so if it is still unknown.
    ///
    /// # Errors
    /// No node answered, so the method is still unknown.
    pub async fn probe(&self, chain: &dyn Chain) -> Result<SimulationMethod, ChainFault> {
        self.method.get_or_try_init(|| probe_method(chain)).await.copied()
    }

    /// Simulates calls of `from`, in sequence.
    ///
    /// # Errors
    /// No node answered. A reverting call is not an error.
    pub async fn run(
        &self,
        chain: &dyn Chain,
        from: Address,
        calls: &[Call],
    ) -> Result<Simulation, ChainFault> {
        let method = self.probe(chain).await?;
        let simulated = match method {
            SimulationMethod::SimulateV1 => {
                chain.simulate(from, calls.to_vec()).await?.into_iter().map(Some).collect()
            }
            SimulationMethod::StateOverride => with_state_override(chain, from, calls).await?,
            SimulationMethod::SingleCalls => one_by_one(chain, from, calls).await?,
        };
        Ok(Simulation { method, calls: simulated })
    }
}

async fn probe_method(chain: &dyn Chain) -> Result<SimulationMethod, ChainFault> {
    // A harmless call from an unrelated account: this only probes whether the method exists.
    let unrelated = MULTICALL3;
    match chain.simulate(unrelated, vec![Call::empty(unrelated, 0)]).await {
        Ok(_calls) => return Ok(SimulationMethod::SimulateV1),
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
    from: Address,
    calls: &[Call],
) -> Result<Vec<Option<SimulatedCall>>, ChainFault> {
    let code = chain.code_at(MULTICALL3, BlockTag::Latest).await?;
    let unusable = |reason: &str| ChainFault::Rejected { code: 0, message: reason.to_owned() };
    let value = calls.iter().try_fold(U256::ZERO, |sum, call| sum.checked_add(call.value));
    let value = value.ok_or_else(|| unusable("the values of the calls overflow"))?;
    let each = calls.iter().map(|call| IMulticall3::Call3Value {
        target: call.to,
        allowFailure: true,
        value: call.value,
        callData: call.data.clone(),
    });
    let data = IMulticall3::aggregate3ValueCall { calls: each.collect() }.abi_encode();
    let run = Call { to: from, value, data: data.into(), gas_limit: 0 };
    let answer = chain.call_as(from, run, Some(code)).await?;
    let answers = IMulticall3::aggregate3ValueCall::abi_decode_returns_validate(&answer)
        .map_err(|_odd| unusable("the simulated Multicall3 returned no results"))?;
    if answers.len() != calls.len() {
        return Err(unusable("the simulated Multicall3 returned another number of results"));
    }
    let outcome = |answer: IMulticall3::CallResult| {
        let (ok, data) = (answer.success, answer.returnData);
        Some(SimulatedCall { ok, data, gas_used: None, logs: Vec::new() })
    };
    Ok(answers.into_iter().map(outcome).collect())
}

async fn one_by_one(
    chain: &dyn Chain,
    from: Address,
    calls: &[Call],
) -> Result<Vec<Option<SimulatedCall>>, ChainFault> {
    let mut outcomes = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        let outcome =
            |ok, data: Bytes| Some(SimulatedCall { ok, data, gas_used: None, logs: Vec::new() });
        outcomes.push(match chain.call_as(from, call.clone(), None).await {
            Ok(data) => outcome(true, data),
            Err(ChainFault::Reverted { data }) if at == 0 => outcome(false, data),
            Err(ChainFault::Reverted { .. }) => None,
            Err(fault) => return Err(fault),
        });
    }
    Ok(outcomes)
}
