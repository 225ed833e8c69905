//! The card: what an operator is shown before deciding, and the digest that binds the decision to it.
//! Console, command line and `--json` all show this one value.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::ids::{AgentId, Name, RequestId};
use crate::json::{Object, Value};
use crate::limits::LISTED_URL;
use crate::money::{Usd, usd_text};
use crate::text::{self, Zone};

/// Which lane a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    Payment,
}

impl Lane {
    pub fn text(self) -> &'static str {
        match self {
            Lane::Payment => "payment",
        }
    }
}

/// Why a request waits for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// The policy has no threshold: every payment asks.
    ManualOnly,
    /// At or above the policy's `automatic below`.
    AboveThreshold,
    /// The agent's URL is on the allow list, the offer's resource is not.
    ResourceOutsideAllowList,
    /// It would stay valid longer than the setting `payments.max_validity`.
    LongValidity,
    /// The offer names another EIP-712 domain than our table, and the chain did not confirm ours.
    DomainContradicted,
    /// The journal and the wallet did not fit together at unlock.
    JournalUntrusted,
    /// Nobody can say what the asset is worth.
    Unpriced,
    /// This machine's clock is far off the newest block.
    ClockOff,
}

impl HoldReason {
    /// The stable text on the wire.
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

    /// The same where the figures are known: what was asked, and what the policy is automatic below.
    pub fn told(self, asked: Usd, auto_below: Usd) -> String {
        // A policy that was raised since holds nothing like this any more: no figure of it would explain.
        if self == HoldReason::AboveThreshold && asked >= auto_below {
            let reaches = if asked == auto_below { "reaches" } else { "is over" };
            return format!("{asked} {reaches} the automatic limit of {auto_below}");
        }
        self.sentence().to_owned()
    }

    /// One line for the operator.
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

/// The terms that an approval would sign. Nothing here counts down or changes by itself: the digest
/// covers exactly this, the hold reason and the policy's version.
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

/// A figure before and after an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    #[serde(with = "usd_text")]
    pub before: Usd,
    #[serde(with = "usd_text")]
    pub after: Usd,
}

/// What this wallet has authorized before to one address on one network, by whichever agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidBefore {
    pub times: u64,
    /// How many of them an operator approved.
    pub approved: u64,
    /// RFC 3339, as is `last`; `None` before the first payment.
    pub first: Option<String>,
    pub last: Option<String>,
    #[serde(with = "usd_text")]
    pub usd: Usd,
}

/// What the paying address holds of the asset, as it was read last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// In whole coins, like `48.201200`.
    pub before: String,
    /// `None` where it is not enough.
    pub after: Option<String>,
    pub symbol: String,
    /// RFC 3339.
    pub read: String,
}

/// Everything an operator needs to decide one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    pub id: RequestId,
    pub terms: Terms,
    pub hold: HoldReason,
    /// Why an approval would be refused as things stand now, one sentence.
    pub obstacle: Option<String>,
    pub policy: Name,
    pub policy_version: u64,
    pub agent_name: Name,
    /// The address's label.
    pub label: Name,
    pub network_title: String,
    /// With the token's decimals and symbol, like `1.500000 USDC`; bare units of an unknown token.
    pub amount: String,
    /// Nobody can say what it is worth: `usd` is zero and means nothing.
    pub unpriced: bool,
    #[serde(with = "usd_text")]
    pub usd: Usd,
    /// What the agent has spent today, without and with this request.
    pub spent: Change,
    #[serde(with = "usd_text")]
    pub daily_limit: Usd,
    #[serde(with = "usd_text")]
    pub per_request_max: Usd,
    #[serde(with = "usd_text")]
    pub auto_below: Usd,
    /// What the agent's waiting requests, this one included, hold back.
    #[serde(with = "usd_text")]
    pub reserved: Usd,
    pub expires_in_seconds: u64,
    /// From here on the operator types the amount to approve (setting `confirm_typing_above`).
    pub type_amount: bool,
    /// The payee is this wallet's own address of that label.
    pub payee_label: Option<Name>,
    pub paid_before: Option<PaidBefore>,
    pub paid_before_unknown_reason: Option<String>,
    pub balance: Option<Balance>,
    pub balance_unknown_reason: Option<String>,
    /// Hex; [`digest`] of what is shown.
    pub digest: String,
}

