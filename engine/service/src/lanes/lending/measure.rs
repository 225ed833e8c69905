//! Measures a loan: its venue, the exposure of its address, and its rehearsed plan.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use bursar_chain::ports::Chain;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Round};
use bursar_core::networks::{self, ChainId, Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_domain::loans::{Exposure, LoanAction, LoanAsk, LoanQuote, LoanSize};
use bursar_morpho::worth::shares_to_buy;
use bursar_morpho::{Trust, VenueId};
use bursar_submit::fees::FeeFacts;

use super::known::KnownVenues;
use super::lane::Lending;
use super::measured::Measured;
use super::network_read::{LoanTarget, NetworkReader, ReadNetwork};
use super::rehearse::{self, LoanPlan, Rehearsal};
use super::venue_read::{Preview, ReadVenue};
use crate::lanes::batch::chain_unavailable;
use crate::lanes::rehearsal::Sender;

/// The gas of a later withdrawal: more than a withdrawal from any kind of venue uses.
const EXIT_GAS: u64 = 800_000;

/// The network of a loan and its contracts.
#[derive(Clone, Copy)]
pub(super) struct LoanNetwork {
    pub(super) network: &'static Network,
    pub(super) contracts: &'static Contracts,
}

impl LoanNetwork {
    pub(super) fn of(chain: ChainId) -> Result<Self, Refusal> {
        let network = networks::by_chain(chain);
        let both = network.and_then(|network| Some((network, network.lending?)));
        let (network, contracts) = both.ok_or_else(|| Refusal::new(Code::UnsupportedNetwork))?;
        Ok(Self { network, contracts })
    }
}

/// The chain state that the plan of a loan depends on.
#[derive(Clone, Copy)]
struct PlanInput<'a> {
    own: &'a ReadNetwork,
    venue: &'a ReadVenue,
    facts: &'a FeeFacts,
}

