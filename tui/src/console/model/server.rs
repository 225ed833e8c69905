//! The last state that the engine reported.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use bursar_control::answers::{
    ActivityRow, AddressAnswer, AgentAnswer, Answer, HistoryRow, HoldingsAnswer, PolicyAnswer,
    PositionsAnswer, RequestAnswer, SendAnswer, SilentNetworkAnswer, StatusAnswer,
};
use bursar_control::grammar::CommandSet;
use bursar_core::card::Lane;
use bursar_core::fault::Fault;
use bursar_core::settings::{ConsolePalette, ConsoleTime, Notices};
use bursar_core::status::{EntryKind, RequestStatus};

use super::feed::Feed;
use super::queued::{EndOrigin, QueuedRequest, RequestEnd};

/// How long a request remains in the list after its end.
const ENDED_ROW_MS: u64 = 60_000;
/// Maximum number of closed requests in the list, not counting the request whose card is open.
const ENDED_ROWS_MAX: usize = 2;

/// Maximum number of known ids of ended requests, more than any answer contains.
const DROPPED_IDS_MAX: usize = 2_000;

/// One part of the engine's state that the console queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Status,
    Requests,
    Agents,
    Policies,
    Payments,
    Sends,
    Feed,
    Addresses,
    Balances,
    Notices,
    Time,
    Palette,
    /// The setting `icons`.
    IconsWanted,
    /// Asked only where icons are drawn.
    Icons,
    /// Read from chains, like the balances. They take longer, so they are queried last.
    Positions,
}

impl Topic {
    pub(crate) const ALL: [Topic; 14] = [
        Topic::Status,
        Topic::Requests,
        Topic::Agents,
        Topic::Policies,
        Topic::Payments,
        Topic::Sends,
        Topic::Feed,
        Topic::Addresses,
        Topic::Balances,
        Topic::Notices,
        Topic::Time,
        Topic::Palette,
        Topic::IconsWanted,
        Topic::Positions,
    ];
}

/// The last answer to each topic; `None` until the first one arrives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) status: Option<StatusAnswer>,
    /// Pending requests first, then closed ones. A new request never moves other pending ones.
    pub(crate) queue: Vec<QueuedRequest>,
    /// Ids of requests that have ended and were removed from the queue.
    pub(crate) dropped: BTreeSet<String>,
    /// Queried separately from the balances, so that addresses show even while the balances are unknown.
    pub(crate) addresses: Option<Vec<AddressAnswer>>,
    pub(crate) balances: Option<Vec<HoldingsAnswer>>,
    pub(crate) positions: Option<PositionsAnswer>,
    pub(crate) agents: Option<Vec<AgentAnswer>>,
    pub(crate) policies: Option<Vec<PolicyAnswer>>,
    pub(crate) history: Option<Vec<HistoryRow>>,
    pub(crate) sends: Option<Vec<SendAnswer>>,
    /// Whether more requests are pending than the last answer contains.
    pub(crate) is_truncated: bool,
    pub(crate) feed: Feed,
    /// The number of the selected feed entry, or `None` for the newest.
    pub(crate) viewed_entry: Option<u64>,
    /// Whether this console has seen at least one request of an agent.
    pub(crate) has_seen_request: bool,
    /// Number of requests refused since the Activity pane last had the focus.
    pub(crate) refused_count: usize,
    pub(crate) notices: Notices,
    pub(crate) time: ConsoleTime,
    pub(crate) palette: ConsolePalette,
    /// The topics whose last query failed, and why. Their known answers are outdated.
    pub(crate) query_failures: BTreeMap<Topic, Fault>,
}

impl Server {
    /// Returns the answers before any query: a program without loans has no positions.
    pub(crate) fn of(commands: &CommandSet) -> Self {
        let none = PositionsAnswer { positions: Vec::new(), unread: Vec::new(), read: 0 };
        Self { positions: commands.lacks("positions").then_some(none), ..Self::default() }
    }

