//! The risks of a payment: shown on its card. A danger needs the typed amount, and nothing else depends on them.
//!
//! Dangers must stay rare. If every card asked for the amount, nobody would read them.

use alloy_primitives::Address;
use bursar_core::card::Card;
use bursar_core::money::Usd;
use bursar_core::risk::{Level, Risk, RiskKind};
use bursar_core::text;

/// Number of earlier prices from which the usual price is known.
const PRICES_MIN: usize = 3;
/// A price is unusual from this multiple of the usual one on.
const UNUSUAL_FACTOR: u64 = 10;
/// Maximum number of characters of a host on a card.
const HOST_CHARS_MAX: usize = 60;

/// What the wallet knows about the payee of a payment and about others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PayeeFacts {
    /// The prices of the latest payments to the payee, in any order.
    pub prices: Vec<Usd>,
    /// The highest price that an operator approved for the payee.
    pub approved_price: Option<Usd>,
    /// A known payee whose address resembles the payee's, with its label if it has one.
    pub similar: Option<(Address, Option<String>)>,
    /// A host that was paid before and resembles the payment's host.
    pub similar_host: Option<String>,
}

/// Returns the first and the last four digits of an address, which a reader compares.
pub fn ends(address: Address) -> [u8; 4] {
    let [a, b, .., y, z] = address.into_array();
    [a, b, y, z]
}

/// Returns whether two addresses are different and have the same ends.
pub fn resembles(one: Address, other: Address) -> bool {
    one != other && ends(one) == ends(other)
}

/// Returns the risks of the payment on a card whose earlier payments are filled in, the worst first.
///
/// `typed_from` is the value from which amounts are typed.
pub fn payment_risks(card: &Card, typed_from: Usd, facts: &PayeeFacts) -> Vec<Risk> {
    let mut risks = Vec::new();
    let mut add =
        |kind: RiskKind, level: Level, text: String| risks.push(Risk { kind, level, text });
    let is_known = !card.has_unknown_payee();
    // A name does not make an address known: the operator may have copied the wrong one.
    if !is_known && let Some((other, label)) = &facts.similar {
        let name = label.as_ref().map_or(String::new(), |label| format!(" ({label})"));
        let text = format!("this is NOT {other}{name}, whose ends are the same");
        add(RiskKind::SimilarAddress, Level::Danger, text);
    }
    if let Some(host) = &facts.similar_host {
        let host = text::quoted(host, HOST_CHARS_MAX);
        let text = format!("this is NOT {host}, whose name looks the same");
        add(RiskKind::SimilarHost, Level::Danger, text);
    }
    if let Some(usual) = median(&facts.prices)
        && usual > Usd::ZERO
        && !card.unpriced
        && card.usd.0 / UNUSUAL_FACTOR >= usual.0
        // Otherwise each payment that is not automatic would be unusual for a payee with many small prices.
        && facts.approved_price.is_none_or(|approved| card.usd > approved)
    {
        let text = format!("the price is {} USD; the usual one of this payee is {usual}", card.usd);
        add(RiskKind::UnusualPrice, Level::Danger, text);
    }
    // The card shows a small first payment as a warning; it raises no risk.
    if !is_known && (card.unpriced || card.usd >= typed_from) {
        let kind = RiskKind::LargeFirstPayment;
        let text = match &card.paid_before {
            Some(_read) => kind.sentence(),
            None => "whether you have ever approved a payment to this address is not known",
        };
        add(kind, Level::Danger, text.to_owned());
    }
    risks
}

/// Returns the median of at least [`PRICES_MIN`] prices, the lower of two.
fn median(prices: &[Usd]) -> Option<Usd> {
    if prices.len() < PRICES_MIN {
        return None;
    }
    let mut sorted = prices.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}
