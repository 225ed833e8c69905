//! The card of a send, shown to the operator before money leaves. A send is not an agent's request and no policy limits
//! it, so the card shows everything that matters.

use bursar_core::card::{Balance, PaidBefore};
use bursar_core::ids::Name;

/// The information that an operator needs to confirm a send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendCard {
    /// With the symbol, like `1.500000 USDC`.
    pub amount: String,
    pub network_title: String,
    /// EIP-55, as are `to` and `token`.
    pub from: String,
    pub label: Name,
    pub to: String,
    /// The label of `to`, if it is an address of this wallet.
    pub to_label: Option<Name>,
    pub paid_before: Option<PaidBefore>,
    /// `to` has contract code, so the wallet cannot know what happens to the money.
    pub to_contract: bool,
    /// `None` for the native coin.
    pub token: Option<String>,
    /// Name and symbol come from the token contract, not from Bursar's table.
    pub unverified: bool,
    pub balance: Balance,
    /// The highest cost of gas, with the native symbol.
    pub gas_most: String,
    pub gas: Balance,
}

impl SendCard {
    /// Formats the card as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let row = |name: &str, value: String| format!("{name:<11}{value}");
        let mut lines = vec![
            row("send", format!("{} on {}", self.amount, self.network_title)),
            row("from", format!("{} ({})", self.from, self.label)),
            row("to", self.to.clone()),
            row("payee", self.payee()),
        ];
        if let Some(token) = &self.token {
            let note = if self.unverified { "  UNVERIFIED name and symbol" } else { "" };
            lines.push(row("token", format!("{token}{note}")));
        }
        lines.push(row("balance", change(&self.balance)));
        lines.push(row("gas", format!("at most {}", self.gas_most)));
        if self.token.is_some() {
            lines.push(row("gas money", change(&self.gas)));
        }
        lines.push(row("note", "no policy limit applies, and it cannot be undone".to_owned()));
        lines
    }

    fn payee(&self) -> String {
        let known = match (&self.to_label, &self.paid_before) {
            (Some(label), _) => format!("this wallet's own address ({label})"),
            (None, Some(paid)) if paid.times > 0 => {
                let last = paid.last.as_deref().unwrap_or_default();
                let date = last.split_once('T').map_or(last, |(date, _time)| date);
                format!("agents paid it {} times ({} USD), last {date}", paid.times, paid.usd)
            }
            (None, _) => "NOT KNOWN to this wallet: compare every character".to_owned(),
        };
        if self.to_contract { format!("{known}; it is a CONTRACT") } else { known }
    }
}

fn change(balance: &Balance) -> String {
    match &balance.after {
        Some(after) => format!("{} -> {after} {}", balance.before, balance.symbol),
        None => format!("{} {}: NOT ENOUGH", balance.before, balance.symbol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(before: &str, after: Option<&str>, symbol: &str) -> Balance {
        Balance {
            before: before.into(),
            after: after.map(str::to_owned),
            symbol: symbol.into(),
            read: "2026-01-01T00:00:00Z".into(),
        }
    }

    #[test]
    fn send_card_shows_amount_recipient_and_remaining_balance() {
        let card = SendCard {
            amount: "1.500000 USDC".into(),
            network_title: "Base (8453)".into(),
            from: "0x9858EfFD232B4033E47d90003D41EC34EcaEda94".into(),
            label: "main".parse().unwrap(),
            to: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C".into(),
            to_label: None,
            paid_before: None,
            to_contract: true,
            token: Some("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".into()),
            unverified: false,
            balance: balance("2.000000", Some("0.500000"), "USDC"),
            gas_most: "0.0001 ETH".into(),
            gas: balance("0.01", None, "ETH"),
        };
        let text = card.lines().join("\n");
        for part in [
            "1.500000 USDC on Base (8453)",
            "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
            "NOT KNOWN",
            "CONTRACT",
            "2.000000 -> 0.500000 USDC",
            "at most 0.0001 ETH",
            "0.01 ETH: NOT ENOUGH",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let own = SendCard { to_label: Some("cold".parse().unwrap()), ..card };
        assert!(own.lines().join("\n").contains("this wallet's own address (cold)"));
    }
}
