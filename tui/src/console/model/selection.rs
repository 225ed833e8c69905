//! Marked requests as one decision takes them: those that it covers, and those that it leaves out, with the reason.

use std::collections::BTreeMap;

use bursar_core::money::Usd;
use bursar_core::text::quoted;

use super::queued::QueuedRequest;

/// Maximum number of characters that are shown of a venue's name.
const VENUE_CHARS_MAX: usize = 30;

/// Why a decision leaves out a marked request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    /// The request is no longer pending.
    Ended(String),
    Hidden,
    Changed,
    CannotBeApproved,
    Dangerous,
    NeedsTypedAmount,
    FirstPayment,
    HasWarning,
    OnLedger,
    OldQuote,
}

impl LeftOut {
    pub(crate) fn text(&self) -> String {
        match self {
            LeftOut::Ended(outcome) => outcome.clone(),
            LeftOut::Hidden => "hidden by the filter".to_owned(),
            LeftOut::Changed => "changed since it was marked".to_owned(),
            LeftOut::CannotBeApproved => "cannot be approved now".to_owned(),
            LeftOut::Dangerous => "dangerous: read its card alone".to_owned(),
            LeftOut::NeedsTypedAmount => "needs its amount typed".to_owned(),
            LeftOut::FirstPayment => "first approved payment to its payee".to_owned(),
            LeftOut::HasWarning => "its card has a warning: read it alone".to_owned(),
            LeftOut::OnLedger => "must be signed on a Ledger".to_owned(),
            LeftOut::OldQuote => "its quote is older than 30 s".to_owned(),
        }
    }
}

/// A marked request that a decision covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) id: String,
    /// The digest of the card at the mark.
    pub(crate) digest: String,
    pub(crate) agent: String,
    /// The amount that leaves, like `1.500000 USDC`.
    amount: String,
    /// The host of a payment, or else its payee's address.
    payee: String,
    /// The trade or loan in words; `None` for a payment.
    plan: Option<String>,
    network: String,
    usd: Usd,
    typing_threshold: Usd,
}

/// The marked requests, divided by what one decision does with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) chosen: Vec<Chosen>,
    /// The ids of the other requests, by reason.
    pub(crate) left_out: BTreeMap<LeftOut, Vec<String>>,
}

impl Selection {
    pub(super) fn leave_out(&mut self, id: String, why: LeftOut) {
        self.left_out.entry(why).or_default().push(id);
    }

    /// Returns the ids of the requests that ended or changed: their marks have no further use.
    pub(crate) fn ids_without_mark(&self) -> Vec<&str> {
        let gone = |why: &LeftOut| matches!(why, LeftOut::Ended(_) | LeftOut::Changed);
        let ids = self.left_out.iter().filter(|(why, _ids)| gone(why));
        ids.flat_map(|(_why, ids)| ids.iter().map(String::as_str)).collect()
    }

    /// Adds a request with the digest of the card at its mark.
    pub(super) fn choose(&mut self, row: &QueuedRequest, digest: String) {
        self.chosen.extend(chosen(row, digest));
    }

    /// Returns the value of the chosen requests; those without a price count zero.
    pub(crate) fn usd(&self) -> Usd {
        let sum = self.chosen.iter().fold(0u64, |sum, one| sum.saturating_add(one.usd.0));
        Usd(sum)
    }

    /// Returns the value that must be typed to approve the chosen requests together; `None` if it is small.
    pub(crate) fn typed_value(&self) -> Option<Usd> {
        let threshold = self.chosen.iter().map(|one| one.typing_threshold).min()?;
        (self.usd() >= threshold).then_some(self.usd())
    }

    /// Returns the agents with their numbers of chosen requests, by name.
    pub(crate) fn agents(&self) -> BTreeMap<&str, usize> {
        let mut agents: BTreeMap<&str, usize> = BTreeMap::new();
        for one in &self.chosen {
            let count = agents.entry(&one.agent).or_default();
            *count = count.saturating_add(1);
        }
        agents
    }

    /// Returns each trade and loan.
    pub(crate) fn plans(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().filter_map(|one| one.plan.as_deref())
    }