/// SHA-256 of the canonical JSON of terms, hold reason and policy version, in hex.
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

/// Of a URL on a card.
const URL_WIDTH: usize = 120;

impl Card {
    /// As it stands in a list: long URLs are cut, so that no stranger fills the frame that carries all cards.
    /// The digest is that of the whole terms, which the request's receipt has.
    pub fn listed(mut self) -> Self {
        let terms = &mut self.terms;
        let named = [&mut terms.request_url, &mut terms.resource_url].into_iter().flatten();
        for url in named.chain(&mut terms.other_urls) {
            *url = text::short_url(url, LISTED_URL);
        }
        self
    }

    /// No operator is known to have approved a payment to this address, and it is not this wallet's own. What
    /// went there by itself does not count: an agent can pay anybody a little.
    pub fn is_stranger(&self) -> bool {
        let unapproved = self.paid_before.as_ref().is_none_or(|paid| paid.approved == 0);
        self.payee_label.is_none() && unapproved
    }

    /// The paying address is known to hold less than what would leave it.
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

    /// The card as lines of text, for every place that shows it. Foreign text is quoted, times are UTC.
    pub fn lines(&self) -> Vec<String> {
        self.lines_by(None)
    }

    /// The same with the times in a console's zone.
    pub fn lines_in(&self, zone: &Zone) -> Vec<String> {
        self.lines_by(Some(zone))
    }

    fn lines_by(&self, zone: Option<&Zone>) -> Vec<String> {
        let id = self.id.short();
        let url = |text: Option<&String>, whose: &str| match text {
            Some(url) => {
                let shown = text::short_url(url, URL_WIDTH);
                let cut = shown != *url || url.ends_with('…');
                let whole = if cut { format!("; in full: receipt {id}") } else { String::new() };
                let host = text::host_note(url).map_or(String::new(), |note| format!("; {note}"));
                format!(
                    "{}  (text from the {whose}{host}{whole})",
                    text::quoted(&shown, usize::MAX)
                )
            }
            None => format!("not given  (text from the {whose})"),
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
            row("held", self.hold.told(self.usd, self.auto_below)),
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
    fn the_digest_is_the_published_one() {
        // Checked with Python: hashlib.sha256(json.dumps(..., separators=(',',':'), sort_keys=True)).
        assert_eq!(
            digest(&terms(), HoldReason::AboveThreshold, 7),
            "c1d171498fb02e01e507bc184a000778c78b4127a5d25d8da8a1f841576d3661"
        );
    }

    #[test]
    fn every_term_moves_the_digest() {
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

    /// The row of this name, and the one before it.
    fn row(card: &Card, name: &str) -> (String, String) {
        let lines = card.lines();
        let place = lines.iter().position(|line| line.starts_with(name)).unwrap();
        let before = lines[place - 1].split(' ').next().unwrap().to_owned();
        (lines[place].clone(), before)
    }

    #[test]
    fn the_payee_stands_after_its_address_with_what_is_known_of_it() {
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
        assert!(!card.is_stranger(), "nobody is warned of himself");
    }

    #[test]
    fn the_balance_stands_after_the_day_and_is_never_zero_for_want_of_an_answer() {
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
    fn what_is_unknown_is_null_with_its_reason_beside_it() {
        let mut card = card();
        card.balance_unknown_reason = Some("why".to_owned());
        let told = serde_json::to_value(&card).unwrap();
        assert!(told["balance"].is_null() && told["paid_before"].is_null());
        assert_eq!(told["balance_unknown_reason"], "why");
        assert_eq!(serde_json::from_value::<Card>(told).unwrap(), card);
    }
}
