//! An engine that stops does not wait for programs that only listen. The clock is paused: waiting for a limit
//! advances it.

#![expect(clippy::unwrap_used, reason = "whatever goes wrong here fails a test")]

use std::path::Path;
use std::time::Duration;

use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, Frame, ToClient, ToEngine};
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::limits::{DRAIN_TIMEOUT_MS, FINAL_FRAME_TIMEOUT_MS};
use bursar_core::networks::NETWORKS;
use bursar_core::settings::Setting;
use bursar_domain::Action;
use bursar_engine::edition::Edition;
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::journal::MemoryStore;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, claim};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

async fn engine(home: &Path) -> Engine {
    let folder = DataFolder::open(&home.join("data")).unwrap();
    let Instance::Free(lock) = claim(&folder, EditionName::Full, ENGINE_WAIT).unwrap() else {
        unreachable!("a new folder")
    };
    // Networks without a setting use public hosts, but no test reaches outside this machine.
    let at_home = |id| format!("[networks.{id}]\nrpc = []\nexplorer = \"none\"\n");
    let settings: String = NETWORKS.iter().map(|row| at_home(row.chain)).collect();
    std::fs::write(folder.file("settings.toml"), settings).unwrap();
    let mut options = Options::new(folder, lock, Edition::full(), Mode::Full);
    options.store = Some(Box::new(MemoryStore::default()));
    Engine::open(options).await.unwrap()
}

/// A program that is attached inside the process.
struct Program(Framed<DuplexStream, LengthDelimitedCodec>);

impl Program {
    fn attach(engine: &Engine) -> Self {
        Self(Framed::new(engine.attach(), LengthDelimitedCodec::new()))
    }

    async fn run(&mut self, id: u64, line: &str) {
        let order = Box::new(Order::parse_line(line).unwrap());
        let run = ToEngine::Run { id, order, asking: Asking::Interactive };
        let frame = Frame::json(&run).unwrap().encode();
        self.0.send(Bytes::copy_from_slice(&frame)).await.unwrap();
    }

    /// Returns the next message; `None` once the engine has ended the session.
    async fn next_message(&mut self) -> Option<ToClient> {
        let bytes = self.0.next().await?.unwrap();
        Some(Frame::decode(&bytes).unwrap().message().unwrap())
    }
}

/// Returns the time that the engine took to stop, on the paused clock.
async fn stop(engine: Engine) -> Duration {
    let begun = Instant::now();
    engine.stop().await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_session_with_nothing_to_do_ends_with_the_engine() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let mut program = Program::attach(&engine);
    program.run(1, "status").await;
    assert!(matches!(program.next_message().await, Some(ToClient::Done { id: 1, .. })));
    assert_eq!(stop(engine).await, Duration::ZERO);
    assert_eq!(program.next_message().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_answered_when_the_engine_stops() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let mut program = Program::attach(&engine);
    program.run(1, "watch --since 0").await;
    engine.core().act(Action::Freeze).await.unwrap();
    assert!(matches!(program.next_message().await, Some(ToClient::Entries { id: 1, .. })));
    assert_eq!(stop(engine).await, Duration::ZERO);
    let Some(ToClient::Done { id: 1, reply }) = program.next_message().await else {
        unreachable!()
    };
    assert_eq!(reply.result.unwrap_err().code, Code::EngineDown);
    assert_eq!(program.next_message().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_prompt_does_not_delay_the_stop() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let mut program = Program::attach(&engine);
    program.run(1, "wallet create main").await;
    assert!(matches!(program.next_message().await, Some(ToClient::Prompt { id: 1, .. })));
    assert_eq!(stop(engine).await, Duration::ZERO);
    let Some(ToClient::Done { id: 1, reply }) = program.next_message().await else {
        unreachable!()
    };
    assert_eq!(reply.result.unwrap_err().code, Code::Cancelled);
}

/// Starts a watch with more entries than the connection to its program can buffer.
async fn watch_unread(engine: &Engine) -> Program {
    // A locked wallet accepts these settings, because each is stricter than the one before.
    for seconds in (1000..=3000).rev() {
        engine.core().act(Action::Set(Setting::MaxValidity(seconds))).await.unwrap();
    }
    let mut program = Program::attach(engine);
    program.run(1, "watch --since 0").await;
    // The paused clock advances only when all tasks wait, so after this sleep the watch waits for its program.
    tokio::time::sleep(Duration::from_secs(1)).await;
    program
}

#[tokio::test(start_paused = true)]
async fn a_program_that_reads_nothing_delays_the_stop_by_a_bound() {
    let home = tempfile::tempdir().unwrap();
    let engine = engine(home.path()).await;
    let _program = watch_unread(&engine).await;
    let mut other = Program::attach(&engine);
    other.run(1, "status").await;
    assert!(other.next_message().await.is_some(), "the other session still gets answers");
    let took = stop(engine).await;
    assert!(took <= Duration::from_millis(FINAL_FRAME_TIMEOUT_MS), "{took:?}");
    const { assert!(FINAL_FRAME_TIMEOUT_MS < DRAIN_TIMEOUT_MS) };
}
