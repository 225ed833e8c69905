//! The loop of the plain console. It connects the session to the link, to the lines that are typed, to the output and
//! to the clock.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::effect::Effect;
use super::input::{Input, Typed};
use super::session::Session;
use super::setup::Setup;
use crate::console::{Connector, QueueAtExit};
use crate::link::{Link, Received, Secret};
use crate::oneshot::{SecretEntry, Terminal, ask_secret};

/// Pause between two attempts to reconnect to an engine that has gone away.
const RECONNECT_MS: u64 = 500;
/// Timeout of one attempt to reconnect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time between two turns of the loop.
const IDLE: Duration = Duration::from_secs(3600);

/// The input and output of the plain console.
pub struct Streams<'a> {
    /// The lines that are typed.
    pub input: Box<dyn BufRead + Send>,
    /// Receives everything that the console prints.
    pub out: &'a mut (dyn Write + Send),
    /// The terminal on which secrets are asked.
    pub terminal: Arc<dyn Terminal>,
}

impl fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

/// How a plain console ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code.
    pub exit: u8,
    /// The pending requests at that time.
    pub queue: QueueAtExit,
}

/// Runs the plain console until the operator leaves it, the input ends or `stop` completes.
///
/// # Errors
/// Returns the fault of the first connection, or a fault if the output cannot be written.
pub async fn run(
    mut connector: impl Connector,
    setup: Setup,
    streams: Streams<'_>,
    stop: impl Future<Output = ()>,
) -> Result<Ended, Fault> {
    let link = connector.connect().await?;
    let Streams { input, out, terminal } = streams;
    let mut app = App {
        session: Session::new(setup),
        input: Input::spawn(input).map_err(unusable)?,
        out,
        terminal,
        link: Some(link),
        started: Instant::now(),
        next_try: Instant::now(),
        secret: None,
    };
    let driven = app.drive(&mut connector, stop).await;
    if app.secret.is_some() {
        app.terminal.restore();
    }
    let exit = driven.map_err(unusable)?;
    let (now_ms, up) = (app.now_ms(), app.link.is_some());
    let held = || app.session.server.pending(now_ms);
    let queue = QueueAtExit {
        waiting: up.then(|| held().count()),
        next_ms: held().map(|held| held.left_ms(now_ms)).min().filter(|_left| up),
        keeps_engine: false,
        run_closed: None,
    };
    Ok(Ended { exit, queue })
}

fn unusable(error: io::Error) -> Fault {
    Fault::because(Code::InternalError, "The console cannot read or print lines.")
        .with_detail(error)
}

struct App<'a> {
    session: Session,
    input: Input,
    out: &'a mut (dyn Write + Send),
    terminal: Arc<dyn Terminal>,
    link: Option<Link>,
    started: Instant,
    next_try: Instant,
    /// The secret that is being typed.
    secret: Option<JoinHandle<io::Result<SecretEntry>>>,
}

/// The first event to arrive.
enum NextEvent {
    Typed(Typed),
    Secret(Result<Secret, Fault>),
    Frame(Result<Received, Fault>),
    Wake,
    Stop,
}

