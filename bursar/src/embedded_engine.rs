//! Runs a command with an engine in the same process.
//!
//! While a person answers a question, no engine runs and the data folder is free for other processes. The command
//! then restarts and replays the recorded answers up to the next question.
//!
//! Frames between the session and the engine pass through here. The session is the same as for any other command
//! and does not notice the restarts.

use bursar_control::answers::{Answer, Reply};
use bursar_control::grammar::{Order, WalletOrder};
use bursar_control::wire::{Asking, Frame, FrameReader, Prompt, SecretPrompt, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_core::limits::FRAME_BYTES_MAX;
use bursar_engine::edition::Edition;
use bursar_engine::engine::{self, Engine, Mode};
use bursar_engine::journal::MemoryStore;
use bursar_engine::operator::doctor;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{COMMAND_WAIT, Instance, InstanceLock, claim};
use bursar_tui::oneshot::{self, Options};
use bursar_tui::secret_source::SecretSource;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::devices::devices;

/// One end of a socket pair that carries frames.
struct FrameStream {
    stream: UnixStream,
    reader: FrameReader,
}

impl FrameStream {
    fn of(stream: UnixStream) -> Self {
        Self { stream, reader: FrameReader::new(FRAME_BYTES_MAX) }
    }

    /// Returns the next frame; `None` at the end or after an invalid frame. Cancel-safe.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let count =
                self.stream.read(self.reader.buffer()).await.ok().filter(|count| *count > 0)?;
            if let Some(frame) = self.reader.advance(count).ok()? {
                return Some(frame);
            }
        }
    }

    /// Sends a frame. Ignores write errors, because [`FrameStream::next`] detects a closed stream.
    async fn send(&mut self, frame: &Frame) {
        let _gone = self.stream.write_all(&frame.packed()).await;
    }
}

/// A question of the command and its answer, to replay in the next run.
struct RecordedAnswer {
    prompt: Vec<u8>,
    answer: Frame,
}

/// The outcome of one run of the engine.
enum RunOutcome {
    /// The session has disconnected.
    Disconnected,
    /// The command has ended with this frame, and the engine has stopped with this result.
    Done(Frame, Result<(), Fault>),
    /// A person must answer this question, given as the JSON of its prompt frame.
    NeedsAnswer(Vec<u8>),
}

/// The sources of answers to this command's questions.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSources {
    asking: Asking,
    password: SecretSource,
    seed: SecretSource,
}

impl AnswerSources {
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
    sources: AnswerSources,
    edition: EditionName,
) {
    let mut session = FrameStream::of(session);
    let Some(order) = session.next().await else { return };
    let (id, parsed) = match order.message() {
        Ok(ToEngine::Run { id, order, .. }) => (id, order),
        Ok(_) | Err(_) => return,
    };
    let journal = JournalUse::of(&parsed);
    let (mut lock, mut recorded) = (Some(lock), Vec::new());
    loop {
        let claimed = match lock.take() {
            Some(lock) => Ok(lock),
            None => claim_again(&folder, edition).await,
        };
        let ran = match claimed {
            Ok(lock) => match engine_options(&folder, lock, journal, edition) {
                Ok(options) => run(&mut session, options, &order, &mut recorded, &sources).await,
                Err(fault) => Err(fault),
            },
            Err(fault) => Err(fault),
        };
        match ran {
            Ok(RunOutcome::Disconnected) => return,
            // A restore is complete only after the engine has stopped, because stopping puts the files in place.
            Ok(RunOutcome::Done(_, Err(fault)))
                if matches!(&*parsed, Order::Wallet(WalletOrder::Restore { .. })) =>
            {
                finish(&mut session, id, Err(fault)).await;
                return;
            }
            Ok(RunOutcome::Done(frame, _stopped)) => {
                session.send(&frame).await;
                return;
            }
            Ok(RunOutcome::NeedsAnswer(prompt)) => {
                let Some(answer) = session.next().await else { return };
                if matches!(answer.message(), Ok(ToEngine::Cancel { .. })) {
                    return;
                }
                recorded.push(RecordedAnswer { prompt, answer });
            }
            Err(fault) => {
                // `doctor` reports what prevents an engine from starting.
                let result = match &*parsed {
                    Order::Doctor => Ok(doctor::without_engine(folder.path(), Some(&fault))),
                    _other => Err(fault),
                };
                finish(&mut session, id, result).await;
                return;
            }
        }
    }
}

