//! The card that an operator sees before deciding on a request, and the digest that binds an approval to it. Console,
//! command line and `--json` show the same value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::ids::{AgentId, Name, RequestId};
use crate::json::{Object, Value};
use crate::limits::LISTED_URL_CHARS_MAX;
use crate::money::{Usd, usd_text};
use crate::payee_label::PayeeLabel;
use crate::risk::{Level, Risk};
use crate::text;

pub use crate::hold_reason::HoldReason;
pub use crate::lane::{ByLane, Lane};

/// The terms that an approval would sign.
///
/// The terms do not change with time. The [`digest`] covers the terms, the hold reason and the policy's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    pub lane: Lane,
    pub agent: AgentId,
    /// The paying address, EIP-55.
    pub address: String,
    /// CAIP-2.
    pub network: String,
    /// Token contract, EIP-55.
    pub asset: String,
    /// Receiving address, EIP-55.
    pub payee: String,
    /// Atomic units, decimal.
    pub amount: String,
    /// Seconds from the approval to the end of the authorization.
    pub valid_seconds: u64,
    pub request_url: Option<String>,
    pub resource_url: Option<String>,
    /// Further URLs that the challenge names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_urls: Vec<String>,
    /// The additional terms of a trade; `asset` and `amount` are its input, and `payee` is the paying address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade: Option<TradeTerms>,
    /// The additional terms of a loan; `asset` is the stablecoin, `payee` is the paying address, and `amount` is zero
    /// if the whole position is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan: Option<LoanTerms>,
}

/// The terms that only a loan has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoanTerms {
    /// `supply` or `withdraw`.
    pub action: String,
    /// The address of a vault or the id of a market.
    pub venue: String,
    /// The unit of the amount: `assets`, `shares`, or `all`.
    pub unit: String,
}

/// Data with which an operator judges a loan, in addition to its terms; amounts are from the request's quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoanCard {
    /// The amount that moves, like `25.000000 USDC`.
    pub moves: String,
    /// The venue's own name: untrusted text.
    pub venue_name: String,
    /// The kind of the venue in words.
    pub kind: String,
    /// `None` for a market.
    pub curator: Option<String>,
    pub owner: Option<String>,
    /// Whether and why the venue is trusted.
    pub trust: String,
    pub is_trusted: bool,
    /// The shares that the address receives by a supply or gives up by a withdrawal.
    pub shares: String,
    /// The value of a supply's shares right after the supply; `None` for a withdrawal.
    pub worth: Option<String>,
    /// The address's position in the venue.
    pub position: String,
    /// The part of the position that can be withdrawn now; `None` if it is unknown.
    pub withdrawable: Option<String>,
    /// The amount that all lenders of the venue can withdraw now; `None` if it is unknown.
    pub free: Option<String>,
    /// The address's total loans before and after a supply; `None` if they cannot be read, and for a withdrawal.
    pub lent: Option<Change>,
    /// Maximum value that may be lent.
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub ceiling: Usd,
    /// The agent's operations today, without this one; `operations_max` is the policy's maximum.
    pub operations: u32,
    pub operations_max: u32,
    /// The worst cost of all transactions, in the native coin.
    pub gas: String,
    /// The number of transactions, each of which needs a confirmation.
    pub transactions: usize,
    /// Whether a simulation showed that the plan has no effects other than those on this card.
    pub effects_proven: bool,
    /// The calls of the plan in their order, decoded from their call data.
    pub calls: Vec<String>,
    /// When the quote was made, RFC 3339.
    pub quoted: String,
}

/// The terms that only a trade has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TradeTerms {
    /// EIP-55; the zero address is the native coin.
    pub token_out: String,
    /// The least output to accept, in atomic units.
    pub minimum_out: String,
    /// The kind of the pool and its address or id.
    pub pool: String,
}

