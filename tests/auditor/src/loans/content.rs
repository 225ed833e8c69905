//! Compares the call data of a loan's transactions with the request.

use crate::basics::{Address, Transaction};
use crate::lending::{LendingFact, Loan, LoanAction, LoanAmount, VenueKind};
use crate::loan_decode::{LoanCall, Market};
use std::collections::BTreeSet;

/// The rule that call data breaks, and a description of how.
pub(super) type BrokenRule = (&'static str, String);

fn broken_rule<T>(what: impl Into<String>) -> Result<T, BrokenRule> {
    Err(("call data", what.into()))
}

/// A transaction of a loan, with the facts that its content must match.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) loan: &'a Loan,
    pub(super) tx: &'a Transaction,
    pub(super) fact: &'a LendingFact,
    pub(super) coin: &'a str,
    /// The shares that the address may have at the venue; empty if no source reported them.
    pub(super) shares: &'a BTreeSet<u128>,
}

impl Content<'_> {
    /// Returns the only contract that may spend the loan's coins.
    pub(super) fn spender(&self) -> &str {
        match self.loan.kind {
            VenueKind::Vault => &self.loan.venue,
            VenueKind::Market => &self.fact.singleton,
        }
    }

    fn is_own(&self, address: &Address) -> bool {
        *address == self.tx.from.to_lowercase()
    }

    /// Checks a step. A call that fits another loan breaks the rule "call data".
    pub(super) fn check(&self, call: &LoanCall) -> Result<(), BrokenRule> {
        if self.tx.value != 0 {
            return broken_rule(format!("it attaches {} native coins", self.tx.value));
        }
        let supply = self.loan.action == LoanAction::Supply;
        match call {
            LoanCall::Approve { spender, amount } => self.check_allowance(spender, *amount),
            LoanCall::Deposit { assets, receiver } if supply => {
                self.check_target(VenueKind::Vault)?;
                self.check_amount((*assets, 0))?;
                self.check_ends(&[receiver])
            }
            // The exact allowance limits the cost of the shares.
            LoanCall::Mint { shares, receiver } if supply => {
                self.check_target(VenueKind::Vault)?;
                if *shares == 0 {
                    return broken_rule("it mints no shares");
                }
                self.check_ends(&[receiver])
            }
            LoanCall::MarketSupply { market, assets, shares, owner, data } if supply => {
                self.check_market(market)?;
                self.check_amount((*assets, *shares))?;
                if *data != 0 {
                    return broken_rule("it carries data for a callback");
                }
                self.check_ends(&[owner])
            }
            LoanCall::Withdraw { assets, receiver, owner } if !supply => {
                self.check_target(VenueKind::Vault)?;
                self.check_amount((*assets, 0))?;
                self.check_ends(&[receiver, owner])
            }
            LoanCall::Redeem { shares, receiver, owner } if !supply => {
                self.check_target(VenueKind::Vault)?;
                self.check_amount((0, *shares))?;
                self.check_ends(&[receiver, owner])
            }
            LoanCall::MarketWithdraw { market, assets, shares, owner, receiver } if !supply => {
                self.check_market(market)?;
                self.check_amount((*assets, *shares))?;
                self.check_ends(&[receiver, owner])
            }
            _ => broken_rule("it moves money in the other direction"),
        }
    }

    fn check_allowance(&self, spender: &str, amount: u128) -> Result<(), BrokenRule> {
        let exact = self.loan.action == LoanAction::Supply
            && self.loan.amount == LoanAmount::Assets(amount)
            && self.tx.to.to_lowercase() == self.coin
            && spender == self.spender();
        if exact {
            return Ok(());
        }
        let what = format!(
            "an allowance of {amount} of {} for {spender} was signed; it must be exact and for {}",
            self.tx.to,
            self.spender()
        );
        Err(("allowance", what))
    }

    fn check_target(&self, kind: VenueKind) -> Result<(), BrokenRule> {
        if self.loan.kind != kind || self.tx.to.to_lowercase() != self.loan.venue {
            return broken_rule(format!("it calls {}, which is not the venue", self.tx.to));
        }
        Ok(())
    }

    fn check_market(&self, market: &Market) -> Result<(), BrokenRule> {
        let right = self.loan.kind == VenueKind::Market
            && self.tx.to.to_lowercase() == self.fact.singleton
            && market.id == self.loan.venue;
        if !right {
            return broken_rule(format!("it calls the market {} at {}", market.id, self.tx.to));
        }
        if market.loan_token != self.coin {
            return broken_rule("the market lends another token");
        }
        Ok(())
    }

    /// Checks amounts of (assets, shares), one of which is zero. A full exit names all shares.
    fn check_amount(&self, moved: (u128, u128)) -> Result<(), BrokenRule> {
        let right = match self.loan.amount {
            LoanAmount::Assets(assets) => moved == (assets, 0),
            LoanAmount::Shares(shares) => moved == (0, shares),
            LoanAmount::All => {
                let all = self.shares.is_empty() || self.shares.contains(&moved.1);
                if moved.0 != 0 || moved.1 == 0 || !all {
                    let what = format!(
                        "everything was to be withdrawn, but the call names {} assets and {} shares of {:?}",
                        moved.0, moved.1, self.shares
                    );
                    return Err(("full exit", what));
                }
                true
            }
        };
        if right {
            Ok(())
        } else {
            broken_rule(format!("it moves {} assets and {} shares", moved.0, moved.1))
        }
    }

    /// Checks that every owner and receiver is the paying address.
    fn check_ends(&self, ends: &[&Address]) -> Result<(), BrokenRule> {
        match ends.iter().find(|end| !self.is_own(end)) {
            Some(other) => {
                broken_rule(format!("it names {other}, which is not the paying address"))
            }
            None => Ok(()),
        }
    }
}
