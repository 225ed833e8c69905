//! The state from which every frame is drawn. It does no I/O and reads no clock: messages change it, and it returns
//! intents for the work to do.

pub(crate) mod balances;
mod call;
mod calls;
pub(crate) mod card;
mod cards_to_open;
pub(crate) mod context;
pub(crate) mod exports;
pub(crate) mod feed;
pub(crate) mod field;
pub(crate) mod filter;
pub(crate) mod icons;
pub(crate) mod line;
pub(crate) mod marked;
pub(crate) mod marked_run;
mod marks;
mod note;
mod notes;
pub(crate) mod opening;
pub(crate) mod overlay;
pub(crate) mod payments;
pub(crate) mod queued;
pub(crate) mod rows;
mod search;
pub(crate) mod seen_rows;
pub(crate) mod selection;
pub(crate) mod server;
pub(crate) mod setup;
mod shown_cards;
mod time;
pub(crate) mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use bursar_control::grammar::{CommandSet, Order};
use bursar_control::wire::ToEngine;
use bursar_core::fault::Fault;
use bursar_core::settings::ConsoleTime;
use bursar_core::text::{Zone, hints_for_program, hints_for_window};

use crate::console::keymap::KeyAction;
use crate::console::theme::{Background, ColorUse, Palette, Theme};
use crate::link::Secret;
use exports::NewFile;
use filter::Filter;
use icons::Icons;
use line::{Line, LineHistory};
use marked_run::MarkedRun;
pub(crate) use note::{FREEZE_WINDOW_MS, Note};
use overlay::{Overlay, Question, TextView};
use server::{Server, Topic};
use shown_cards::ShownCards;
use zeroize::Zeroizing;

/// The panes, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pane {
    Approvals,
    Balances,
    Agents,
    Policies,
    Activity,
    Payments,
}

impl Pane {
    pub(crate) const ALL: [Pane; 6] = [
        Pane::Approvals,
        Pane::Balances,
        Pane::Agents,
        Pane::Policies,
        Pane::Activity,
        Pane::Payments,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Pane::Approvals => "Approvals",
            Pane::Balances => "Balances",
            Pane::Agents => "Agents",
            Pane::Policies => "Policies",
            Pane::Activity => "Activity",
            Pane::Payments => "Payments",
        }
    }

    pub(crate) fn number(self) -> usize {
        Self::ALL.iter().position(|pane| *pane == self).map_or(0, |index| index.saturating_add(1))
    }

    pub(crate) fn from_number(number: usize) -> Option<Pane> {
        Self::ALL.get(number.checked_sub(1)?).copied()
    }
}

/// A list that can be filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Pane(Pane),
    Help,
}

/// The state of the link to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Connection {
    Connecting,
    Up,
    /// The link was lost, and the console tries to reconnect.
    Lost(Fault),
}

/// Why a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Reloads the state of one topic.
    Query(Topic),
    /// Makes the wallet prompt a Ledger again that refused a request, and reloads the requests.
    Retry,
    /// Loads a missing page of the feed.
    Page,
    Watch,
    Decide {
        id: String,
        approve: bool,
    },
    /// One of the decisions about marked requests.
    DecideMarked {
        id: String,
    },
    /// A command line of the operator. `order` is the command's name.
    Line {
        order: &'static str,
    },
}

/// Work for the loop that drives the console.
#[derive(Debug)]
pub(crate) enum Intent {
    Send(ToEngine),
    SendSecret {
        id: u64,
        secret: Secret,
    },
    /// Creates the file of a command, before the command is sent.
    CreateFile {
        id: u64,
        file: NewFile,
    },
    Quit,
    /// Notifies the operator of a request.
    Notify {
        bell: bool,
        notice: Option<String>,
    },
    /// Copies a text to the clipboard. It may contain an agent's credentials.
    Copy(Zeroizing<String>),
    /// A line for the history file.
    Remember(String),
    Suspend,
    Redraw,
    /// Asks the terminal whether it shows pictures.
    AskPictures,
}

/// The subject of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoticeKind {
    /// Requests arrived.
    New,
    /// The last minute of requests has begun.
    LastMinute,
}

/// The notices of a kind since a key was last pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentNotices {
    pub(crate) count: usize,
    pub(crate) last_ms: u64,
}

/// Pause between two notices of a kind.
pub(crate) const NOTICE_PAUSE_MS: u64 = 30_000;

/// The text that was copied last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastCopy {
    /// The texts of the row, which identify it: several rows can have the same payee.
    pub(crate) row: Vec<String>,
    /// The index of the copied text among those of the row.
    pub(crate) index: usize,
    pub(crate) at_ms: u64,
}