/// Ends the command with this result.
async fn finish(session: &mut FrameStream, id: u64, result: Result<Answer, Fault>) {
    let reply = Reply { result, warnings: Vec::new(), secret: None };
    if let Ok(frame) = Frame::json(&ToClient::Done { id, reply: Box::new(reply) }) {
        session.send(&frame).await;
    }
}

/// Takes the folder's lock again, which was released during a question.
async fn claim_again(folder: &DataFolder, edition: EditionName) -> Result<InstanceLock, Fault> {
    let folder = folder.clone();
    let claimed = tokio::task::spawn_blocking(move || claim(&folder, edition, COMMAND_WAIT)).await;
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
enum JournalUse {
    Open,
    /// Opened, and created if it is missing.
    OpenOrCreate,
    /// Not opened, because it may be damaged or missing.
    Skip,
}

impl JournalUse {
    fn of(order: &Order) -> Self {
        match order {
            Order::Wallet(WalletOrder::Restore { .. }) => JournalUse::Skip,
            Order::Wallet(WalletOrder::Recover { .. }) => JournalUse::OpenOrCreate,
            _other => JournalUse::Open,
        }
    }
}

/// Returns the options of an engine that runs one command and serves no agents.
fn engine_options(
    folder: &DataFolder,
    lock: InstanceLock,
    journal: JournalUse,
    edition: EditionName,
) -> Result<engine::Options, Fault> {
    let mut options =
        engine::Options::new(folder.clone(), lock, Edition::of(edition), Mode::Maintenance);
    options.devices = devices()?;
    options.begin_journal = journal == JournalUse::OpenOrCreate;
    if journal == JournalUse::Skip {
        options.store = Some(Box::new(MemoryStore::default()));
    }
    Ok(options)
}

/// Runs the command from the start and replays the recorded answers.
async fn run(
    session: &mut FrameStream,
    options: engine::Options,
    order: &Frame,
    recorded: &mut Vec<RecordedAnswer>,
    sources: &AnswerSources,
) -> Result<RunOutcome, Fault> {
    let engine = Engine::open(options).await?;
    let mut ran = relay(session, &engine, order, recorded, sources).await;
    let again = oneshot::ctrl_c();
    // Ctrl-C during the orderly stop may end the command early: committed entries survive a kill.
    tokio::select! {
        stopped = engine.end() => {
            if let Ok(RunOutcome::Done(_, result)) = &mut ran {
                *result = stopped;
            }
        }
        () = again => {}
    }
    ran
}

/// Relays frames between the session and the engine, and answers known questions from `recorded`.
async fn relay(
    session: &mut FrameStream,
    engine: &Engine,
    order: &Frame,
    recorded: &mut Vec<RecordedAnswer>,
    sources: &AnswerSources,
) -> Result<RunOutcome, Fault> {
    let mut upstream = FrameStream::of(engine.connect()?);
    upstream.send(order).await;
    let mut replayed = 0;
    loop {
        // cancel-safe: both streams keep a partly received frame.
        let frame = tokio::select! {
            frame = upstream.next() => match frame {
                Some(frame) => frame,
                None => return Err(Fault::new(Code::InternalError)),
            },
            frame = session.next() => match frame {
                // The operator cancels the running command.
                Some(frame) => {
                    upstream.send(&frame).await;
                    continue;
                }
                None => return Ok(RunOutcome::Disconnected),
            },
        };
        let asked = match frame.message() {
            Ok(ToClient::Prompt { prompt, .. }) => prompt,
            // An earlier run has already shown this progress.
            Ok(ToClient::Progress { .. }) if replayed < recorded.len() => continue,
            Ok(ToClient::Done { .. }) => return Ok(RunOutcome::Done(frame, Ok(()))),
            Ok(_) | Err(_) => {
                session.send(&frame).await;
                continue;
            }
        };
        let Frame::Json(prompt) = &frame else { continue };
        match recorded.get(replayed) {
            Some(before) if before.prompt == *prompt => {
                upstream.send(&before.answer).await;
                replayed = replayed.saturating_add(1);
            }
            // A new question, or one that differs from the recorded one. A difference means that something has
            // changed, so the remaining answers no longer apply.
            _new => {
                recorded.truncate(replayed);
                session.send(&frame).await;
                if sources.needs_a_person(&asked) {
                    return Ok(RunOutcome::NeedsAnswer(prompt.clone()));
                }
                let Some(answer) = session.next().await else {
                    return Ok(RunOutcome::Disconnected);
                };
                upstream.send(&answer).await;
                recorded.push(RecordedAnswer { prompt: prompt.clone(), answer });
                replayed = replayed.saturating_add(1);
            }
        }
    }
}