impl Lending {
    /// Measures a loan and rehearses the remaining transactions of its plan.
    ///
    /// # Errors
    /// The network or the venue cannot be read: `CHAIN_UNAVAILABLE` or `VENUE_NOT_PERMITTED`.
    pub(super) async fn measure(
        &self,
        ask: &LoanAsk,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Measured, Refusal> {
        let network = LoanNetwork::of(ask.chain)?;
        self.find_endorser(network.network, ask.venue).await?;
        let asked = self.hints.venue(ask.chain, ask.venue).endorser;
        let measured = self.measure_once(ask, owner, known).await?;
        let trust = measured.quote.venue.as_ref().map(|venue| venue.trust);
        if ask.is_supply()
            && is_unendorsed(ask.venue, trust.as_ref())
            && self.has_other_endorser(network, ask.venue, asked).await
        {
            return self.measure_once(ask, owner, known).await;
        }
        Ok(measured)
    }

    async fn measure_once(
        &self,
        ask: &LoanAsk,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Measured, Refusal> {
        let at_ms = self.ports.clock.now().age_clock_ms();
        let LoanNetwork { network, contracts } = LoanNetwork::of(ask.chain)?;
        let chain = self.chain(network)?;
        let reader = self.reader(&*chain, network, contracts, owner);
        let (own, facts, others) = futures::future::join3(
            self.read_own(&reader, ask, known),
            chain.fee_facts(),
            self.exposure_elsewhere(ask, owner, known),
        )
        .await;
        let ((own, mut unread), facts) = (own?, facts.map_err(|_fault| chain_unavailable())?);
        let (others, unlisted) = others;
        unread.extend(unlisted);
        let mut venue = venue_of(&own)?;
        if buys_shares(known, ask, &venue) {
            venue.shares = shares_to_buy(venue.shares);
        }
        let mut quote = self.quote_of(ask, known, &own, &venue);
        quote.block = facts.block.unwrap_or(0);
        let reads = others.into_iter().chain([(ask.chain, Ok(own.clone()))]);
        quote.exposure = exposure(known, reads);
        quote.exposure.unreadable.extend(unread);
        let read = PlanInput { own: &own, venue: &venue, facts: &facts };
        let plan = self.plan_of(ask, owner, &*chain, &mut quote, read, known).await;
        if let Err(refusal) = &plan
            && refusal.code == Code::ChainUnavailable
        {
            return Err(refusal.clone());
        }
        Ok(Measured { at_ms, quote, plan })
    }

    /// Reads the loan's own network, and also returns the parts of it that cannot be read.
    ///
    /// For a withdrawal, only its venue is read. For a supply, the other venues of the address are read too, for the
    /// exposure. If they make the read fail, the venue is read alone, and only the exposure is unknown.
    async fn read_own(
        &self,
        reader: &NetworkReader<'_>,
        ask: &LoanAsk,
        known: &KnownVenues,
    ) -> Result<(ReadNetwork, Vec<(ChainId, Option<VenueId>)>), Refusal> {
        let wanted = Some(LoanTarget { venue: ask.venue, preview: preview(ask) });
        let alone = [ask.venue];
        if !ask.is_supply() {
            return Ok((reader.read(&alone, wanted).await?, Vec::new()));
        }
        if self.cached_listing(ask.chain).is_none() {
            // `list_unlisted_networks` reads the list again and reports a failure.
            let _failed = self.listing(reader.network, reader.contracts).await;
        }
        let mut venues = self.venues_of(ask.chain, reader.owner, known);
        venues.insert(ask.venue);
        let venues: Vec<VenueId> = venues.into_iter().collect();
        match reader.read(&venues, wanted).await {
            Ok(read) => Ok((read, Vec::new())),
            Err(_fault) => Ok((reader.read(&alone, wanted).await?, vec![(ask.chain, None)])),
        }
    }

    /// Reads the positions of a supplying address on the other networks, and returns the networks that cannot be
    /// listed.
    async fn exposure_elsewhere(
        &self,
        ask: &LoanAsk,
        owner: Address,
        known: &KnownVenues,
    ) -> (Vec<(ChainId, Result<ReadNetwork, Refusal>)>, Vec<(ChainId, Option<VenueId>)>) {
        if !ask.is_supply() {
            return (Vec::new(), Vec::new());
        }
        let unlisted = self.list_unlisted_networks(known).await;
        let others = known.chains.iter().filter(|chain| **chain != ask.chain);
        let others = others.map(|chain| self.exposure_on(*chain, owner, known));
        (futures::future::join_all(others).await, unlisted)
    }

    async fn plan_of(
        &self,
        ask: &LoanAsk,
        owner: Address,
        chain: &dyn Chain,
        quote: &mut LoanQuote,
        PlanInput { own, venue, facts }: PlanInput<'_>,
        known: &KnownVenues,
    ) -> Result<LoanPlan, Refusal> {
        check_early(ask, own, venue, quote)?;
        let LoanNetwork { network, contracts } = LoanNetwork::of(ask.chain)?;
        let (gas, block_time, native) = (&network.gas, own.block_time, own.native);
        let sender = Sender { owner, gas, facts, block_time, native };
        let offer = sender.offer()?;
        quote.exit_cost =
            U256::from(EXIT_GAS).saturating_mul(U256::from(sender.gas_price_max(&offer)));
        let simulator = self.simulators.of(ask.chain);
        let rehearsal = Rehearsal {
            ask,
            owner,
            network,
            contracts,
            own,
            venue,
            params: self.hints.position(ask.chain, ask.venue, owner).params,
            buys_shares: buys_shares(known, ask, venue),
        };
        let plan = rehearse::rehearse(chain, &simulator, &sender, &rehearsal).await?;
        quote.assets = Atoms(plan.assets);
        if !ask.is_supply() {
            // The rehearsal has paid out this amount, so it can be withdrawn in the next block.
            quote.withdrawable = quote.withdrawable.map(|most| most.max(quote.assets));
        }
        quote.shares = plan.shares;
        quote.redeem_value = Atoms(plan.worth);
        quote.plan_cost = plan.cost;
        quote.gas = plan.gas;
        quote.effects = plan.effects;
        quote.calls.clone_from(&plan.calls);
        Ok(plan)
    }

    fn quote_of(
        &self,
        ask: &LoanAsk,
        known: &KnownVenues,
        own: &ReadNetwork,
        venue: &ReadVenue,
    ) -> LoanQuote {
        let position = own.positions.iter().find(|(one, _position)| *one == ask.venue);
        let position = position.and_then(|(_venue, position)| position.as_ref());
        LoanQuote {
            block_time: own.block_time,
            at: self.ports.clock.utc(),
            as_of_entry: known.as_of_entry,
            venue: Some(Box::new(venue.facts.clone())),
            assets: Atoms(venue.assets),
            shares: venue.shares,
            held_shares: position.map_or(U256::ZERO, |position| position.shares),
            position: Atoms(position.map_or(U256::ZERO, |position| position.worth)),
            withdrawable: venue.withdrawable.map(Atoms),
            native_balance: own.native,
            balance: own.coins,
            ..LoanQuote::default()
        }
    }

    /// Reads the positions of an address on one network.
    async fn exposure_on(
        &self,
        chain: ChainId,
        owner: Address,
        known: &KnownVenues,
    ) -> (ChainId, Result<ReadNetwork, Refusal>) {
        let read = async {
            let LoanNetwork { network, contracts } = LoanNetwork::of(chain)?;
            let node = self.chain(network)?;
            let venues: Vec<VenueId> = self.venues_of(chain, owner, known).into_iter().collect();
            self.reader(&*node, network, contracts, owner).read(&venues, None).await
        };
        (chain, read.await)
    }

    /// Reads what an address has lent on all networks of `known`.
    pub async fn exposure(&self, owner: Address, known: &KnownVenues) -> Exposure {
        let unlisted = self.list_unlisted_networks(known).await;
        let reads = known.chains.iter().map(|chain| self.exposure_on(*chain, owner, known));
        let mut sum = exposure(known, futures::future::join_all(reads).await);
        sum.unreadable.extend(unlisted);
        sum
    }

    /// Reads the curated venues of networks that were never listed. Returns the networks where that fails, because the
    /// exposure on them is unknown.
    async fn list_unlisted_networks(&self, known: &KnownVenues) -> Vec<(ChainId, Option<VenueId>)> {
        let unlisted = known.chains.iter().filter(|chain| self.cached_listing(**chain).is_none());
        let lists = unlisted.map(|chain| async move {
            let LoanNetwork { network, contracts } = LoanNetwork::of(*chain).ok()?;
            self.listing(network, contracts).await.err().map(|_fault| (*chain, None))
        });
        futures::future::join_all(lists).await.into_iter().flatten().collect()
    }

    /// Returns the venues of a network in which an address may have a position: the curated venues, those that the
    /// address used, those that the operator confirmed, and those that the scan found.
    pub(super) fn venues_of(
        &self,
        chain: ChainId,
        owner: Address,
        known: &KnownVenues,
    ) -> BTreeSet<VenueId> {
        let mut venues: BTreeSet<VenueId> = self.curated_venues(chain).into_iter().collect();
        let of_chain = known.used_venues.iter().filter(|(used, _venue)| *used == chain);
        venues.extend(of_chain.map(|(_chain, venue)| *venue));
        let confirmed = known.confirmations.iter().filter(|(one, _venue, _given)| *one == chain);
        venues.extend(confirmed.map(|(_chain, venue, _given)| *venue));
        venues.extend(self.venues_with_positions(chain, owner));
        venues
    }

    pub(super) fn reader<'a>(
        &'a self,
        chain: &'a dyn Chain,
        network: &'static Network,
        contracts: &'static Contracts,
        owner: Address,
    ) -> NetworkReader<'a> {
        NetworkReader { chain, network, contracts, owner, hints: &self.hints, block: None }
    }
}