    /// Returns the payees with their numbers of chosen payments, by host or address.
    pub(crate) fn payees(&self) -> BTreeMap<&str, usize> {
        let mut payees: BTreeMap<&str, usize> = BTreeMap::new();
        for one in self.chosen.iter().filter(|one| one.plan.is_none()) {
            let count = payees.entry(&one.payee).or_default();
            *count = count.saturating_add(1);
        }
        payees
    }

    /// Returns the sum of the payments of each token and network. Amounts that cannot be added stay as they are.
    pub(crate) fn sums(&self) -> Vec<String> {
        let mut sums: BTreeMap<(&str, &str), Decimal> = BTreeMap::new();
        let mut others: Vec<String> = Vec::new();
        for one in self.chosen.iter().filter(|one| one.plan.is_none()) {
            let parts = one.amount.split_once(' ');
            let parsed = parts.and_then(|(number, token)| Some((Decimal::parse(number)?, token)));
            let added = parsed.and_then(|(amount, token)| {
                let key = (token, one.network.as_str());
                let sum = sums.get(&key).copied().unwrap_or_default().plus(amount)?;
                sums.insert(key, sum);
                Some(())
            });
            if added.is_none() {
                others.push(format!("{} on {}", one.amount, one.network));
            }
        }
        let sums = sums.into_iter();
        let sums =
            sums.map(|((token, network), sum)| format!("{} {token} on {network}", sum.text()));
        sums.chain(others).collect()
    }
}

fn chosen(row: &QueuedRequest, digest: String) -> Option<Chosen> {
    let request = &row.request;
    let card = request.card.as_ref()?;
    let (agent, network) = (card.agent_name.to_string(), card.network_title.clone());
    let traded = card.trade.as_ref();
    let traded = traded.map(|trade| format!("{} for {} on {network}", trade.gives, trade.gets));
    let lent = card.loan.as_ref().zip(card.terms.loan.as_ref());
    let lent = lent.map(|(loan, terms)| {
        let venue = quoted(&loan.venue_name, VENUE_CHARS_MAX);
        format!("{} {}, venue {venue} on {network}", terms.action, loan.moves)
    });
    let threshold = request.typing_threshold.as_deref();
    let threshold = threshold.and_then(|text| Usd::parse(text).ok());
    Some(Chosen {
        id: request.id.clone(),
        digest,
        agent,
        amount: request.amount.clone(),
        payee: request.domain.clone().unwrap_or_else(|| request.payee.clone()),
        plan: traded.or(lent),
        network,
        usd: card.usd,
        // Without a known threshold, every sum is typed.
        typing_threshold: threshold.unwrap_or(Usd::ZERO),
    })
}

/// A decimal number without sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Decimal {
    units: u128,
    /// Number of digits after the point.
    digits: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let units = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { units, digits: u32::try_from(fraction.len()).ok()? })
    }

    fn plus(self, other: Self) -> Option<Self> {
        let digits = self.digits.max(other.digits);
        let units = |one: Self| {
            let factor = 10u128.checked_pow(digits.saturating_sub(one.digits))?;
            one.units.checked_mul(factor)
        };
        Some(Self { units: units(self)?.checked_add(units(other)?)?, digits })
    }

    fn text(self) -> String {
        let digits = usize::try_from(self.digits).unwrap_or(0);
        let text = format!("{:0>width$}", self.units, width = digits.saturating_add(1));
        match text.split_at_checked(text.len().saturating_sub(digits)) {
            Some((whole, fraction)) if !fraction.is_empty() => format!("{whole}.{fraction}"),
            _whole => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_added_exactly() {
        let sum = |texts: &[&str]| {
            let mut numbers = texts.iter().map(|text| Decimal::parse(text));
            let sum = numbers.try_fold(Decimal::default(), |sum, one| sum.plus(one?));
            sum.map(Decimal::text)
        };
        assert_eq!(sum(&["1.500000", "0.000001"]).as_deref(), Some("1.500001"));
        assert_eq!(sum(&["0.1", "0.000000000000000002"]).as_deref(), Some("0.100000000000000002"));
        assert_eq!(sum(&["7", "3"]).as_deref(), Some("10"));
        assert_eq!(sum(&["0.05"]).as_deref(), Some("0.05"));
        for text in ["", ".5", "1,000", "-1", "1e3", "all"] {
            assert_eq!(sum(&[text]), None, "{text}");
        }
        assert_eq!(sum(&[&u128::MAX.to_string(), "1"]), None, "an overflow is not a sum");
    }
}
