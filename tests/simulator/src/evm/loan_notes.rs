//! Venues, positions and rehearsed loans in the auditor's types, as answers and blocks show them.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_auditor::observations::{
    ExposureReading, LoanAction, LoanAmount, LoanRehearsed, Observation, PositionReading,
    Rehearsal, TruePositions, VenueFacts, VenueKind, VenueReading,
};
use bursar_core::networks::MULTICALL3;
use bursar_submit::Call;

use super::VenueName;
use super::abi;
use super::blue::VIRTUAL_SHARES as MARKET_SHARES;
use super::contracts::Contracts;
use super::ledger::Ledger;
use super::loan_terms::{LoanTerms, approval, loan_terms};
use super::machine::is_call;
use super::notes::{ReadAnswer, atoms, read_answers, text};
use super::state::State;
use super::vaults::{Gates, Kind, VIRTUAL_SHARES};
use crate::loan_book::PRICED_SHARES;

fn kind(venue: VenueName) -> VenueKind {
    match venue {
        VenueName::Vault(_) => VenueKind::Vault,
        VenueName::Market(_) => VenueKind::Market,
    }
}

/// Returns the observations about venues and positions in the answer of a read-only call at a block.
pub(crate) fn loan_reads(
    ledger: &Ledger,
    number: u64,
    (to, data): (Address, &Bytes),
    answer: &Bytes,
) -> Vec<Observation> {
    let Some(singleton) = ledger.contracts.network.lending.map(|one| one.singleton) else {
        return Vec::new();
    };
    let lending = &ledger.state.lending;
    let all = read_answers(to, data, answer);
    let is_of_loans =
        |one: &ReadAnswer| one.to == singleton || lending.vaults.contains_key(&one.to);
    if lending.is_empty() || !all.iter().any(is_of_loans) {
        return Vec::new();
    }
    let Some(state) = ledger.reported_at(number) else { return Vec::new() };
    let mut venues = BTreeMap::new();
    let mut owners: BTreeMap<Address, Vec<(VenueName, bool)>> = BTreeMap::new();
    let mut priced = BTreeSet::new();
    for one in all {
        priced.extend(priced_by(&state, &one));
        if let Some(venue) = venue_asked(&state, singleton, &one) {
            *venues.entry(venue).or_insert(true) &= one.answer.is_some();
        }
        if let Some((owner, venue)) = position_asked(&state, singleton, &one) {
            owners.entry(owner).or_default().push((venue, one.answer.is_some()));
        }
    }
    let read = Read { ledger, state: &state, number };
    let endorsers = venues.keys().flat_map(|venue| read.endorsers(*venue));
    let endorsers: BTreeSet<VenueName> = endorsers.map(VenueName::Vault).collect();
    for vault in endorsers {
        venues.entry(vault).or_insert(true);
    }
    let mut notes: Vec<Observation> = venues
        .into_iter()
        .map(|(venue, ok)| read.venue(venue, ok, priced.contains(&venue)))
        .collect();
    notes.extend(owners.into_iter().map(|(owner, venues)| read.positions(owner, &venues)));
    notes
}

/// Returns the observations of failed reads, for a read-only call that no node answers.
pub(crate) fn failed_reads(ledger: &Ledger, to: Address, data: &Bytes) -> Vec<Observation> {
    let (state, network) = (&ledger.state, ledger.contracts.network);
    let Some(singleton) = network.lending.map(|one| one.singleton) else { return Vec::new() };
    let Ok(calls) = abi::Many::aggregate3Call::abi_decode_validate(data) else { return Vec::new() };
    let asked = calls.calls.into_iter().filter(|_call| to == MULTICALL3).filter_map(|call| {
        let one = ReadAnswer { to: call.target, data: call.callData, answer: None };
        position_asked(state, singleton, &one).map(|(owner, _venue)| owner)
    });
    let owners: BTreeSet<Address> = asked.collect();
    let failed = owners.into_iter().map(|owner| ExposureReading {
        chain: network.chain.0,
        owner: text(owner),
        block: ledger.head,
        positions: None,
    });
    failed.map(|reading| Observation::ExposureRead(Box::new(reading))).collect()
}

/// Returns the venue about whose trust a call asks.
fn venue_asked(state: &State, singleton: Address, one: &ReadAnswer) -> Option<VenueName> {
    if state.lending.vaults.contains_key(&one.to) && is_call::<abi::Vault::curatorCall>(&one.data) {
        return Some(VenueName::Vault(one.to));
    }
    if one.to != singleton {
        return None;
    }
    let call = abi::Blue::marketCall::abi_decode_validate(&one.data).ok()?;
    Some(VenueName::Market(call.id)).filter(|_| state.lending.markets.contains_key(&call.id))
}

