//! The loop that drives the console. It receives keys, frames, ticks and signals, sends frames, and draws the screen.

use std::collections::VecDeque;
use std::env;
use std::io;
use std::time::{Duration, Instant};

use bursar_control::grammar::Order;
use bursar_control::wire::ToEngine;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::{Event, KeyEvent};
use futures::FutureExt;

use super::background::{self, Read, Reply, ReplyReader};
use super::events::Events;
use super::files::Files;
use super::history::History;
use super::model::server::Topic;
use super::model::{Connection, Intent, Model, Setup};
use super::screen::Screen;
use super::update::{Message, update};
use super::view;
use crate::link::{Link, Received};

/// Pause between two attempts to reconnect to an engine that has gone away.
const RECONNECT_MS: u64 = 500;
/// Timeout of one attempt to reconnect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of frames that are handled before the terminal is polled again, because agents may pay a thousand
/// times a second.
const FRAMES_PER_TURN: usize = 64;
/// Minimum time between two draws that frames of the engine cause.
const FRAME_MS: u64 = 40;

/// Connects a console to its engine, also after the link was lost.
pub trait Connector {
    /// Opens a new link to the engine.
    ///
    /// # Errors
    /// Returns a fault if no engine can be reached.
    fn connect(&mut self) -> impl Future<Output = Result<Link, Fault>>;
}

/// The pending requests when a console ends, for a last line on the normal screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueAtExit {
    /// Number of pending requests; `None` if the engine was not connected.
    pub waiting: Option<usize>,
    /// Milliseconds until the first pending request expires; `None` if none is known.
    pub next_ms: Option<u64>,
    /// Whether the engine in this process is to keep running.
    pub keeps_engine: bool,
    /// A command to run now that the window is closed, before it opens again.
    pub run_closed: Option<Order>,
}

/// Shows the console until the operator leaves it, the terminal goes away or `stop` completes.
///
/// # Errors
/// Returns the fault of the first connection, or a fault if the terminal cannot be drawn on.
pub async fn run(
    mut connector: impl Connector,
    setup: Setup,
    stop: impl Future<Output = ()>,
) -> Result<QueueAtExit, Fault> {
    let link = connector.connect().await?;
    let mut screen = Screen::open().map_err(no_terminal)?;
    let history = History::at(setup.history.clone());
    let mut model = Model::new(setup, screen.size());
    model.background =
        env::var("COLORFGBG").ok().and_then(|value| background::of_environment(&value));
    history.read().iter().for_each(|line| model.line_history.remember(line));
    let mut app = App {
        model,
        history,
        deferred_frame: None,
        files: Files::default(),
        failed_files: VecDeque::new(),
        link: Some(link),
        started: Instant::now(),
        next_try: Instant::now(),
        drawn: None,
        reply: ReplyReader::default(),
    };
    let driven = app.drive(&mut screen, &mut connector, stop).await.map_err(no_terminal);
    drop(screen);
    driven?;
    let model = &app.model;
    let up = model.connection == Connection::Up;
    let held = || model.server.pending(model.now_ms);
    Ok(QueueAtExit {
        waiting: up.then(|| held().count()),
        next_ms: held().map(|held| held.left_ms(model.now_ms)).min().filter(|_left| up),
        keeps_engine: model.keeps_engine,
        run_closed: model.run_closed.clone(),
    })
}

fn no_terminal(error: io::Error) -> Fault {
    let message =
        "The terminal cannot be drawn on: run a single command instead, see `bursar --help`.";
    Fault::because(Code::BadInput, message).with_detail(error)
}

struct App {
    model: Model,
    link: Option<Link>,
    started: Instant,
    next_try: Instant,
    drawn: Option<Instant>,
    reply: ReplyReader,
    /// A frame beyond [`FRAMES_PER_TURN`], handled in a later turn of the loop. Each turn also polls the terminal.
    deferred_frame: Option<Result<Received, Fault>>,
    history: History,
    files: Files,
    /// The replies of commands that were not sent, because their files could not be created.
    failed_files: VecDeque<Received>,
}

/// The first event to arrive.
enum NextEvent {
    Terminal(Option<io::Result<Event>>),
    Frame(Result<Received, Fault>),
    Wake,
    Stop,
}

