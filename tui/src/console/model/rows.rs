//! The rows of each pane: their number, their identity and the selection.

use bursar_control::grammar::{
    ActivityOrder, AddressOrder, AgentOrder, BalancesOrder, ConfigOrder, HistoryFilter,
    HistoryOrder, Order, PolicyOrder, PositionsOrder, RequestsOrder, StatusOrder,
};
use bursar_core::ids::RequestId;
use bursar_core::settings::keys::Key;

use super::balances::{count, holding, holdings};
use super::feed::PAGE_ROWS;
use super::filter::Filter;
use super::payments;
use super::server::Topic;
use super::{List, Model, Pane};

/// Maximum number of sent payments to request.
const SENT_ROWS_MAX: usize = 200;

/// Returns the command that queries a topic.
pub(crate) fn order_of(topic: Topic) -> Order {
    match topic {
        Topic::Status => Order::Status(StatusOrder::default()),
        Topic::Requests => Order::Requests(RequestsOrder::default()),
        Topic::Agents => Order::Agent(AgentOrder::List),
        Topic::Policies => Order::Policy(PolicyOrder::List),
        Topic::Payments => {
            let filter = HistoryFilter { limit: Some(SENT_ROWS_MAX), ..HistoryFilter::default() };
            Order::History(HistoryOrder { filter, export: None })
        }
        Topic::Sends => Order::Address(AddressOrder::Sends),
        Topic::Feed => Order::Activity(page_order(None, PAGE_ROWS)),
        Topic::Addresses => Order::Address(AddressOrder::List),
        Topic::Notices => {
            Order::Config(ConfigOrder::Get { key: Key::ConsoleNotify, reveal: false })
        }
        Topic::Time => Order::Config(ConfigOrder::Get { key: Key::ConsoleTime, reveal: false }),
        Topic::Palette => {
            Order::Config(ConfigOrder::Get { key: Key::ConsolePalette, reveal: false })
        }
        Topic::IconsWanted => Order::Config(ConfigOrder::Get { key: Key::Icons, reveal: false }),
        Topic::Icons => Order::Icons,
        Topic::Balances => Order::Balances(BalancesOrder { address: None, network: None }),
        Topic::Positions => Order::Positions(PositionsOrder { address: None, network: None }),
    }
}

/// Returns the command that queries a page of the feed.
pub(crate) fn page_order(before: Option<u64>, limit: usize) -> ActivityOrder {
    ActivityOrder { before, limit: Some(limit), raw: true }
}

/// Shortens the id of a request. The result is ASCII, because a notice is part of an escape sequence.
pub(crate) fn short(id: &str) -> String {
    let begin = || id.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    id.parse::<RequestId>().map_or_else(|_other| begin(), |id| id.short())
}

/// The rows of a pane that its filter shows, as indices among all its rows.
#[derive(Debug)]
pub(crate) enum ShownRows {
    All(usize),
    Some(Vec<usize>),
}

impl ShownRows {
    pub(crate) fn len(&self) -> usize {
        match self {
            ShownRows::All(count) => *count,
            ShownRows::Some(shown) => shown.len(),
        }
    }

    /// Returns the index of the row in this place of the list.
    pub(crate) fn index_at(&self, place: usize) -> Option<usize> {
        match self {
            ShownRows::All(count) => (place < *count).then_some(place),
            ShownRows::Some(shown) => shown.get(place).copied(),
        }
    }

    /// Returns whether the row with this index is shown.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.place_of(index).is_some()
    }

    fn place_of(&self, index: usize) -> Option<usize> {
        match self {
            ShownRows::All(count) => (index < *count).then_some(index),
            ShownRows::Some(shown) => shown.binary_search(&index).ok(),
        }
    }

    /// Returns the number of shown rows among the first `count` ones.
    fn count_below(&self, count: usize) -> usize {
        match self {
            ShownRows::All(all) => count.min(*all),
            ShownRows::Some(shown) => shown.partition_point(|index| *index < count),
        }
    }
}

impl Model {
    /// Returns the number of all rows of a pane.
    fn row_count(&self, pane: Pane) -> usize {
        let server = &self.server;
        match pane {
            Pane::Approvals => server.queue.len(),
            Pane::Balances => count(server),
            Pane::Agents => server.agents.as_ref().map_or(0, Vec::len),
            Pane::Policies => server.policies.as_ref().map_or(0, Vec::len),
            // Entries that are not loaded are neither shown nor searched: a journal may have millions.
            Pane::Activity => server.feed.shown().len(),
            Pane::Payments => payments::rows(server).len(),
        }
    }

    /// Returns the filter of a list, if it hides rows.
    pub(crate) fn active_filter(&self, list: List) -> Option<&Filter> {
        self.filters.get(&list).filter(|filter| !filter.is_idle())
    }

