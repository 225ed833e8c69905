//! Loans of agents: the request, its measurement, and the journal's records of venues and positions.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::amount::Amount;
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Round, Usd};
use bursar_core::networks::{self, ChainId};
use bursar_core::time::Utc;
use bursar_morpho::decode::Decoded;
use bursar_morpho::{SharePrice, Trust, VenueId};
use serde::{Deserialize, Serialize};

use crate::effects::Effects;
use crate::refusal::Refusal;

/// One supply or withdrawal that an agent requested: the immutable value that is checked, recorded, shown and
/// executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanAsk {
    pub chain: ChainId,
    pub action: LoanAction,
    pub venue: VenueId,
    pub size: LoanSize,
    /// The agent's own deadline, in Unix seconds.
    pub deadline: Option<u64>,
    /// The measurement at the time of the request.
    pub quote: LoanQuote,
    /// Value that counts against the ceiling until the request is over: the value of a supply, zero for a withdrawal.
    pub counted_value: Usd,
}

/// The direction of a loan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoanAction {
    Supply,
    Withdraw,
}

impl LoanAction {
    /// Returns the stable text on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Self::Supply => "supply",
            Self::Withdraw => "withdraw",
        }
    }
}

/// The amount that a loan moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoanSize {
    /// Smallest units of the stablecoin.
    Assets(Atoms),
    /// Shares of the venue; only in a withdrawal.
    Shares(U256),
    /// The whole position; only in a withdrawal.
    All,
}

/// The measurement of a loan at one block of its network, as a node reported it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoanQuote {
    /// The number of the newest block.
    pub block: u64,
    /// The time of the newest block, in Unix seconds.
    pub block_time: u64,
    /// Time of the measurement.
    pub at: Utc,
    /// The newest journal entry before the measurement began.
    ///
    /// `exposure` contains no change by a later entry.
    pub as_of_entry: u64,
    /// `None` if the loan could not be measured.
    pub venue: Option<Box<VenueFacts>>,
    /// The amount that moves.
    pub assets: Atoms,
    /// The shares that a supply receives, or that a withdrawal gives back.
    pub shares: U256,
    /// For a supply, the assets that its shares would redeem for right after it, by the simulation.
    pub redeem_value: Atoms,
    /// The venue's shares that the paying address holds.
    pub held_shares: U256,
    pub position: Atoms,
    /// The part of the position that can be withdrawn now; `None` if it is unknown.
    pub withdrawable: Option<Atoms>,
    /// The amounts that the paying address has lent in all venues.
    pub exposure: Exposure,
    /// The paying address's balance of the native coin, in wei.
    pub native_balance: U256,
    /// The paying address's balance of the stablecoin.
    pub balance: U256,
    /// The worst cost of all transactions of the plan, in wei.
    pub plan_cost: U256,
    /// The worst cost of a later withdrawal at the present price of gas, in wei.
    pub exit_cost: U256,
    /// The gas of the main transaction, by the simulation.
    pub gas: u64,
    pub effects: Effects,
    /// The calls of the plan in their order, decoded from their call data.
    pub calls: Vec<Decoded>,
}

/// The properties of a venue, as the venue itself and the official factories report them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VenueFacts {
    pub kind: LendingKind,
    /// The vault's own claims, or the collateral of a market: untrusted text.
    pub name: String,
    pub symbol: String,
    /// `None` for a market.
    pub curator: Option<Address>,
    pub owner: Option<Address>,
    pub trust: Trust,
    /// Whether the venue lends the network's stablecoin and no other token.
    pub lends_stablecoin: bool,
    pub share_decimals: u8,
    /// Whether the venue has so many virtual shares that a donation cannot move the price.
    pub resists_donations: bool,
    /// The amount that a fixed number of shares redeems for.
    pub price: Option<SharePrice>,
    /// The amount that all lenders together can withdraw now; `None` if it is unknown.
    pub free_liquidity: Option<Atoms>,
}

/// The kinds of venues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LendingKind {
    VaultV2,
    MetaMorpho,
    /// A market of Morpho's singleton contract.
    Market,
}