/// The options of a console.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Whether this process is the engine, so that leaving the console stops the engine.
    pub owner: bool,
    /// Whether the console only shows: it can neither decide nor change anything.
    pub observe: bool,
    /// When to use colours.
    pub colors: ColorUse,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// The option that selects the same data folder in a shell, such as `--data /srv/bursar`; empty for the default
    /// folder.
    pub folder_option: String,
    /// The file that keeps entered lines for later consoles.
    pub history: Option<PathBuf>,
    /// The time zone of this machine.
    pub zone: Zone,
    /// The commands of this program.
    pub commands: CommandSet,
    /// What to know before the wallet's password is chosen; `None` for the usual text.
    pub password_advice: Option<&'static str>,
    /// The folder for the files that commands write and read, in the one window of a sealed program; `None` in any
    /// other console, where a shell runs these commands.
    pub exports: Option<PathBuf>,
}

impl Setup {
    /// Returns whether this window is a sealed program, in which cards open by themselves.
    pub(crate) fn is_sealed(&self) -> bool {
        self.exports.is_some()
    }

    /// Returns a text of ours with its commands as this console reads them.
    pub(crate) fn commands_in<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.is_sealed() {
            true => hints_for_window(text, self.commands.program),
            false => hints_for_program(text, self.commands.program),
        }
    }
}

/// A key that decides counts only if no other key follows for this long: two keys this close together are a paste.
pub(crate) const PASTE_GAP_MS: u64 = 60;
/// Pause before a watch that ended is restarted.
pub(crate) const WATCH_RESTART_MS: u64 = 1_000;
/// Largest accepted size of the terminal, in columns and rows.
const MAX_SIZE: (u16, u16) = (1_000, 500);
/// Smallest size that can be laid out. On a smaller screen no panes are drawn and no request can be decided.
pub(crate) const MIN_SIZE: (u16, u16) = (60, 16);

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) setup: Setup,
    pub(crate) size: (u16, u16),
    pub(crate) icons: Icons,
    /// The background of the terminal; `None` if it is unknown.
    pub(crate) background: Option<Background>,
    /// Milliseconds on this process's monotonic clock.
    pub(crate) now_ms: u64,
    pub(crate) connection: Connection,
    pub(crate) server: Server,
    pub(crate) focus: Pane,
    pub(crate) is_zoomed: bool,
    /// The operator left the console, and the engine in this process is to keep running.
    pub(crate) keeps_engine: bool,
    /// A command that the program runs once the window is closed; then it opens the window again.
    pub(crate) run_closed: Option<Order>,
    /// The selected row of each pane, by its identity and not by its position.
    pub(crate) selected: BTreeMap<Pane, String>,
    /// The filters of the lists that have one.
    pub(crate) filters: BTreeMap<List, Filter>,
    /// The list whose filter is being typed.
    pub(crate) filtering: Option<List>,
    /// The ids of the marked requests, with the digest of the card at the mark.
    pub(crate) marks: BTreeMap<String, String>,
    /// The decisions about marked requests whose results are arriving.
    pub(crate) marked_run: Option<MarkedRun>,
    pub(crate) overlay: Option<Overlay>,
    /// The request whose card opens again once the wallet is unlocked.
    pub(crate) card_to_reopen: Option<String>,
    /// The cards that do not open by themselves again.
    pub(crate) shown_cards: ShownCards,
    /// When a key was last pressed.
    pub(crate) last_key_ms: u64,
    /// When a key was last pressed on the panes, in a line or in a filter.
    pub(crate) last_pane_key_ms: u64,
    /// Texts to read, shown once no other overlay is open.
    pub(crate) unread: VecDeque<TextView>,
    /// Questions of running commands, shown once no other overlay is open.
    pub(crate) prompts: VecDeque<Question>,
    /// Why the previous run of a repeated command was refused, by the id of the new run.
    pub(crate) retry_reasons: BTreeMap<u64, String>,
    /// The operator's running command lines, by id.
    pub(crate) orders: BTreeMap<u64, Order>,
    /// A pressed key that decides, and its time. The key counts once the pause after it shows that it was typed alone.
    pub(crate) unconfirmed_key: Option<(KeyAction, u64)>,
    /// The candidates for the last word of the command line.
    pub(crate) choices: Vec<String>,
    /// The seed that was created here and whose words have not been checked yet.
    pub(crate) unchecked_seed: Option<String>,
    /// Venues for which a note was shown, because they are no longer trusted: network and venue.
    pub(crate) noted_venues: BTreeSet<(String, String)>,
    /// Whether the first page of the feed has arrived. The watch starts only then, because it continues from the head
    /// of the feed.
    pub(crate) has_feed: bool,
    pub(crate) watch_from_ms: u64,
    pub(crate) line: Option<Line>,
    pub(crate) line_history: LineHistory,
    /// The notices since a key was last pressed.
    pub(crate) sent_notices: BTreeMap<NoticeKind, SentNotices>,
    pub(crate) last_copy: Option<LastCopy>,
    /// The result of the last action.
    pub(crate) last_note: Option<Note>,
    /// When the freeze key was pressed for the first time; the second press freezes.
    pub(crate) freeze_at_ms: Option<u64>,
    pub(crate) purposes: BTreeMap<u64, Purpose>,
    pub(crate) secrets: BTreeMap<u64, Secret>,
    waiting_calls: VecDeque<call::Call>,
    next_call: u64,
    stale_topics: BTreeSet<Topic>,
    queried_ms: BTreeMap<Topic, u64>,
}

