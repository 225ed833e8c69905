//! Requests of agents: the request, its terms, and its result. Only this module applies a hold's 15-minute limit.

use alloy_primitives::{Address, B256};
use bursar_core::amount::Amount;
use bursar_core::card::{HoldReason, Lane};
use bursar_core::client::Client;
use bursar_core::hosts;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::money::{Atoms, Usd};
use bursar_core::networks::{self, ChainId, Network, Stablecoin};
use bursar_core::time::{Moment, Utc};
use bursar_x402::Echo;
use bursar_x402::authorization::{Authorization, MIN_VALIDITY_SECONDS};
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::TokenDomain;
use serde::{Deserialize, Serialize};

pub use crate::approver::Approver;
pub use crate::assets::{AssetQuote, DomainCheck, DomainText, ForeignAsset, Price, TokenText};
pub use crate::deadline::Deadline;
use crate::identity::Identity;
use crate::loans::LoanAsk;
use crate::plan::Execution;
use crate::prompts::{DeviceTurn, WaitEnd};
use crate::refusal::Refusal;
use crate::trades::TradeAsk;

/// The content of an agent's request, by lane.
#[expect(clippy::large_enum_variant, reason = "most requests are payments")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaneAsk {
    Payment(PaymentAsk),
    Trade(Box<TradeAsk>),
    Loan(Box<LoanAsk>),
}

impl LaneAsk {
    /// Returns the lane.
    pub fn lane(&self) -> Lane {
        match self {
            LaneAsk::Payment(_) => Lane::Payment,
            LaneAsk::Trade(_) => Lane::Trade,
            LaneAsk::Loan(_) => Lane::Loan,
        }
    }

    /// Returns the chain on which the request acts.
    pub fn chain(&self) -> ChainId {
        match self {
            LaneAsk::Payment(payment) => payment.chain,
            LaneAsk::Trade(trade) => trade.chain,
            LaneAsk::Loan(loan) => loan.chain,
        }
    }

    /// Returns the network's row; `None` only if the table no longer contains a network that the journal knows.
    pub fn network(&self) -> Option<&'static Network> {
        networks::by_chain(self.chain())
    }

    /// Returns the value that counts against the lane's limit.
    pub fn usd(&self) -> Usd {
        match self {
            LaneAsk::Payment(payment) => payment.usd,
            LaneAsk::Trade(trade) => trade.counted_value,
            LaneAsk::Loan(loan) => loan.counted_value,
        }
    }

    /// Returns the bytes that count against the agent's daily padding.
    pub fn padding(&self) -> u32 {
        match self {
            LaneAsk::Payment(payment) => payment.padding,
            LaneAsk::Trade(_) | LaneAsk::Loan(_) => 0,
        }
    }

    /// Describes the amount that leaves the payer or, for a withdrawal, the venue.
    pub fn amount(&self) -> Amount {
        match self {
            LaneAsk::Payment(payment) => payment.described_amount(),
            LaneAsk::Trade(trade) => trade.amount(&trade.token_in, trade.amount_in),
            LaneAsk::Loan(loan) => loan.assets(loan.amount()),
        }
    }

    /// Formats the amount for people, like `1.500000 USDC`.
    pub fn amount_text(&self) -> String {
        self.amount().text
    }

    /// Returns the host that requests the payment, if it is known; `None` for trades and loans.
    pub fn host(&self) -> Option<String> {
        match self {
            LaneAsk::Payment(payment) => payment.host(),
            LaneAsk::Trade(_) | LaneAsk::Loan(_) => None,
        }
    }

    /// Returns the token that a plan takes from the payer; `None` for a payment, the native coin, and a withdrawal.
    pub fn token_in(&self) -> Option<Address> {
        match self {
            LaneAsk::Payment(_) => None,
            LaneAsk::Trade(trade) => trade.token_in.address,
            LaneAsk::Loan(loan) => loan.token_in(),
        }
    }

    /// Returns the payment; `None` in the other lanes.
    pub fn payment(&self) -> Option<&PaymentAsk> {
        match self {
            LaneAsk::Payment(payment) => Some(payment),
            LaneAsk::Trade(_) | LaneAsk::Loan(_) => None,
        }
    }

    /// Returns the payment for modification; `None` in the other lanes.
    pub fn payment_mut(&mut self) -> Option<&mut PaymentAsk> {
        match self {
            LaneAsk::Payment(payment) => Some(payment),
            LaneAsk::Trade(_) | LaneAsk::Loan(_) => None,
        }
    }
}

