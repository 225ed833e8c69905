//! The control channel with real processes: which clients are accepted, and what an unproven client learns.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::time::Duration;

use bursar_chain::ports::Clock;
use bursar_control::answers::Answer;
use bursar_control::grammar::Order;
use bursar_control::wire::{Asking, ControlFile, Frame, PROTOCOL, Side, ToClient, ToEngine, proof};
use bursar_core::client::Program;
use bursar_core::codes::Code;
use bursar_core::limits::CONTROL_SESSIONS_MAX;
use bursar_core::status::EntryKind;
use bursar_engine::control::ControlChannel;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::{Expect, PASSWORD};
use bursar_tests::process::{EngineProcess, StartOptions};
use bursar_tui::link::Link;

/// A client that sends frames by hand.
struct RawClient(UnixStream);

impl RawClient {
    fn at(control: &ControlFile) -> Self {
        let stream = UnixStream::connect(&control.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream)
    }

    fn send(&mut self, message: &ToEngine) {
        let body = Frame::json(message).unwrap().encode();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        // The engine may have hung up already: then the next read returns `None`.
        let _gone = self.0.write_all(&[&length[..], &body[..]].concat());
    }

    /// Returns the next message, or `None` once the engine has hung up.
    fn receive(&mut self) -> Option<ToClient> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).ok()?;
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.0.read_exact(&mut body).ok()?;
        Some(Frame::decode(&body).unwrap().message().unwrap())
    }

    /// Sends a hello and proves a token; returns the engine's reply.
    fn handshake(&mut self, token: &str, protocol: u32) -> Option<ToClient> {
        let (version, nonce) = ("9.9.9".into(), "c".into());
        self.send(&ToEngine::Hello { protocol, version, nonce, program: Program::Command });
        let Some(ToClient::Hello { nonce, proof: theirs, .. }) = self.receive() else {
            return None;
        };
        assert_eq!(theirs == proof(token, Side::Engine, "c", &nonce), token != "wrong");
        self.send(&ToEngine::Proof { proof: proof(token, Side::Client, "c", &nonce) });
        self.receive()
    }
}

fn home() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    (home, data)
}

#[test]
fn only_the_token_opens_the_channel() {
    let (_home, data) = home();
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    assert_eq!(
        RawClient::at(&control).handshake(&control.token, PROTOCOL),
        Some(ToClient::Welcome)
    );
    let refusal = RawClient::at(&control).handshake("wrong", PROTOCOL);
    let Some(ToClient::Refused { fault }) = refusal else { panic!("{refusal:?}") };
    assert_eq!(fault.code, Code::AuthFailed);
    // A client with a wrong token learns nothing about versions. A client with the right token gets the mismatch and
    // the remedy.
    let refusal = RawClient::at(&control).handshake("wrong", PROTOCOL + 1);
    assert!(matches!(refusal, Some(ToClient::Refused { fault }) if fault.code == Code::AuthFailed));
    let refusal = RawClient::at(&control).handshake(&control.token, PROTOCOL + 1);
    let Some(ToClient::Refused { fault }) = refusal else { panic!("{refusal:?}") };
    assert_eq!(fault.code, Code::VersionMismatch);
    assert!(fault.message.contains("9.9.9"), "{fault}");
}

#[test]
fn no_command_runs_before_the_proof() {
    let (_home, data) = home();
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let mut client = RawClient::at(&engine.control());
    let order = Box::new(Order::Freeze);
    let asking = Asking::Agreed;
    client.send(&ToEngine::Run { id: 1, order, asking });
    assert_eq!(client.receive(), None);
}

#[tokio::test]
async fn a_malformed_stream_ends_its_own_connection_alone() {
    let (_home, data) = home();
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    for bytes in [
        &[0xff, 0xff, 0xff, 0xff, 0][..],
        &[0, 0, 0, 1, 7],
        &[0, 0, 0, 3, 0, b'{', b'}'],
        &[0, 0, 0, 2, 1, 0],
        &[0, 0, 0, 0],
    ] {
        let mut client = RawClient::at(&control);
        client.0.write_all(bytes).unwrap();
        assert_eq!(client.receive(), None, "{bytes:?}");
    }
    engine.operator().await.must("status").await;
}

