//! Commands to the engine: how many run at once, which are sent first, and how often a topic is queried.

use bursar_control::grammar::{Order, RequestsOrder};
use bursar_control::wire::{Asking, ToEngine};

use super::call::Call;
use super::server::Topic;
use super::{Connection, Intent, Model, Purpose, rows};

/// Maximum number of commands in flight. The engine accepts eight per connection, including the watch.
const CALLS_MAX: usize = 6;
/// Maximum number of commands in flight when an urgent command is sent: a decision or the freeze.
const URGENT_CALLS_MAX: usize = 8;
/// Minimum time between two queries of a topic, because agents may pay a thousand times a second.
const QUERY_INTERVAL_MS: u64 = 300;

impl Model {
    /// Queues a command, which [`Model::send_queued_calls`] sends. Returns its id.
    pub(crate) fn call(&mut self, purpose: Purpose, order: Order, asking: Asking) -> u64 {
        let id = self.next_call;
        self.next_call = self.next_call.saturating_add(1);
        let urgent = matches!(purpose, Purpose::Decide { .. }) || order == Order::Freeze;
        self.purposes.insert(id, purpose);
        let call = Call { id, order, asking, urgent };
        if urgent {
            self.waiting_calls.push_front(call);
        } else {
            self.waiting_calls.push_back(call);
        }
        id
    }

    pub(crate) fn in_flight(&self, purpose: &Purpose) -> bool {
        self.purposes.values().any(|known| known == purpose)
    }

    /// Returns whether this console may order a retry at a Ledger.
    ///
    /// The wallet does not prompt a Ledger that refused a request because a switch in the Ledger's settings is off.
    pub(crate) fn may_retry_device(&self) -> bool {
        let device = self.server.status.as_ref().and_then(|status| status.device.as_ref());
        let is_left_alone = device.is_some_and(|device| device.may_retry);
        is_left_alone && self.connection == Connection::Up && !self.setup.observe
    }

    /// Orders a retry at a Ledger that the wallet does not prompt. Returns whether there is such a Ledger.
    pub(crate) fn retry_device(&mut self) -> bool {
        let may_retry = self.may_retry_device();
        if may_retry && !self.in_flight(&Purpose::Retry) {
            let order = RequestsOrder { retry: true, ..RequestsOrder::default() };
            self.call(Purpose::Retry, Order::Requests(order), Asking::Silent);
            self.note("The Ledger is asked again: look at its screen.");
        }
        may_retry
    }

    /// Marks topics whose answers are outdated, except for those that the program has no command for.
    pub(crate) fn mark_stale(&mut self, topics: &[Topic]) {
        let lacks_positions = self.setup.commands.lacks("positions");
        let draws_icons = self.icons.are_drawn();
        let is_asked = |topic: &&Topic| match topic {
            Topic::Positions => !lacks_positions,
            Topic::Icons => draws_icons,
            _other => true,
        };
        self.stale_topics.extend(topics.iter().filter(is_asked));
    }

    /// Queues the queries of stale topics, and returns the queued commands that the limits allow now.
    pub(crate) fn send_queued_calls(&mut self) -> Vec<Intent> {
        if self.connection != Connection::Up {
            return Vec::new();
        }
        for topic in self.stale_topics.clone() {
            let due = self.query_due_ms(topic) <= self.now_ms;
            if due && !self.in_flight(&Purpose::Query(topic)) {
                self.stale_topics.remove(&topic);
                self.queried_ms.insert(topic, self.now_ms);
                self.call(Purpose::Query(topic), rows::order_of(topic), Asking::Silent);
            }
        }
        let mut intents = Vec::new();
        let mut running = self.purposes.len().saturating_sub(self.waiting_calls.len());
        while let Some(call) = self.waiting_calls.front() {
            if running >= if call.urgent { URGENT_CALLS_MAX } else { CALLS_MAX } {
                break;
            }
            let Some(Call { id, order, asking, .. }) = self.waiting_calls.pop_front() else {
                break;
            };
            running = running.saturating_add(1);
            intents.push(Intent::Send(ToEngine::Run { id, order: Box::new(order), asking }));
        }
        intents
    }

    pub(super) fn query_due_ms(&self, topic: Topic) -> u64 {
        self.queried_ms.get(&topic).map_or(0, |asked| asked.saturating_add(QUERY_INTERVAL_MS))
    }

    /// Drops every call. The engine never answers calls of an earlier connection.
    pub(crate) fn forget_calls(&mut self) {
        self.purposes.clear();
        self.secrets.clear();
        self.waiting_calls.clear();
        self.prompts.clear();
        self.retry_reasons.clear();
        self.orders.clear();
        self.unconfirmed_key = None;
        self.watch_from_ms = 0;
        self.queried_ms.clear();
        self.stale_topics.clear();
    }
}