/// Returns whether a venue is a market to which no trusted vault lends.
pub(super) fn is_unendorsed(venue: VenueId, trust: Option<&Trust>) -> bool {
    matches!(venue, VenueId::Market(_)) && !matches!(trust, Some(Trust::Curated))
}

/// Returns the venue from a network read that included the loan's venue.
///
/// # Errors
/// `CHAIN_UNAVAILABLE`, or `VENUE_NOT_PERMITTED` if it is not a venue.
pub(super) fn venue_of(own: &ReadNetwork) -> Result<ReadVenue, Refusal> {
    own.venue.clone().ok_or_else(chain_unavailable)?.map_err(|reason| {
        let message = format!("The venue cannot be used: {reason}.");
        Refusal::because(Code::VenueNotPermitted, message)
    })
}

/// Checks that the gates of a venue let the address withdraw.
///
/// # Errors
/// `WOULD_FAIL`
pub(super) fn check_exit_gate(venue: &ReadVenue) -> Result<(), Refusal> {
    match venue.exit_gate {
        Some(gate) => {
            let message = format!("Nothing can be withdrawn: {}.", gate.refusal());
            Err(Refusal::because(Code::WouldFail, message))
        }
        None => Ok(()),
    }
}

pub(super) fn preview(ask: &LoanAsk) -> Preview {
    match (ask.action, ask.size) {
        (LoanAction::Supply, LoanSize::Assets(assets)) => Preview::Supply(assets.0),
        (LoanAction::Withdraw, LoanSize::Assets(assets)) => Preview::Assets(assets.0),
        (_, LoanSize::Shares(shares)) => Preview::Shares(shares),
        (_, LoanSize::All) => Preview::All,
    }
}

