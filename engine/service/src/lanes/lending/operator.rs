//! The operator's requests to the lane: a venue's facts, a withdrawal, and the worth of a position.

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::Network;
use bursar_domain::loans::{LoanAction, LoanAsk, LoanQuote, LoanSize, VenueFacts};
use bursar_domain::{Refusal, State, loan_text};
use bursar_morpho::{ForcedDeallocation, VenueId};
use bursar_submit::Call;

use super::input;
use super::known::KnownVenues;
use super::lane::Lending;
use super::measure::{LoanNetwork, is_unendorsed};
use super::network_read::LoanTarget;
use super::venue_read::Preview;

/// A withdrawal that the operator wants.
#[derive(Debug, Clone, Copy)]
pub struct WithdrawalOrder<'a> {
    pub network: &'static Network,
    pub venue: VenueId,
    /// The address that has the position.
    pub owner: Address,
    /// A decimal amount of whole coins, or `all`.
    pub amount: &'a str,
}

impl WithdrawalOrder<'_> {
    /// Parses the amount.
    ///
    /// # Errors
    /// The text is not a valid amount of the stablecoin.
    pub(super) fn size(&self) -> Result<LoanSize, Refusal> {
        if self.amount.eq_ignore_ascii_case("all") {
            return Ok(LoanSize::All);
        }
        let decimals = self.network.stablecoin.decimals;
        Ok(LoanSize::Assets(Atoms(input::amount(self.amount, decimals, "The amount")?)))
    }

    /// Converts the withdrawal to an ask without a quote.
    pub(super) fn ask(&self) -> Result<LoanAsk, Refusal> {
        Ok(LoanAsk {
            chain: self.network.chain,
            action: LoanAction::Withdraw,
            venue: self.venue,
            size: self.size()?,
            deadline: None,
            quote: LoanQuote::default(),
            counted_value: Usd::ZERO,
        })
    }
}

/// The cost of a withdrawal's forced deallocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedCost {
    /// The assets that stay in the vault as the penalty.
    pub penalty: Atoms,
    /// The deallocation from each adapter.
    pub deallocations: Vec<ForcedDeallocation>,
}

/// A rehearsed withdrawal of the operator.
#[derive(Debug, Clone)]
pub struct OwnWithdrawal {
    pub call: Call,
    /// The parts of the call in words.
    pub texts: Vec<String>,
    /// The cost of an exit by forced deallocations; `None` for a plain withdrawal.
    pub forced: Option<ForcedCost>,
    /// The assets that arrived in the rehearsal.
    pub assets: Atoms,
    /// The worth of the address's position in the venue.
    pub position: Atoms,
    /// The venue's own name.
    pub name: String,
    /// The highest price to offer for a unit of gas, in wei.
    pub gas_price_max: u128,
    /// The highest possible cost, in wei.
    pub cost: U256,
}

impl Lending {
    /// Reads the facts about a venue.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`, or `VENUE_NOT_PERMITTED` if it is not a venue.
    pub async fn examine(
        &self,
        network: &'static Network,
        venue: VenueId,
    ) -> Result<VenueFacts, Refusal> {
        self.find_endorser(network, venue).await?;
        let asked = self.hints.venue(network.chain, venue).endorser;
        let facts = self.examine_once(network, venue).await?;
        if is_unendorsed(venue, Some(&facts.trust))
            && self.has_other_endorser(LoanNetwork::of(network.chain)?, venue, asked).await
        {
            return self.examine_once(network, venue).await;
        }
        Ok(facts)
    }

    async fn examine_once(
        &self,
        network: &'static Network,
        venue: VenueId,
    ) -> Result<VenueFacts, Refusal> {
        let LoanNetwork { contracts, .. } = LoanNetwork::of(network.chain)?;
        let chain = self.chain(network)?;
        let reader = self.reader(&*chain, network, contracts, Address::ZERO);
        let wanted = LoanTarget { venue, preview: Preview::All };
        let read = reader.read(&[venue], Some(wanted)).await?;
        let found = read.venue.ok_or_else(|| Refusal::new(Code::ChainUnavailable))?;
        found.map(|venue| venue.facts).map_err(|reason| {
            Refusal::because(Code::VenueNotPermitted, format!("This is not a venue: {reason}."))
        })
    }

    /// Returns the worth of an address's position in a venue, in the stablecoin's smallest unit.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn worth(
        &self,
        network: &'static Network,
        venue: VenueId,
        owner: Address,
    ) -> Result<U256, Refusal> {
        let LoanNetwork { contracts, .. } = LoanNetwork::of(network.chain)?;
        let chain = self.chain(network)?;
        let read = self.reader(&*chain, network, contracts, owner).read(&[venue], None).await?;
        let position = read.positions.into_iter().find_map(|(_venue, position)| position);
        let position = position.ok_or_else(|| {
            Refusal::because(
                Code::ChainUnavailable,
                "The position in this venue cannot be read now: try again.",
            )
        })?;
        Ok(position.worth)
    }

    /// Measures and rehearses a withdrawal.
    ///
    /// # Errors
    /// The amount is invalid, the withdrawal would fail, or no node answers.
    pub async fn plan_withdrawal(
        &self,
        state: &State,
        order: WithdrawalOrder<'_>,
    ) -> Result<OwnWithdrawal, Refusal> {
        let ask = order.ask()?;
        let measured = self.measure(&ask, order.owner, &KnownVenues::of_operator(state)).await?;
        let (quote, plan) = (measured.quote, measured.plan?);
        check_gas(quote.native_balance, quote.plan_cost)?;
        let part = plan.parts.into_iter().next();
        let call = part.ok_or_else(|| Refusal::new(Code::InternalError))?.call;
        Ok(OwnWithdrawal {
            call,
            texts: loan_text::calls(&ask, &quote),
            forced: None,
            assets: quote.assets,
            position: quote.position,
            name: quote.venue.map_or(String::new(), |venue| venue.name.clone()),
            gas_price_max: plan.gas_price_max,
            cost: plan.cost,
        })
    }
}

/// Checks that an address can pay the highest possible cost of a transaction; both amounts are in wei.
///
/// # Errors
/// `INSUFFICIENT_FUNDS`
pub(super) fn check_gas(native: U256, cost: U256) -> Result<(), Refusal> {
    if native >= cost {
        return Ok(());
    }
    let message = "The address does not hold enough of the native coin for gas.";
    Err(Refusal::because(Code::InsufficientFunds, message))
}