    /// Returns the rows of a pane that its filter shows.
    pub(crate) fn shown_rows(&self, pane: Pane) -> ShownRows {
        let Some(filter) = self.active_filter(List::Pane(pane)) else {
            return ShownRows::All(self.row_count(pane));
        };
        let shows = |index: &usize| filter.shows(&self.row_text(pane, *index));
        match pane {
            Pane::Balances => {
                let rows = holdings(&self.server).enumerate();
                let rows = rows.filter(|(_index, row)| filter.shows(&row.text()));
                ShownRows::Some(rows.map(|(index, _row)| index).collect())
            }
            // The rows are built once for all of them.
            Pane::Payments => {
                let rows = payments::rows(&self.server).into_iter().enumerate();
                let rows = rows.filter(|(_index, row)| filter.shows(&row.text()));
                ShownRows::Some(rows.map(|(index, _row)| index).collect())
            }
            _whole => ShownRows::Some((0..self.row_count(pane)).filter(shows).collect()),
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
            Pane::Activity => server.feed.shown().get(index).map(u64::to_string),
            Pane::Payments => payments::rows(server).get(index).map(|row| row.id().to_owned()),
        }
    }

    /// Returns the index of the row with this identity.
    fn index_of(&self, pane: Pane, key: &str) -> Option<usize> {
        let server = &self.server;
        match pane {
            Pane::Approvals => server.queue.iter().position(|row| row.request.id == key),
            Pane::Balances => holdings(server).position(|row| row.key() == key),
            // The entry may be a former state of a request, or not be loaded: then the next older row counts.
            Pane::Activity => {
                let (shown, seq) = (server.feed.shown(), key.parse::<u64>().ok()?);
                let newer = shown.partition_point(|shown| *shown > seq);
                Some(newer.min(shown.len().saturating_sub(1)))
            }
            Pane::Payments => payments::rows(server).iter().position(|row| row.id() == key),
            Pane::Agents => server.agents.as_ref()?.iter().position(|row| row.agent_id == key),
            Pane::Policies => server.policies.as_ref()?.iter().position(|row| row.name == key),
        }
    }

    /// Returns the place of the selected row among the shown ones; 0 if nothing was selected or the row has gone.
    pub(crate) fn selected_row(&self, pane: Pane) -> usize {
        self.place_of_selected(pane, &self.shown_rows(pane))
    }

    fn place_of_selected(&self, pane: Pane, shown: &ShownRows) -> usize {
        let index = self.selected.get(&pane).and_then(|key| self.index_of(pane, key));
        let place = index.and_then(|index| shown.place_of(index));
        place.unwrap_or(0).min(shown.len().saturating_sub(1))
    }

    /// Returns the index of the selected row among all rows; `None` if no row is shown.
    pub(crate) fn selected_index(&self, pane: Pane) -> Option<usize> {
        let shown = self.shown_rows(pane);
        shown.index_at(self.place_of_selected(pane, &shown))
    }

    /// Moves the selection of the pane with the focus by this many rows.
    pub(crate) fn move_selection(&mut self, by: isize) {
        let pane = self.focus;
        let place = self.selected_row(pane).saturating_add_signed(by);
        self.select(pane, place);
    }

    /// Selects the first row of the pane with the focus, in Activity the newest of the journal.
    pub(crate) fn select_first(&mut self) {
        match self.focus {
            Pane::Activity => drop(self.selected.remove(&Pane::Activity)),
            pane => self.select(pane, 0),
        }
    }

    /// Selects the last row of the pane with the focus, in Activity the first of the journal.
    pub(crate) fn select_last(&mut self) {
        let is_searched = self.active_filter(List::Pane(Pane::Activity)).is_some();
        match self.focus {
            // The entry is loaded next, because it is viewed.
            Pane::Activity if !is_searched && !self.server.feed.has_oldest() => {
                self.selected.insert(Pane::Activity, "1".to_owned());
            }
            pane => self.select(pane, usize::MAX),
        }
    }

    /// Selects the row in this place of the shown ones, or the last row.
    pub(crate) fn select(&mut self, pane: Pane, place: usize) {
        let shown = self.shown_rows(pane);
        let count = match (pane, shown.count_below(self.server.pending(self.now_ms).count())) {
            // Closed requests are below pending ones. They can be selected only if no request is pending.
            (Pane::Approvals, waiting @ 1..) => waiting,
            _any => shown.len(),
        };
        let index = shown.index_at(place.min(count.saturating_sub(1)));
        let key = index.and_then(|index| self.row_key(pane, index));
        // At the top of the feed no entry is selected, so that the feed follows new entries.
        let follows = pane == Pane::Activity && place == 0 && self.server.feed.has_newest();
        match key.filter(|_key| !follows) {
            Some(key) => {
                self.selected.insert(pane, key);
            }
            None => {
                self.selected.remove(&pane);
            }
        }
    }
}
