//! The steps of a running loan.

use alloy_primitives::{Address, B256};
use bursar_chain::ports::Log;
use bursar_core::money::Atoms;
use bursar_core::networks::Network;
use bursar_domain::loans::LoanAsk;
use bursar_domain::outboxes::Send;
use bursar_domain::plan::Execution;
use bursar_domain::{Refusal, Request};
use bursar_morpho::fill;
use bursar_submit::Outbox;

use super::known::KnownVenues;
use super::lane::Lending;
use super::measure::LoanNetwork;
use super::network_read::spender;
use crate::lanes::batch::chain_unavailable;
use crate::lanes::rehearsal::NextStep;

impl Lending {
    /// Measures a running loan again and returns the next step of its plan.
    ///
    /// # Errors
    /// Why the loan cannot continue, or `CHAIN_UNAVAILABLE`.
    pub(in crate::lanes) async fn next_step(
        &self,
        request: &Request,
        loan: &LoanAsk,
        execution: &Execution,
        outbox: &Outbox,
        known: KnownVenues,
    ) -> Result<Option<NextStep>, Refusal> {
        let now_ms = self.ports.clock.now().age_clock_ms();
        let measured = match self.measurements.take(request.id, execution, outbox, now_ms) {
            Some(measured) => measured,
            None => self.measure(loan, request.from, &known).await?,
        };
        let quote = measured.quote;
        let plan = measured.plan?;
        let Some(part) = plan.parts.into_iter().next() else { return Ok(None) };
        let until = execution.until.utc;
        Ok(Some(NextStep { part, gas_price_max: plan.gas_price_max, until, quote: quote.into() }))
    }

    /// Returns the amount that a loan moved according to its receipt, and the position's worth at that block. Each is
    /// `None` if it is not known.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(in crate::lanes) async fn settled_amounts(
        &self,
        loan: &LoanAsk,
        owner: Address,
        hash: B256,
    ) -> Result<(Option<Atoms>, Option<Atoms>), Refusal> {
        let LoanNetwork { network, contracts } = LoanNetwork::of(loan.chain)?;
        let chain = self.chain(network)?;
        let (block, logs) = self.logs_of(network, hash).await?;
        let singleton = contracts.singleton;
        let moved = if loan.is_supply() {
            fill::supplied_amounts(singleton, &loan.venue, owner, &logs)
        } else {
            fill::withdrawn_amounts(singleton, &loan.venue, owner, &logs)
        };
        let reader = self.reader(&*chain, network, contracts, owner);
        let position = reader.position_at(loan.venue, block).await;
        Ok((moved.map(|moved| Atoms(moved.assets)), position.map(Atoms)))
    }
}

impl Lending {
    /// Returns the amount that the operator's withdrawal paid out according to its receipt; `None` if the receipt shows
    /// none.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(in crate::lanes) async fn withdrawn_amount(
        &self,
        send: &Send,
        hash: B256,
    ) -> Result<Option<Atoms>, Refusal> {
        let LoanNetwork { network, contracts } = LoanNetwork::of(send.chain)?;
        let Some(venue) = send.withdrawn_from() else { return Ok(None) };
        let logs = self.logs_of(network, hash).await?.1;
        let moved = fill::withdrawn_amounts(contracts.singleton, &venue, send.from, &logs);
        Ok(moved.map(|moved| Atoms(moved.assets)))
    }

    /// Returns the block and the events of a final transaction.
    async fn logs_of(
        &self,
        network: &Network,
        hash: B256,
    ) -> Result<(u64, Vec<fill::Log>), Refusal> {
        let chain = self.chain(network)?;
        let receipt = chain.receipt(hash).await.map_err(|_fault| chain_unavailable())?;
        let receipt = receipt.ok_or_else(chain_unavailable)?;
        let log = |log: Log| fill::Log { address: log.address, topics: log.topics, data: log.data };
        Ok((receipt.block_number, receipt.logs.into_iter().map(log).collect()))
    }
}

/// Returns the token that a supply approves and the contract that may take it; `None` for a withdrawal.
pub(in crate::lanes) fn approved_token_and_spender(loan: &LoanAsk) -> Option<(Address, Address)> {
    let LoanNetwork { network, contracts } = LoanNetwork::of(loan.chain).ok()?;
    loan.is_supply().then(|| (network.stablecoin.address, spender(contracts, loan.venue)))
}
