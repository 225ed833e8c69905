//! The card that an operator sees before deciding on a request, and the digest that binds the decision to it. Console,
//! command line and `--json` show the same value.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::ids::{AgentId, Name, RequestId};
use crate::json::{Object, Value};
use crate::limits::LISTED_URL;
use crate::money::{Usd, usd_text};
use crate::text::{self, Zone};

/// The lane of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Payment,
}

impl Lane {
    /// Returns the stable text on the wire.
    pub fn text(self) -> &'static str {
        match self {
            Lane::Payment => "payment",
        }
    }
}

/// The reason why a request needs the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// The policy has no automatic limit: every payment needs approval.
    ManualOnly,
    /// The amount reaches the policy's automatic limit.
    AboveThreshold,
    /// The agent's URL is on the allow list, the offer's resource is not.
    ResourceOutsideAllowList,
    /// The payment would stay valid longer than the setting `payments.max_validity`.
    LongValidity,
    /// The offer's EIP-712 domain differs from our table, and the chain did not confirm ours.
    DomainContradicted,
    /// The journal did not match the wallet at unlock.
    JournalUntrusted,
    /// The price of the asset is not known.
    Unpriced,
    /// This machine's clock is over ten minutes off the newest block.
    ClockOff,
}

impl HoldReason {
    /// Returns the stable text on the wire.
    pub fn text(self) -> &'static str {
        match self {
            HoldReason::ManualOnly => "manual_only",
            HoldReason::AboveThreshold => "above_threshold",
            HoldReason::ResourceOutsideAllowList => "resource_outside_allow_list",
            HoldReason::LongValidity => "long_validity",
            HoldReason::DomainContradicted => "domain_contradicted",
            HoldReason::JournalUntrusted => "journal_untrusted",
            HoldReason::Unpriced => "unpriced",
            HoldReason::ClockOff => "clock_off",
        }
    }

    /// Returns [`HoldReason::sentence`], with the figures for [`HoldReason::AboveThreshold`].
    pub fn describe(self, amount: Usd, auto_below: Usd) -> String {
        // If the limit was raised since, today's figures would not explain the hold.
        if self == HoldReason::AboveThreshold && amount >= auto_below {
            let reaches = if amount == auto_below { "reaches" } else { "is over" };
            return format!("{amount} {reaches} the automatic limit of {auto_below}");
        }
        self.sentence().to_owned()
    }

    /// Returns one line for the operator.
    pub fn sentence(self) -> &'static str {
        match self {
            HoldReason::ManualOnly => "the policy requires approval of every payment",
            HoldReason::AboveThreshold => "at or over the policy's automatic limit",
            HoldReason::ResourceOutsideAllowList => {
                "the agent's URL is on the allow list, the paid resource is not"
            }
            HoldReason::LongValidity => "it would stay valid for longer than payments.max_validity",
            HoldReason::DomainContradicted => {
                "the offer's token domain differs from Bursar's, which the chain did not confirm"
            }
            HoldReason::JournalUntrusted => {
                "the journal did not match the wallet at unlock (see audit verify)"
            }
            HoldReason::Unpriced => {
                "the price of this asset is not known, so it can only be denied"
            }
            HoldReason::ClockOff => {
                "this machine's clock is over ten minutes off the chain's: correct it first"
            }
        }
    }
}

/// The terms that an approval would sign.
///
/// Nothing here changes with time. The digest covers these terms, the hold reason and the policy's version, nothing
/// else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Seconds that the authorization stays valid after it is signed.
    pub valid_seconds: u64,
    pub request_url: Option<String>,
    pub resource_url: Option<String>,
    /// Further URLs that the challenge names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_urls: Vec<String>,
}

/// An amount before and after an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    #[serde(with = "usd_text")]
    pub before: Usd,
    #[serde(with = "usd_text")]
    pub after: Usd,
}

/// Earlier payments that this wallet authorized to one address on one network, for any agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidBefore {
    pub times: u64,
    /// The number of payments that an operator approved.
    pub approved: u64,
    /// RFC 3339, as is `last`; `None` before the first payment.
    pub first: Option<String>,
    pub last: Option<String>,
    #[serde(with = "usd_text")]
    pub usd: Usd,
}

