//! Translates between the wallet's HTTP bodies and the auditor's types.
//!
//! It reads responses as an agent would, with a JSON parser and no code of the wallet.

use bursar_auditor::observations::{
    Answer, Domain, LoanAnswer as SeenLoan, LoanState, Offer, Payment, Policy, Standing,
    TradeAnswer, TradeState, TradingPolicy,
};
use bursar_core::edition::{EditionName, EditionRules};
use bursar_core::networks::{self, ChainId};
use bursar_tests::offers;
use serde_json::{Value, json};

use crate::loan_book::LoanAnswer;
use crate::plan::{Oddity, PlannedPayment};

/// Returns the networks on which an edition's worlds pay: both that are enabled by default, and one that is not.
pub(crate) fn chains(edition: EditionName) -> [u64; 3] {
    let networks = EditionRules::of(edition).networks;
    let mut enabled = networks.iter().filter(|(chain, on)| **on && chain.0 != BASE);
    let (second, _on) = enabled.next().expect("two networks are enabled");
    [BASE, second.0, CHAIN_WITHOUT_EXCHANGE]
}

const BASE: u64 = 8453;
/// The network of [`chains`] that has no exchange.
const CHAIN_WITHOUT_EXCHANGE: u64 = 1;

pub(crate) const URLS: [&str; 7] = [
    "https://api.example.com/report",
    "https://example.com",
    "https://shop.example.org/a?b=c",
    "https://evil.example.com/x",
    "https://other.test/",
    "http://127.0.0.1:8402/large",
    "no url",
];

pub(crate) const PAYEE: &str = "0x209693bc6afc0c5328ba36faf03c514ef312287c";
pub(crate) const TOKEN: &str = "0x00000000000000000000000000000000000000aa";

/// A policy: its limits in micro-dollars, and its lists.
pub(crate) struct Limits {
    pub(crate) daily: u64,
    pub(crate) per_request: u64,
    pub(crate) auto_below: u64,
    pub(crate) payments: bool,
    pub(crate) allowed: &'static [&'static str],
    pub(crate) blocked: &'static [&'static str],
    /// Whether the policy allows the second of the [`chains`] alone.
    pub(crate) second_network: bool,
}

pub(crate) const PLAIN: Limits = Limits {
    daily: 10_000_000,
    per_request: 5_000_000,
    auto_below: 500_000,
    payments: true,
    allowed: &[],
    blocked: &[],
    second_network: false,
};

pub(crate) const POLICIES: [Limits; 10] = [
    PLAIN,
    Limits { daily: 3_000_000, per_request: 3_000_000, auto_below: 1_000_000, ..PLAIN },
    Limits { auto_below: 0, ..PLAIN },
    Limits { daily: 1_000_000, per_request: 2_000_000, auto_below: 2_500_000, ..PLAIN },
    Limits { allowed: &["example.com"], ..PLAIN },
    Limits { blocked: &["evil.example.com"], ..PLAIN },
    Limits { allowed: &["example.com", "other.test"], blocked: &["evil.example.com"], ..PLAIN },
    Limits { payments: false, ..PLAIN },
    Limits { second_network: true, ..PLAIN },
    Limits { daily: 0, ..PLAIN },
];

