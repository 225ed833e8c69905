//! The state of the plain console. It does no I/O and reads no clock: typed lines, frames and ticks change it, and each
//! returns the effects for the loop.

mod decisions;
mod printing;
mod replies;

use std::collections::{BTreeMap, VecDeque};

use bursar_control::answers::SilentNetworkAnswer;
use bursar_control::grammar::{Order, SeedOrder, WatchOrder};
use bursar_control::wire::{Asking, Prompt, SecretPrompt, ToClient, ToEngine};
use bursar_core::card::Card;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::calls::{Calls, Purpose, TOPICS};
use super::effect::Effect;
use super::input::Typed;
use super::news::News;
use super::question::{Question, Wanted};
use super::setup::Setup;
use super::{observer, typed, words};
use crate::console::model::rows;
use crate::console::model::server::{Server, Topic, stale_topics};
use crate::console::model::setup::{ProgramFacts, steps_of};
use crate::console::shell_only;
use crate::link::{Received, Secret};

/// How long lines are discarded after a question was printed. A discarded line restarts this time, so that lines which
/// were typed or pasted for something else decide nothing.
pub(super) const GUARD_MS: u64 = 400;
/// Pause before a watch that ended is restarted.
const WATCH_RESTART_MS: u64 = 1_000;

/// The command of the operator that runs.
#[derive(Debug)]
struct Running {
    id: u64,
    order: &'static str,
    /// The request that the command decides.
    decides: Option<String>,
}

/// The plain console.
#[derive(Debug)]
pub(super) struct Session {
    setup: Setup,
    now_ms: u64,
    is_up: bool,
    /// Whether the loss of the connection was reported.
    was_lost: bool,
    /// Whether the state at the start was printed.
    is_greeted: bool,
    /// The networks that do not answer, as far as they were printed.
    printed_silent: Vec<SilentNetworkAnswer>,
    pub(super) server: Server,
    has_requests: bool,
    has_feed: bool,
    watch_from_ms: u64,
    calls: Calls,
    news: News,
    secrets: BTreeMap<u64, Secret>,
    /// The card that is the last thing printed.
    last_card: Option<Box<Card>>,
    /// Decisions that were typed and whose turn has not come.
    wanted: VecDeque<Wanted>,
    /// The decision whose card is being read from the engine.
    looking: Option<Wanted>,
    running: Option<Running>,
    question: Option<Question>,
    /// An answer counts from this time on.
    armed_at_ms: u64,
    /// The command whose secret is being typed.
    secret_for: Option<u64>,
    effects: Vec<Effect>,
}

impl Session {
    pub(super) fn new(setup: Setup) -> Self {
        let mut session = Self {
            setup,
            now_ms: 0,
            is_up: false,
            was_lost: false,
            is_greeted: false,
            printed_silent: Vec::new(),
            server: Server::default(),
            has_requests: false,
            has_feed: false,
            watch_from_ms: 0,
            calls: Calls::default(),
            news: News::default(),
            secrets: BTreeMap::new(),
            last_card: None,
            wanted: VecDeque::new(),
            looking: None,
            running: None,
            question: None,
            armed_at_ms: 0,
            secret_for: None,
            effects: Vec::new(),
        };
        session.print(&words::greeting(&session.setup));
        session
    }

    /// Returns whether the next line may be read. While a command runs, the terminal keeps the lines.
    pub(super) fn wants_line(&self) -> bool {
        let is_busy = self.running.is_some() || self.looking.is_some() || !self.is_settled();
        self.secret_for.is_none() && (self.question.is_some() || !is_busy)
    }

    /// Returns whether the state at the start was printed, or cannot be.
    fn is_settled(&self) -> bool {
        self.is_greeted || !self.is_up
    }

    /// Returns when something changes without an event, on the session's clock.
    pub(super) fn wake_ms(&self) -> Option<u64> {
        let news = self.news.wake_ms(&self.server, self.now_ms);
        if !self.is_up {
            return news;
        }
        let is_watched = !self.has_feed || self.calls.is_in_flight(Purpose::Watch);
        let watch = (!is_watched).then_some(self.watch_from_ms);
        [news, watch, self.calls.wake_ms()].into_iter().flatten().min()
    }