/// Returns whether a supply buys an exact number of shares, so that its allowance limits their price. This is so for
/// vaults that are not trusted.
fn buys_shares(known: &KnownVenues, ask: &LoanAsk, venue: &ReadVenue) -> bool {
    ask.is_supply() && matches!(ask.venue, VenueId::Vault(_)) && !is_trusted(known, ask, venue)
}

/// Returns whether a deposit needs no limit on the share price: the venue is trusted, or the operator confirmed it with
/// its present curator and owner.
fn is_trusted(known: &KnownVenues, ask: &LoanAsk, venue: &ReadVenue) -> bool {
    match venue.facts.trust {
        Trust::Curated | Trust::Pinned => true,
        Trust::NewNeedsConfirmation(_) => {
            known.confirmations.iter().any(|(chain, one, confirmed)| {
                (*chain, *one) == (ask.chain, ask.venue)
                    && confirmed.curator == venue.facts.curator
                    && confirmed.owner == venue.facts.owner
            })
        }
        Trust::Refused(_) => false,
    }
}

/// Refuses a loan early for reasons that the rehearsal would only report as a failure.
fn check_early(
    ask: &LoanAsk,
    own: &ReadNetwork,
    venue: &ReadVenue,
    quote: &LoanQuote,
) -> Result<(), Refusal> {
    if ask.deadline.is_some_and(|deadline| deadline <= own.block_time) {
        return Err(Refusal::new(Code::DeadlinePassed));
    }
    if ask.is_supply() {
        if let Some(gate) = venue.deposit_gate {
            let message = format!("Nothing is deposited: {}.", gate.refusal());
            return Err(Refusal::because(Code::VenueNotPermitted, message));
        }
        if own.coins < venue.assets {
            let message = "The paying address does not hold the deposit.";
            return Err(Refusal::because(Code::InsufficientFunds, message));
        }
        return Ok(());
    }
    check_exit_gate(venue)?;
    ask.check_exit(quote)
}

/// Adds up the positions and balances that were read, and names the parts that cannot be read.
fn exposure(
    known: &KnownVenues,
    reads: impl IntoIterator<Item = (ChainId, Result<ReadNetwork, Refusal>)>,
) -> Exposure {
    let mut sum = Exposure { networks: known.chains.clone(), ..Exposure::default() };
    for (chain, read) in reads {
        let (Ok(read), Some(network)) = (read, networks::by_chain(chain)) else {
            sum.unreadable.push((chain, None));
            continue;
        };
        let decimals = network.stablecoin.decimals;
        let dollars = |atoms: U256, round| Atoms(atoms).to_usd(decimals, round).ok();
        for (venue, position) in read.positions {
            match position.and_then(|one| dollars(one.worth, Round::Up)) {
                Some(worth) if worth.0 == 0 => {}
                Some(worth) => sum.positions.push((chain, venue, worth)),
                None => sum.unreadable.push((chain, Some(venue))),
            }
        }
        let liquid = dollars(read.coins, Round::Down);
        match liquid.and_then(|liquid| sum.liquid.checked_add(liquid).ok()) {
            Some(liquid) => sum.liquid = liquid,
            None => sum.unreadable.push((chain, None)),
        }
    }
    sum
}