impl From<PaymentAsk> for LaneAsk {
    fn from(payment: PaymentAsk) -> Self {
        LaneAsk::Payment(payment)
    }
}

/// One payment that an agent requested: the immutable value that is checked, recorded, shown and signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAsk {
    pub chain: ChainId,
    pub asset: Address,
    pub amount: Atoms,
    /// The amount in dollars; zero if the price is unknown.
    pub usd: Usd,
    pub price: Price,
    pub payee: Address,
    /// How long the authorization stays valid, in seconds (`maxTimeoutSeconds`, at least 30).
    pub valid_seconds: u64,
    pub request_url: Option<String>,
    pub resource_url: Option<String>,
    /// Further URLs that the challenge names, in its order.
    pub other_urls: Vec<String>,
    /// Whether the offer names an EIP-712 domain other than our table's, and the chain did not confirm ours.
    pub domain_contradicted: bool,
    /// Bytes of the challenge's JSON beyond [`bursar_core::limits::HEADER_BYTES_BEFORE_PADDING`]; see
    /// [`bursar_core::limits::PADDING_BYTES_PER_DAY_MAX`].
    pub padding: u32,
    /// The parts of the offer that are sent back with the payment.
    ///
    /// The state keeps only the version of an echo; the record of the request keeps all parts.
    pub echo: Echo,
}

/// A request: the values that are fixed when it is created, and its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub id: RequestId,
    /// The journal entry that created the request; it orders requests by creation.
    pub seq: u64,
    pub agent: AgentId,
    pub created: Utc,
    /// Label of the paying address.
    pub label: Name,
    /// The paying address.
    pub from: Address,
    pub ask: LaneAsk,
    pub identity: Identity,
    pub status: Status,
    /// The mandate that was in force when the payment was authorized.
    #[serde(default, with = "bursar_core::stored::added_in_form_9")]
    pub mandate: Option<bursar_mandate::MandateId>,
}

/// The status of a request, which never moves back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Held for the operator.
    Held {
        reason: HoldReason,
        deadline: Deadline,
    },
    /// May be signed, and counts as spent whatever happens next. The terms are fixed, so the same signature can be
    /// made again after a crash.
    Authorized {
        terms: Authorization,
        at: Utc,
        by: Approver,
        signature: Option<Signature65>,
    },
    /// A request whose plan is being executed, or still revokes an allowance.
    Executing(Box<Execution>),
    /// A request whose plan is over.
    Ended(Box<Execution>),
    Refused {
        refusal: Refusal,
        at: Utc,
        /// Whether the request was held before, so that this refusal answers the operator's approval.
        was_held: bool,
    },
    Denied {
        reason: Option<String>,
        at: Utc,
        by: Client,
        /// Until this deadline, an identical request of a bearer agent gets the same answer.
        repeatable_until: Deadline,
    },
    Expired {
        at: Utc,
        repeatable_until: Deadline,
    },
    /// Allowed, and waiting for a signature of its device.
    AwaitingDevice(Box<DeviceTurn>),
    /// Allowed, but not signed by its device.
    NotSigned {
        end: WaitEnd,
        at: Utc,
        /// As for a denied request: the deadline until which a repeat gets the same answer.
        repeatable_until: Deadline,
    },
}

impl PaymentAsk {
    /// Returns every URL that the challenge names.
    pub fn challenge_urls(&self) -> impl Iterator<Item = &str> {
        self.resource_url.iter().chain(&self.other_urls).map(String::as_str)
    }

