//! Loans of agents: the request, what was measured about it, and what the journal knows of venues and positions.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Round, TokenAmount, Usd};
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
    /// What was measured when the agent requested the loan.
    pub quote: LoanQuote,
    /// What counts against the ceiling until the request is over: the value of a supply, zero for a withdrawal.
    pub counted: Usd,
}

/// What a loan does.
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

/// How much a loan moves.
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
    /// The number and the time of the newest block, in Unix seconds.
    pub block: u64,
    pub block_time: u64,
    /// When it was measured.
    pub at: Utc,
    /// The newest journal entry before the measurement began.
    ///
    /// The exposure contains nothing of later entries.
    pub as_of: u64,
    /// `None` if the loan could not be measured.
    pub venue: Option<Box<VenueFacts>>,
    /// What moves.
    pub assets: Atoms,
    /// The shares that a supply receives, or that a withdrawal gives back.
    pub shares: U256,
    /// For a supply, the amount that the shares of the rehearsal redeem for right after it.
    pub worth: Atoms,
    /// The shares of the paying address, and what they redeem for.
    pub held_shares: U256,
    pub position: Atoms,
    /// What of the position can be withdrawn now; `None` if that is not known.
    pub withdrawable: Option<Atoms>,
    /// What the paying address has lent everywhere.
    pub exposure: Exposure,
    /// The paying address's balance of the native coin, in wei.
    pub native_balance: U256,
    /// The paying address's balance of the stablecoin.
    pub balance: U256,
    /// The worst cost of all transactions of the plan, in wei.
    pub plan_cost: U256,
    /// The worst cost of a later withdrawal at the present price of gas, in wei.
    pub exit_cost: U256,
    /// The gas of the main transaction, by the rehearsal.
    pub gas: u64,
    pub effects: Effects,
    /// The calls of the plan in their order, decoded from their call data.
    pub calls: Vec<Decoded>,
}

/// What a venue is, by its own answers and those of the official factories.
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
    /// The venue gives the network's stablecoin back, and no other token.
    pub lends_stablecoin: bool,
    pub share_decimals: u8,
    /// The virtual shares are too many for a donation to move the price.
    pub resists_donations: bool,
    /// What a fixed number of shares redeems for.
    pub price: Option<SharePrice>,
    /// What all lenders together can withdraw now; `None` if that is not known.
    pub free: Option<Atoms>,
}

/// The kinds of venues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LendingKind {
    VaultV2,
    MetaMorpho,
    /// A market of the singleton.
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

/// What an address has lent, over all networks that were read, each at one block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exposure {
    /// The networks that were read.
    pub networks: Vec<ChainId>,
    /// The positions that are not zero.
    pub positions: Vec<(ChainId, VenueId, Usd)>,
    /// The stablecoins of the address on these networks together.
    pub liquid: Usd,
    /// What could not be read: a venue, or a whole network.
    pub unreadable: Vec<(ChainId, Option<VenueId>)>,
}

impl VenueFacts {
    /// Returns why the venue is not trusted, in words; empty if it is.
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
    /// Such a loan takes what the shares cost then, and may leave a part of its allowance.
    pub fn buys_shares(&self) -> bool {
        self.calls.iter().any(|call| matches!(call, Decoded::Mint { .. }))
    }

    /// Returns whether the loan was measured: a loan that could not be has no quote.
    pub fn is_measured(&self) -> bool {
        self.venue.is_some()
    }
}

impl LoanAsk {
    /// Returns whether it is a supply.
    pub fn supplies(&self) -> bool {
        self.action == LoanAction::Supply
    }

    /// Returns the value of the most that moves by a quote, rounded up: the stablecoin counts as a dollar.
    ///
    /// `None` if the table lost the network, or on overflow.
    pub fn value(&self, quote: &LoanQuote) -> Option<Usd> {
        let coin = &networks::by_chain(self.chain)?.stablecoin;
        self.most(quote).to_usd(coin.decimals, Round::Up).ok()
    }