    pub(super) fn connected(&mut self, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        self.calls.forget();
        self.is_up = true;
        self.watch_from_ms = 0;
        let mut topics = TOPICS.to_vec();
        topics.retain(|topic| *topic != Topic::Feed || !self.has_feed);
        self.calls.mark_stale(&topics);
        if std::mem::take(&mut self.was_lost) {
            self.print("Connected to the engine again.");
        }
        self.finish()
    }

    pub(super) fn lost(&mut self, fault: &Fault, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        self.calls.forget();
        self.secrets.clear();
        self.wanted.clear();
        let was_asked = self.question.take().is_some() || self.looking.take().is_some();
        let was_sent = self.running.take().is_some();
        self.is_up = false;
        if !std::mem::replace(&mut self.was_lost, true) {
            let why = if fault.code == Code::EngineDown { "" } else { fault.message.as_str() };
            let end = match (was_sent, was_asked) {
                (true, _) => " The command may have run: check it once it is back.",
                (false, true) => " Nothing was decided.",
                (false, false) => "",
            };
            let text = format!("The connection to the engine is lost. {why}");
            self.print_escaped(&format!("{}{end}", text.trim_end()));
        }
        self.finish()
    }

    /// Restarts the time in which lines are ignored, once the question is on the terminal.
    pub(super) fn question_shown(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        self.guard();
    }

    pub(super) fn tick(&mut self, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        self.finish()
    }

    pub(super) fn typed(&mut self, typed: &Typed, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        match (typed, self.question.take()) {
            (Typed::End, Some(_open)) => {
                self.print("Nothing was decided: the input has ended.");
                self.effects.push(Effect::Leave(Code::ConfirmationNeeded.exit()));
            }
            (Typed::End, None) => self.effects.push(Effect::Leave(0)),
            (_line, Some(open)) if self.now_ms < self.armed_at_ms => {
                self.question = Some(open);
                self.guard();
                self.print(
                    "Ignored: this line came before the question could be read. Type it again.",
                );
            }
            (Typed::Line(line), Some(open)) => self.answer(open, line),
            (Typed::TooLong, Some(open)) => self.answer(open, ""),
            (Typed::Line(line), None) => self.command(line),
            (Typed::TooLong, None) => self.print("The line is too long: nothing was done."),
        }
        self.finish()
    }