    /// Stores an answer. `now_ms` is this console's clock.
    pub(crate) fn store(&mut self, topic: Topic, answer: Answer, now_ms: u64) {
        self.query_failures.remove(&topic);
        match (topic, answer) {
            (Topic::Status, Answer::Status(status)) => self.status = Some(status),
            (Topic::Requests, Answer::Requests { requests }) => self.requests(requests, now_ms),
            (Topic::Agents, Answer::Agents { agents }) => self.agents = Some(agents),
            (Topic::Policies, Answer::Policies { policies }) => self.policies = Some(policies),
            (Topic::Payments, Answer::History(history)) => {
                self.has_seen_request |= !history.requests.is_empty();
                self.history = Some(history.requests);
            }
            (Topic::Sends, Answer::Sends { sends }) => self.sends = Some(sends),
            (Topic::Balances, Answer::Balances { addresses }) => self.balances = Some(addresses),
            (Topic::Positions, Answer::Positions(positions)) => self.positions = Some(positions),
            (Topic::Addresses, Answer::Addresses { addresses }) => self.addresses = Some(addresses),
            (Topic::Feed, Answer::Activity(page)) => {
                self.has_seen_request |= page.entries.iter().any(is_request_entry);
                self.feed.add_page(page.entries, self.viewed_entry);
            }
            (Topic::Notices, Answer::Setting(setting)) => {
                let text = setting.value.as_str().unwrap_or_default();
                self.notices = Notices::parse(text).unwrap_or_default();
            }
            (Topic::Time, Answer::Setting(setting)) => {
                let text = setting.value.as_str().unwrap_or_default();
                self.time = ConsoleTime::parse(text).unwrap_or_default();
            }
            (Topic::Palette, Answer::Setting(setting)) => {
                let text = setting.value.as_str().unwrap_or_default();
                self.palette = ConsolePalette::parse(text).unwrap_or_default();
            }
            (_topic, _another) => {}
        }
    }

    fn requests(&mut self, requests: Vec<RequestAnswer>, now_ms: u64) {
        self.has_seen_request |= !requests.is_empty();
        for known in &mut self.queue {
            // A request missing from a truncated list may still be pending.
            if !self.is_truncated
                && known.end.is_none()
                && !requests.iter().any(|one| one.id == known.request.id)
            {
                let by_device = known.request.status == RequestStatus::AwaitingDevice;
                let what = match (known.left_ms(now_ms), known.request.lane) {
                    (0, _any) => "expired",
                    // The device has nothing left to sign for this request.
                    (_left, Lane::Trade | Lane::Loan) if by_device => "signed",
                    (_left, _any) => "decided",
                };
                known.end = Some(RequestEnd::at(what, now_ms));
                known.is_end_inferred = true;
            }
        }
        for request in requests {
            let left = request.expires_in_ms.unwrap_or(0);
            let deadline_ms = now_ms.saturating_add(left);
            match self.queue.iter_mut().find(|known| known.request.id == request.id) {
                Some(known) => {
                    // A slow answer makes the deadline seem later, so the earliest deadline is the most accurate.
                    known.deadline_ms = match known.deadline_ms.abs_diff(deadline_ms) {
                        0..=1_000 => known.deadline_ms.min(deadline_ms),
                        // A slow answer cannot explain such a difference: another engine has set a new deadline.
                        _far => deadline_ms,
                    };
                    if known.is_end_inferred {
                        known.end = None;
                        known.is_end_inferred = false;
                    }
                    known.request = request;
                    known.received_ms = now_ms;
                }
                // This answer was given before the request ended: no request becomes pending again.
                None if request.status == RequestStatus::Pending
                    && self.dropped.contains(&request.id) => {}
                None => self.queue.push(QueuedRequest {
                    request,
                    deadline_ms,
                    received_ms: now_ms,
                    end: None,
                    is_end_inferred: false,
                    was_seen: false,
                    was_announced: false,
                    was_last_minute_announced: false,
                }),
            }
        }
    }

    /// Applies new entries of the journal, oldest first.
    pub(crate) fn append(&mut self, entries: Vec<ActivityRow>, now_ms: u64) {
        let known = self.feed.head();
        for row in entries.iter().filter(|row| row.seq > known) {
            self.has_seen_request |= is_request_entry(row);
            let ended = match row.kind {
                EntryKind::PaymentApproved | EntryKind::TradeApproved | EntryKind::LoanApproved => {
                    Some("approved")
                }
                EntryKind::PaymentDenied | EntryKind::TradeDenied | EntryKind::LoanDenied => {
                    Some("denied")
                }
                EntryKind::PaymentExpired | EntryKind::TradeExpired | EntryKind::LoanExpired => {
                    Some("expired")
                }
                EntryKind::PaymentRejected | EntryKind::TradeRejected | EntryKind::LoanRejected => {
                    Some("refused")
                }
                EntryKind::PaymentNotSigned => Some("not signed"),
                EntryKind::TradeEnded | EntryKind::LoanEnded => {
                    self.waits_for_device(row).then_some("ended")
                }
                EntryKind::PaymentSigned => self.waits_for_device(row).then_some("signed"),
                _other => None,
            };
            if let (Some(ended), Some(id)) = (ended, &row.request)
                && let Some(known) = self.queue.iter_mut().find(|known| known.request.id == *id)
            {
                // If the end is known already, for example from this console's own decision, keep its time.
                let at_ms = known.end.as_ref().map_or(now_ms, |end| end.at_ms);
                known.end = Some(RequestEnd {
                    origin: Some(EndOrigin::of(row)),
                    ..RequestEnd::at(ended, at_ms)
                });
                // An approved trade or loan may wait for its device next.
                known.is_end_inferred =
                    matches!(row.kind, EntryKind::TradeApproved | EntryKind::LoanApproved);
            }
        }
        self.feed.append(entries, self.viewed_entry);
    }