/// The paying address's latest known balance of the asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    pub id: RequestId,
    pub terms: Terms,
    pub hold: HoldReason,
    /// Why an approval would be refused at the moment, in one sentence.
    pub obstacle: Option<String>,
    pub policy: Name,
    pub policy_version: u64,
    pub agent_name: Name,
    /// The paying address's label.
    pub label: Name,
    pub network_title: String,
    /// With the token's decimals and symbol, like `1.500000 USDC`; in atomic units for an unknown token.
    pub amount: String,
    /// The asset's price is not known; `usd` is then zero and has no meaning.
    pub unpriced: bool,
    #[serde(with = "usd_text")]
    pub usd: Usd,
    /// The agent's spending today, without and with this request.
    pub spent: Change,
    #[serde(with = "usd_text")]
    pub daily_limit: Usd,
    #[serde(with = "usd_text")]
    pub per_request_max: Usd,
    #[serde(with = "usd_text")]
    pub auto_below: Usd,
    /// The sum reserved by the agent's pending requests, including this one.
    #[serde(with = "usd_text")]
    pub reserved: Usd,
    pub expires_in_seconds: u64,
    /// The operator must type the amount to approve it (setting `confirm_typing_above`).
    pub type_amount: bool,
    /// The label, if the payee is this wallet's own address.
    pub payee_label: Option<Name>,
    pub paid_before: Option<PaidBefore>,
    pub paid_before_unknown_reason: Option<String>,
    pub balance: Option<Balance>,
    pub balance_unknown_reason: Option<String>,
    /// The [`digest`] of what is shown, in hex.
    pub digest: String,
}

/// Returns the SHA-256 of the canonical JSON of terms, hold reason and policy version, in hex.
pub fn digest(terms: &Terms, hold: HoldReason, policy_version: u64) -> String {
    let optional = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let mut object = Object::new()
        .with("address", terms.address.as_str())
        .with("agent", terms.agent.as_str())
        .with("amount", terms.amount.as_str())
        .with("asset", terms.asset.as_str())
        .with("hold", hold.text())
        .with("lane", terms.lane.text())
        .with("minimum_out", Value::Null)
        .with("network", terms.network.as_str())
        .with("payee", terms.payee.as_str())
        .with("policy_version", policy_version)
        .with("request_url", optional(&terms.request_url))
        .with("resource_url", optional(&terms.resource_url))
        .with("valid_seconds", terms.valid_seconds);
    if !terms.other_urls.is_empty() {
        let urls = terms.other_urls.iter().map(|url| Value::from(url.as_str()));
        object = object.with("other_urls", Value::from(urls.collect::<Vec<_>>()));
    }
    hex::encode(Sha256::digest(canonical::to_python(&Value::Object(object)).as_bytes()))
}

/// Characters of a URL on a card.
const URL_WIDTH: usize = 120;

impl Card {
    /// Shortens URLs for a list, so that long ones from strangers cannot fill the frame of all cards.
    ///
    /// The digest still covers the full terms, which the request's receipt shows.
    pub fn listed(mut self) -> Self {
        let terms = &mut self.terms;
        let named = [&mut terms.request_url, &mut terms.resource_url].into_iter().flatten();
        for url in named.chain(&mut terms.other_urls) {
            *url = text::short_url(url, LISTED_URL);
        }
        self
    }

    /// Returns whether no operator is known to have approved a payment to this foreign address.
    ///
    /// Automatic payments do not count, because an agent can pay small amounts to any address.
    pub fn is_stranger(&self) -> bool {
        let unapproved = self.paid_before.as_ref().is_none_or(|paid| paid.approved == 0);
        self.payee_label.is_none() && unapproved
    }

    /// Returns whether the paying address is known to hold less than the payment.
    pub fn is_short(&self) -> bool {
        self.balance.as_ref().is_some_and(|balance| balance.after.is_none())
    }

    fn payee_text(&self, zone: Option<&Zone>) -> String {
        let utc = Zone::default();
        let date =
            |at: &Option<String>| zone.unwrap_or(&utc).date(at.as_deref().unwrap_or_default());
        let history = match &self.paid_before {
            None => {
                let why = self.paid_before_unknown_reason.as_deref().unwrap_or("not looked up");
                format!("earlier payments unknown: {why}")
            }
            Some(paid) if paid.times == 0 && self.payee_label.is_none() => {
                "FIRST payment to this address: check it".to_owned()
            }
            Some(paid) if paid.times == 0 => "first payment to it".to_owned(),
            Some(paid) if paid.approved == 0 => format!(
                "NEVER approved by you; {} automatic ({} USD), last {}",
                paid.times,
                paid.usd,
                date(&paid.last)
            ),
            Some(paid) if paid.times == 1 => {
                format!("approved once ({} USD), on {}", paid.usd, date(&paid.first))
            }
            Some(paid) => format!(
                "approved {} of {} times ({} USD), last {}",
                paid.approved,
                paid.times,
                paid.usd,
                date(&paid.last)
            ),
        };
        match &self.payee_label {
            Some(label) => format!("this wallet's own address ({label}); {history}"),
            None => history,
        }
    }

