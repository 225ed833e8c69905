//! Loans in words: why a venue is trusted, and what the calls of a plan do.

use alloy_primitives::{Address, B256, U256};
use bursar_core::money::{Atoms, TokenAmount};
use bursar_core::networks::by_chain;
use bursar_morpho::decode::Decoded;
use bursar_morpho::{Trust, VenueId};

use crate::loans::{LoanAsk, LoanQuote, Standing, VenueFacts};
use crate::plan::StepPurpose;

/// Returns the purpose of each transaction of a loan's plan.
pub(crate) fn purposes(quote: &LoanQuote) -> impl Iterator<Item = StepPurpose> {
    quote.calls.iter().map(|call| match call {
        Decoded::Approve { amount, .. } if amount.is_zero() => StepPurpose::AllowanceReset,
        Decoded::Approve { .. } => StepPurpose::Allowance,
        Decoded::Deposit { .. } | Decoded::Mint { .. } | Decoded::MarketSupply { .. } => {
            StepPurpose::Supply
        }
        Decoded::Withdraw { .. }
        | Decoded::Redeem { .. }
        | Decoded::MarketWithdraw { .. }
        | Decoded::ForceDeallocate { .. }
        | Decoded::Unknown { .. } => StepPurpose::Withdrawal,
    })
}

/// Explains the trust in a venue, like `curated: its curator and its owner are trusted`.
pub fn standing(venue: &VenueFacts, standing: Standing) -> String {
    let doubt = venue.doubt();
    match (standing, &venue.trust) {
        (Standing::Trusted, Trust::Curated) if venue.curator.is_none() => {
            "curated: a trusted vault lends to this market".to_owned()
        }
        (Standing::Trusted, Trust::Curated) => {
            "curated: its curator and its owner are trusted".to_owned()
        }
        (Standing::Trusted, Trust::Pinned) => {
            "pinned: it is on Bursar's list, and its curator is trusted".to_owned()
        }
        (Standing::Trusted, _) => format!("CONFIRMED by you: {doubt}"),
        (Standing::Changed, _) => format!("CHANGED: {doubt}"),
        (Standing::Unconfirmed, _) => format!("NEW: {doubt}"),
        (Standing::Untrusted, _) => format!("NOT TRUSTED: {doubt}"),
    }
}

/// Describes the calls of a quote's plan in their order, like `approve exactly 30.000000 USDC for the vault`.
pub fn calls(loan: &LoanAsk, quote: &LoanQuote) -> Vec<String> {
    quote.calls.iter().map(|call| call_text(loan, quote, call)).collect()
}

fn call_text(loan: &LoanAsk, quote: &LoanQuote, call: &Decoded) -> String {
    let assets = |atoms: U256| loan.assets_text(Atoms(atoms));
    let shares = |shares: U256| shares_text(quote, shares);
    let contract = |address: Address| contract_text(loan, address);
    let market = |id: B256| {
        if loan.venue == VenueId::Market(id) {
            "the market".to_owned()
        } else {
            format!("ANOTHER MARKET {id:#x}")
        }
    };
    match *call {
        Decoded::Approve { token, spender, amount } => {
            let is_coin =
                by_chain(loan.chain).is_some_and(|network| network.stablecoin.address == token);
            let what = match (is_coin, amount.is_zero()) {
                (_, true) => return format!("take back the approval for {}", contract(spender)),
                (true, false) => assets(amount),
                (false, false) => format!("{amount} units of {}", token.to_checksum(None)),
            };
            format!("approve exactly {what} for {}", contract(spender))
        }
        Decoded::Deposit { vault, assets: amount, receiver: _ } => {
            format!("deposit exactly {} into {}", assets(amount), contract(vault))
        }
        Decoded::Mint { vault, shares: amount, receiver: _ } => {
            format!("buy exactly {} of {}", shares(amount), contract(vault))
        }
        Decoded::Withdraw { vault, assets: amount, .. } => {
            format!("withdraw exactly {} from {}", assets(amount), contract(vault))
        }
        Decoded::Redeem { vault, shares: amount, .. } => {
            format!("give exactly {} back to {}", shares(amount), contract(vault))
        }
        Decoded::MarketSupply { market: id, assets: amount, has_callback_data, .. } => {
            let note = if has_callback_data { ", WITH a callback" } else { "" };
            format!("supply exactly {} to {}{note}", assets(amount), market(id))
        }
        Decoded::MarketWithdraw { market: id, assets: amount, shares: given, .. } => {
            if given.is_zero() {
                format!("withdraw exactly {} from {}", assets(amount), market(id))
            } else {
                format!("give exactly {} back to {}", shares(given), market(id))
            }
        }
        Decoded::ForceDeallocate { vault, adapter, market, assets: amount, owner: _ } => {
            let from = market.map_or(String::new(), |id| format!(" and the market {id:#x}"));
            let (assets, adapter) = (assets(amount), adapter.to_checksum(None));
            let vault = contract(vault);
            format!("take {assets} of {vault} from its adapter {adapter}{from}, for a penalty")
        }
        Decoded::Unknown { to, selector: _ } => format!("UNKNOWN call of {}", to.to_checksum(None)),
    }
}

/// Formats a number of the venue's shares.
pub fn shares_text(quote: &LoanQuote, shares: U256) -> String {
    let decimals = quote.venue.as_ref().map_or(0, |venue| venue.share_decimals);
    format!("{} shares", TokenAmount { atoms: Atoms(shares), decimals }.to_column_text())
}

fn contract_text(loan: &LoanAsk, contract: Address) -> String {
    let lending = by_chain(loan.chain).and_then(|network| network.lending);
    if loan.venue == VenueId::Vault(contract) {
        "the vault".to_owned()
    } else if lending.is_some_and(|lending| lending.singleton == contract) {
        "Morpho".to_owned()
    } else {
        contract.to_checksum(None)
    }
}
