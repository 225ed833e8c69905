//! Marked requests as one decision takes them: those that it covers, and those that it leaves out, with the reason.

use std::collections::BTreeMap;

use bursar_core::amount::Amount;
use bursar_core::money::{Atoms, TokenAmount, Usd};
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
    summary: String,
    amount: Amount,
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
        let mut sums: BTreeMap<(&str, &str, &str), TokenAmount> = BTreeMap::new();
        let mut others: Vec<String> = Vec::new();
        for one in self.chosen.iter().filter(|one| one.plan.is_none()) {
            let added = one.token_amount().and_then(|(amount, symbol, token)| {
                let key = (symbol, one.network.as_str(), token);
                let sum = sums.get(&key).map(|sum| sum.atoms).unwrap_or_default();
                let atoms = Atoms(sum.0.checked_add(amount.atoms.0)?);
                sums.insert(key, TokenAmount { atoms, ..amount });
                Some(())
            });
            if added.is_none() {
                others.push(format!("{} on {}", one.summary, one.network));
            }
        }
        let sums = sums.into_iter().map(|((symbol, network, _token), sum)| {
            format!("{} {symbol} on {network}", sum.to_column_text())
        });
        sums.chain(others).collect()
    }
}

impl Chosen {
    /// Returns the amount with its symbol and its token; `None` if the token's decimals are unknown.
    fn token_amount(&self) -> Option<(TokenAmount, &str, &str)> {
        let Amount { atoms, decimals, token, .. } = &self.amount;
        let amount = TokenAmount { atoms: Atoms::parse(atoms).ok()?, decimals: (*decimals)? };
        let (_number, symbol) = self.summary.split_once(' ')?;
        Some((amount, symbol, token.as_deref()?))
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
        summary: request.summary.clone(),
        amount: request.amount.clone(),
        payee: request.domain.clone().unwrap_or_else(|| request.payee.clone()),
        plan: traded.or(lent),
        network,
        usd: card.usd,
        // Without a known threshold, every sum is typed.
        typing_threshold: threshold.unwrap_or(Usd::ZERO),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(atoms: &str, decimals: Option<u8>, symbol: &str, token: &str) -> Chosen {
        let amount = Amount {
            atoms: atoms.to_owned(),
            decimals,
            coins: None,
            text: String::new(),
            token: Some(token.to_owned()),
        };
        Chosen {
            id: String::new(),
            digest: String::new(),
            agent: String::new(),
            summary: format!("{atoms} {symbol}"),
            amount,
            payee: String::new(),
            plan: None,
            network: "Base".to_owned(),
            usd: Usd::ZERO,
            typing_threshold: Usd::ZERO,
        }
    }

    /// Any token can call itself USDC, so only amounts of one contract are added.
    #[test]
    fn amounts_of_one_contract_are_added_exactly() {
        // 2^256 - 1.
        let most = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        let chosen = vec![
            payment("1500000", Some(6), "USDC", "0xa"),
            payment("1", Some(6), "USDC", "0xa"),
            payment("2000000", Some(6), "USDC", "0xb"),
            payment("1", Some(18), "WETH", "0xc"),
            payment("7", None, "units of 0xd", "0xd"),
            payment(most, Some(0), "MAX", "0xe"),
            payment("1", Some(0), "MAX", "0xe"),
        ];
        let sums = Selection { chosen, ..Selection::default() }.sums();
        let largest = format!("{most} MAX on Base");
        let expected = [
            largest.as_str(),
            "1.500001 USDC on Base",
            "2.000000 USDC on Base",
            "0.000000000000000001 WETH on Base",
            "7 units of 0xd on Base",
            "1 MAX on Base",
        ];
        assert_eq!(sums, expected, "an overflow is not a sum");
    }
}
