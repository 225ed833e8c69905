//! Runs a command in a process that is its own engine. While the command waits for a person's answer, no engine
//! runs and the data folder is free for other processes. The command then restarts with the answers it has, up to
//! the next question.
//!
//! Frames between the session and the engine pass through here. The session is the same as for any other command
//! and does not notice the restarts.

use bursar_core::answers::Reply;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::grammar::{Order, WalletOrder};
use bursar_core::limits::FRAME_BYTES;
use bursar_core::wire::{Asking, Frame, FrameReader, Prompt, SecretPrompt, ToClient, ToEngine};
use bursar_engine::edition::Edition;
use bursar_engine::engine::{self, Engine, Mode};
use bursar_engine::journal::MemoryStore;
use bursar_engine::operator::doctor;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{COMMAND_WAITS, Instance, InstanceLock, claim};
use bursar_tui::oneshot::{self, Options};
use bursar_tui::secret_source::SecretSource;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// One end of a socket pair that carries frames.
struct End {
    stream: UnixStream,
    reader: FrameReader,
}

impl End {
    fn of(stream: UnixStream) -> Self {
        Self { stream, reader: FrameReader::new(FRAME_BYTES) }
    }

    /// Returns the next frame; `None` at the end or after an invalid frame. Cancel-safe.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let count =
                self.stream.read(self.reader.space()).await.ok().filter(|count| *count > 0)?;
            if let Some(frame) = self.reader.advance(count).ok()? {
                return Some(frame);
            }
        }
    }

    /// Sends a frame. Ignores write errors, because [`End::next`] notices a closed stream.
    async fn send(&mut self, frame: &Frame) {
        let _gone = self.stream.write_all(&frame.packed()).await;
    }
}

/// A question of the command and its answer.
struct Answered {
    prompt: Vec<u8>,
    answer: Frame,
}

/// The outcome of one run of the engine.
enum RunOutcome {
    /// The command has ended, or its session has disconnected.
    Over,
    /// A person must answer this question, given as the JSON of its prompt frame.
    Asks(Vec<u8>),
}

/// The sources of answers to this command's questions.
#[derive(Debug, Clone)]
pub(crate) struct Answers {
    asking: Asking,
    password: SecretSource,
    seed: SecretSource,
}

impl Answers {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            asking: options.asking,
            password: options.password.clone(),
            seed: options.seed.clone(),
        }
    }

    /// Returns whether a person must answer this prompt, which may take any amount of time.
    fn needs_a_person(&self, prompt: &Prompt) -> bool {
        let typed = |source: &SecretSource| *source == SecretSource::Terminal;
        match prompt {
            Prompt::Secret { what: SecretPrompt::Password | SecretPrompt::NewPassword } => {
                typed(&self.password)
            }
            Prompt::Secret { what: SecretPrompt::SeedPhrase } => typed(&self.seed),
            Prompt::Confirm { .. } | Prompt::TypeAmount { .. } | Prompt::TypeName { .. } => {
                self.asking == Asking::Interactive
            }
        }
    }
}

/// Serves one command on `session` until it ends or its program disconnects.
pub(crate) async fn serve(
    session: UnixStream,
    folder: DataFolder,
    lock: InstanceLock,
    answers: Answers,
) {
    let mut session = End::of(session);
    let Some(order) = session.next().await else { return };
    let (id, named) = match order.message() {
        Ok(ToEngine::Run { id, order, .. }) => (id, order),
        Ok(_) | Err(_) => return,
    };
    let journal = Journal::of(&named);
    let (mut lock, mut known) = (Some(lock), Vec::new());
    loop {
        let taken = match lock.take() {
            Some(lock) => Ok(lock),
            None => take(&folder).await,
        };
        let ran = match taken {
            Ok(lock) => {
                let engine = settings(&folder, lock, journal);
                run(&mut session, engine, &order, &mut known, &answers).await
            }
            Err(fault) => Err(fault),
        };
        match ran {
            Ok(RunOutcome::Over) => return,
            Ok(RunOutcome::Asks(prompt)) => {
                let Some(answer) = session.next().await else { return };
                if matches!(answer.message(), Ok(ToEngine::Cancel { .. })) {
                    return;
                }
                known.push(Answered { prompt, answer });
            }
            Err(fault) => {
                // `doctor` reports what prevents an engine from starting.
                let result = match &*named {
                    Order::Doctor => Ok(doctor::without_engine(folder.path(), Some(&fault))),
                    _other => Err(fault),
                };
                let reply = Reply { result, warnings: Vec::new(), secret: None };
                if let Ok(frame) = Frame::json(&ToClient::Done { id, reply: Box::new(reply) }) {
                    session.send(&frame).await;
                }
                return;
            }
        }
    }
}

