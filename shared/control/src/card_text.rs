//! How a card is shown to the operator: one text for console, command line and prompts.

mod loan;
mod rows;
mod trade;

use bursar_core::card::{AssetCard, Balance, Card};
use bursar_core::risk::{Level, Risk, RiskKind};
use bursar_core::text::{self, Zone};

pub use self::rows::{Row, hold_text};
use self::rows::{device_lines, head_rows, policy_row, row, texts};
pub use self::trade::{TradeAddresses, trade_rows};

/// Maximum number of characters that a card shows of a URL.
const URL_WIDTH: usize = 120;

/// Formats the card as lines of text, with untrusted text quoted and times in UTC.
pub fn lines(card: &Card) -> Vec<String> {
    texts(&rows(card, None))
}

/// Formats the rows of the card, with times in `zone`, or in UTC.
pub fn rows(card: &Card, zone: Option<&Zone>) -> Vec<Row> {
    match (&card.trade, &card.loan) {
        (Some(trade), _) => trade::rows(card, trade, zone),
        (None, Some(loan)) => loan::rows(card, loan, zone),
        (None, None) => payment_rows(card, zone),
    }
}

/// Returns whether a row of the card is more than a note.
pub fn has_warnings(card: &Card) -> bool {
    rows(card, None).iter().any(|row| row.level > Level::Note)
}

fn payment_rows(card: &Card, zone: Option<&Zone>) -> Vec<Row> {
    let id = card.id.short();
    let url = |text: Option<&String>, source: &str| match text {
        Some(url) => {
            let url = text::without_pay_fragment(url);
            let shown = text::short_url(url, URL_WIDTH);
            let cut = shown != url || url.ends_with('…');
            let whole = if cut { format!("; in full: receipt {id}") } else { String::new() };
            let host = text::host_note(url).map_or(String::new(), |note| format!("; {note}"));
            format!("{}  (text from the {source}{host}{whole})", text::quoted(&shown, usize::MAX))
        }
        None => format!("not given  (text from the {source})"),
    };
    let mut lines = head_rows(card);
    lines.extend([
        row("leaves", format!("{} on {}", card.amount, card.network_title)),
        row("from", format!("{} ({})", card.terms.address, card.label)),
        row("to", to_text(card)),
        Row { level: payee_level(card), ..row("payee", payee_text(card, zone)) },
    ]);
    lines.extend(risk_rows(card));
    lines.push(row("token", card.terms.asset.clone()));
    lines.extend(card.asset.iter().flat_map(|asset| asset_lines(asset, zone)));
    lines.extend([
        row("request", url(card.terms.request_url.as_ref(), "agent")),
        row("resource", url(card.terms.resource_url.as_ref(), "merchant")),
    ]);
    lines
        .extend(card.terms.other_urls.iter().map(|other| row("and", url(Some(other), "merchant"))));
    lines.extend(card.device.iter().flat_map(|device| device_lines(device)));
    lines.extend([
        row(
            "today",
            if card.unpriced {
                format!("spent {} of {} USD", card.spent.before, card.daily_limit)
            } else {
                format!(
                    "spent {} -> {} of {} USD  ({} held, with this)",
                    card.spent.before, card.spent.after, card.daily_limit, card.reserved
                )
            },
        ),
        row("balance", balance_text(card, zone)).warn_if(card.has_insufficient_balance()),
        policy_row(card, "request"),
        row("valid", format!("{} s after signing", card.terms.valid_seconds)),
        row("expires", format!("in {}", text::countdown(card.expires_in_seconds))),
        row("card", card.digest.clone()),
    ]);
    if let Some(obstacle) = &card.obstacle {
        lines.push(row("refused", format!("cannot be approved now: {obstacle}")));
    }
    lines
}

