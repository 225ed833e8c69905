//! The rows of the pane Payments: requests of all lanes and the operator's own sends, newest first.

use bursar_control::answers::{AgentAnswer, HistoryRow, SendAnswer};
use bursar_core::money::Usd;
use bursar_core::status::{RequestStatus, SendStatus};
use bursar_core::text::quoted;

use super::server::Server;
use crate::wording;

/// Maximum number of characters that are shown of an unverified token's symbol, which is quoted.
pub(crate) const FOREIGN_SYMBOL_CHARS_MAX: usize = 12;

/// A request, or a send of the operator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PaymentRow<'a> {
    Request(&'a HistoryRow),
    Send(&'a SendAnswer),
}

/// How the state of a row is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Open,
    Waiting,
    Done,
    Failed,
}

/// Returns the rows, newest first.
pub(crate) fn rows(server: &Server) -> Vec<PaymentRow<'_>> {
    let requests = server.history.iter().flatten().map(PaymentRow::Request);
    let sends = server.sends.iter().flatten().map(PaymentRow::Send);
    let mut rows: Vec<PaymentRow<'_>> = requests.chain(sends).collect();
    // Both lists are in UTC with the same precision, so their text sorts them. The sort is stable.
    rows.sort_by(|one, other| other.created().cmp(one.created()));
    rows
}

/// Returns what all agents together spent in their current days; `None` before the agents are known.
pub(crate) fn sums_of_today(agents: Option<&[AgentAnswer]>) -> Option<String> {
    let agents = agents?;
    let sum = |value: fn(&AgentAnswer) -> &str| {
        let values = agents.iter().filter_map(|agent| Usd::parse(value(agent)).ok());
        values.fold(Usd::ZERO, |sum, value| Usd(sum.0.saturating_add(value.0)))
    };
    let (paid, traded) = (sum(|agent| &agent.spent_today), sum(|agent| &agent.traded_today));
    let traded = match agents.iter().any(|agent| agent.trade_limit.is_some()) {
        true => format!(", traded {traded}"),
        false => String::new(),
    };
    Some(format!("today: paid {paid}{traded} USD by all agents"))
}

impl<'a> PaymentRow<'a> {
    pub(crate) fn id(&self) -> &'a str {
        match self {
            PaymentRow::Request(row) => &row.id,
            PaymentRow::Send(row) => &row.id,
        }
    }

    /// Returns the time in UTC, RFC 3339.
    pub(crate) fn created(&self) -> &'a str {
        match self {
            PaymentRow::Request(row) => &row.created,
            PaymentRow::Send(row) => &row.at,
        }
    }

    /// Returns the agent's name or code; the operator's sends are yours.
    pub(crate) fn agent(&self) -> &'a str {
        match self {
            PaymentRow::Request(row) => row.agent.as_deref().unwrap_or(&row.agent_id),
            PaymentRow::Send(_) => "you",
        }
    }

    /// Returns the host or the payee with its name, or what a trade or loan gets.
    pub(crate) fn recipient(&self) -> String {
        let row = match self {
            PaymentRow::Send(row) => return row.to.clone(),
            PaymentRow::Request(row) => row,
        };
        if let Some(loan) = &row.loan {
            let way = if loan.action == "supply" { "lend to" } else { "take from" };
            return format!("{way} {}", quoted(&loan.venue_name, FOREIGN_SYMBOL_CHARS_MAX));
        }
        let Some(trade) = &row.trade else {
            let payee = row.host.as_ref().unwrap_or(&row.payee);
            return named(payee, row.payee_name.as_ref().map(|name| name.as_str()));
        };
        let symbol = quoted(&trade.symbol_out, FOREIGN_SYMBOL_CHARS_MAX);
        match (&row.step, trade.amount_out.as_ref().and_then(|amount| amount.coins.as_ref())) {
            (Some(step), _) => step.clone(),
            (None, Some(amount)) => format!("for {amount} {symbol}"),
            (None, None) => format!("for {symbol}"),
        }
    }

    pub(crate) fn amount(&self) -> String {
        match self {
            PaymentRow::Send(row) => row.summary.clone(),
            PaymentRow::Request(row) => match (&row.amount.coins, &row.symbol_text()) {
                (Some(amount), Some(symbol)) => format!("{amount} {symbol}"),
                _unknown => format!("{} units", row.amount.atoms),
            },
        }
    }

    pub(crate) fn state(&self) -> (&'static str, Outcome) {
        match self {
            PaymentRow::Request(row) => (wording::status(row.status), of_request(row.status)),
            PaymentRow::Send(row) => (row.status.text(), of_send(row.status)),
        }
    }

    pub(crate) fn transaction(&self) -> Option<&'a str> {
        match self {
            PaymentRow::Request(row) => row.tx_hash.as_deref(),
            PaymentRow::Send(row) => row.tx_hash.as_deref(),
        }
    }

    /// Returns the texts that can be copied, the most useful first.
    pub(crate) fn copies(&self) -> Vec<(&'static str, String)> {
        let payee = match self {
            PaymentRow::Request(row) => &row.payee,
            PaymentRow::Send(row) => &row.to,
        };
        let hash = self.transaction().map(|hash| ("transaction", hash.to_owned()));
        let others = [("payee", payee.clone()), ("id", self.id().to_owned())];
        hash.into_iter().chain(others).collect()
    }

    /// Returns the text that a filter searches: what the row shows.
    pub(crate) fn text(&self) -> String {
        let parts = [
            self.id(),
            self.agent(),
            &self.recipient(),
            &self.amount(),
            self.state().0,
            self.transaction().unwrap_or_default(),
        ];
        let payee = match self {
            PaymentRow::Request(row) => row.payee.as_str(),
            PaymentRow::Send(_) => "",
        };
        format!("{} {payee}", parts.join(" "))
    }
}

/// Returns a payee with the operator's name for it.
pub(crate) fn named(payee: &str, name: Option<&str>) -> String {
    let name = name.map(|name| format!("  {}", quoted(name, usize::MAX)));
    format!("{payee}{}", name.unwrap_or_default())
}

fn of_request(status: RequestStatus) -> Outcome {
    match status {
        RequestStatus::Verified | RequestStatus::Settled | RequestStatus::Executed => Outcome::Done,
        RequestStatus::Refused | RequestStatus::Failed => Outcome::Failed,
        RequestStatus::Pending | RequestStatus::AwaitingDevice => Outcome::Waiting,
        RequestStatus::Executing
        | RequestStatus::Signed
        | RequestStatus::Submitted
        | RequestStatus::Refuted
        | RequestStatus::Denied
        | RequestStatus::NotSigned
        | RequestStatus::Expired => Outcome::Open,
    }
}

fn of_send(status: SendStatus) -> Outcome {
    match status {
        SendStatus::Done => Outcome::Done,
        SendStatus::Failed | SendStatus::Dropped => Outcome::Failed,
        SendStatus::Waiting | SendStatus::Sent | SendStatus::Included => Outcome::Waiting,
        SendStatus::Cancelled | SendStatus::Unknown => Outcome::Open,
    }
}
