//! The card: what an operator is shown before deciding, and the digest that binds the decision to it.
//! Console, command line and `--json` all show this one value.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::ids::{AgentId, Name, RequestId};
use crate::json::{Object, Value};
use crate::money::{Usd, usd_text};
use crate::text;

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
    /// At or above the auto-approve threshold.
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

    /// One line for the operator.
    pub fn sentence(self) -> &'static str {
        match self {
            HoldReason::ManualOnly => "the policy approves nothing by itself",
            HoldReason::AboveThreshold => "not below the policy's auto-approve threshold",
            HoldReason::ResourceOutsideAllowList => {
                "the paid resource lies outside the allow list, the agent's URL inside"
            }
            HoldReason::LongValidity => "it would stay valid longer than payments.max_validity",
            HoldReason::DomainContradicted => {
                "the offer names another token domain than our table, and the chain did not confirm ours"
            }
            HoldReason::JournalUntrusted => {
                "the journal did not fit the wallet at unlock (see audit verify)"
            }
            HoldReason::Unpriced => {
                "the asset has no price yet, so no limit can judge it: it can only be denied"
            }
            HoldReason::ClockOff => {
                "this machine's clock is more than ten minutes off the chain's: set it right first"
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
}

/// A figure before and after an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    #[serde(with = "usd_text")]
    pub before: Usd,
    #[serde(with = "usd_text")]
    pub after: Usd,
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
    /// Hex; [`digest`] of what is shown.
    pub digest: String,
}

/// SHA-256 of the canonical JSON of terms, hold reason and policy version, in hex.
pub fn digest(terms: &Terms, hold: HoldReason, policy_version: u64) -> String {
    let optional = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let object = Object::new()
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
    hex::encode(Sha256::digest(canonical::to_python(&Value::Object(object)).as_bytes()))
}

impl Card {
    /// The card as lines of text, for every place that shows it. Foreign text is quoted.
    pub fn lines(&self) -> Vec<String> {
        let url = |text: &Option<String>| match text {
            Some(url) => text::quoted(url, 120),
            None => "not given".to_owned(),
        };
        let row = |name: &str, value: String| format!("{name:<11}{value}");
        let mut lines = vec![
            format!(
                "{}  {}  agent {} ({})",
                self.id.short(),
                self.terms.lane.text(),
                self.terms.agent,
                self.agent_name
            ),
            row("leaves", format!("{} on {}", self.amount, self.network_title)),
            row("from", format!("{} ({})", self.terms.address, self.label)),
            row("to", self.terms.payee.clone()),
            row("token", self.terms.asset.clone()),
            row("request", format!("{}  (text from the agent)", url(&self.terms.request_url))),
            row("resource", format!("{}  (text from the merchant)", url(&self.terms.resource_url))),
            row("held", self.hold.sentence().to_owned()),
            row(
                "today",
                if self.unpriced {
                    format!("spent {} of {} USD", self.spent.before, self.daily_limit)
                } else {
                    format!(
                        "spent {} -> {} of {} USD  ({} held back by waiting requests)",
                        self.spent.before, self.spent.after, self.daily_limit, self.reserved
                    )
                },
            ),
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
        ];
        if let Some(obstacle) = &self.obstacle {
            lines
                .push(row("refused", format!("an approval would be, as things stand: {obstacle}")));
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
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = terms();
            change(&mut changed);
            assert_ne!(digest(&changed, HoldReason::AboveThreshold, 7), before, "change {index}");
        }
        assert_ne!(digest(&terms(), HoldReason::LongValidity, 7), before);
        assert_ne!(digest(&terms(), HoldReason::AboveThreshold, 8), before);
    }
}