/// Formats what is known about a token outside our table.
fn asset_lines(asset: &AssetCard, zone: Option<&Zone>) -> Vec<Row> {
    let time = |at: &String| zone.map_or_else(|| at.clone(), |zone| zone.moment(at));
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut lines = vec![row(
        "domain",
        match &asset.domain {
            Some(domain) => format!("{domain}  (confirmed by the token)"),
            None => "NOT confirmed by the token: nothing can be signed".to_owned(),
        },
    )];
    let Some(costs) = &asset.costs else {
        lines.push(row("price", "unknown: an approval asks again, and needs a price".to_owned()));
        return lines;
    };
    let quoted =
        asset.quoted.as_ref().map_or(String::new(), |at| format!("  (quoted {})", time(at)));
    lines.push(row("price", format!("{costs} to buy the amount{quoted}")));
    lines.extend(asset.route.as_ref().map(|route| row("route", route.clone())));
    let average = match &asset.average_off {
        Some(off) => format!("{off} off"),
        None => "none kept".to_owned(),
    };
    lines.push(row(
        "market",
        format!(
            "sells for {}; ten times the amount costs {}; ten-minute average: {average}",
            known(&asset.sells_for),
            known(&asset.tenfold)
        ),
    ));
    lines
}

/// Formats the payee's address with the operator's name for it, which never replaces the address.
fn to_text(card: &Card) -> String {
    let name = card.payee_name.as_ref().map(|name| text::quoted(name.as_str(), usize::MAX));
    format!("{}{}", card.terms.payee, name.map_or(String::new(), |name| format!("  {name}")))
}

/// Returns whether a risk is that of a first payment, which the row of the payee shows.
fn is_first_payment(risk: &Risk) -> bool {
    match risk.kind {
        RiskKind::LargeFirstPayment => true,
        RiskKind::SimilarAddress | RiskKind::SimilarHost | RiskKind::UnusualPrice => false,
    }
}

fn payee_level(card: &Card) -> Level {
    let risk = card.risks.iter().find(|risk| is_first_payment(risk));
    let unknown = if card.has_unknown_payee() { Level::Warning } else { Level::Note };
    risk.map_or(unknown, |risk| risk.level)
}

/// Formats the other risks.
fn risk_rows(card: &Card) -> impl Iterator<Item = Row> {
    let others = card.risks.iter().filter(|risk| !is_first_payment(risk));
    others.map(|risk| Row { level: risk.level, ..row("risk", risk.text.clone()) })
}

fn payee_text(card: &Card, zone: Option<&Zone>) -> String {
    let utc = Zone::default();
    let date = |at: &Option<String>| zone.unwrap_or(&utc).date(at.as_deref().unwrap_or_default());
    let history = match &card.paid_before {
        None => {
            let why = card.paid_before_unknown_reason.as_deref().unwrap_or("not looked up");
            format!("earlier payments unknown: {why}")
        }
        Some(paid) if paid.times == 0 && card.payee_label.is_none() => {
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
            "paid {} times ({} USD), {} approved, last {}",
            paid.times,
            paid.usd,
            if paid.approved == paid.times { "all".to_owned() } else { paid.approved.to_string() },
            date(&paid.last)
        ),
    };
    match &card.payee_label {
        Some(label) => format!("this wallet's own address ({label}); {history}"),
        None => history,
    }
}