fn dollars(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

impl Limits {
    pub(crate) fn options(&self, edition: EditionName) -> String {
        let networks = match self.second_network {
            false => "all".to_owned(),
            true => chains(edition)[1].to_string(),
        };
        format!(
            "--day {} --txn {} --auto {} --networks {networks} --allow-domains \"{}\" --block-domains \"{}\" {}",
            dollars(self.daily),
            dollars(self.per_request),
            dollars(self.auto_below),
            self.allowed.join(","),
            self.blocked.join(","),
            if self.payments { "--payments" } else { "--no-payments" },
        )
    }

    pub(crate) fn auditor_policy(&self, edition: EditionName, trading: TradingPolicy) -> Policy {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Policy {
            payments: self.payments,
            daily: self.daily,
            per_request: self.per_request,
            auto_below: self.auto_below,
            networks: self.second_network.then(|| vec![chains(edition)[1]]),
            allowed_domains: owned(self.allowed),
            blocked_domains: owned(self.blocked),
            trading,
        }
    }
}

/// A seller's challenge: its offers in the auditor's type, and the JSON that is sent.
pub(crate) struct Challenge {
    pub(crate) offers: Vec<Offer>,
    pub(crate) json: Value,
    /// Whether the challenge is sent as `x402_data` instead of a header.
    pub(crate) is_sent_as_data: bool,
}

impl Challenge {
    pub(crate) fn new(
        edition: EditionName,
        planned: &PlannedPayment,
        micros: u64,
        own: &str,
        number: u64,
    ) -> Self {
        // The wallet refuses a token outside its table only if no exchange can quote it.
        let chain = if planned.oddity == Oddity::Token {
            CHAIN_WITHOUT_EXCHANGE
        } else {
            chains(edition)[planned.chain]
        };
        let version = if chain == BASE { planned.version } else { 2 };
        let coin = networks::by_chain(ChainId(chain)).expect("a network").stablecoin;
        let asset = if planned.oddity == Oddity::Token {
            TOKEN.to_owned()
        } else {
            format!("{:#x}", coin.address)
        };
        let payee = match planned.oddity {
            Oddity::ToNobody => format!("0x{}", "0".repeat(40)),
            Oddity::ToItself => own.to_owned(),
            Oddity::ToTheToken => asset.clone(),
            _other => PAYEE.to_owned(),
        };
        let offer = Offer {
            version,
            scheme: if planned.oddity == Oddity::OtherScheme { "upto" } else { "exact" }.to_owned(),
            transfer_method: (planned.oddity == Oddity::OtherMethod).then(|| "permit2".to_owned()),
            chain,
            reference: planned.oddity != Oddity::Token,
            asset,
            amount: micros.into(),
            payee,
            max_timeout_s: planned.timeout_s,
            resource_url: planned.resource_url.map(|url| URLS[url].to_owned()),
            domain: if planned.oddity == Oddity::Contradicts {
                Domain::Contradicts
            } else {
                Domain::Agrees
            },
        };
        let mut offers = Vec::new();
        if planned.oddity == Oddity::SecondOffer && version == 2 {
            offers.push(Offer { chain: 999_999, reference: false, ..offer.clone() });
        }
        offers.push(offer);
        let accepts: Vec<Value> = offers
            .iter()
            .map(|offer| accept(offer, coin.domain_name, coin.domain_version))
            .collect();
        let mut json =
            json!({"x402Version": version, "error": format!("{number}"), "accepts": accepts});
        if version == 2 {
            let url = offers[0].resource_url.clone();
            json["resource"] = match url {
                Some(url) => json!({"url": url, "description": "d", "mimeType": "text/plain"}),
                None => json!({"description": "d", "mimeType": "text/plain"}),
            };
        }
        Self { offers, json, is_sent_as_data: number.is_multiple_of(5) }
    }

    /// Returns the text by which the wallet compares two contents.
    pub(crate) fn content(&self) -> String {
        if self.is_sent_as_data { self.json.to_string() } else { offers::header(&self.json) }
    }
}

fn accept(offer: &Offer, name: &str, version: &str) -> Value {
    let mut extra = json!({"name": name, "version": version});
    if offer.domain != Domain::Agrees {
        extra["name"] = json!("Another Coin");
    }
    if let Some(method) = &offer.transfer_method {
        extra["assetTransferMethod"] = json!(method);
    }
    let mut accept = json!({
        "scheme": offer.scheme, "asset": offer.asset, "payTo": offer.payee, "extra": extra,
    });
    if let Some(seconds) = offer.max_timeout_s {
        accept["maxTimeoutSeconds"] = json!(seconds);
    }
    if offer.version == 1 {
        accept["network"] = json!("base");
        accept["maxAmountRequired"] = json!(offer.amount.to_string());
        accept["description"] = json!("d");
        accept["mimeType"] = json!("text/plain");
        accept["resource"] = json!(offer.resource_url.clone().unwrap_or_default());
    } else {
        accept["network"] = json!(format!("eip155:{}", offer.chain));
        accept["amount"] = json!(offer.amount.to_string());
    }
    accept
}

/// Reads a response of `/sign`, of a poll or of a report.
pub(crate) fn answer(status: u16, body: &Value) -> Answer {
    let text = |field: &str| body[field].as_str().map(str::to_owned);
    let id = || text("transaction_id").or(text("request_id")).expect("an id");
    match (status, body["status"].as_str()) {
        (200, Some("success")) if body["code"] == "ALREADY_SIGNED" => {
            Answer::AlreadySigned { id: id() }
        }
        (200, Some("success")) => {
            let header = text("header_value").expect("a header");
            Answer::Header { id: id(), payment: payment(&header) }
        }
        (202, Some("pending")) => Answer::Pending { id: id() },
        (202, Some("executing")) => Answer::Executing { id: id() },
        (200, Some("rejected")) => Answer::Rejected { id: id(), code: text("code") },
        (200, Some("ok")) => Answer::Reported { stage: text("new_status").expect("a stage") },
        _refused => Answer::Refused {
            http: status,
            code: text("code").unwrap_or_else(|| format!("none: {body}")),
            id: text("transaction_id"),
            previous: text("previous_transaction_id"),
        },
    }
}

/// Reads a response of `/trade` or of a trade's poll.
pub(crate) fn trade_answer(status: u16, body: &Value) -> Answer {
    let text = |field: &str| body[field].as_str().filter(|text| !text.is_empty());
    let owned = |field: &str| text(field).map(str::to_owned);
    let number = |field: &str| body[field].to_string().parse().ok();
    let state = match text("status") {
        Some("executed") => TradeState::Executed {
            tx_hash: owned("tx_hash").unwrap_or_default(),
            amount_out: number("amount_out"),
            amount_out_quoted: number("amount_out_quoted"),
        },
        Some("pending") => TradeState::Pending,
        Some("executing") => TradeState::Executing,
        Some("rejected") => {
            TradeState::Rejected { code: owned("code"), reason_code: owned("reason_code") }
        }
        Some("failed") => TradeState::Failed { code: owned("code") },
        _fault => return answer(status, body),
    };
    Answer::Trade(TradeAnswer { id: owned("request_id"), state })
}

/// Returns an answer about a loan in the auditor's types. `body` is its response.
pub(crate) fn position_answer(seen: &LoanAnswer, body: &Value) -> Answer {
    let retryable = body["retryable"].as_bool().unwrap_or(false);
    let (code, reason_code) = (seen.code.clone(), seen.reason.clone());
    let state = match seen.status.as_str() {
        "executed" => LoanState::Executed {
            tx_hash: seen.hash.clone().unwrap_or_default(),
            assets_moved: seen.moved,
            position_after: seen.position,
        },
        "pending" => LoanState::Pending,
        "executing" => LoanState::Executing,
        "rejected" => LoanState::Rejected { code, reason_code, retryable },
        "failed" => LoanState::Failed { code, retryable },
        _fault => return answer(seen.http, body),
    };
    Answer::Loan(SeenLoan { id: seen.id.clone(), state })
}

/// Reads a response of `/position` or of a loan's poll.
pub(crate) fn loan_answer(http: u16, body: &Value) -> LoanAnswer {
    let text = |field: &str| body[field].as_str().filter(|text| !text.is_empty());
    let owned = |field: &str| text(field).map(str::to_owned);
    let number = |field: &str| body[field].to_string().parse().ok();
    LoanAnswer {
        http,
        id: owned("request_id"),
        status: owned("status").unwrap_or_else(|| format!("none: {body}")),
        code: owned("code"),
        reason: owned("reason_code"),
        hash: owned("tx_hash"),
        moved: number("assets_moved"),
        position: number("position_after"),
    }
}

/// Reads the agent's own positions from a list of venues: venue and assets.
pub(crate) fn own_venues(body: &Value) -> Vec<(String, Option<u128>)> {
    let all = body["venues"].as_array().map(Vec::as_slice).unwrap_or_default();
    let each = all.iter().map(|one| {
        let venue = one["venue"].as_str().unwrap_or_default().to_lowercase();
        (venue, one["your_position_assets"].to_string().parse().ok())
    });
    each.collect()
}

/// Reads a response of `POST /status`.
pub(crate) fn standing(status: u16, body: &Value) -> Answer {
    let agent = &body["agent"];
    if status != 200 {
        return answer(status, body);
    }
    let number = |field: &str| agent[field].as_u64().unwrap_or(0);
    Answer::Standing(Standing {
        status: agent["status"].as_str().expect("a status").to_owned(),
        daily: number("daily_limit_micro"),
        per_request: number("per_request_max_micro"),
        auto_below: number("auto_approve_below_micro"),
        spent: number("spent_today_micro"),
        reserved: number("reserved_micro"),
    })
}

/// Decodes a payment header as a facilitator does.
fn payment(header: &str) -> Payment {
    let json = offers::decode_header(header);
    let version = json["x402Version"].as_u64().expect("a version");
    let terms = &json["payload"]["authorization"];
    let text = |value: &Value| value.as_str().expect("a text").to_lowercase();
    let number = |value: &Value| value.as_str().and_then(|v| v.parse().ok()).expect("a number");
    let (chain, asset) = if version == 1 {
        assert_eq!(json["network"], "base");
        (8453, None)
    } else {
        let network = text(&json["accepted"]["network"]);
        let chain = network.strip_prefix("eip155:").and_then(|id| id.parse().ok());
        (chain.expect("a chain"), Some(text(&json["accepted"]["asset"])))
    };
    let coin = networks::by_chain(ChainId(chain)).expect("a network").stablecoin;
    Payment {
        version: u8::try_from(version).expect("1 or 2"),
        chain,
        asset: asset.unwrap_or_else(|| format!("{:#x}", coin.address)),
        payer: text(&terms["from"]),
        payee: text(&terms["to"]),
        amount: u128::from(number(&terms["value"])),
        valid_after_s: number(&terms["validAfter"]),
        valid_before_s: number(&terms["validBefore"]),
        nonce: text(&terms["nonce"]),
        signature: text(&json["payload"]["signature"]),
        signer: None,
    }
}