    /// Returns the network's row; `None` only if the table no longer contains a network that the journal knows.
    pub fn network(&self) -> Option<&'static Network> {
        networks::by_chain(self.chain)
    }

    /// Returns the network's reference stablecoin, if the payment is in it.
    pub fn stablecoin(&self) -> Option<&'static Stablecoin> {
        let network = self.network().filter(|_known| self.price == Price::Reference);
        network.map(|network| &network.stablecoin)
    }

    /// Returns the data about a token outside our table; `None` for a reference stablecoin.
    pub fn foreign(&self) -> Option<&ForeignAsset> {
        if let Price::Foreign(asset) = &self.price { Some(asset) } else { None }
    }

    /// Returns whether the price is unknown; no limit can apply to such a payment, so it is never signed.
    pub fn is_unpriced(&self) -> bool {
        self.foreign().is_some_and(|asset| asset.quote.is_none())
    }

    /// Replaces the data about a token outside our table, and updates the payment's value.
    pub fn set_asset(&mut self, asset: ForeignAsset) {
        self.usd = asset.usd();
        self.price = Price::Foreign(Box::new(asset));
    }

    /// Returns the token's EIP-712 domain, from our table or as the token confirmed it, never as the offer claims it.
    pub fn token_domain(&self) -> Option<TokenDomain> {
        match &self.price {
            Price::Reference => Some(TokenDomain::of_stablecoin(self.network()?)),
            Price::Foreign(asset) => asset.confirmed_domain().map(|domain| TokenDomain {
                name: domain.name.clone(),
                version: domain.version.clone(),
                chain: self.chain,
                contract: self.asset,
            }),
        }
    }

    /// Describes the amount.
    ///
    /// Its text has the address of a token outside our table, and is in smallest units if the token has no decimals.
    pub fn described_amount(&self) -> Amount {
        if let Some(coin) = self.stablecoin() {
            return Amount::of_stablecoin(self.amount, coin);
        }
        match self.foreign().and_then(|foreign| foreign.text.as_ref()) {
            Some(text) => text.amount_with_address(self.amount, self.asset),
            None => Amount::of_units(self.amount, self.asset.to_checksum(None)),
        }
    }

    /// Returns the host that requests the payment, from the URL that the agent called, else from the offer's URL.
    ///
    /// It returns only the host, because path and query may be private.
    pub fn host(&self) -> Option<String> {
        self.host_url().and_then(hosts::called_host)
    }

    /// Returns the URL from which [`PaymentAsk::host`] takes the host.
    pub fn host_url(&self) -> Option<&str> {
        self.request_url.as_deref().or(self.resource_url.as_deref())
    }
}

impl Request {
    /// Returns the terms that may be signed: those of an authorized payment, or of a device's prompt.
    pub fn terms(&self) -> Option<&Authorization> {
        self.fixed_terms().map(|(terms, _at)| terms)
    }