/// Silent connections have a few separate slots, and never keep the operator from a freeze.
#[tokio::test]
async fn silent_connections_do_not_lock_the_operator_out() {
    let (_home, data) = home();
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    let mut silent: Vec<RawClient> = (0..300).map(|_| RawClient::at(&control)).collect();
    // An incomplete hello counts as silence.
    for client in &mut silent {
        let _gone = client.0.write_all(&[0, 0]);
    }
    engine.operator().await.must("freeze").await;
    // The oldest connections were evicted, the newest were not.
    assert_eq!(silent[0].receive(), None);
    silent[299].0.set_nonblocking(true).unwrap();
    let open = silent[299].0.read(&mut [0; 1]).unwrap_err();
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
}

/// When programs with a proven token fill every slot, one more is refused with the reason.
#[tokio::test]
async fn a_program_over_the_session_limit_is_refused_as_busy() {
    let (_home, data) = home();
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    let attached: Vec<RawClient> = (0..CONTROL_SESSIONS_MAX)
        .map(|_| {
            let mut program = RawClient::at(&control);
            assert_eq!(program.handshake(&control.token, PROTOCOL), Some(ToClient::Welcome));
            program
        })
        .collect();
    let refused = Link::connect(&control, Program::Command).await.unwrap_err();
    assert_eq!(refused.code, Code::Busy, "{refused}");
    drop(attached);
    // The slots of the closed connections are free as soon as the engine has noticed the closing.
    loop {
        match Link::connect(&control, Program::Command).await {
            Ok(_link) => break,
            Err(refused) => assert_eq!(refused.code, Code::Busy, "{refused}"),
        }
    }
}

/// After wrong passwords the next attempt waits, on any connection, and after a restart as well.
#[tokio::test]
async fn each_wrong_password_delays_the_next_attempt_longer() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.operator().must("wallet create main").await;
    engine.operator().must("wallet lock").await;
    let attempt = async |engine: &TestEngine, password: &str, wait_s: u64| {
        let mut operator = engine.operator();
        operator.passwords.push_back(password.to_owned());
        let mut ended = pin!(operator.outcome("wallet open"));
        if wait_s > 0 {
            // No task of the engine that wakes at whole seconds then sleeps until the end of the wait.
            engine.clock.advance(7);
            let end_ms = engine.clock.now().mono_ms + wait_s * 1_000;
            let mut polls = 0;
            while !engine.clock.has_sleeper_at(end_ms) {
                polls += 1;
                assert!(polls < 60_000, "{wait_s} s: no attempt waits so long");
                let early = tokio::time::timeout(Duration::from_millis(1), &mut ended).await;
                assert!(early.is_err(), "{wait_s} s: it did not wait at all");
            }
            engine.clock.advance(wait_s * 1_000 - 1);
            assert!(engine.clock.has_sleeper_at(end_ms), "{wait_s} s: it waits to the end");
            engine.clock.advance(1);
        }
        ended.await.reply.result.err().map(|fault| fault.code)
    };
    let wrong = Some(Code::WrongPassword);
    for wait_s in [0, 1, 2, 4, 8] {
        assert_eq!(attempt(&engine, "not the password", wait_s).await, wrong, "{wait_s}");
    }
    let engine = engine.restart(Setup::default()).await;
    for wait_s in [16, 30, 30] {
        assert_eq!(attempt(&engine, "not the password", wait_s).await, wrong, "{wait_s}");
    }
    assert_eq!(attempt(&engine, PASSWORD, 30).await, None, "a right one waits as long");
    // A correct password resets the wait, so no time needs to pass here.
    engine.operator().must("wallet open").await;
    engine.operator().must("wallet lock").await;
    let mut operator = engine.operator();
    operator.passwords.push_back("not the password".to_owned());
    assert_eq!(operator.run_refused("wallet open").await.code, Code::WrongPassword);
}