/// Limits a reported size, because some terminals report absurd sizes. Zero rows are allowed.
pub(crate) fn clamp_size((width, height): (u16, u16)) -> (u16, u16) {
    (width.min(MAX_SIZE.0), height.min(MAX_SIZE.1))
}

impl Model {
    pub(crate) fn new(setup: Setup, size: (u16, u16)) -> Self {
        Self {
            server: Server::of(&setup.commands),
            setup,
            size: clamp_size(size),
            icons: Icons::default(),
            background: None,
            now_ms: 0,
            connection: Connection::Connecting,
            focus: Pane::Approvals,
            is_zoomed: false,
            keeps_engine: false,
            run_closed: None,
            selected: BTreeMap::new(),
            filters: BTreeMap::new(),
            filtering: None,
            marks: BTreeMap::new(),
            marked_run: None,
            overlay: None,
            card_to_reopen: None,
            shown_cards: ShownCards::default(),
            last_key_ms: 0,
            last_pane_key_ms: 0,
            unread: VecDeque::new(),
            prompts: VecDeque::new(),
            retry_reasons: BTreeMap::new(),
            orders: BTreeMap::new(),
            unconfirmed_key: None,
            choices: Vec::new(),
            unchecked_seed: None,
            noted_venues: BTreeSet::new(),
            has_feed: false,
            watch_from_ms: 0,
            line: None,
            line_history: LineHistory::default(),
            sent_notices: BTreeMap::new(),
            last_copy: None,
            last_note: None,
            freeze_at_ms: None,
            purposes: BTreeMap::new(),
            secrets: BTreeMap::new(),
            waiting_calls: VecDeque::new(),
            next_call: 1,
            stale_topics: BTreeSet::new(),
            queried_ms: BTreeMap::new(),
        }
    }

    /// Returns the colours and characters to draw with.
    pub(crate) fn theme(&self) -> Theme {
        let palette = Palette::choose(self.setup.colors, self.server.palette, self.background);
        Theme { palette, ascii: self.setup.ascii }
    }

    /// Returns the zone in which times of day are shown.
    pub(crate) fn zone(&self) -> Zone {
        match self.server.time {
            ConsoleTime::Local => self.setup.zone.clone(),
            ConsoleTime::Utc => Zone::default(),
        }
    }

    /// Returns the number of pending requests; 0 while the engine is not connected.
    pub(crate) fn pending_count(&self) -> usize {
        match self.connection {
            Connection::Up => self.server.pending(self.now_ms).count(),
            Connection::Connecting | Connection::Lost(_) => 0,
        }
    }

    /// Returns whether the screen is too small for a layout. If so, no request can be decided.
    pub(crate) fn is_too_small(&self) -> bool {
        self.size.0 < MIN_SIZE.0 || self.size.1 < MIN_SIZE.1
    }

    /// Returns whether the open card can still be decided here; true if no card is open.
    pub(crate) fn may_decide(&self) -> bool {
        let Some(Overlay::Card(view)) = &self.overlay else { return true };
        let open = |waiting: &queued::QueuedRequest| waiting.closed_reason(self.now_ms).is_none();
        let known = self.server.find_queued(&view.id).is_some_and(open);
        let in_run = self.marked_run.as_ref().is_some_and(|run| run.contains(&view.id));
        let is_free = known && !view.is_sent && !in_run;
        is_free && self.connection == Connection::Up && !self.setup.observe
    }

    /// Returns whether decisions about marked requests wait to be sent.
    pub(crate) fn is_sending_decisions(&self) -> bool {
        self.marked_run.as_ref().is_some_and(|run| !run.waiting.is_empty())
    }

    /// Returns whether the last answers allow an approval of the open card; true if no card is open.
    pub(crate) fn may_approve(&self) -> bool {
        match &self.overlay {
            Some(Overlay::Card(view)) => view.may_be_approved() && !self.server.is_locked(),
            _other => true,
        }
    }

    /// Returns whether an approval or a yes would count now.
    pub(crate) fn accepts_decision_key(&self) -> bool {
        match &self.overlay {
            Some(Overlay::Card(view)) => self.now_ms >= view.armed_at_ms,
            Some(Overlay::Marked(view)) => self.now_ms >= view.armed_at_ms,
            Some(Overlay::Ask(question)) if question.is_yes_or_no() => {
                self.now_ms >= question.armed_at_ms
            }
            Some(Overlay::AskFile(question)) => self.now_ms >= question.armed_at_ms,
            Some(Overlay::ConfirmLeave { armed_at_ms }) => self.now_ms >= *armed_at_ms,
            _other => true,
        }
    }
}