impl LendingKind {
    /// Returns the kind in words, for the operator.
    pub fn text(self) -> &'static str {
        match self {
            Self::VaultV2 => "Vault V2",
            Self::MetaMorpho => "MetaMorpho vault",
            Self::Market => "market",
        }
    }
}

/// The amounts that an address has lent on all networks that were read, each at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exposure {
    /// The networks that were read.
    pub networks: Vec<ChainId>,
    /// The positions that are not zero.
    pub positions: Vec<(ChainId, VenueId, Usd)>,
    /// The total of the address's stablecoins on these networks.
    pub liquid: Usd,
    /// The venues, and the whole networks, that could not be read.
    pub unreadable: Vec<(ChainId, Option<VenueId>)>,
}

impl VenueFacts {
    /// Returns the reason why the venue is not trusted, as text; empty if it is trusted.
    pub fn doubt(&self) -> String {
        match &self.trust {
            Trust::Curated | Trust::Pinned => String::new(),
            Trust::NewNeedsConfirmation(unproven) => unproven.to_string(),
            Trust::Refused(untrusted) => untrusted.to_string(),
        }
    }
}

impl LoanQuote {
    /// Returns whether the loan buys an exact number of shares.
    ///
    /// Such a loan pays the price at execution, and may leave a part of its token allowance.
    pub fn buys_shares(&self) -> bool {
        self.calls.iter().any(|call| matches!(call, Decoded::Mint { .. }))
    }

    /// Returns whether the loan could be measured; otherwise the quote is empty.
    pub fn is_measured(&self) -> bool {
        self.venue.is_some()
    }
}

impl LoanAsk {
    /// Returns whether the loan is a supply.
    pub fn is_supply(&self) -> bool {
        self.action == LoanAction::Supply
    }

    /// Returns the value of the largest amount that a quote may move, rounded up.
    ///
    /// One stablecoin counts as one dollar. `None` if the table no longer contains the network, or on overflow.
    pub fn value(&self, quote: &LoanQuote) -> Option<Usd> {
        let coin = &networks::by_chain(self.chain)?.stablecoin;
        self.max_amount(quote).to_usd(coin.decimals, Round::Up).ok()
    }

    /// Returns the largest amount that a quote may move.
    ///
    /// A supply that buys shares may take its whole token allowance, even if its simulation took less.
    pub fn max_amount(&self, quote: &LoanQuote) -> Atoms {
        match self.size {
            LoanSize::Assets(size) if self.is_supply() => size.max(quote.assets),
            LoanSize::Assets(_) | LoanSize::Shares(_) | LoanSize::All => quote.assets,
        }
    }

    /// Checks that the position and the venue's liquidity suffice for a withdrawal.
    ///
    /// # Errors
    /// `INSUFFICIENT_FUNDS`, or `INSUFFICIENT_LIQUIDITY`.
    pub fn check_exit(&self, quote: &LoanQuote) -> Result<(), Refusal> {
        if quote.held_shares.is_zero() {
            let message = "The paying address has nothing in this venue.";
            return Err(Refusal::because(Code::InsufficientFunds, message));
        }
        if quote.shares.is_zero() || quote.shares > quote.held_shares {
            let message =
                format!("The position is {}: withdraw less.", self.assets_text(quote.position));
            return Err(Refusal::because(Code::InsufficientFunds, message));
        }
        match quote.withdrawable {
            Some(most) if quote.assets > most => {
                let message = format!(
                    "The venue can pay {} now: try again later, or withdraw no more than that.",
                    self.assets_text(most)
                );
                Err(Refusal::because(Code::InsufficientLiquidity, message))
            }
            _enough => Ok(()),
        }
    }

    /// Returns the value of a quote that counts against the ceiling.
    pub fn counted_value_at(&self, quote: &LoanQuote) -> Usd {
        match self.action {
            LoanAction::Supply => self.value(quote).unwrap_or(Usd(u64::MAX)),
            LoanAction::Withdraw => Usd::ZERO,
        }
    }