/// Returns the venues about whose price a call asks.
///
/// For a vault this is a preview call. For a market it is a call to the collateral token, which the wallet makes only
/// for a market that it is about to use.
fn priced_by(state: &State, one: &ReadAnswer) -> Vec<VenueName> {
    if state.lending.vaults.contains_key(&one.to) {
        let call = abi::Vault::previewRedeemCall::abi_decode_validate(&one.data);
        let is_price = call.is_ok_and(|call| call.shares == U256::from(PRICED_SHARES));
        return is_price.then_some(VenueName::Vault(one.to)).into_iter().collect();
    }
    let markets = state.lending.markets.iter();
    let asked = markets.filter(|(_id, market)| market.params.collateralToken == one.to);
    asked.map(|(id, _market)| VenueName::Market(*id)).collect()
}

/// Returns the owner and the venue of the position that a call asks for.
fn position_asked(
    state: &State,
    singleton: Address,
    one: &ReadAnswer,
) -> Option<(Address, VenueName)> {
    if one.to == singleton {
        let call = abi::Blue::positionCall::abi_decode_validate(&one.data).ok()?;
        return Some((call.user, VenueName::Market(call.id)));
    }
    let call = abi::Erc20::balanceOfCall::abi_decode_validate(&one.data).ok()?;
    let is_vault = state.lending.vaults.contains_key(&one.to);
    is_vault.then_some((call.owner, VenueName::Vault(one.to)))
}

/// The state from which a node answers.
struct Read<'a> {
    ledger: &'a Ledger,
    state: &'a State,
    number: u64,
}

impl Read<'_> {
    fn chain(&self) -> u64 {
        self.ledger.contracts.network.chain.0
    }

    fn time(&self) -> u64 {
        self.ledger.time_of(self.number)
    }

    /// Returns the listed vaults that have a cap for a market; none for a vault.
    ///
    /// The wallet finds unlisted vaults only by events, and the world has no such events.
    fn endorsers(&self, venue: VenueName) -> Vec<Address> {
        let VenueName::Market(id) = venue else { return Vec::new() };
        let listed = self.ledger.contracts.network.lending.map_or(&[][..], |one| one.pinned_vaults);
        listed.iter().filter(|vault| self.state.lends_to(**vault, id)).copied().collect()
    }

    fn venue(&self, venue: VenueName, answered: bool, is_priced: bool) -> Observation {
        let facts = answered.then(|| self.facts(venue, is_priced)).flatten();
        let (chain, block) = (self.chain(), self.number);
        let reading =
            VenueReading { chain, venue: venue.to_string(), kind: kind(venue), block, facts };
        Observation::VenueRead(Box::new(reading))
    }

    fn facts(&self, venue: VenueName, is_priced: bool) -> Option<VenueFacts> {
        let (lending, time) = (&self.state.lending, self.time());
        let free_liquidity = atoms(self.state.free_in(venue, time));
        let price = || atoms(self.state.worth(venue, U256::from(PRICED_SHARES), time));
        let share_price = is_priced.then(price);
        Some(match venue {
            VenueName::Vault(address) => {
                let vault = lending.vaults.get(&address)?;
                let gates_open = match &vault.kind {
                    Kind::Two(two) => two.closed == Gates::default(),
                    Kind::Meta(_) => true,
                };
                VenueFacts {
                    asset: text(vault.asset),
                    official: vault.official,
                    curator: text(vault.curator),
                    owner: text(vault.owner),
                    adapters_official: self.state.has_right_adapters(vault),
                    interest_model: None,
                    endorsed_by: Vec::new(),
                    gates_open,
                    free_liquidity,
                    share_price,
                    virtual_shares: atoms(VIRTUAL_SHARES),
                }
            }
            VenueName::Market(id) => {
                let params = &lending.markets.get(&id)?.params;
                VenueFacts {
                    asset: text(params.loanToken),
                    official: true,
                    curator: text(Address::ZERO),
                    owner: text(Address::ZERO),
                    adapters_official: true,
                    interest_model: Some(text(params.irm)),
                    endorsed_by: self.endorsers(venue).into_iter().map(text).collect(),
                    gates_open: true,
                    free_liquidity,
                    share_price,
                    virtual_shares: atoms(MARKET_SHARES),
                }
            }
        })
    }

    fn positions(&self, owner: Address, venues: &[(VenueName, bool)]) -> Observation {
        let (lending, time) = (&self.state.lending, self.time());
        let each = venues.iter().map(|(venue, answered)| {
            let shares = lending.shown_shares(*venue, owner, lending.shares_of(*venue, owner));
            let worth = atoms(self.state.worth(*venue, shares, time));
            PositionReading {
                venue: venue.to_string(),
                value: answered.then_some(worth),
                shares: answered.then_some(atoms(shares)),
            }
        });
        let reading = ExposureReading {
            chain: self.chain(),
            owner: text(owner),
            block: self.number,
            positions: Some(each.collect()),
        };
        Observation::ExposureRead(Box::new(reading))
    }
}