impl App<'_> {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Runs until the end and returns the exit code.
    async fn drive<C: Connector>(
        &mut self,
        connector: &mut C,
        stop: impl Future<Output = ()>,
    ) -> io::Result<u8> {
        let mut stop = std::pin::pin!(stop);
        let effects = self.session.connected(self.now_ms());
        let mut exit = self.perform(effects).await?;
        loop {
            if let Some(exit) = exit {
                return Ok(exit);
            }
            if self.session.wants_line() {
                self.input.want();
            }
            let wake = self.wake();
            // cancel-safe: the input and the link keep what they have not returned, and the secret is a join handle.
            let next = tokio::select! {
                typed = self.input.next() => NextEvent::Typed(typed),
                secret = typed_secret(&mut self.secret) => NextEvent::Secret(secret),
                frame = receive(&mut self.link) => NextEvent::Frame(frame),
                () = tokio::time::sleep_until(wake) => NextEvent::Wake,
                () = &mut stop => NextEvent::Stop,
            };
            let now_ms = self.now_ms();
            let effects = match next {
                NextEvent::Stop => return Ok(0),
                NextEvent::Typed(typed) => self.session.typed(&typed, now_ms),
                NextEvent::Secret(secret) => {
                    self.secret = None;
                    self.session.secret_typed(secret, now_ms)
                }
                NextEvent::Frame(Ok(frame)) => self.session.frame(frame, now_ms),
                NextEvent::Frame(Err(fault)) => {
                    self.link = None;
                    self.next_try = Instant::now() + Duration::from_millis(RECONNECT_MS);
                    self.session.lost(&fault, now_ms)
                }
                NextEvent::Wake if self.link.is_none() && Instant::now() >= self.next_try => {
                    self.reconnect(connector).await
                }
                NextEvent::Wake => self.session.tick(now_ms),
            };
            exit = self.perform(effects).await?;
        }
    }

    fn wake(&self) -> Instant {
        let far = Instant::now() + IDLE;
        let session = self.session.wake_ms();
        let session = session.map_or(far, |ms| self.started + Duration::from_millis(ms));
        let again = if self.link.is_none() { self.next_try } else { far };
        session.min(again)
    }

    async fn reconnect<C: Connector>(&mut self, connector: &mut C) -> Vec<Effect> {
        // The limit bounds how long an engine that does not respond delays the lines.
        let tried = tokio::time::timeout(CONNECT_TIMEOUT, connector.connect()).await;
        match tried.unwrap_or_else(|_late| Err(Fault::new(Code::EngineDown))) {
            Ok(link) => {
                self.link = Some(link);
                self.session.connected(self.now_ms())
            }
            Err(_still_away) => {
                self.next_try = Instant::now() + Duration::from_millis(RECONNECT_MS);
                self.session.tick(self.now_ms())
            }
        }
    }

    /// Performs the effects in their order. Returns the exit code if the session leaves.
    async fn perform(&mut self, effects: Vec<Effect>) -> io::Result<Option<u8>> {
        let asks = effects.iter().any(|effect| matches!(effect, Effect::DiscardInput));
        for effect in effects {
            match effect {
                Effect::Leave(exit) => {
                    self.out.flush()?;
                    return Ok(Some(exit));
                }
                Effect::Print(text) => {
                    self.out.write_all(text.as_bytes())?;
                    if !text.ends_with('\n') {
                        self.out.write_all(b"\n")?;
                    }
                }
                Effect::DiscardInput => self.terminal.discard_typed(),
                Effect::AskSecret(what) => {
                    self.out.flush()?;
                    self.secret = Some(ask(Arc::clone(&self.terminal), what));
                }
                Effect::Send(frame) => {
                    if let Some(link) = &mut self.link {
                        // If the link is lost, the next read reports it.
                        let _lost = link.send(&frame).await;
                    }
                }
                Effect::SendSecret { id, secret } => {
                    if let Some(link) = &mut self.link {
                        let _lost = link.send_secret(id, secret).await;
                    }
                }
            }
        }
        self.out.flush()?;
        if asks {
            self.session.question_shown(self.now_ms());
        }
        Ok(None)
    }
}

/// Asks for a secret from a thread that may block.
fn ask(terminal: Arc<dyn Terminal>, what: SecretPrompt) -> JoinHandle<io::Result<SecretEntry>> {
    tokio::task::spawn_blocking(move || ask_secret(&*terminal, what))
}

/// Returns the secret once it is typed; never completes if none is asked for.
async fn typed_secret(
    asked: &mut Option<JoinHandle<io::Result<SecretEntry>>>,
) -> Result<Secret, Fault> {
    let Some(asked) = asked else { return std::future::pending().await };
    match asked.await {
        Ok(Ok(SecretEntry::Entered(text))) => Ok(Secret(Zeroizing::new(text.as_bytes().to_vec()))),
        Ok(Ok(SecretEntry::Rejected(fault))) => Err(fault),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(Fault::because(Code::Declined, "Nothing was done."))
        }
        Ok(Err(error)) => Err(unreadable(error)),
        Err(error) => Err(unreadable(error)),
    }
}

fn unreadable(error: impl fmt::Display) -> Fault {
    Fault::because(Code::ConfirmationNeeded, "The terminal cannot be read.").with_detail(error)
}

async fn receive(link: &mut Option<Link>) -> Result<Received, Fault> {
    match link {
        Some(link) => link.receive().await,
        None => std::future::pending().await,
    }
}
