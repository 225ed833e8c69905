//! Everything a frame is drawn from. No I/O and no clock of its own: what changes comes in as a message,
//! what must be done goes out as an intent.

mod calls;
mod card;
pub(crate) mod feed;
pub(crate) mod line;
mod note;
pub(crate) mod opening;
pub(crate) mod overlay;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod setup;
mod time;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use bursar_core::fault::Fault;
use bursar_core::grammar::Order;
use bursar_core::settings::ConsoleTime;
use bursar_core::text::Zone;
use bursar_core::wire::ToEngine;

use crate::console::keymap::Deed;
use crate::console::theme::Theme;
use crate::link::Secret;
use line::{Line, Past};
pub(crate) use note::{FREEZE_MS, Note};
use overlay::{Overlay, Question, Told};
use server::{Server, Topic};
use zeroize::Zeroizing;

/// The panes, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pane {
    Approvals,
    Balances,
    Agents,
    Policies,
    Activity,
    Sent,
}

impl Pane {
    pub(crate) const ALL: [Pane; 6] =
        [Pane::Approvals, Pane::Balances, Pane::Agents, Pane::Policies, Pane::Activity, Pane::Sent];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Pane::Approvals => "Approvals",
            Pane::Balances => "Balances",
            Pane::Agents => "Agents",
            Pane::Policies => "Policies",
            Pane::Activity => "Activity",
            Pane::Sent => "Sent",
        }
    }

    pub(crate) fn number(self) -> usize {
        Self::ALL.iter().position(|pane| *pane == self).map_or(0, |place| place.saturating_add(1))
    }

    pub(crate) fn numbered(number: usize) -> Option<Pane> {
        Self::ALL.get(number.checked_sub(1)?).copied()
    }
}

/// How it stands with the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Connection {
    Connecting,
    Up,
    /// Gone; another try is under way.
    Lost(Fault),
}

/// Why a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    Look(Topic),
    /// The page of the feed before this entry.
    Page,
    Watch,
    Decide {
        id: String,
        approve: bool,
    },
    /// A line of the operator's; `order` is its name.
    Line {
        order: &'static str,
    },
}

/// Work for the outside.
#[derive(Debug)]
pub(crate) enum Intent {
    Send(ToEngine),
    SendSecret {
        id: u64,
        secret: Secret,
    },
    Quit,
    /// Draws attention to a request.
    Notify {
        bell: bool,
        notice: Option<String>,
    },
    /// May hold an agent's credentials.
    Copy(Zeroizing<String>),
    /// A line for the history that outlives this console.
    Remember(String),
    Suspend,
    Redraw,
}

/// What the console was started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// This process is the engine: leaving stops it.
    pub owner: bool,
    /// Shows and cannot decide or change anything.
    pub observe: bool,
    pub theme: Theme,
    /// What a shell must be told to use the same data folder, such as `--data /srv/bursar`; empty for the
    /// usual one.
    pub folder_option: String,
    /// Where entered lines are kept for the next console.
    pub history: Option<PathBuf>,
    /// That of this machine.
    pub zone: Zone,
}

/// A key that decides must come alone: with another one so soon after it, it was pasted.
pub(crate) const ALONE_MS: u64 = 60;
/// Before the watch that has ended is begun again.
pub(crate) const WATCH_AGAIN_MS: u64 = 1_000;
/// Sizes that are believed.
const MOST: (u16, u16) = (1_000, 500);
/// Below this nothing can be laid out, and only the command line works.
pub(crate) const LEAST: (u16, u16) = (60, 16);

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) setup: Setup,
    pub(crate) size: (u16, u16),
    /// Milliseconds on this process's monotonic clock.
    pub(crate) now_ms: u64,
    pub(crate) connection: Connection,
    pub(crate) server: Server,
    pub(crate) focus: Pane,
    pub(crate) zoomed: bool,
    /// The selected row of each pane, by what it is and not by where.
    pub(crate) selected: BTreeMap<Pane, String>,
    pub(crate) overlay: Option<Overlay>,
    /// The request whose card comes back once the wallet was opened for it.
    pub(crate) under: Option<String>,
    /// Answers to read that came while something else lay over the panes.
    pub(crate) unread: VecDeque<Told>,
    /// Questions of running commands that wait for the same.
    pub(crate) prompts: VecDeque<Question>,
    /// Why a command that is run again was refused before.
    pub(crate) refused_before: BTreeMap<u64, String>,
    /// What each command line of the operator's was.
    pub(crate) orders: BTreeMap<u64, Order>,
    /// A key that decides, until it is sure that it came alone.
    pub(crate) resting: Option<(Deed, u64)>,
    /// What the word at the end of the command line may become.
    pub(crate) choices: Vec<String>,
    /// The seed whose words were shown here and are not known to stand on paper.
    pub(crate) unchecked_seed: Option<String>,
    /// The first page of the feed has come, so that the journal can be watched from its head.
    pub(crate) feed_known: bool,
    pub(crate) watch_from_ms: u64,
    pub(crate) line: Option<Line>,
    pub(crate) past: Past,
    /// What the last action came to.
    pub(crate) last: Option<Note>,
    /// The first key of the pair that freezes, and when it was pressed.
    pub(crate) freeze_at_ms: Option<u64>,
    pub(crate) purposes: BTreeMap<u64, Purpose>,
    pub(crate) secrets: BTreeMap<u64, Secret>,
    waiting_calls: VecDeque<calls::Call>,
    next_call: u64,
    stale: BTreeSet<Topic>,
    asked_ms: BTreeMap<Topic, u64>,
}