    fn balance_text(&self, zone: Option<&Zone>) -> String {
        let time = |read: &String| zone.map_or_else(|| read.clone(), |zone| zone.moment(read));
        match &self.balance {
            None => {
                let why = self.balance_unknown_reason.as_deref().unwrap_or("not looked up");
                format!("unknown: {why}")
            }
            Some(Balance { before, after: Some(after), symbol, read }) => {
                format!("{before} -> {after} {symbol}  (read {})", time(read))
            }
            Some(Balance { before, after: None, symbol, read }) => {
                format!("{before} {symbol}: NOT ENOUGH  (read {})", time(read))
            }
        }
    }

    /// Formats the card as lines of text, with untrusted text quoted and times in UTC.
    pub fn lines(&self) -> Vec<String> {
        self.lines_by(None)
    }

    /// Formats the card like [`Card::lines`], with times in the console's zone.
    pub fn lines_in(&self, zone: &Zone) -> Vec<String> {
        self.lines_by(Some(zone))
    }

    fn lines_by(&self, zone: Option<&Zone>) -> Vec<String> {
        let id = self.id.short();
        let url = |text: Option<&String>, source: &str| match text {
            Some(url) => {
                let shown = text::short_url(url, URL_WIDTH);
                let cut = shown != *url || url.ends_with('…');
                let whole = if cut { format!("; in full: receipt {id}") } else { String::new() };
                let host = text::host_note(url).map_or(String::new(), |note| format!("; {note}"));
                format!(
                    "{}  (text from the {source}{host}{whole})",
                    text::quoted(&shown, usize::MAX)
                )
            }
            None => format!("not given  (text from the {source})"),
        };
        let row = |name: &str, value: String| format!("{name:<11}{value}");
        let mut lines = vec![
            format!(
                "{}  {}  agent {} ({})",
                id,
                self.terms.lane.text(),
                self.terms.agent,
                self.agent_name
            ),
            row("leaves", format!("{} on {}", self.amount, self.network_title)),
            row("from", format!("{} ({})", self.terms.address, self.label)),
            row("to", self.terms.payee.clone()),
            row("payee", self.payee_text(zone)),
            row("token", self.terms.asset.clone()),
            row("request", url(self.terms.request_url.as_ref(), "agent")),
            row("resource", url(self.terms.resource_url.as_ref(), "merchant")),
        ];
        lines.extend(
            self.terms.other_urls.iter().map(|other| row("and", url(Some(other), "merchant"))),
        );
        lines.extend([
            row("held", self.hold.describe(self.usd, self.auto_below)),
            row(
                "today",
                if self.unpriced {
                    format!("spent {} of {} USD", self.spent.before, self.daily_limit)
                } else {
                    format!(
                        "spent {} -> {} of {} USD  ({} reserved by held requests)",
                        self.spent.before, self.spent.after, self.daily_limit, self.reserved
                    )
                },
            ),
            row("balance", self.balance_text(zone)),
            row(
                "policy",
                format!(
                    "{} v{}: at most {} a request, automatic below {}",
                    self.policy, self.policy_version, self.per_request_max, self.auto_below
                ),
            ),
            row("valid", format!("{} s after signing", self.terms.valid_seconds)),
            row("expires", format!("in {}", text::countdown(self.expires_in_seconds))),
            row("card", self.digest.clone()),
        ]);
        if let Some(obstacle) = &self.obstacle {
            lines.push(row("refused", format!("cannot be approved now: {obstacle}")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            lane: Lane::Payment,
            agent: "ABC123".parse().unwrap(),
            address: "0x9858EfFD232B4033E47d90003D41EC34EcaEda94".into(),
            network: "eip155:8453".into(),
            asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".into(),
            payee: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C".into(),
            amount: "1500000".into(),
            valid_seconds: 60,
            request_url: Some("https://api.example.com/report".into()),
            resource_url: None,
            other_urls: Vec::new(),
        }
    }

    #[test]
    fn card_digest_matches_the_published_value() {
        // Checked with Python: hashlib.sha256(json.dumps(..., separators=(',',':'), sort_keys=True)).
        assert_eq!(
            digest(&terms(), HoldReason::AboveThreshold, 7),
            "c1d171498fb02e01e507bc184a000778c78b4127a5d25d8da8a1f841576d3661"
        );
    }

    #[test]
    fn every_term_changes_the_card_digest() {
        type Change = fn(&mut Terms);
        let before = digest(&terms(), HoldReason::AboveThreshold, 7);
        let changes: &[Change] = &[
            |t| t.agent = "ABC124".parse().unwrap(),
            |t| t.address = t.payee.clone(),
            |t| t.network = "eip155:1".into(),
            |t| t.asset = t.payee.clone(),
            |t| t.payee = t.address.clone(),
            |t| t.amount = "1500001".into(),
            |t| t.valid_seconds = 61,
            |t| t.request_url = None,
            |t| t.resource_url = Some(String::new()),
            |t| t.other_urls = vec![String::new()],
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = terms();
            change(&mut changed);
            assert_ne!(digest(&changed, HoldReason::AboveThreshold, 7), before, "change {index}");
        }
        assert_ne!(digest(&terms(), HoldReason::LongValidity, 7), before);
        assert_ne!(digest(&terms(), HoldReason::AboveThreshold, 8), before);
    }

    fn card() -> Card {
        let terms = terms();
        Card {
            id: "01234567-89ab-4cde-8f01-23456789abcd".parse().unwrap(),
            digest: digest(&terms, HoldReason::AboveThreshold, 7),
            terms,
            hold: HoldReason::AboveThreshold,
            obstacle: None,
            policy: "p".parse().unwrap(),
            policy_version: 7,
            agent_name: "bot".parse().unwrap(),
            label: "pay".parse().unwrap(),
            network_title: "Base".into(),
            amount: "1.500000 USDC".into(),
            unpriced: false,
            usd: Usd(1_500_000),
            spent: Change { before: Usd(0), after: Usd(1_500_000) },
            daily_limit: Usd(5_000_000),
            per_request_max: Usd(2_000_000),
            auto_below: Usd(500_000),
            reserved: Usd(1_500_000),
            expires_in_seconds: 60,
            type_amount: false,
            payee_label: None,
            paid_before: None,
            paid_before_unknown_reason: None,
            balance: None,
            balance_unknown_reason: None,
        }
    }

    /// Returns the row of this name, and the name of the row before it.
    fn row(card: &Card, name: &str) -> (String, String) {
        let lines = card.lines();
        let index = lines.iter().position(|line| line.starts_with(name)).unwrap();
        let before = lines[index - 1].split(' ').next().unwrap().to_owned();
        (lines[index].clone(), before)
    }

    #[test]
    fn payee_row_follows_the_address_and_shows_its_history() {
        let paid = |times: u64, approved: u64| PaidBefore {
            times,
            approved,
            first: (times > 0).then(|| "2026-10-02T08:15:00Z".to_owned()),
            last: (times > 0).then(|| "2026-11-19T17:40:12Z".to_owned()),
            usd: Usd(1_500_000 * times),
        };
        let mut card = card();
        for (known, why, first, row_wanted) in [
            (Some(paid(0, 0)), None, true, "FIRST payment to this address: check it"),
            (
                Some(paid(3, 0)),
                None,
                true,
                "NEVER approved by you; 3 automatic (4.50 USD), last 2026-11-19",
            ),
            (Some(paid(1, 1)), None, false, "approved once (1.50 USD), on 2026-10-02"),
            (Some(paid(14, 2)), None, false, "approved 2 of 14 times (21.00 USD), last 2026-11-19"),
            (None, Some("no index"), true, "earlier payments unknown: no index"),
        ] {
            card.paid_before = known;
            card.paid_before_unknown_reason = why.map(str::to_owned);
            assert_eq!(row(&card, "payee"), (format!("payee      {row_wanted}"), "to".to_owned()));
            assert_eq!(card.is_stranger(), first, "{row_wanted}");
        }
        card.paid_before = Some(paid(0, 0));
        card.payee_label = Some("savings".parse().unwrap());
        let own = "payee      this wallet's own address (savings); first payment to it";
        assert_eq!(row(&card, "payee").0, own);
        assert!(!card.is_stranger(), "the wallet's own address needs no warning");
    }

    #[test]
    fn balance_row_follows_the_day_and_unknown_is_not_zero() {
        let mut card = card();
        card.balance_unknown_reason = Some("The network did not answer in time.".to_owned());
        let (line, before) = row(&card, "balance");
        assert_eq!(line, "balance    unknown: The network did not answer in time.");
        assert_eq!((before.as_str(), card.is_short()), ("today", false));
        let mut balance = Balance {
            before: "48.201200".into(),
            after: Some("46.701200".into()),
            symbol: "USDC".into(),
            read: "2026-11-19T17:40:12Z".into(),
        };
        card.balance = Some(balance.clone());
        let enough = "balance    48.201200 -> 46.701200 USDC  (read 2026-11-19T17:40:12Z)";
        assert_eq!((row(&card, "balance").0.as_str(), card.is_short()), (enough, false));
        (balance.before, balance.after) = ("0.400000".into(), None);
        card.balance = Some(balance);
        let short = "balance    0.400000 USDC: NOT ENOUGH  (read 2026-11-19T17:40:12Z)";
        assert_eq!((row(&card, "balance").0.as_str(), card.is_short()), (short, true));
    }

    #[test]
    fn unknown_card_fields_are_null_with_a_reason() {
        let mut card = card();
        card.balance_unknown_reason = Some("why".to_owned());
        let json = serde_json::to_value(&card).unwrap();
        assert!(json["balance"].is_null() && json["paid_before"].is_null());
        assert_eq!(json["balance_unknown_reason"], "why");
        assert_eq!(serde_json::from_value::<Card>(json).unwrap(), card);
    }
}
