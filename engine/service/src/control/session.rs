//! The session of one attached program: reads its frames, runs its orders, routes its answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_control::answers::Reply;
use bursar_control::grammar::Order;
use bursar_control::wire::{Frame, ToClient, ToEngine};
use bursar_core::client::{Client, Program};
use bursar_core::limits::{
    FINAL_FRAME_TIMEOUT_MS, FRAME_BYTES_MAX, HANDSHAKE_FRAME_BYTES_MAX, HANDSHAKE_TIMEOUT_MS,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::channel::{Channel, Duplex, SessionError};
use super::connection_limits::UnprovenConnection;
use super::dialogue::{PromptAnswer, SessionDialogue};
use super::handshake;
use crate::context::EngineContext;
use crate::operator;

/// Concurrent commands per connection.
const COMMANDS_MAX: usize = 8;
/// Frames queued for a slow reader.
const QUEUED_FRAMES_MAX: usize = 64;

/// Serves a program that connected through the socket. It must prove the token before it gets a slot.
///
/// # Errors
/// The handshake or the stream failed, or the connection was evicted.
pub(super) async fn serve_connected(
    engine: Arc<EngineContext>,
    stream: Box<dyn Duplex>,
    pid: Option<u32>,
    token: &str,
    nonce: &str,
    unproven: UnprovenConnection,
) -> Result<(), SessionError> {
    let mut channel = Channel::new(stream, HANDSHAKE_FRAME_BYTES_MAX);
    let patience = std::time::Duration::from_millis(HANDSHAKE_TIMEOUT_MS);
    let proving =
        tokio::time::timeout(patience, handshake::accept(&mut channel, token, nonce, &unproven));
    let (program, _slot) = tokio::select! {
        proven = proving => proven.map_err(|_elapsed| SessionError::TooSlow)??,
        () = unproven.evicted() => return Err(SessionError::Evicted),
        () = engine.stopping.cancelled() => return Ok(()),
    };
    drop(unproven);
    channel.set_frame_bytes_max(FRAME_BYTES_MAX);
    let _counted = (program == Program::Console).then(|| Arc::clone(&engine.consoles));
    serve(engine, channel, Client::Attached { program, pid }).await
}

/// Serves a program in our own process, without a handshake.
pub(crate) async fn serve_attached(engine: Arc<EngineContext>, stream: Box<dyn Duplex>) {
    let channel = Channel::new(stream, FRAME_BYTES_MAX);
    if let Err(error) = serve(engine, channel, Client::Inside).await {
        tracing::debug!(%error, "attached session ended");
    }
}

/// Serves until the program disconnects or the engine stops.
///
/// When the engine stops, the session reads no more frames, lets running commands end and sends their answers.
async fn serve(
    engine: Arc<EngineContext>,
    mut channel: Channel,
    client: Client,
) -> Result<(), SessionError> {
    let (out, mut outbox) = mpsc::channel::<Frame>(QUEUED_FRAMES_MAX);
    let mut running: BTreeMap<u64, mpsc::Sender<PromptAnswer>> = BTreeMap::new();
    loop {
        // cancel-safe: `recv` and the frame reader keep the frames that they have not returned.
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
                            if running.len() >= COMMANDS_MAX || running.contains_key(&id) {
                                return Err(SessionError::Malformed);
                            }
                            let (answers, inbox) = mpsc::channel(4);
                            let dialogue = SessionDialogue::new(id, asking, client, out.clone(), inbox);
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
    // Without a sender of answers, each prompt fails and ends its command. The last command to end closes the queue.
    drop((out, running));
    while let Some(frame) = outbox.recv().await {
        deliver(&mut channel, &frame, &engine.stopping).await?;
    }
    Ok(())
}

/// Sends a frame. Waits for a slow reader without limit, but at most [`FINAL_FRAME_TIMEOUT_MS`] once the engine stops.
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
    let patience = std::time::Duration::from_millis(FINAL_FRAME_TIMEOUT_MS);
    tokio::time::timeout(patience, sending).await.map_err(|_elapsed| SessionError::TooSlow)?
}

/// Starts a command. It runs to its end even if the connection closes, so that no change stays half done.
///
/// A prompt without a connection fails and ends the command.
fn run(
    engine: &Arc<EngineContext>,
    id: u64,
    order: Order,
    mut dialogue: SessionDialogue,
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
        // Drops the answer if the queue is full or the command has ended.
        let _full_or_ended = answers.try_send(given);
    }
}