fn balance_text(card: &Card, zone: Option<&Zone>) -> String {
    let time = |read: &String| zone.map_or_else(|| read.clone(), |zone| zone.moment(read));
    match &card.balance {
        None => {
            let why = card.balance_unknown_reason.as_deref().unwrap_or("not looked up");
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

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::card::{Change, HoldReason, Lane, LoanCard, PaidBefore, Terms, digest};
    use bursar_core::money::Usd;

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
            trade: None,
            loan: None,
        }
    }

    fn card() -> Card {
        let terms = terms();
        Card {
            device: None,
            id: "01234567-89ab-4cde-8f01-23456789abcd".parse().unwrap(),
            digest: digest(&terms, HoldReason::AboveThreshold, 7),
            terms,
            hold: HoldReason::AboveThreshold,
            obstacle: None,
            policy: "p".parse().unwrap(),
            policy_version: 7,
            policy_serial: 9,
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
            payee_name: None,
            risks: Vec::new(),
            paid_before: None,
            paid_before_unknown_reason: None,
            balance: None,
            balance_unknown_reason: None,
            trade: None,
            loan: None,
            asset: None,
        }
    }

    /// Returns the row of this name, and the name of the row before it.
    fn row(card: &Card, name: &str) -> (String, String) {
        let lines = lines(card);
        let index = lines.iter().position(|line| line.starts_with(name)).unwrap();
        let before = lines[index - 1].split(' ').next().unwrap().to_owned();
        (lines[index].clone(), before)
    }

    #[test]
    fn every_card_begins_with_its_agent_and_why_it_is_held() {
        let text = || "text".to_owned();
        let loan = LoanCard {
            moves: text(),
            venue_name: text(),
            kind: text(),
            curator: None,
            owner: None,
            trust: text(),
            is_trusted: true,
            shares: text(),
            worth: None,
            position: text(),
            withdrawable: None,
            free: None,
            lent: None,
            ceiling: Usd(0),
            operations: 0,
            operations_max: 20,
            gas: text(),
            transactions: 1,
            effects_proven: true,
            calls: Vec::new(),
            quoted: text(),
        };
        let payment = card();
        let loan = Card { loan: Some(Box::new(loan)), ..card() };
        for card in [payment, loan] {
            assert_eq!(row(&card, "agent").1, card.id.short().to_string());
            assert_eq!(row(&card, "held").1, "agent");
        }
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
            (
                Some(paid(14, 2)),
                None,
                false,
                "paid 14 times (21.00 USD), 2 approved, last 2026-11-19",
            ),
            (None, Some("no index"), true, "earlier payments unknown: no index"),
        ] {
            card.paid_before = known;
            card.paid_before_unknown_reason = why.map(str::to_owned);
            let mark = if first { "! WARNING: " } else { "" };
            let wanted = format!("payee      {mark}{row_wanted}");
            assert_eq!(row(&card, "payee"), (wanted, "to".to_owned()));
            assert_eq!(card.has_unknown_payee(), first, "{row_wanted}");
        }
        card.paid_before = Some(paid(0, 0));
        card.payee_label = Some("savings".parse().unwrap());
        let own = "payee      this wallet's own address (savings); first payment to it";
        assert_eq!(row(&card, "payee").0, own);
        assert!(!card.has_unknown_payee(), "the wallet's own address needs no warning");
    }

    /// The sign and the word of a level replace its colour.
    #[test]
    fn risks_have_a_sign_and_a_word_and_names_stay_next_to_the_address() {
        let mut card = card();
        card.payee_name = Some("Acme \u{0431}".parse().unwrap());
        let to = "to         0x209693Bc6afc0C5328bA36FaF03C514EF312287C  \"Acme \u{0431}\"";
        assert_eq!(row(&card, "to").0, to);
        let risk = |kind, level, text: &str| Risk { kind, level, text: text.to_owned() };
        card.risks = vec![
            risk(RiskKind::UnusualPrice, Level::Danger, "the price is odd"),
            risk(RiskKind::LargeFirstPayment, Level::Danger, "it is the first"),
        ];
        assert_eq!(row(&card, "risk").0, "risk       !! DANGER: the price is odd");
        assert!(row(&card, "payee").0.starts_with("payee      !! DANGER: "));
        assert!(has_warnings(&card) && card.is_dangerous());
        assert_eq!(lines(&card).iter().filter(|line| line.starts_with("risk ")).count(), 1);
    }

    #[test]
    fn balance_row_follows_the_day_and_unknown_is_not_zero() {
        let mut card = card();
        card.balance_unknown_reason = Some("The network did not answer in time.".to_owned());
        let (line, before) = row(&card, "balance");
        assert_eq!(line, "balance    unknown: The network did not answer in time.");
        assert_eq!((before.as_str(), card.has_insufficient_balance()), ("today", false));
        let mut balance = Balance {
            before: "48.201200".into(),
            after: Some("46.701200".into()),
            symbol: "USDC".into(),
            read: "2026-11-19T17:40:12Z".into(),
        };
        card.balance = Some(balance.clone());
        let enough = "balance    48.201200 -> 46.701200 USDC  (read 2026-11-19T17:40:12Z)";
        assert_eq!(
            (row(&card, "balance").0.as_str(), card.has_insufficient_balance()),
            (enough, false)
        );
        (balance.before, balance.after) = ("0.400000".into(), None);
        card.balance = Some(balance);
        let short = "balance    ! WARNING: 0.400000 USDC: NOT ENOUGH  (read 2026-11-19T17:40:12Z)";
        assert_eq!(
            (row(&card, "balance").0.as_str(), card.has_insufficient_balance()),
            (short, true)
        );
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
