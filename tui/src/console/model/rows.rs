//! The rows of each pane: their number, their identity and the selection.

use bursar_control::grammar::{
    ActivityOrder, AddressOrder, AgentOrder, BalancesOrder, ConfigOrder, HistoryFilter,
    HistoryOrder, Order, PolicyOrder, PositionsOrder, RequestsOrder,
};
use bursar_core::ids::RequestId;
use bursar_core::settings::keys::Key;

use super::balances::{count, holding, holdings};
use super::feed::PAGE_ROWS;
use super::server::{Server, Topic};
use super::{Model, Pane};

/// Maximum number of sent payments to request.
const SENT_ROWS_MAX: usize = 200;

/// Returns the command that queries a topic.
pub(crate) fn order_of(topic: Topic) -> Order {
    match topic {
        Topic::Status => Order::Status,
        Topic::Requests => Order::Requests(RequestsOrder { all: false, retry: false }),
        Topic::Agents => Order::Agent(AgentOrder::List),
        Topic::Policies => Order::Policy(PolicyOrder::List),
        Topic::Sent => {
            let filter = HistoryFilter { limit: Some(SENT_ROWS_MAX), ..HistoryFilter::default() };
            Order::History(HistoryOrder { filter, export: None })
        }
        Topic::Feed => Order::Activity(ActivityOrder { before: None, limit: Some(PAGE_ROWS) }),
        Topic::Addresses => Order::Address(AddressOrder::List),
        Topic::Notices => {
            Order::Config(ConfigOrder::Get { key: Key::ConsoleNotify, reveal: false })
        }
        Topic::Time => Order::Config(ConfigOrder::Get { key: Key::ConsoleTime, reveal: false }),
        Topic::Balances => Order::Balances(BalancesOrder { address: None, network: None }),
        Topic::Positions => Order::Positions(PositionsOrder { address: None, network: None }),
    }
}

/// Shortens the id of a request. The result is ASCII, because a notice is part of an escape sequence.
pub(crate) fn short(id: &str) -> String {
    let begin = || id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    id.parse::<RequestId>().map_or_else(|_other| begin(), |id| id.short())
}

/// Returns the number of the journal entry in a row of the feed, even if the entry is not loaded.
pub(crate) fn entry_at(server: &Server, index: usize) -> Option<u64> {
    let seq = server.feed.head().checked_sub(u64::try_from(index).ok()?)?;
    (seq > 0).then_some(seq)
}

impl Model {
    pub(crate) fn row_count(&self, pane: Pane) -> usize {
        let server = &self.server;
        match pane {
            Pane::Approvals => server.queue.len(),
            Pane::Balances => count(server),
            Pane::Agents => server.agents.as_ref().map_or(0, Vec::len),
            Pane::Policies => server.policies.as_ref().map_or(0, Vec::len),
            Pane::Activity => usize::try_from(server.feed.head()).unwrap_or(usize::MAX),
            Pane::Sent => server.sent.as_ref().map_or(0, Vec::len),
        }
    }

    /// Returns the identity of a row, which does not depend on other rows.
    fn row_key(&self, pane: Pane, index: usize) -> Option<String> {
        let server = &self.server;
        match pane {
            Pane::Approvals => server.queue.get(index).map(|row| row.request.id.clone()),
            Pane::Balances => holding(server, index).map(|row| row.key()),
            Pane::Agents => server.agents.as_ref()?.get(index).map(|row| row.agent_id.clone()),
            Pane::Policies => server.policies.as_ref()?.get(index).map(|row| row.name.clone()),
            Pane::Activity => entry_at(server, index).map(|seq| seq.to_string()),
            Pane::Sent => server.sent.as_ref()?.get(index).map(|row| row.id.clone()),
        }
    }

    /// Returns the index of the selected row; 0 if nothing was selected or the row has gone.
    pub(crate) fn selected_row(&self, pane: Pane) -> usize {
        let Some(key) = self.selected.get(&pane) else { return 0 };
        let index = match pane {
            Pane::Approvals => self.server.queue.iter().position(|row| row.request.id == *key),
            Pane::Balances => holdings(&self.server).position(|row| row.key() == *key),
            // The number of an entry gives its row without a search through thousands of rows.
            Pane::Activity => key
                .parse::<u64>()
                .ok()
                .and_then(|seq| usize::try_from(self.server.feed.head().checked_sub(seq)?).ok()),
            Pane::Sent => self
                .server
                .sent
                .as_ref()
                .and_then(|rows| rows.iter().position(|row| row.id == *key)),
            other => (0..self.row_count(other))
                .find(|index| self.row_key(other, *index).as_ref() == Some(key)),
        };
        index.unwrap_or(0).min(self.row_count(pane).saturating_sub(1))
    }

    pub(crate) fn select(&mut self, pane: Pane, index: usize) {
        let count = match (pane, self.server.pending(self.now_ms).count()) {
            // Closed requests are below pending ones. They can be selected only if no request is pending.
            (Pane::Approvals, waiting @ 1..) => waiting,
            _any => self.row_count(pane),
        };
        let key = self.row_key(pane, index.min(count.saturating_sub(1)));
        // At the top of the feed no entry is selected, so that the feed follows new entries.
        match key.filter(|_key| pane != Pane::Activity || index > 0) {
            Some(key) => {
                self.selected.insert(pane, key);
            }
            None => {
                self.selected.remove(&pane);
            }
        }
    }
}