impl App {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs until the operator leaves, the terminal goes away or `stop` completes.
    async fn drive<C: Connector>(
        &mut self,
        screen: &mut Screen,
        connector: &mut C,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut events = Events::of_the_terminal()?;
        let mut stop = std::pin::pin!(stop);
        if self.handle(Message::Connected, screen).await? {
            return Ok(());
        }
        let mut due = true;
        loop {
            if due {
                self.draw(screen)?;
            }
            let sent = self.send_icon(screen)?;
            let wake = if sent { Instant::now() } else { self.wake(!due) };
            // cancel-safe: the events and the link keep everything that they have not returned yet.
            let next = tokio::select! {
                event = events.next() => NextEvent::Terminal(event),
                frame = receive(&mut self.failed_files, &mut self.deferred_frame, &mut self.link) => NextEvent::Frame(frame),
                () = tokio::time::sleep_until(wake.into()) => NextEvent::Wake,
                () = &mut stop => NextEvent::Stop,
            };
            let quit = match next {
                NextEvent::Stop => return Ok(()),
                // Without a terminal there is no operator.
                NextEvent::Terminal(None | Some(Err(_))) => return Ok(()),
                NextEvent::Terminal(Some(Ok(event))) => {
                    due = true;
                    self.event(event, screen).await?
                }
                NextEvent::Frame(frame) => {
                    let quit = self.frames(frame, screen).await?;
                    due = self.may_draw();
                    quit
                }
                NextEvent::Wake => {
                    due = true;
                    self.reconnect(connector, screen).await?;
                    self.handle(Message::Tick, screen).await?
                }
            };
            if quit {
                return Ok(());
            }
        }
    }