/// Data with which an operator judges a trade, in addition to its terms; amounts are from the request's quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TradeCard {
    /// The input, like `25.000000 USDC`.
    pub gives: String,
    /// The expected output, like `0.0071 ETH`.
    pub gets: String,
    /// Warnings about tokens that are not in Bursar's table, whose symbols prove nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_in_note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_out_note: Option<String>,
    /// The least output to accept.
    pub at_least: String,
    /// The pool in words.
    pub pool: String,
    /// The route with the highest output, and its output; `None` if it is the trade's own or none was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// How much worse the quote is than the pool's own rate, in percent; `None` if it is unknown.
    pub impact: Option<String>,
    pub max_impact: String,
    pub slippage: String,
    /// The value of the input in dollars; `None` if it is unknown.
    pub value_in: Option<String>,
    /// The value of the output in dollars, by a price from outside the pool; `None` if there is no such price.
    pub value_out: Option<String>,
    /// The worst cost of all transactions, in the native coin.
    pub gas: String,
    /// The number of transactions, each of which needs a confirmation.
    pub transactions: usize,
    /// Whether a simulation showed that exactly the input leaves and at least the minimum output arrives.
    pub effects_proven: bool,
    /// The output that arrived in the simulation; `None` if the simulation did not show it.
    pub received: Option<String>,
    /// The calls of the plan in their order, decoded from their call data.
    pub calls: Vec<String>,
    /// The names of the pool's hook and its rights in the swap; `None` without a hook.
    pub hooks: Option<String>,
    /// When the quote was made, RFC 3339.
    pub quoted: String,
}

/// Data about a token outside our table, as of the arrival of the request.
///
/// Costs and proceeds are for the amount of the payment, in the network's reference stablecoin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssetCard {
    /// The EIP-712 name and version that the token confirmed, like `"Name" version "1"`; `None` if it confirmed none.
    pub domain: Option<String>,
    /// The cost of buying the amount, at the highest price of all routes; `None` if no price is known.
    pub costs: Option<String>,
    /// The pools of the route with that price.
    pub route: Option<String>,
    /// The minimum proceeds of selling the amount; `None` if they are unknown.
    pub sells_for: Option<String>,
    /// The cost of buying ten times the amount; `None` if it is unknown.
    pub tenfold: Option<String>,
    /// How far the price is off its ten-minute average; `None` if the pools keep no average.
    pub average_off: Option<String>,
    /// When the price was measured, RFC 3339.
    pub quoted: Option<String>,
}

/// An amount before and after an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub before: Usd,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub after: Usd,
}

/// Earlier payments that this wallet authorized to one address on one network, for any agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaidBefore {
    pub times: u64,
    /// The number of payments that an operator approved.
    pub approved: u64,
    /// RFC 3339, as is `last`; `None` before the first payment.
    pub first: Option<String>,
    pub last: Option<String>,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub usd: Usd,
}

/// The paying address's latest known balance of the asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Balance {
    /// In whole coins, like `48.201200`.
    pub before: String,
    /// `None` if the balance is too small.
    pub after: Option<String>,
    pub symbol: String,
    /// The time of reading, RFC 3339.
    pub read: String,
}

/// The information that an operator needs to decide one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    pub id: RequestId,
    pub terms: Terms,
    pub hold: HoldReason,
    /// Why an approval would be refused at the moment, in one sentence.
    pub obstacle: Option<String>,
    pub policy: Name,
    /// The version, from 1 for each policy.
    pub policy_version: u64,
    /// The serial number of the version, unique among all versions of all policies; part of the digest.
    pub policy_serial: u64,
    pub agent_name: Name,
    /// The paying address's label.
    pub label: Name,
    pub network_title: String,
    /// The amount with the token's decimals and symbol, like `1.500000 USDC`; in atomic units if the token does not
    /// describe itself, and with the symbol in quotation marks if the token is outside our table.
    pub amount: String,
    /// The asset's price is not known; `usd` is then zero and has no meaning.
    pub unpriced: bool,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub usd: Usd,
    /// The agent's spending today, without and with this request.
    pub spent: Change,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub daily_limit: Usd,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub per_request_max: Usd,
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub auto_below: Usd,
    /// The sum reserved by the agent's pending requests, including this one.
    #[serde(with = "usd_text")]
    #[schemars(with = "String")]
    pub reserved: Usd,
    pub expires_in_seconds: u64,
    /// The operator must type the amount to approve it (setting `confirm_typing_above`).
    pub type_amount: bool,
    /// The payee's label, if it is an address of this wallet.
    pub payee_label: Option<Name>,
    /// The operator's label of the payee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payee_name: Option<PayeeLabel>,
    /// The risks of a payment, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Risk>,
    pub paid_before: Option<PaidBefore>,
    pub paid_before_unknown_reason: Option<String>,
    pub balance: Option<Balance>,
    pub balance_unknown_reason: Option<String>,
    /// The details of a trade; `None` for a request of another lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade: Option<Box<TradeCard>>,
    /// The details of a loan; `None` for a request of another lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan: Option<Box<LoanCard>>,
    /// The details of a payment in a token outside our table; `None` for any other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<Box<AssetCard>>,
    /// The hardware device that must sign the request, which can be denied here, but not approved; `None` for any
    /// other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Box<DeviceCard>>,
    /// The [`digest`] of terms, hold reason and policy version, in hex.
    pub digest: String,
}

