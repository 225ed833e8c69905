//! One attached program: reads its frames, runs its orders, routes its answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::answers::Reply;
use bursar_core::client::{Client, Program};
use bursar_core::grammar::Order;
use bursar_core::limits::{FAREWELL_MS, FRAME_BYTES, HANDSHAKE_BYTES, HANDSHAKE_MS};
use bursar_core::wire::{Frame, FrameReader, ToClient, ToEngine};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::dialogue::{Dialogue, PromptAnswer};
use super::entrance::Entrance;
use super::handshake;
use crate::engine::Shared;
use crate::operator;

/// Commands of one connection that may run at once.
const COMMANDS: usize = 8;
/// Frames that may wait for a slow reader.
const OUTBOX: usize = 64;

/// Why a session ends early.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the other side sent no valid frame")]
    Malformed,
    #[error("the other side did not prove the token, or is of another version")]
    Refused,
    #[error("the other side took too long")]
    TooSlow,
    #[error("another program came that had not proven itself either, and this one was the oldest")]
    Evicted,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Both halves of a stream that a session may run over.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Frames over a stream.
pub(super) struct Channel {
    stream: Box<dyn Duplex>,
    reader: FrameReader,
}

impl Channel {
    fn new(stream: Box<dyn Duplex>, most: usize) -> Self {
        Self { stream, reader: FrameReader::new(most) }
    }

    /// The next frame; `None` at the end. Cancel-safe: what arrived in part stays in the reader.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, SessionError> {
        loop {
            let count = self.stream.read(self.reader.space()).await?;
            if count == 0 && self.reader.is_between() {
                return Ok(None);
            }
            if count == 0 {
                return Err(SessionError::Malformed);
            }
            if let Some(frame) =
                self.reader.advance(count).map_err(|_error| SessionError::Malformed)?
            {
                return Ok(Some(frame));
            }
        }
    }

    pub(super) async fn send(&mut self, message: &ToClient) -> Result<(), SessionError> {
        let frame = Frame::json(message).map_err(|_error| SessionError::Malformed)?;
        self.send_frame(&frame).await
    }

    async fn send_frame(&mut self, frame: &Frame) -> Result<(), SessionError> {
        // A buffer that is wiped, and none of a codec: some frames are secrets.
        self.stream.write_all(&frame.packed()).await?;
        Ok(self.stream.flush().await?)
    }
}

/// A program that came through the socket: it proves the token first, and has a place only from then on.
pub(super) async fn serve_connected(
    engine: Arc<Shared>,
    stream: Box<dyn Duplex>,
    pid: Option<u32>,
    token: &str,
    nonce: &str,
    entrance: Entrance,
) -> Result<(), SessionError> {
    let mut channel = Channel::new(stream, HANDSHAKE_BYTES);
    let patience = std::time::Duration::from_millis(HANDSHAKE_MS);
    let meeting =
        tokio::time::timeout(patience, handshake::accept(&mut channel, token, nonce, &entrance));
    let (program, _place) = tokio::select! {
        met = meeting => met.map_err(|_elapsed| SessionError::TooSlow)??,
        () = entrance.evicted() => return Err(SessionError::Evicted),
        () = engine.stopping.cancelled() => return Ok(()),
    };
    drop(entrance);
    channel.reader.allow(FRAME_BYTES);
    let _counted = (program == Program::Console).then(|| Arc::clone(&engine.consoles));
    serve(engine, channel, Client::Attached { program, pid }).await
}

/// A program in our own process: there is nothing to prove.
pub(crate) async fn serve_attached(engine: Arc<Shared>, stream: Box<dyn Duplex>) {
    let channel = Channel::new(stream, FRAME_BYTES);
    if let Err(error) = serve(engine, channel, Client::Inside).await {
        tracing::debug!(%error, "attached session ended");
    }
}

/// Serves until the program goes, or until the engine stops: then nothing more is read, and what still runs
/// ends and is answered.
async fn serve(
    engine: Arc<Shared>,
    mut channel: Channel,
    client: Client,
) -> Result<(), SessionError> {
    let (out, mut outbox) = mpsc::channel::<Frame>(OUTBOX);
    let mut running: BTreeMap<u64, mpsc::Sender<PromptAnswer>> = BTreeMap::new();
    loop {
        // cancel-safe: recv and the framed reader keep what they have not handed out.
        tokio::select! {
            () = engine.stopping.cancelled() => break,
            frame = channel.next() => match frame? {
                None => return Ok(()),
                Some(Frame::Secret { id, bytes }) => {
                    answer(&mut running, id, PromptAnswer::Secret(bytes));
                }
                Some(frame @ Frame::Json(_)) => {
                    let message = frame.message().map_err(|_error| SessionError::Malformed)?;
                    match message {
                        ToEngine::Run { id, order, asking } => {
                            running.retain(|_id, answers| !answers.is_closed());
                            if running.len() >= COMMANDS || running.contains_key(&id) {
                                return Err(SessionError::Malformed);
                            }
                            let (answers, inbox) = mpsc::channel(4);
                            let dialogue = Dialogue::new(id, asking, client, out.clone(), inbox);
                            run(&engine, id, *order, dialogue, &out);
                            running.insert(id, answers);
                        }
                        ToEngine::Answer { id, yes } => {
                            answer(&mut running, id, PromptAnswer::Yes(yes));
                        }
                        ToEngine::Cancel { id } => {
                            answer(&mut running, id, PromptAnswer::Cancelled);
                        }
                        ToEngine::Hello { .. } | ToEngine::Proof { .. } => {
                            return Err(SessionError::Malformed);
                        }
                    }
                }
            },
            Some(frame) = outbox.recv() => deliver(&mut channel, &frame, &engine.stopping).await?,
        }
    }
    // Without anybody to answer, a prompt ends its command; with the last command the outbox closes.
    drop((out, running));
    while let Some(frame) = outbox.recv().await {
        deliver(&mut channel, &frame, &engine.stopping).await?;
    }
    Ok(())
}

/// Waits for a slow reader as long as it takes, but not while the engine stops.
async fn deliver(
    channel: &mut Channel,
    frame: &Frame,
    stopping: &CancellationToken,
) -> Result<(), SessionError> {
    let mut sending = std::pin::pin!(channel.send_frame(frame));
    tokio::select! {
        biased;
        sent = &mut sending => return sent,
        () = stopping.cancelled() => {}
    }
    let patience = std::time::Duration::from_millis(FAREWELL_MS);
    tokio::time::timeout(patience, sending).await.map_err(|_elapsed| SessionError::TooSlow)?
}

/// Starts a command. It runs to its end although the connection may go: what it began must not be left
/// half done. A prompt that nobody answers any more ends it.
fn run(
    engine: &Arc<Shared>,
    id: u64,
    order: Order,
    mut dialogue: Dialogue,
    out: &mpsc::Sender<Frame>,
) {
    let (engine, out) = (Arc::clone(engine), out.clone());
    let tasks = engine.tasks.clone();
    tasks.spawn(async move {
        let reply: Reply = operator::run(&engine, order, &mut dialogue).await;
        if let Ok(frame) = Frame::json(&ToClient::Done { id, reply: Box::new(reply) }) {
            let _gone = out.send(frame).await;
        }
    });
}

fn answer(running: &mut BTreeMap<u64, mpsc::Sender<PromptAnswer>>, id: u64, given: PromptAnswer) {
    if let Some(answers) = running.get(&id) {
        // More answers than prompts are dropped.
        let _full_or_ended = answers.try_send(given);
    }
}