    fn may_draw(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_millis(FRAME_MS))
    }

    /// Returns the time at which the loop must wake up even if no event arrives.
    fn wake(&self, undrawn: bool) -> Instant {
        let far = Instant::now() + Duration::from_secs(3600);
        let model = self.model.wake_ms().map_or(far, |ms| self.started + Duration::from_millis(ms));
        let again = if self.link.is_none() { self.next_try } else { far };
        let frame = match self.drawn {
            Some(drawn) if undrawn => drawn + Duration::from_millis(FRAME_MS),
            _shown => far,
        };
        model.min(again).min(frame)
    }

    async fn event(&mut self, event: Event, screen: &mut Screen) -> io::Result<bool> {
        let message = match event {
            Event::Key(key) => return self.key(key, screen).await,
            Event::Paste(text) => Message::Paste(text),
            Event::Resize(width, height) => Message::Resize(width, height),
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) => return Ok(false),
        };
        self.handle(message, screen).await
    }

    /// Handles a key, unless it is part of the terminal's reply about its background.
    async fn key(&mut self, key: KeyEvent, screen: &mut Screen) -> io::Result<bool> {
        match self.reply.read(key) {
            Read::Partial => {
                // A key just before it was not typed alone.
                self.model.unconfirmed_key = None;
                Ok(false)
            }
            Read::Reply(Reply::Background(background)) => {
                self.model.background = background.or(self.model.background);
                Ok(false)
            }
            Read::Reply(Reply::Pictures(can_show)) => {
                self.model.icons.terminal_replied(can_show);
                self.model.mark_stale(&[Topic::Icons]);
                self.handle(Message::Tick, screen).await
            }
            Read::Typed(keys) => {
                for key in keys {
                    if self.handle(Message::Key(key), screen).await? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Handles a frame and the next frames that have already arrived. Returns whether to leave.
    async fn frames(
        &mut self,
        first: Result<Received, Fault>,
        screen: &mut Screen,
    ) -> io::Result<bool> {
        let mut next = Some(first);
        for _frame in 0..FRAMES_PER_TURN {
            let Some(frame) = next.take() else { break };
            let completes_file =
                frame.as_ref().is_ok_and(|frame| self.files.are_completed_by(frame));
            let message = match frame {
                Ok(frame) => self.files.receive(frame).map_or(Message::Tick, Message::Frame),
                Err(fault) => {
                    self.link = None;
                    self.files.forget();
                    self.next_try = Instant::now() + Duration::from_millis(RECONNECT_MS);
                    Message::Lost(fault)
                }
            };
            if self.handle(message, screen).await? {
                return Ok(true);
            }
            if completes_file {
                // A slow disk may have held the console up.
                self.handle(Message::Stalled, screen).await?;
            }
            next = self.link.as_mut().and_then(|link| link.receive().now_or_never());
        }
        self.deferred_frame = next;
        Ok(false)
    }

    async fn reconnect<C: Connector>(
        &mut self,
        connector: &mut C,
        screen: &mut Screen,
    ) -> io::Result<()> {
        if self.link.is_some() || Instant::now() < self.next_try {
            return Ok(());
        }
        // The limit bounds how long an engine that does not respond delays the keys.
        let tried = tokio::time::timeout(CONNECT_TIMEOUT, connector.connect()).await;
        match tried.unwrap_or_else(|_late| Err(Fault::new(Code::EngineDown))) {
            Ok(link) => {
                self.link = Some(link);
                self.handle(Message::Connected, screen).await?;
            }
            Err(fault) => {
                self.next_try = Instant::now() + Duration::from_millis(RECONNECT_MS);
                if self.model.connection != Connection::Lost(fault.clone()) {
                    self.handle(Message::Lost(fault), screen).await?;
                }
            }
        }
        Ok(())
    }

    /// Applies a message to the model and performs the resulting intents. Returns whether to leave.
    async fn handle(&mut self, message: Message, screen: &mut Screen) -> io::Result<bool> {
        let now_ms = self.now_ms();
        let mut quit = false;
        for intent in update(&mut self.model, message, now_ms) {
            match intent {
                Intent::Quit => quit = true,
                Intent::Notify { bell, notice } => screen.notify(bell, notice.as_deref())?,
                Intent::Remember(line) => self.history.add(&line),
                Intent::Copy(text) => screen.copy(&text)?,
                Intent::Redraw => screen.redraw(),
                Intent::AskPictures => screen.ask_pictures()?,
                Intent::Suspend => {
                    screen.suspend()?;
                    // The terminal reports no resize while the console is suspended.
                    let (width, height) = screen.size();
                    let _nothing_to_do =
                        update(&mut self.model, Message::Resize(width, height), now_ms);
                }
                Intent::CreateFile { id, file } => self.files.create(id, file),
                Intent::Send(frame) => {
                    if let ToEngine::Run { id, .. } = &frame
                        && let Some(reply) = self.files.failed_reply(*id)
                    {
                        self.failed_files.push_back(reply);
                        continue;
                    }
                    if let Some(link) = &mut self.link {
                        // If the link is lost, the next read reports it.
                        let _lost = link.send(&frame).await;
                    }
                }
                Intent::SendSecret { id, secret } => {
                    if let Some(link) = &mut self.link {
                        let _lost = link.send_secret(id, secret).await;
                    }
                }
            }
        }
        Ok(quit)
    }

    /// Sends one icon that the terminal does not have yet, between two events, so that keys never wait for many. Returns
    /// whether it did.
    fn send_icon(&mut self, screen: &mut Screen) -> io::Result<bool> {
        let Some((key, rgba)) = self.model.icons.next_to_send() else { return Ok(false) };
        let id = screen.send_picture(rgba)?;
        self.model.icons.note_sent(key, id);
        Ok(true)
    }

    fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.drawn = Some(Instant::now());
        let held = self.model.pending_count();
        let title =
            if held == 0 { "Bursar".to_owned() } else { format!("Bursar ({held} waiting)") };
        screen.title(title)?;
        let model = &self.model;
        if screen.show(model.size, |buffer| view::draw(model, buffer))? {
            self.model.icons.forget_sent();
        }
        Ok(())
    }
}

async fn receive(
    failed_files: &mut VecDeque<Received>,
    deferred_frame: &mut Option<Result<Received, Fault>>,
    link: &mut Option<Link>,
) -> Result<Received, Fault> {
    if let Some(reply) = failed_files.pop_front() {
        return Ok(reply);
    }
    if let Some(frame) = deferred_frame.take() {
        return frame;
    }
    match link {
        Some(link) => link.receive().await,
        None => std::future::pending().await,
    }
}