    /// Returns the most that moves by a quote.
    ///
    /// A supply that buys shares may take its whole allowance, even if its rehearsal paid less.
    pub fn most(&self, quote: &LoanQuote) -> Atoms {
        match self.size {
            LoanSize::Assets(size) if self.supplies() => size.max(quote.assets),
            LoanSize::Assets(_) | LoanSize::Shares(_) | LoanSize::All => quote.assets,
        }
    }

    /// Checks that position and venue suffice for a withdrawal.
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

    /// Returns what counts against the ceiling by a quote.
    pub fn counted(&self, quote: &LoanQuote) -> Usd {
        match self.action {
            LoanAction::Supply => self.value(quote).unwrap_or(Usd(u64::MAX)),
            LoanAction::Withdraw => Usd::ZERO,
        }
    }

    /// Returns the token that leaves the paying address, if one does.
    pub fn token_in(&self) -> Option<Address> {
        let coin = networks::by_chain(self.chain).map(|network| network.stablecoin.address);
        coin.filter(|_coin| self.supplies())
    }

    /// Formats the amount that moves, like `25.000000 USDC`.
    ///
    /// For a withdrawal by shares it is their worth when it was requested.
    pub fn amount_text(&self) -> String {
        self.assets_text(self.amount())
    }

    /// Returns what moves, in smallest units of the stablecoin; see [`LoanAsk::amount_text`].
    pub fn amount(&self) -> Atoms {
        match self.size {
            LoanSize::Assets(assets) => assets,
            LoanSize::Shares(_) | LoanSize::All => self.quote.assets,
        }
    }

    /// Returns the place of a loan of this address.
    pub fn place(&self, owner: Address) -> LoanPlace {
        LoanPlace { owner, chain: self.chain, venue: self.venue }
    }

    /// Formats an amount of the stablecoin, like `25.000000 USDC`.
    pub fn assets_text(&self, atoms: Atoms) -> String {
        match networks::by_chain(self.chain) {
            Some(network) => {
                let decimals = network.stablecoin.decimals;
                format!("{} {}", TokenAmount { atoms, decimals }, network.stablecoin.symbol)
            }
            None => format!("{atoms} units"),
        }
    }
}

/// The journal's data about loans.
///
/// Entries are never removed: a venue that was used once is always read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Loans {
    /// What was lent and not yet withdrawn, by our own transactions.
    pub lent: BTreeMap<LoanPlace, NetSupply>,
    pub venues: BTreeMap<(ChainId, VenueId), VenueRecord>,
}

/// An address in a venue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoanPlace {
    pub owner: Address,
    pub chain: ChainId,
    pub venue: VenueId,
}

/// What an address supplied to a venue less what it withdrew, without interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetSupply {
    pub net: Usd,
    /// The journal entry of the newest change.
    pub changed: u64,
}