#[tokio::test]
async fn the_status_counts_attached_consoles_and_no_other_program() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.engine.serve_control(ControlChannel::SOCKET).await.unwrap();
    let mut attached = Vec::new();
    for (program, consoles) in
        [(Program::Command, 0), (Program::Console, 1), (Program::Command, 1), (Program::Console, 2)]
    {
        let mut operator = engine.operator_at_the_socket(program).await;
        let answer = operator.must("status").await;
        let Answer::Status(status) = answer else { panic!("{answer:?}") };
        assert_eq!(status.consoles, consoles, "{program:?}");
        attached.push(operator);
    }
}

#[tokio::test]
async fn a_program_on_the_engines_socket_without_its_token_is_not_trusted() {
    let (_home, data) = home();
    let mut engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    engine.kill();
    std::fs::remove_file(&control.socket).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&control.socket).unwrap();
    let squatter = std::thread::spawn(move || {
        let (stream, _peer) = listener.accept().unwrap();
        let mut squatter = RawClient(stream);
        let mut length = [0; 4];
        squatter.0.read_exact(&mut length).unwrap();
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        squatter.0.read_exact(&mut body).unwrap();
        let hello = ToClient::Hello {
            protocol: PROTOCOL,
            version: "0".into(),
            nonce: "e".into(),
            proof: "0".repeat(64),
        };
        let body = Frame::json(&hello).unwrap().encode();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        squatter.0.write_all(&[&length[..], &body[..]].concat()).unwrap();
        // The client must hang up without a proof of the token.
        let mut rest = Vec::new();
        squatter.0.read_to_end(&mut rest).unwrap();
        rest
    });
    assert!(Link::connect(&control, Program::Command).await.is_err());
    assert!(squatter.join().unwrap().is_empty(), "the client went on talking");
}

#[tokio::test]
async fn a_new_engine_has_a_new_token_and_files_only_for_its_owner() {
    let (_home, data) = home();
    let mut engine = EngineProcess::start(&data, &StartOptions::default());
    let old = engine.control();
    for name in ["control.json", "control.sock", "engine.lock", "journal.redb"] {
        let mode = std::fs::symlink_metadata(data.join(name)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(std::fs::symlink_metadata(&data).unwrap().mode() & 0o777, 0o700);
    assert_eq!(engine.terminate(), Some(0));
    assert!(!data.join("control.json").exists(), "an engine that ends withdraws its address");
    drop(engine);
    let engine = EngineProcess::start(&data, &StartOptions::default());
    let new = engine.control();
    assert_ne!(old.token, new.token);
    let stale = ControlFile { token: old.token, ..new };
    assert!(Link::connect(&stale, Program::Command).await.is_err());
}

/// With real processes, over the socket: a watcher receives the reason before the engine is gone.
#[test]
fn a_watching_program_is_notified_when_the_engine_stops() {
    let (_home, data) = home();
    let mut engine = EngineProcess::start(&data, &StartOptions::default());
    let control = engine.control();
    let mut watcher = RawClient::at(&control);
    assert_eq!(watcher.handshake(&control.token, PROTOCOL), Some(ToClient::Welcome));
    for (id, line) in [(1, "watch --since 0"), (2, "freeze")] {
        let order = Box::new(Order::parse_line(line).unwrap());
        watcher.send(&ToEngine::Run { id, order, asking: Asking::Silent });
    }
    let (mut frozen, mut answer) = (false, false);
    while !(frozen && answer) {
        match watcher.receive() {
            Some(ToClient::Done { id: 2, .. }) => frozen = true,
            Some(ToClient::Entries { id: 1, entries }) => {
                answer = entries[0].kind == EntryKind::Frozen
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(engine.terminate(), Some(0));
    let Some(ToClient::Done { id: 1, reply }) = watcher.receive() else { panic!("not a word") };
    assert_eq!(reply.result.unwrap_err().code, Code::EngineDown);
    assert_eq!(watcher.receive(), None);
}