    /// Returns whether an entry is about a request that waited for its device.
    fn waits_for_device(&self, row: &ActivityRow) -> bool {
        let known = row.request.as_deref().and_then(|id| self.find_queued(id));
        known.is_some_and(|known| known.request.status == RequestStatus::AwaitingDevice)
    }

    /// Records the engine's answer to a decision made here.
    pub(crate) fn record_decision(&mut self, id: &str, what: &str, now_ms: u64) {
        let known = self.queue.iter_mut().find(|known| known.request.id == id);
        if let Some(known) = known.filter(|known| known.end.is_none() || known.is_end_inferred) {
            known.end = Some(RequestEnd::at(what, now_ms));
            known.is_end_inferred = false;
        }
    }

    /// Moves closed requests below pending ones, and drops old closed requests. Pending requests keep their order;
    /// closed requests are sorted latest first. The request `kept`, whose card is open, is never dropped.
    pub(crate) fn reorder(&mut self, now_ms: u64, kept: Option<&str>) {
        self.queue.sort_by_key(|known| {
            known.closed_ms(now_ms).map(|at| Reverse((at, known.deadline_ms)))
        });
        let (mut lingering, mut dropped) = (0usize, std::mem::take(&mut self.dropped));
        self.queue.retain(|known| {
            if known.closed_ms(now_ms).is_none() || kept == Some(known.request.id.as_str()) {
                return true;
            }
            lingering = lingering.saturating_add(1);
            let is_old = |end: &RequestEnd| now_ms.saturating_sub(end.at_ms) >= ENDED_ROW_MS;
            let stays = lingering <= ENDED_ROWS_MAX && !known.end.as_ref().is_some_and(is_old);
            if !stays && known.end.is_some() && !known.is_end_inferred {
                dropped.insert(known.request.id.clone());
            }
            stays
        });
        while dropped.len() > DROPPED_IDS_MAX {
            dropped.pop_first();
        }
        self.dropped = dropped;
    }

    /// Returns the requests that can still be decided.
    pub(crate) fn pending(&self, now_ms: u64) -> impl Iterator<Item = &QueuedRequest> {
        self.queue.iter().filter(move |known| known.closed_reason(now_ms).is_none())
    }

    pub(crate) fn find_queued(&self, id: &str) -> Option<&QueuedRequest> {
        self.queue.iter().find(|known| known.request.id == id)
    }

    /// Returns the networks that do not answer. The header names them, so that no other place repeats it.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &SilentNetworkAnswer> {
        self.status.iter().flat_map(|status| &status.silent)
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.wallet.locked)
    }
}

fn is_request_entry(row: &ActivityRow) -> bool {
    ["payment.", "trade.", "loan."].iter().any(|lane| row.kind.text().starts_with(lane))
}

const CHANGED_BY_LOANS: &[Topic] = &[
    Topic::Requests,
    Topic::Agents,
    Topic::Payments,
    Topic::Balances,
    Topic::Positions,
    Topic::Status,
];