/// What the journal knows of a venue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VenueRecord {
    /// The highest price of its shares that was recorded with a request.
    pub best: Option<SharePrice>,
    /// The operator's confirmation of a venue that Bursar alone would not use.
    pub confirmed: Option<Confirmation>,
    /// Whether the operator confirmed the venue once.
    ///
    /// A withdrawn confirmation must permit nothing, not even what a new venue may do.
    pub was_confirmed: bool,
    /// A supply was allowed to it.
    pub is_used: bool,
    /// Bursar trusted it when a request to it was recorded.
    pub has_passed: bool,
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

    /// Returns what is known of a venue.
    pub fn venue(&self, chain: ChainId, venue: VenueId) -> Option<&VenueRecord> {
        self.venues.get(&(chain, venue))
    }

    /// Notes a measurement that the journal records.
    pub(crate) fn note_quote(&mut self, ask: &LoanAsk, quote: &LoanQuote) {
        let Some(venue) = &quote.venue else { return };
        let record = self.venues.entry((ask.chain, ask.venue)).or_default();
        record.has_passed |= matches!(venue.trust, Trust::Curated | Trust::Pinned);
        if let Some(price) = venue.price
            && record.best.is_none_or(|best| best.is_below(&price))
        {
            record.best = Some(price);
        }
    }

    /// Notes what was measured for a loan that was refused. A venue that Bursar would not use leaves no record, because an
    /// agent may name as many as it likes.
    pub(crate) fn note_refused(&mut self, ask: &LoanAsk) {
        let trust = ask.quote.venue.as_ref().map(|venue| &venue.trust);
        let is_trusted = matches!(trust, Some(Trust::Curated | Trust::Pinned));
        if is_trusted || self.venues.contains_key(&(ask.chain, ask.venue)) {
            self.note_quote(ask, &ask.quote);
        }
    }

    /// Notes that the operator approved a supply at this price: later prices are compared with it, so that a loss is
    /// asked about once.
    pub(crate) fn accept_price(&mut self, ask: &LoanAsk, quote: &LoanQuote) {
        let price = quote.venue.as_ref().and_then(|venue| venue.price);
        if let Some(price) = price.filter(|_price| ask.supplies()) {
            self.venues.entry((ask.chain, ask.venue)).or_default().best = Some(price);
        }
    }

    /// Records the operator's confirmation of a venue, or takes it back.
    pub(crate) fn confirm(&mut self, chain: ChainId, venue: VenueId, given: Option<Confirmation>) {
        let record = self.venues.entry((chain, venue)).or_default();
        record.was_confirmed |= given.is_some();
        record.confirmed = given;
    }

    /// Notes that a supply was allowed.
    pub(crate) fn note_use(&mut self, ask: &LoanAsk) {
        if ask.supplies() {
            self.venues.entry((ask.chain, ask.venue)).or_default().is_used = true;
        }
    }

    /// Adds what a supply may have moved.
    pub(crate) fn supplied(&mut self, place: LoanPlace, value: Usd, seq: u64) {
        let lent = self.lent.entry(place).or_default();
        *lent = NetSupply { net: Usd(lent.net.0.saturating_add(value.0)), changed: seq };
    }

    /// Subtracts what came back, or never left.
    pub(crate) fn returned(&mut self, place: LoanPlace, value: Usd, seq: u64) {
        let lent = self.lent.entry(place).or_default();
        *lent = NetSupply { net: lent.net.left_after(value), changed: seq };
    }
}

/// How a venue stands with the operator: the judgement of Bursar, and the operator's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Bursar trusts it, or the operator confirmed it as it is now.
    Trusted,
    /// The operator may confirm it.
    Unconfirmed,
    /// The venue was trusted or confirmed before. Since then it changed, or the operator withdrew the trust.
    Changed,
    /// The venue must not be used as a curated one.
    Untrusted,
}

impl Standing {
    /// Judges a venue as it was read.
    pub fn of(venue: &VenueFacts, record: Option<&VenueRecord>) -> Self {
        Self::judge(&venue.trust, (venue.curator, venue.owner), record)
    }

    /// Judges a venue by its trust, and by its curator and owner.
    pub fn judge(
        trust: &Trust,
        parties: (Option<Address>, Option<Address>),
        record: Option<&VenueRecord>,
    ) -> Self {
        let confirmed = record.and_then(|record| record.confirmed.as_ref());
        let as_confirmed =
            confirmed.is_some_and(|confirmed| (confirmed.curator, confirmed.owner) == parties);
        let was_good = record.is_some_and(|record| record.was_confirmed || record.has_passed);
        match trust {
            Trust::Curated | Trust::Pinned => Self::Trusted,
            Trust::NewNeedsConfirmation(_) if as_confirmed => Self::Trusted,
            Trust::NewNeedsConfirmation(_) | Trust::Refused(_) if was_good => Self::Changed,
            Trust::NewNeedsConfirmation(_) => Self::Unconfirmed,
            Trust::Refused(_) => Self::Untrusted,
        }
    }
}