/// Returns the true positions of an address in the newest block, from the ledger itself.
pub(crate) fn deployed(ledger: &Ledger, owner: Address) -> Observation {
    let (state, time) = (&ledger.state, ledger.time);
    let each = state.lending.names().into_iter().filter_map(|venue| {
        let shares = state.lending.shares_of(venue, owner);
        let worth = state.worth(venue, shares, time);
        (!shares.is_zero()).then(|| (venue.to_string(), atoms(worth), atoms(shares)))
    });
    Observation::Deployed(Box::new(TruePositions {
        chain: ledger.contracts.network.chain.0,
        owner: text(owner),
        block: ledger.head,
        positions: each.collect(),
    }))
}

/// A simulated plan of a loan.
pub(crate) struct SimulatedLoan<'a> {
    pub(crate) contracts: &'a Contracts,
    pub(crate) before: &'a State,
    pub(crate) after: &'a State,
    pub(crate) owner: Address,
    /// The block's time, in Unix seconds.
    pub(crate) time: u64,
    pub(crate) calls: &'a [Call],
    pub(crate) succeeded: bool,
}

impl SimulatedLoan<'_> {
    /// Returns the observations from the simulation; none unless the last call is a loan.
    ///
    /// A withdrawal of all shares gives two observations, because its call data also fit that number of shares.
    pub(crate) fn notes(&self) -> Vec<Observation> {
        let Some(last) = self.calls.last() else { return Vec::new() };
        let Some(terms) = loan_terms(self.contracts, self.before, last.to, &last.data) else {
            return Vec::new();
        };
        let proved = self.succeeded && self.keeps_promise(&terms);
        let outcome = if proved { Rehearsal::Proved } else { Rehearsal::Failed };
        let gained =
            self.shares(self.after, &terms).saturating_sub(self.shares(self.before, &terms));
        let redeems_for = self.after.worth(terms.venue, gained, self.time);
        let action = if terms.supplies { LoanAction::Supply } else { LoanAction::Withdraw };
        let note = |amount| LoanRehearsed {
            chain: self.contracts.network.chain.0,
            from: text(self.owner),
            venue: terms.venue.to_string(),
            action,
            amount,
            outcome,
            assets: Some(atoms(self.moved(&terms))),
            redeems_for: terms.supplies.then_some(atoms(redeems_for)),
        };
        let notes = self.amounts(&terms).into_iter().map(note);
        notes.map(|note| Observation::LoanRehearsed(Box::new(note))).collect()
    }

    fn shares(&self, state: &State, terms: &LoanTerms) -> U256 {
        state.lending.shares_of(terms.venue, self.owner)
    }

    /// Returns the stablecoins that left or reached the address.
    fn moved(&self, terms: &LoanTerms) -> U256 {
        let coin = self.contracts.dollar();
        let (had, has) =
            (self.before.balance(coin, self.owner), self.after.balance(coin, self.owner));
        if terms.supplies { had.saturating_sub(has) } else { has.saturating_sub(had) }
    }

    /// Returns the amounts of the requests to which the call may belong.
    fn amounts(&self, terms: &LoanTerms) -> Vec<LoanAmount> {
        match (terms.assets, terms.shares) {
            (Some(assets), _) => vec![LoanAmount::Assets(atoms(assets))],
            (None, Some(_shares)) if terms.supplies => {
                let most = self.allowed(terms);
                most.map(|most| LoanAmount::Assets(atoms(most))).into_iter().collect()
            }
            (None, Some(shares)) => {
                let mut all = vec![LoanAmount::Shares(atoms(shares))];
                let held = self.before.lending.shown_shares(
                    terms.venue,
                    self.owner,
                    self.shares(self.before, terms),
                );
                all.extend((shares == held).then_some(LoanAmount::All));
                all
            }
            (None, None) => Vec::new(),
        }
    }

    /// Returns the most that a vault may take for the shares that a supply buys.
    fn allowed(&self, terms: &LoanTerms) -> Option<U256> {
        let VenueName::Vault(vault) = terms.venue else { return None };
        let mut given = self.calls.iter().rev().filter_map(|call| approval(&call.data));
        let given = given.find(|(spender, _amount)| *spender == vault).map(|(_to, amount)| amount);
        let before = || self.before.allowance(self.contracts.dollar(), self.owner, vault);
        Some(given.unwrap_or_else(before))
    }

    /// Returns whether shares and money moved in the loan's direction, and exactly the named assets if the call names
    /// any.
    fn keeps_promise(&self, terms: &LoanTerms) -> bool {
        let (had, has) = (self.shares(self.before, terms), self.shares(self.after, terms));
        let moved = self.moved(terms);
        let grew = if terms.supplies { has > had } else { has < had };
        grew && !moved.is_zero() && terms.assets.is_none_or(|assets| assets == moved)
    }
}
