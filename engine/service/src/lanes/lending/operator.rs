//! What the operator asks of the lane: a venue's facts, a withdrawal, and what a position is worth.

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::Network;
use bursar_domain::loans::{LoanAction, LoanAsk, LoanQuote, LoanSize, VenueFacts};
use bursar_domain::{Refusal, State, loan_text};
use bursar_morpho::VenueId;
use bursar_submit::Call;

use super::input;
use super::known::Known;
use super::lane::Lending;
use super::measure::LoanNetwork;
use super::network_read::Wanted;
use super::venue_read::Preview;

/// A rehearsed withdrawal of the operator.
#[derive(Debug, Clone)]
pub struct OwnWithdrawal {
    pub call: Call,
    /// The call in words.
    pub text: String,
    /// What arrives, by the rehearsal.
    pub assets: Atoms,
    /// What the address has in the venue.
    pub position: Atoms,
    /// The venue's own name.
    pub name: String,
    /// The highest price to offer for a unit of gas, in wei.
    pub ceiling: u128,
    /// The worst cost, in wei.
    pub cost: U256,
}

impl Lending {
    /// Reads what a venue is.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`, or `VENUE_NOT_PERMITTED` if it is not a venue.
    pub async fn examine(
        &self,
        network: &'static Network,
        venue: VenueId,
    ) -> Result<VenueFacts, Refusal> {
        let LoanNetwork { contracts, .. } = LoanNetwork::of(network.chain)?;
        let chain = self.chain(network)?;
        self.find_endorser(network, venue).await?;
        let reader = self.reader(&*chain, network, contracts, Address::ZERO);
        let wanted = Wanted { venue, preview: Preview::All };
        let read = reader.read(&[venue], Some(wanted)).await?;
        let found = read.venue.ok_or_else(|| Refusal::new(Code::ChainUnavailable))?;
        found.map(|venue| venue.facts).map_err(|reason| {
            Refusal::because(Code::VenueNotPermitted, format!("This is not a venue: {reason}."))
        })
    }

    /// Returns what an address has in a venue, in the stablecoin's smallest unit.
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
            Refusal::because(Code::ChainUnavailable, "The position cannot be read.")
        })?;
        Ok(position.worth)
    }

    /// Measures and rehearses a withdrawal. `amount` is in whole coins, or `all`.
    ///
    /// # Errors
    /// The amount is invalid, the withdrawal would fail, or no node answers.
    pub async fn plan_withdrawal(
        &self,
        state: &State,
        network: &'static Network,
        venue: VenueId,
        owner: Address,
        amount: &str,
    ) -> Result<OwnWithdrawal, Refusal> {
        let size = if amount.eq_ignore_ascii_case("all") {
            LoanSize::All
        } else {
            let decimals = network.stablecoin.decimals;
            LoanSize::Assets(Atoms(input::amount(amount, decimals, "The amount")?))
        };
        let ask = LoanAsk {
            chain: network.chain,
            action: LoanAction::Withdraw,
            venue,
            size,
            deadline: None,
            quote: LoanQuote::default(),
            counted: Usd::ZERO,
        };
        let measured = self.measure(&ask, owner, &Known::of_operator(state)).await?;
        let (quote, plan) = (measured.quote, measured.plan?);
        if quote.native_balance < quote.plan_cost {
            let message = "The address does not hold enough of the native coin for gas.";
            return Err(Refusal::because(Code::InsufficientFunds, message));
        }
        let part = plan.parts.into_iter().next();
        let call = part.ok_or_else(|| Refusal::new(Code::InternalError))?.call;
        Ok(OwnWithdrawal {
            call,
            text: loan_text::calls(&ask, &quote).join(", "),
            assets: quote.assets,
            position: quote.position,
            name: quote.venue.map_or(String::new(), |venue| venue.name.clone()),
            ceiling: plan.ceiling,
            cost: plan.cost,
        })
    }
}