    /// Returns the token that leaves the paying address, if one does.
    pub fn token_in(&self) -> Option<Address> {
        let coin = networks::by_chain(self.chain).map(|network| network.stablecoin.address);
        coin.filter(|_coin| self.is_supply())
    }

    /// Formats the amount that moves, like `25.000000 USDC`.
    ///
    /// For a withdrawal by shares, it is the value of the shares at the request.
    pub fn amount_text(&self) -> String {
        self.assets_text(self.amount())
    }

    /// Returns the amount that moves, in smallest units of the stablecoin; see [`LoanAsk::amount_text`].
    pub fn amount(&self) -> Atoms {
        match self.size {
            LoanSize::Assets(assets) => assets,
            LoanSize::Shares(_) | LoanSize::All => self.quote.assets,
        }
    }

    /// Returns the place of this loan if `owner` makes it.
    pub fn place(&self, owner: Address) -> LoanPlace {
        LoanPlace { owner, chain: self.chain, venue: self.venue }
    }

    /// Describes an amount of the stablecoin.
    pub fn assets(&self, atoms: Atoms) -> Amount {
        let Some(network) = networks::by_chain(self.chain) else {
            return Amount::without_token(atoms, "units");
        };
        Amount::of_stablecoin(atoms, &network.stablecoin)
    }

    /// Formats an amount of the stablecoin, like `25.000000 USDC`.
    pub fn assets_text(&self, atoms: Atoms) -> String {
        self.assets(atoms).text
    }
}

/// The journal's data about loans.
///
/// Rows are never removed: the wallet keeps reading each venue that was used once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Loans {
    /// The amounts lent and not yet withdrawn, by our own transactions.
    pub lent: BTreeMap<LoanPlace, NetSupply>,
    pub venues: BTreeMap<(ChainId, VenueId), VenueRecord>,
}

/// An address and a venue in which it lends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoanPlace {
    pub owner: Address,
    pub chain: ChainId,
    pub venue: VenueId,
}

/// The amount that an address supplied to a venue, less the amount that it withdrew, without interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetSupply {
    pub net: Usd,
    /// The journal entry of the newest change.
    pub changed_entry: u64,
}

/// The journal's record of a venue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VenueRecord {
    /// The highest share price that was recorded with a request.
    pub best_price: Option<SharePrice>,
    /// The operator's confirmation of a venue that Bursar alone would not use.
    pub confirmed: Option<Confirmation>,
    /// Whether the operator has ever confirmed the venue.
    ///
    /// A venue whose confirmation was withdrawn is refused, even where the policy permits unconfirmed venues.
    pub was_confirmed: bool,
    /// Whether a supply to the venue was allowed.
    pub is_used: bool,
    /// Whether Bursar's own rules trusted the venue when a request for it was recorded.
    pub was_trusted_by_rules: bool,
}

/// The operator trusts a venue while it names these accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    pub curator: Option<Address>,
    pub owner: Option<Address>,
    pub at: Utc,
}

impl Loans {
    /// Returns the venues that an address used on the networks for which `is_read` is true.
    pub fn used_by(
        &self,
        owner: Address,
        is_read: impl Fn(ChainId) -> bool,
    ) -> impl Iterator<Item = (&LoanPlace, &NetSupply)> {
        self.lent.iter().filter(move |(place, _lent)| place.owner == owner && is_read(place.chain))
    }

    /// Returns the record of a venue.
    pub fn venue(&self, chain: ChainId, venue: VenueId) -> Option<&VenueRecord> {
        self.venues.get(&(chain, venue))
    }

    /// Records the trust and the share price of a venue from a measurement.
    pub(crate) fn note_quote(&mut self, ask: &LoanAsk, quote: &LoanQuote) {
        let Some(venue) = &quote.venue else { return };
        let record = self.venues.entry((ask.chain, ask.venue)).or_default();
        record.was_trusted_by_rules |= matches!(venue.trust, Trust::Curated | Trust::Pinned);
        if let Some(price) = venue.price
            && record.best_price.is_none_or(|best| best.is_below(&price))
        {
            record.best_price = Some(price);
        }
    }

