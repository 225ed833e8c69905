//! Loans and their quotes, as the lane would measure them.

use alloy_primitives::{Address, B256, U256};
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::{self, ChainId};
use bursar_core::policy::Policy;
use bursar_core::time::Utc;
use bursar_domain::effects::Effects;
use bursar_domain::loans::{
    Exposure, LendingKind, LoanAction, LoanAsk, LoanPlace, LoanQuote, LoanSize, VenueFacts,
};
use bursar_morpho::decode::Decoded;
use bursar_morpho::trust::{NeedsConfirmation, UntrustedReason};
use bursar_morpho::{SharePrice, Trust, VenueId};

use crate::support::build;

pub(crate) const BASE: ChainId = ChainId(8453);
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);

/// The native coin that the paying address holds: one ETH.
pub(crate) const HELD_WEI: u64 = 1_000_000_000_000_000_000;

/// The worst costs of a plan and of a later withdrawal, in wei.
pub(crate) const PLAN_COST: u64 = 1_000_000_000_000;
pub(crate) const EXIT_COST: u64 = 3_000_000_000_000;

/// The stablecoins of an address on each network: ten thousand dollars.
pub(crate) const STABLECOIN_BALANCE: u64 = 10_000_000_000;

/// The curator and the owner that a venue names.
pub(crate) const CURATOR: Address = Address::repeat_byte(0xc1);
pub(crate) const OWNER: Address = Address::repeat_byte(0xc2);

/// A policy with 100 dollars per deposit, 500 in total, automatic below 50, and 20 operations a day.
///
/// Agents 0 and 1 share an address.
pub(crate) fn policy() -> Policy {
    let mut policy = build::policy();
    policy.lending.enabled = true;
    policy.lending.auto_below = Usd::dollars(50);
    policy.trading.enabled = true;
    policy.trading.auto_below = Usd::dollars(50);
    policy
}

pub(crate) fn vault(number: u8) -> VenueId {
    VenueId::Vault(Address::repeat_byte(number))
}

pub(crate) fn market(number: u8) -> VenueId {
    VenueId::Market(B256::repeat_byte(number))
}

/// The share price at which a million shares redeem for `assets` units.
pub(crate) fn price(assets: u64) -> Option<SharePrice> {
    SharePrice::new(U256::from(assets), U256::from(1_000_000))
}

/// The facts of a trusted vault that passes every rule.
pub(crate) fn facts() -> VenueFacts {
    VenueFacts {
        kind: LendingKind::VaultV2,
        name: "Steady USDC".to_owned(),
        symbol: "sUSDC".to_owned(),
        curator: Some(CURATOR),
        owner: Some(OWNER),
        trust: Trust::Curated,
        lends_stablecoin: true,
        share_decimals: 18,
        resists_donations: true,
        price: price(1_000_000),
        free_liquidity: Some(Atoms(U256::from(1_000_000_000_000_u64))),
    }
}

/// The trust of a venue that names a trusted curator, but whose owner is not trusted.
pub(crate) fn new_venue() -> Trust {
    Trust::NewNeedsConfirmation(NeedsConfirmation::Owner(OWNER))
}

pub(crate) fn refused_venue() -> Trust {
    Trust::Refused(UntrustedReason::Curator(CURATOR))
}

/// An exposure in which both networks were read and nothing is lent.
pub(crate) fn nothing_lent() -> Exposure {
    Exposure {
        networks: vec![BASE, ROBINHOOD],
        positions: Vec::new(),
        liquid: Usd(STABLECOIN_BALANCE),
        unreadable: Vec::new(),
    }
}

/// A quote for `micros` micro-dollars that passes every rule, with one share per micro-dollar.
pub(crate) fn quote(micros: u64) -> LoanQuote {
    LoanQuote {
        block: 100,
        block_time: 0,
        at: Utc(0),
        as_of_entry: u64::MAX,
        venue: Some(Box::new(facts())),
        assets: Atoms(U256::from(micros)),
        shares: U256::from(micros),
        redeem_value: Atoms(U256::from(micros)),
        held_shares: U256::from(STABLECOIN_BALANCE),
        position: Atoms(U256::from(STABLECOIN_BALANCE)),
        withdrawable: Some(Atoms(U256::from(STABLECOIN_BALANCE))),
        exposure: nothing_lent(),
        native_balance: U256::from(HELD_WEI),
        balance: U256::from(STABLECOIN_BALANCE),
        plan_cost: U256::from(PLAN_COST),
        exit_cost: U256::from(EXIT_COST),
        gas: 300_000,
        effects: Effects::Proven,
        calls: Vec::new(),
    }
}

/// A supply of `micros` micro-dollars to a vault on Base.
pub(crate) fn supply(micros: u64) -> LoanAsk {
    LoanAsk {
        chain: BASE,
        action: LoanAction::Supply,
        venue: vault(0x77),
        size: LoanSize::Assets(Atoms(U256::from(micros))),
        deadline: None,
        quote: quote(micros),
        counted_value: Usd(micros),
    }
}

/// A withdrawal of `micros` micro-dollars from the vault of [`supply`].
pub(crate) fn withdrawal(micros: u64) -> LoanAsk {
    LoanAsk { action: LoanAction::Withdraw, counted_value: Usd::ZERO, ..supply(micros) }
}

/// The same loan on another network or at another venue.
pub(crate) fn loan_at(chain: ChainId, venue: VenueId, loan: LoanAsk) -> LoanAsk {
    LoanAsk { chain, venue, ..loan }
}

/// The same loan with another quote.
pub(crate) fn with_quote(loan: LoanAsk, change: impl FnOnce(&mut LoanQuote)) -> LoanAsk {
    let mut loan = loan;
    change(&mut loan.quote);
    loan
}

/// The same loan at a venue with other facts.
pub(crate) fn with_facts(loan: LoanAsk, change: impl FnOnce(&mut VenueFacts)) -> LoanAsk {
    with_quote(loan, |quote| change(quote.venue.as_mut().expect("a venue")))
}

pub(crate) fn place(label: &str, loan: &LoanAsk) -> LoanPlace {
    loan.place(build::address(label))
}

/// The calls of a supply that approves its size and buys shares for at most that amount.
pub(crate) fn mint_calls(micros: u64) -> Vec<Decoded> {
    let VenueId::Vault(vault) = supply(0).venue else { panic!("a vault") };
    let token = networks::by_chain(BASE).expect("a network").stablecoin.address;
    let amount = U256::from(micros);
    let receiver = build::address("main");
    vec![
        Decoded::Approve { token, spender: vault, amount },
        Decoded::Mint { vault, shares: amount, receiver },
    ]
}