    pub(super) fn secret_typed(
        &mut self,
        secret: Result<Secret, Fault>,
        now_ms: u64,
    ) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        self.last_card = None;
        let asked = self.secret_for.take();
        let id = asked.filter(|id| self.running.as_ref().is_some_and(|run| run.id == *id));
        match (id, secret) {
            // The connection was lost while the secret was typed.
            (None, _) => {}
            (Some(id), Ok(secret)) => self.effects.push(Effect::SendSecret { id, secret }),
            (Some(id), Err(fault)) => {
                self.effects.push(Effect::Send(ToEngine::Cancel { id }));
                self.calls.end(id);
                self.running = None;
                self.print_escaped(&format!("Cancelled. {}", fault.message));
            }
        }
        self.finish()
    }

    pub(super) fn frame(&mut self, frame: Received, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        match frame {
            Received::Secret { id, secret } => drop(self.secrets.insert(id, secret)),
            Received::Message(ToClient::Progress { text, .. }) => self.print_escaped(&text),
            Received::Message(ToClient::Entries { entries, .. }) => {
                if entries.is_empty() {
                    // The queue of the hardware devices changed.
                    self.calls.mark_stale(&[Topic::Status, Topic::Requests]);
                }
                for row in &entries {
                    self.calls.mark_stale(stale_topics(row.kind));
                }
                self.server.append(entries, self.now_ms);
            }
            Received::Message(ToClient::Prompt { id, prompt }) => self.prompted(id, prompt),
            Received::Message(ToClient::Done { id, reply }) => self.reply(id, *reply),
            // These frames do not occur: no command writes a file here, and the handshake is over.
            Received::Message(_other) => {}
        }
        self.finish()
    }

    fn prompted(&mut self, id: u64, prompt: Prompt) {
        if self.running.as_ref().is_none_or(|run| run.id != id) {
            return;
        }
        match prompt {
            Prompt::Secret { what } => self.ask_secret(id, what),
            Prompt::Confirm { ref lines, .. }
            | Prompt::TypeAmount { ref lines, .. }
            | Prompt::TypeName { ref lines, .. } => {
                for line in lines {
                    self.print_escaped(line);
                }
                self.ask(Question::Engine { call: id, prompt });
            }
        }
    }

    fn ask_secret(&mut self, id: u64, what: SecretPrompt) {
        self.secret_for = Some(id);
        self.effects.push(Effect::AskSecret(what));
    }

    /// Prints the question, and ignores lines for a moment.
    fn ask(&mut self, question: Question) {
        let text = question.text();
        self.effects.push(Effect::DiscardInput);
        self.print_escaped(&text);
        self.question = Some(question);
        self.guard();
    }

    fn guard(&mut self) {
        self.armed_at_ms = self.now_ms.saturating_add(GUARD_MS);
    }

    fn command(&mut self, line: &str) {
        match typed::read(line, &self.setup.commands) {
            typed::Command::Nothing => {}
            typed::Command::Help => self.print(&words::help(&self.setup.commands)),
            typed::Command::Next => self.print_next_step(),
            typed::Command::Quit if self.setup.owner => self.ask(Question::Leave),
            typed::Command::Quit => self.effects.push(Effect::Leave(0)),
            typed::Command::Text(text) => self.print_lines(&text),
            typed::Command::Decide(_wanted) if self.setup.observe => self.refuse_observer(),
            typed::Command::Decide(_wanted) if !self.is_up => self.refuse_unconnected(),
            typed::Command::Decide(wanted) => self.wanted.extend(wanted),
            typed::Command::Run(order) => self.run(*order),
        }
    }

    fn print_next_step(&mut self) {
        let facts = ProgramFacts {
            commands: &self.setup.commands,
            folder_option: Some(&self.setup.folder_option),
            password_advice: self.setup.password_advice,
        };
        let steps = steps_of(&self.server, None, facts);
        let next = steps.into_iter().find(|step| !step.is_done);
        match next {
            Some(step) => {
                self.print_escaped(&format!("Next: {}. {}", step.title, step.about));
                self.print_escaped(&format!("  {}", step.line));
            }
            None => self.print("The set-up is complete."),
        }
    }

    fn refuse_observer(&mut self) {
        self.print("This console only observes (--observe): nothing was sent.");
    }

    fn refuse_unconnected(&mut self) {
        self.print("No engine is connected: nothing was sent.");
    }

    /// Runs a command of the operator that is not a decision about one request.
    fn run(&mut self, order: Order) {
        if let Some(why) = shell_only::refusal(&order) {
            return self.print(why);
        }
        match &order {
            Order::Watch(_) => {
                self.print("News is printed here by itself; activity lists the journal.")
            }
            _other if self.setup.observe && !observer::only_reads(&order) => self.refuse_observer(),
            _other if !self.is_up => self.refuse_unconnected(),
            Order::Seed(SeedOrder::Create { .. } | SeedOrder::Words { .. })
                if !self.setup.shows_secrets =>
            {
                self.print("Words of a seed are printed only on a terminal: nothing was sent.");
            }
            _other => self.send(order, Asking::Interactive, None),
        }
    }

    fn send(&mut self, order: Order, asking: Asking, decides: Option<String>) {
        let id = self.calls.start(Purpose::Line);
        self.running = Some(Running { id, order: order.name(), decides });
        self.effects.push(Effect::Send(ToEngine::Run { id, order: Box::new(order), asking }));
    }

    /// Continues with what an event made possible: the next decision, news, queries and the watch.
    fn finish(&mut self) -> Vec<Effect> {
        self.look_for_card();
        self.report_news();
        // Requests that ended stay in the list until their end is reported.
        if !self.holds_news() {
            self.server.reorder(self.now_ms, None);
        }
        if self.is_up {
            for (id, topic) in self.calls.take_due(self.now_ms) {
                self.query(id, rows::order_of(topic));
            }
            self.watch();
        }
        std::mem::take(&mut self.effects)
    }

    fn query(&mut self, id: u64, order: Order) {
        let asking = Asking::Silent;
        self.effects.push(Effect::Send(ToEngine::Run { id, order: Box::new(order), asking }));
    }

    /// Starts the watch, which streams the entries after the newest known one.
    fn watch(&mut self) {
        let is_due = self.has_feed && self.now_ms >= self.watch_from_ms;
        if is_due && !self.calls.is_in_flight(Purpose::Watch) {
            let id = self.calls.start(Purpose::Watch);
            let since = Some(self.server.feed.head());
            self.query(id, Order::Watch(WatchOrder { since }));
        }
    }
}