    /// Records the measurement of a refused loan.
    ///
    /// A venue that Bursar does not trust leaves no record, because an agent may name any number of venues.
    pub(crate) fn note_refused(&mut self, ask: &LoanAsk) {
        let trust = ask.quote.venue.as_ref().map(|venue| &venue.trust);
        let is_trusted = matches!(trust, Some(Trust::Curated | Trust::Pinned));
        if is_trusted || self.venues.contains_key(&(ask.chain, ask.venue)) {
            self.note_quote(ask, &ask.quote);
        }
    }

    /// Records the price at which the operator approved a supply.
    ///
    /// Later prices are compared with this one, so that one loss needs only one approval.
    pub(crate) fn accept_price(&mut self, ask: &LoanAsk, quote: &LoanQuote) {
        let price = quote.venue.as_ref().and_then(|venue| venue.price);
        if let Some(price) = price.filter(|_price| ask.is_supply()) {
            self.venues.entry((ask.chain, ask.venue)).or_default().best_price = Some(price);
        }
    }

    /// Records the operator's confirmation of a venue, or its withdrawal.
    pub(crate) fn confirm(&mut self, chain: ChainId, venue: VenueId, given: Option<Confirmation>) {
        let record = self.venues.entry((chain, venue)).or_default();
        record.was_confirmed |= given.is_some();
        record.confirmed = given;
    }

    /// Records that a supply was allowed.
    pub(crate) fn note_use(&mut self, ask: &LoanAsk) {
        if ask.is_supply() {
            self.venues.entry((ask.chain, ask.venue)).or_default().is_used = true;
        }
    }

    /// Adds the amount that a supply may have moved.
    pub(crate) fn add_supplied(&mut self, place: LoanPlace, value: Usd, seq: u64) {
        let lent = self.lent.entry(place).or_default();
        *lent = NetSupply { net: Usd(lent.net.0.saturating_add(value.0)), changed_entry: seq };
    }

    /// Subtracts an amount that came back or never left.
    pub(crate) fn subtract_returned(&mut self, place: LoanPlace, value: Usd, seq: u64) {
        let lent = self.lent.entry(place).or_default();
        *lent = NetSupply { net: lent.net.left_after(value), changed_entry: seq };
    }
}

/// The trust in a venue: Bursar's own judgement together with the operator's confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Bursar trusts the venue, or the operator confirmed it in its present form.
    Trusted,
    /// Bursar does not trust the venue by itself, but the operator may confirm it.
    Unconfirmed,
    /// The venue was trusted or confirmed before. Since then it changed, or the operator withdrew the trust.
    Changed,
    /// Bursar does not trust the venue, and a confirmation would not change that. Only a policy that does not require
    /// curated venues permits it.
    Untrusted,
}

impl Standing {
    /// Judges a venue by its properties and its record.
    pub fn of(venue: &VenueFacts, record: Option<&VenueRecord>) -> Self {
        Self::judge(&venue.trust, (venue.curator, venue.owner), record)
    }

    /// Judges a venue by Bursar's trust, by its curator and owner, and by its record.
    pub fn judge(
        trust: &Trust,
        parties: (Option<Address>, Option<Address>),
        record: Option<&VenueRecord>,
    ) -> Self {
        let confirmed = record.and_then(|record| record.confirmed.as_ref());
        let as_confirmed =
            confirmed.is_some_and(|confirmed| (confirmed.curator, confirmed.owner) == parties);
        let was_good =
            record.is_some_and(|record| record.was_confirmed || record.was_trusted_by_rules);
        match trust {
            Trust::Curated | Trust::Pinned => Self::Trusted,
            Trust::NewNeedsConfirmation(_) if as_confirmed => Self::Trusted,
            Trust::NewNeedsConfirmation(_) | Trust::Refused(_) if was_good => Self::Changed,
            Trust::NewNeedsConfirmation(_) => Self::Unconfirmed,
            Trust::Refused(_) => Self::Untrusted,
        }
    }
}