/// Takes the folder's lock again, after it was released during a question.
async fn take(folder: &DataFolder) -> Result<InstanceLock, Fault> {
    let folder = folder.clone();
    let claimed = tokio::task::spawn_blocking(move || claim(&folder, COMMAND_WAITS)).await;
    match claimed.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?? {
        Instance::Free(lock) => Ok(lock),
        Instance::Running(_file) => Err(Fault::because(
            Code::EngineRunning,
            "An engine was started while this command waited for your answer: run the command again.",
        )),
    }
}

/// How a command uses the folder's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journal {
    Opened,
    /// Created if it is missing.
    Begun,
    /// Not opened, because it may be damaged or missing.
    LeftAlone,
}

impl Journal {
    fn of(order: &Order) -> Self {
        match order {
            Order::Wallet(WalletOrder::Restore { .. }) => Journal::LeftAlone,
            Order::Wallet(WalletOrder::Recover { .. }) => Journal::Begun,
            _other => Journal::Opened,
        }
    }
}

fn settings(folder: &DataFolder, lock: InstanceLock, journal: Journal) -> engine::Options {
    let mut settings =
        engine::Options::new(folder.clone(), lock, Edition::full(), Mode::Maintenance);
    settings.begin_journal = journal == Journal::Begun;
    if journal == Journal::LeftAlone {
        settings.store = Some(Box::new(MemoryStore::default()));
    }
    settings
}

/// Runs the command from the start and replays the known answers.
async fn run(
    session: &mut End,
    settings: engine::Options,
    order: &Frame,
    known: &mut Vec<Answered>,
    answers: &Answers,
) -> Result<RunOutcome, Fault> {
    let engine = Engine::open(settings).await?;
    let ran = converse(session, &engine, order, known, answers).await;
    let again = oneshot::ctrl_c();
    // A second Ctrl-C skips the orderly stop: committed entries survive a kill.
    tokio::select! {
        _stopped = engine.stop() => {}
        () = again => {}
    }
    ran
}

async fn converse(
    session: &mut End,
    engine: &Engine,
    order: &Frame,
    known: &mut Vec<Answered>,
    answers: &Answers,
) -> Result<RunOutcome, Fault> {
    let mut above = End::of(engine.connect()?);
    above.send(order).await;
    let mut given = 0;
    loop {
        // cancel-safe: both keep what has arrived in part.
        let frame = tokio::select! {
            frame = above.next() => match frame {
                Some(frame) => frame,
                None => return Err(Fault::new(Code::InternalError)),
            },
            frame = session.next() => match frame {
                // The answer to a forwarded question, or its cancellation.
                Some(frame) => {
                    above.send(&frame).await;
                    continue;
                }
                None => return Ok(RunOutcome::Over),
            },
        };
        let asked = match frame.message() {
            Ok(ToClient::Prompt { prompt, .. }) => prompt,
            // Already shown when the command first got this far.
            Ok(ToClient::Progress { .. }) if given < known.len() => continue,
            Ok(ToClient::Done { .. }) => {
                session.send(&frame).await;
                return Ok(RunOutcome::Over);
            }
            Ok(_) | Err(_) => {
                session.send(&frame).await;
                continue;
            }
        };
        let Frame::Json(prompt) = &frame else { continue };
        match known.get(given) {
            Some(before) if before.prompt == *prompt => {
                above.send(&before.answer).await;
                given = given.saturating_add(1);
            }
            // The question differs from the recorded one: something has changed, so the remaining answers no longer
            // apply.
            _new => {
                known.truncate(given);
                session.send(&frame).await;
                if answers.needs_a_person(&asked) {
                    return Ok(RunOutcome::Asks(prompt.clone()));
                }
                let Some(answer) = session.next().await else { return Ok(RunOutcome::Over) };
                above.send(&answer).await;
                known.push(Answered { prompt: prompt.clone(), answer });
                given = given.saturating_add(1);
            }
        }
    }
}