/// The hardware device, as a card shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCard {
    /// The next action of the operator, as a sentence.
    pub state: String,
    /// The device shows the request now.
    pub is_prompting: bool,
    /// Names and values that the device may show, in its order; amounts are in the token's smallest unit.
    pub shows: Vec<(String, String)>,
    /// The fields that the device shows differently.
    pub note: Option<String>,
    /// Where the emulator is, if the device is not a real one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
}

/// Returns the SHA-256 of the canonical JSON of terms, hold reason and policy version, in hex.
///
/// `policy_serial` names the version: two policies may have the same version.
pub fn digest(terms: &Terms, hold: HoldReason, policy_serial: u64) -> String {
    let optional = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let trade = terms.trade.as_ref();
    let minimum_out = trade.map_or(Value::Null, |trade| Value::from(trade.minimum_out.as_str()));
    let mut object = Object::new()
        .with("address", terms.address.as_str())
        .with("agent", terms.agent.as_str())
        .with("amount", terms.amount.as_str())
        .with("asset", terms.asset.as_str())
        .with("hold", hold.text())
        .with("lane", terms.lane.text())
        .with("minimum_out", minimum_out)
        .with("network", terms.network.as_str())
        .with("payee", terms.payee.as_str())
        .with("policy_version", policy_serial)
        .with("request_url", optional(&terms.request_url))
        .with("resource_url", optional(&terms.resource_url))
        .with("valid_seconds", terms.valid_seconds);
    if !terms.other_urls.is_empty() {
        let urls = terms.other_urls.iter().map(|url| Value::from(url.as_str()));
        object = object.with("other_urls", Value::from(urls.collect::<Vec<_>>()));
    }
    if let Some(trade) = trade {
        object =
            object.with("pool", trade.pool.as_str()).with("token_out", trade.token_out.as_str());
    }
    if let Some(loan) = &terms.loan {
        object = object
            .with("action", loan.action.as_str())
            .with("unit", loan.unit.as_str())
            .with("venue", loan.venue.as_str());
    }
    hex::encode(Sha256::digest(canonical::to_python(&Value::Object(object)).as_bytes()))
}

impl Card {
    /// Shortens URLs for a list, so that long URLs from other parties cannot fill the list's frame.
    ///
    /// The digest still covers the full terms, which the request's receipt shows.
    pub fn with_short_urls(mut self) -> Self {
        let terms = &mut self.terms;
        let named = [&mut terms.request_url, &mut terms.resource_url].into_iter().flatten();
        for url in named.chain(&mut terms.other_urls) {
            *url = text::short_url(url, LISTED_URL_CHARS_MAX);
        }
        self
    }

    /// Returns whether the payee is a foreign address to which no operator is known to have approved a payment.
    ///
    /// Automatic payments do not count, because an agent can pay small amounts to any address.
    pub fn has_unknown_payee(&self) -> bool {
        let unapproved = self.paid_before.as_ref().is_none_or(|paid| paid.approved == 0);
        self.payee_label.is_none() && unapproved
    }

    /// Returns whether a risk of the payment is a danger, so that the amount must be typed.
    pub fn is_dangerous(&self) -> bool {
        self.risks.iter().any(|risk| risk.level == Level::Danger)
    }

    /// Returns whether the paying address is known to hold less than the payment.
    pub fn has_insufficient_balance(&self) -> bool {
        self.balance.as_ref().is_some_and(|balance| balance.after.is_none())
    }
}

#[cfg(test)]
mod tests;
