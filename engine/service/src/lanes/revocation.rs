//! The revocation of the token allowance that an ended plan leaves.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainFault};
use bursar_chain::{chain_tasks, token};
use bursar_core::networks::Network;
use bursar_domain::command::StepOrder;
use bursar_domain::plan::{AllowanceLeft, Execution, StepPurpose};
use bursar_domain::{Action, LaneAsk, Refusal, Request};
use bursar_submit::{Call, fees};
use bursar_uniswap::swap;

use super::batch::chain_unavailable;
use super::rehearsal::APPROVAL_GAS;
use super::{lending, trading};
use crate::ports::Chains;

/// The factor by which the gas price of a revocation may rise. A revocation has no time limit, so it must be mined even
/// if fees stay high.
const REVOCATION_FEE_FACTOR: u128 = 8;

/// The token allowance that an ended plan leaves.
pub(super) struct LeftAllowance {
    token: Address,
    spender: Address,
    network: &'static Network,
    chain: Arc<dyn Chain>,
}

/// Returns the allowance that an ended plan leaves; `None` if it is zero, or if the plan needs none.
pub(super) async fn allowance_left(
    chains: &Chains,
    request: &Request,
    execution: &Execution,
) -> Result<Option<LeftAllowance>, Refusal> {
    let approved = match &request.ask {
        LaneAsk::Trade(trade) => trading::approved_token_and_spender(trade, request.from),
        LaneAsk::Loan(loan) => lending::approved_token_and_spender(loan),
        LaneAsk::Payment(_) => None,
    };
    let Some(((token, spender), network)) = approved.zip(request.ask.network()) else {
        return Ok(None);
    };
    let chain = chains.get(&network.chain).ok_or_else(chain_unavailable)?;
    // A node that is some blocks behind does not show a new allowance, so the chain is asked as of a block that is not
    // older.
    let read_since = async |block| {
        let head = chain.block_number().await?;
        if head < block {
            return Err(ChainFault::Unavailable { tried: Vec::new() });
        }
        let call = token::allowance_call(request.from, spender);
        let answer = chain.call(token, call, BlockTag::Number(head)).await?;
        Ok(U256::try_from_be_slice(&answer) != Some(U256::ZERO))
    };
    let is_left = match execution.allowance_left() {
        AllowanceLeft::Zero => false,
        AllowanceLeft::Possible { since } => {
            read_since(since).await.map_err(|_fault| chain_unavailable())?
        }
        // Some tokens forget allowances, so they are asked.
        AllowanceLeft::Given { block } => read_since(block).await.unwrap_or(true),
    };
    Ok(is_left.then_some(LeftAllowance { token, spender, network, chain }))
}

/// Returns the action that revokes the allowance of an ended plan, or closes the plan if it leaves none.
pub(super) async fn next_action(
    chains: &Chains,
    request: &Request,
    execution: &Execution,
) -> Result<Action, Refusal> {
    let Some(LeftAllowance { token, spender, network, chain }) =
        allowance_left(chains, request, execution).await?
    else {
        return Ok(Action::ClosePlan { id: request.id });
    };
    let swap::Call { to, value, data } = swap::approve(token, spender, U256::ZERO);
    let mut call = Call { to, value, data, gas_limit: APPROVAL_GAS };
    match chain.estimate_gas(request.from, call.clone()).await {
        Ok(gas) => call.gas_limit = gas.saturating_add(gas / 2),
        // Send the revocation anyway: once its revert is mined, the plan ends.
        Err(ChainFault::Reverted { .. }) => {}
        Err(_fault) => return Err(chain_unavailable()),
    }
    let quote = chain_tasks::quote(&*chain, request.from, &network.gas).await;
    let quote = quote.map_err(|_fault| chain_unavailable())?;
    let offer =
        fees::offer_within(&quote.fee, network.gas.ceiling).ok_or_else(chain_unavailable)?;
    Ok(Action::OpenStep(Box::new(StepOrder {
        id: request.id,
        index: execution.steps.len(),
        purpose: StepPurpose::Revocation,
        call,
        gas_price_max: offer
            .max_price()
            .saturating_mul(REVOCATION_FEE_FACTOR)
            .min(network.gas.ceiling),
        until: None,
        quote: execution.quote.clone(),
    })))
}
