//! Turns a request into the immutable ask that is checked, recorded and shown, and measures it again later.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::BlockTag;
use bursar_chain::token;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};
use bursar_domain::Refusal;
use bursar_domain::loans::{LoanAsk, LoanQuote, LoanSize};
use bursar_morpho::{VenueId, views};

use super::input::{self, LoanInput, SizeInput};
use super::known::KnownVenues;
use super::lane::Lending;
use super::measured::Measured;
use crate::lanes::batch::chain_unavailable;

/// A request as it is checked and recorded.
#[derive(Debug)]
pub struct Proposal {
    pub ask: LoanAsk,
    /// The measurement, or why there is none.
    ///
    /// Without a measurement the ask has no quote.
    pub measured: Result<Measured, Refusal>,
}

impl Proposal {
    /// Returns why the loan cannot be made; `None` if it can be made.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.measured {
            Ok(measured) => measured.plan.as_ref().err(),
            Err(refusal) => Some(refusal),
        }
    }
}

impl Lending {
    /// Reads the venue and the exposure for a request, and rehearses the loan.
    ///
    /// # Errors
    /// The request does not describe a possible loan, or no node answers.
    pub async fn propose(
        &self,
        input: &LoanInput,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Proposal, Refusal> {
        let mut ask = LoanAsk {
            chain: input.network.chain,
            action: input.action,
            venue: input.venue,
            size: self.size(input).await?,
            deadline: input.deadline,
            quote: LoanQuote::default(),
            counted_value: Usd::ZERO,
        };
        let measured = self.measure(&ask, owner, known).await;
        match &measured {
            Ok(measured) => {
                ask.counted_value = ask.counted_value_at(&measured.quote);
                ask.quote = measured.quote.clone();
            }
            // A later try may succeed.
            Err(refusal) if refusal.code == Code::ChainUnavailable => return Err(refusal.clone()),
            Err(_final) => {}
        }
        Ok(Proposal { ask, measured })
    }

    async fn size(&self, input: &LoanInput) -> Result<LoanSize, Refusal> {
        let coin = &input.network.stablecoin;
        Ok(match &input.size {
            SizeInput::All => LoanSize::All,
            SizeInput::Assets(text) => {
                LoanSize::Assets(Atoms(input::amount(text, coin.decimals, "amount")?))
            }
            SizeInput::Shares(text) => {
                let decimals = match input.venue {
                    VenueId::Vault(vault) => self.share_decimals(input, vault).await?,
                    VenueId::Market(_) => 0,
                };
                LoanSize::Shares(input::amount(text, decimals, "amount")?)
            }
        })
    }

    async fn share_decimals(&self, input: &LoanInput, vault: Address) -> Result<u8, Refusal> {
        let chain = self.chain(input.network)?;
        let answer = chain.call(vault, token::decimals_call(), BlockTag::Latest).await;
        let answer = answer.map_err(|_fault| chain_unavailable())?;
        let decimals = views::decode_amount(&answer).filter(|one| *one <= U256::from(36));
        decimals.and_then(|one| u8::try_from(one).ok()).ok_or_else(|| {
            Refusal::because(
                Code::VenueNotPermitted,
                "The venue cannot be used: it is not a vault.",
            )
        })
    }

    /// Measures a held loan for its approval.
    ///
    /// # Errors
    /// Those of [`Lending::propose`], or the loan would fail now.
    pub async fn requote(
        &self,
        ask: &LoanAsk,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Measured, Refusal> {
        let measured = self.measure(ask, owner, known).await?;
        match &measured.plan {
            Ok(_plan) => Ok(measured),
            Err(refusal) => Err(refusal.clone()),
        }
    }
}