    /// Returns the terms that may be signed, and the journal time at which they were fixed.
    fn fixed_terms(&self) -> Option<(&Authorization, Utc)> {
        match &self.status {
            Status::Authorized { terms, at, .. } => Some((terms, *at)),
            Status::AwaitingDevice(turn) => {
                turn.shown_prompt().map(|prompt| (&prompt.terms, prompt.at))
            }
            Status::Held { .. }
            | Status::Executing(_)
            | Status::Ended(_)
            | Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. }
            | Status::NotSigned { .. } => None,
        }
    }

    /// Returns the wait for a device; `None` if the request does not wait for one.
    pub fn device_turn(&self) -> Option<&DeviceTurn> {
        match &self.status {
            Status::AwaitingDevice(turn) => Some(turn),
            Status::Held { .. }
            | Status::Authorized { .. }
            | Status::Executing(_)
            | Status::Ended(_)
            | Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. }
            | Status::NotSigned { .. } => None,
        }
    }

    /// Returns the milliseconds until the wait for a device, or for the person at its prompt, ends.
    ///
    /// `None` if the request does not wait for a device.
    pub fn device_left_ms(&self, moment: &Moment) -> Option<u64> {
        Some(self.device_turn()?.left_ms(moment, self.valid_s()?))
    }

    /// Returns whether a request waits for a device and its time is over.
    pub fn is_wait_over(&self, moment: &Moment) -> bool {
        self.device_left_ms(moment) == Some(0)
    }

    /// Returns the digest to sign, if there are terms to sign and the request has a price.
    ///
    /// It is the EIP-712 digest of EIP-3009's `TransferWithAuthorization`, under [`PaymentAsk::token_domain`].
    pub fn digest(&self) -> Option<B256> {
        let terms = self.terms()?;
        let payment = self.ask.payment().filter(|payment| !payment.is_unpriced())?;
        Some(payment.token_domain()?.digest(terms))
    }

    /// Returns the EIP-712 digest of the newest permit of a running trade; `None` if there is none to sign.
    pub fn permit_digest(&self) -> Option<B256> {
        let Status::Executing(execution) = &self.status else { return None };
        let unsigned = execution.permit.as_ref().filter(|permit| permit.signature.is_none())?;
        let trade = self.trade().filter(|_any| execution.end.is_none())?;
        let exchange = bursar_core::networks::by_chain(trade.chain)?.exchange?;
        unsigned.permit.digest(trade.chain, exchange.permit2).ok()
    }

    /// Returns whether the request was refused and stored with only the origins of its URLs.
    pub fn keeps_origins_only(&self) -> bool {
        let stripped = self.ask.payment().is_some_and(|payment| payment.echo == Echo::none());
        matches!(self.status, Status::Refused { .. }) && stripped
    }

    /// Returns whether the hold is past its deadline, whether or not its expiry is recorded.
    pub fn is_hold_over(&self, moment: &Moment) -> bool {
        matches!(&self.status, Status::Held { deadline, .. } if deadline.has_passed(moment))
    }

    /// Returns when a held or waiting request ended without a signature; `None` for any other request.
    pub fn ended_at(&self) -> Option<Utc> {
        match &self.status {
            Status::Refused { at, was_held: true, .. }
            | Status::Denied { at, .. }
            | Status::Expired { at, .. }
            | Status::NotSigned { at, .. } => Some(*at),
            Status::Refused { was_held: false, .. }
            | Status::Held { .. }
            | Status::Authorized { .. }
            | Status::Executing(_)
            | Status::Ended(_)
            | Status::AwaitingDevice(_) => None,
        }
    }

    /// Returns whether the request is held for the operator.
    pub fn is_held(&self) -> bool {
        matches!(self.status, Status::Held { .. })
    }

    /// Returns the execution of a trade or loan, if it was allowed.
    pub fn execution(&self) -> Option<&Execution> {
        match &self.status {
            Status::Executing(execution) | Status::Ended(execution) => Some(execution),
            Status::Held { .. }
            | Status::Authorized { .. }
            | Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. }
            | Status::AwaitingDevice(_)
            | Status::NotSigned { .. } => None,
        }
    }

    /// Returns whether the request has a plan and has not ended.
    pub fn is_running(&self) -> bool {
        self.execution().is_some_and(|execution| execution.end.is_none())
    }

    /// Returns the trade; `None` in the other lanes.
    pub fn trade(&self) -> Option<&TradeAsk> {
        match &self.ask {
            LaneAsk::Trade(trade) => Some(trade),
            LaneAsk::Payment(_) | LaneAsk::Loan(_) => None,
        }
    }

    /// Returns the loan; `None` in the other lanes.
    pub fn loan(&self) -> Option<&LoanAsk> {
        match &self.ask {
            LaneAsk::Loan(loan) => Some(loan),
            LaneAsk::Payment(_) | LaneAsk::Trade(_) => None,
        }
    }

    /// Returns the Unix second from which the authorization cannot be redeemed.
    pub fn valid_before(&self) -> Option<u64> {
        match &self.status {
            Status::Authorized { terms, .. } => Some(terms.valid_before),
            Status::Held { .. }
            | Status::Executing(_)
            | Status::Ended(_)
            | Status::Refused { .. }
            | Status::Denied { .. }
            | Status::Expired { .. }
            | Status::AwaitingDevice(_)
            | Status::NotSigned { .. } => None,
        }
    }

    /// Returns the second of journal time from which the terms can no longer be redeemed.
    ///
    /// It may be after `valid_before`: if the clock was set back, journal time was ahead of the clock that fixed it.
    pub fn lapses_at(&self) -> Option<u64> {
        let (terms, at) = self.fixed_terms()?;
        let at = u64::try_from(at.seconds()).unwrap_or(0);
        Some(terms.valid_before.max(at.saturating_add(self.valid_s()?)))
    }

    /// Returns for how many seconds the terms of a payment are valid; `None` for other lanes.
    fn valid_s(&self) -> Option<u64> {
        self.ask.payment().map(|payment| payment.valid_seconds.max(MIN_VALIDITY_SECONDS))
    }

    /// Returns whether the terms that a device may have signed can no longer be redeemed.
    ///
    /// The clock that fixed the terms must have reached their end, and their duration must have passed by journal time
    /// or by the boot clock. Neither suffices alone: journal time may be days ahead, and a wall clock may jump.
    pub(crate) fn has_lapsed(&self, moment: &Moment, journal_s: u64) -> bool {
        let (Some(terms), Some(valid_s)) = (self.terms(), self.valid_s()) else { return true };
        let now = u64::try_from(moment.utc.seconds()).unwrap_or(0);
        let valid_ms = i64::try_from(valid_s.saturating_mul(1000)).unwrap_or(i64::MAX);
        // The terms were fixed before `until`.
        let end = self.device_turn().map(|turn| turn.until.plus_ms(valid_ms));
        let by_boot = || end.is_some_and(|end| end.has_passed_in_boot(moment));
        let by_journal = self.lapses_at().is_none_or(|lapses_at| lapses_at <= journal_s);
        now >= terms.valid_before && (by_journal || by_boot())
    }

    /// Returns whether the authorization can still be redeemed at `now`.
    pub fn is_redeemable(&self, now: Utc) -> bool {
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        self.valid_before().is_some_and(|before| now < before)
    }
}