/// Returns the topics that an entry of this kind makes stale.
pub(crate) fn stale_topics(kind: EntryKind) -> &'static [Topic] {
    match kind {
        EntryKind::PaymentAuthorized
        | EntryKind::PaymentHeld
        | EntryKind::PaymentRefused
        | EntryKind::PaymentApproved
        | EntryKind::PaymentDenied
        | EntryKind::PaymentExpired
        | EntryKind::PaymentRejected
        | EntryKind::PaymentAwaitsDevice
        | EntryKind::PaymentPrompted
        | EntryKind::PaymentPromptFailed
        | EntryKind::PaymentNotSigned
        | EntryKind::PaymentLapsed
        | EntryKind::PaymentSigned => {
            &[Topic::Requests, Topic::Agents, Topic::Payments, Topic::Status]
        }
        EntryKind::TradeStarted
        | EntryKind::TradeHeld
        | EntryKind::TradeRefused
        | EntryKind::TradeApproved
        | EntryKind::TradeDenied
        | EntryKind::TradeExpired
        | EntryKind::TradeRejected
        | EntryKind::TradeStepOpened
        | EntryKind::TradePermitOrdered
        | EntryKind::TradePermitSigned
        | EntryKind::TradeStepEnded
        | EntryKind::TradeEnded
        | EntryKind::TradeClosed
        | EntryKind::TradeFeeCounted
        | EntryKind::LoanStarted
        | EntryKind::LoanHeld
        | EntryKind::LoanRefused
        | EntryKind::LoanApproved
        | EntryKind::LoanDenied
        | EntryKind::LoanExpired
        | EntryKind::LoanRejected
        | EntryKind::LoanStepOpened
        | EntryKind::LoanClosed => {
            &[Topic::Requests, Topic::Agents, Topic::Payments, Topic::Balances, Topic::Status]
        }
        EntryKind::LoanStepEnded
        | EntryKind::LoanEnded
        | EntryKind::LoanWithdrawalBooked
        | EntryKind::LoanWrittenOff
        | EntryKind::VenueTrusted
        | EntryKind::VenueUntrusted => CHANGED_BY_LOANS,
        EntryKind::JournalAnchored | EntryKind::ReceiptStated => &[],
        EntryKind::PayeeNamed => &[Topic::Requests, Topic::Payments],
        EntryKind::SettlementReported | EntryKind::SettlementChecked => {
            &[Topic::Payments, Topic::Balances]
        }
        EntryKind::AgentRegistered
        | EntryKind::AgentCredentialReplaced
        | EntryKind::AgentCommissioned
        | EntryKind::AgentSuspended
        | EntryKind::AgentResumed
        | EntryKind::AgentDeleted
        | EntryKind::MandateIssued
        | EntryKind::MandateSigned
        | EntryKind::MandateEnded
        | EntryKind::MandateUploadBegun
        | EntryKind::MandateUploadEnded
        | EntryKind::AllowanceRenewed => &[Topic::Agents, Topic::Status, Topic::Requests],
        EntryKind::PolicySet | EntryKind::PolicyDeleted => {
            &[Topic::Policies, Topic::Agents, Topic::Requests]
        }
        EntryKind::AddressAdded | EntryKind::AddressRenamed | EntryKind::AddressDeleted => {
            &[Topic::Addresses, Topic::Balances, Topic::Positions, Topic::Status, Topic::Agents]
        }
        EntryKind::NetworkSet => {
            &[Topic::Balances, Topic::Positions, Topic::Policies, Topic::Requests]
        }
        EntryKind::WalletCreated
        | EntryKind::WalletUnlocked
        | EntryKind::UnattendedDayStarted
        | EntryKind::WalletDeleted
        | EntryKind::WalletLocked
        | EntryKind::WalletPasswordChanged
        | EntryKind::WalletPasswordRefused => {
            &[Topic::Status, Topic::Addresses, Topic::Balances, Topic::Positions]
        }
        EntryKind::Frozen | EntryKind::Thawed => &[Topic::Status, Topic::Requests],
        EntryKind::SeedAdded
        | EntryKind::JournalAccepted
        | EntryKind::EditionNamed
        | EntryKind::JournalRestored
        | EntryKind::JournalRestoreDated
        | EntryKind::AuthorizationsLapsed
        | EntryKind::SettingChanged
        | EntryKind::EngineStarted => &[Topic::Status],
        EntryKind::SendOrdered
        | EntryKind::TxFiller
        | EntryKind::TxOpened
        | EntryKind::TxNonce
        | EntryKind::TxAuthorized
        | EntryKind::TxSigned
        | EntryKind::TxDeclined
        | EntryKind::TxCancelWanted
        | EntryKind::TxIncluded
        | EntryKind::TxMissed
        | EntryKind::TxBounded
        | EntryKind::TxWaitsAgain
        | EntryKind::TxTrouble
        | EntryKind::TxFinished => &[Topic::Status, Topic::Sends],
    }
}