/// A terminal that says it has no rows is drawn on all the same, and none is as large as some say.
pub(crate) fn clamped((width, height): (u16, u16)) -> (u16, u16) {
    (width.min(MOST.0), height.min(MOST.1))
}

impl Model {
    pub(crate) fn new(setup: Setup, size: (u16, u16)) -> Self {
        Self {
            setup,
            size: clamped(size),
            now_ms: 0,
            connection: Connection::Connecting,
            server: Server::default(),
            focus: Pane::Approvals,
            zoomed: false,
            selected: BTreeMap::new(),
            overlay: None,
            under: None,
            unread: VecDeque::new(),
            prompts: VecDeque::new(),
            refused_before: BTreeMap::new(),
            orders: BTreeMap::new(),
            resting: None,
            choices: Vec::new(),
            unchecked_seed: None,
            feed_known: false,
            watch_from_ms: 0,
            line: None,
            past: Past::default(),
            last: None,
            freeze_at_ms: None,
            purposes: BTreeMap::new(),
            secrets: BTreeMap::new(),
            waiting_calls: VecDeque::new(),
            next_call: 1,
            stale: BTreeSet::new(),
            asked_ms: BTreeMap::new(),
        }
    }

    /// The zone in which times of day are shown.
    pub(crate) fn zone(&self) -> Zone {
        match self.server.time {
            ConsoleTime::Local => self.setup.zone.clone(),
            ConsoleTime::Utc => Zone::default(),
        }
    }

    /// How many requests wait; none that is known of while no engine tells.
    pub(crate) fn waiting(&self) -> usize {
        match self.connection {
            Connection::Up => self.server.held(self.now_ms).count(),
            Connection::Connecting | Connection::Lost(_) => 0,
        }
    }

    /// Too small for anything to be laid out: then nothing is decided either.
    pub(crate) fn is_too_small(&self) -> bool {
        self.size.0 < LEAST.0 || self.size.1 < LEAST.1
    }

    /// Whether the keys of the open card mean anything; true where none is open.
    pub(crate) fn may_decide(&self) -> bool {
        let Some(Overlay::Card(view)) = &self.overlay else { return true };
        let open = |waiting: &server::Waiting| waiting.closed(self.now_ms).is_none();
        let known = self.server.waiting(&view.id).is_some_and(open);
        known && !view.sent && self.connection == Connection::Up && !self.setup.observe
    }

    /// Whether the engine would take an approval of the open card, as far as it says.
    pub(crate) fn may_approve(&self) -> bool {
        match &self.overlay {
            Some(Overlay::Card(view)) => view.card.obstacle.is_none() && !self.server.is_locked(),
            _other => true,
        }
    }

    /// Whether a key that decides would count now.
    pub(crate) fn is_armed(&self) -> bool {
        match &self.overlay {
            Some(Overlay::Card(view)) => self.now_ms >= view.armed_at_ms,
            Some(Overlay::Ask(question)) if question.is_yes_or_no() => {
                self.now_ms >= question.armed_at_ms
            }
            Some(Overlay::Leave { armed_at_ms }) => self.now_ms >= *armed_at_ms,
            _other => true,
        }
    }
}
