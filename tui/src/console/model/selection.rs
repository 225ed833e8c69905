//! Marked requests as one decision takes them: those that it covers, and those that it leaves out, with the reason.

use std::collections::BTreeMap;

use bursar_core::money::Usd;

use super::server::QueuedRequest;

/// Why a decision leaves out a marked request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    /// The request is no longer pending.
    Ended(String),
    Hidden,
    Changed,
    CannotBeApproved,
    NeedsTypedAmount,
    FirstPayment,
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
            LeftOut::NeedsTypedAmount => "needs its amount typed".to_owned(),
            LeftOut::FirstPayment => "first approved payment to its payee".to_owned(),
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

    /// Returns the sum of the amounts of each token and network. Amounts that cannot be added stay as they are.
    pub(crate) fn sums(&self) -> Vec<String> {
        let mut sums: BTreeMap<(&str, &str), Decimal> = BTreeMap::new();
        let mut others: Vec<String> = Vec::new();
        for one in &self.chosen {
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
    let traded = card.trade.as_ref().map(|trade| trade.gives.clone());
    let amount = traded.or_else(|| card.loan.as_ref().map(|loan| loan.moves.clone()));
    Some(Chosen {
        id: request.id.clone(),
        digest,
        agent: card.agent_name.to_string(),
        amount: amount.unwrap_or_else(|| request.amount.clone()),
        network: card.network_title.clone(),
        usd: card.usd,
        typing_threshold: card.typing_threshold,
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
