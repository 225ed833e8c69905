//! Idle and slow connections must not keep active callers out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bursar_control::answers::Answer;
use bursar_core::limits::{CONNECTIONS_MAX, LARGE_BODIES_MAX};
use bursar_tests::agent::Agent;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions, allow_open_files};
use bursar_tests::raw::{RawClient, Reply};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::agent_server::stage::post;

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// An engine process with an agent that can pay.
struct LoadedEngine {
    engine: EngineProcess,
    agent: Agent,
    paid: u64,
    _home: TempDir,
}

impl LoadedEngine {
    async fn new() -> Self {
        Self::start(&StartOptions::default()).await
    }

    async fn start(start: &StartOptions) -> Self {
        // The engine inherits this limit, and this process holds the other end of every connection.
        allow_open_files(3 * u64::try_from(CONNECTIONS_MAX).expect("small"));
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), start);
        let mut operator = engine.operator().await;
        for line in [
            "wallet create main",
            "seed create",
            "address create pay 0 \"for tests\"",
            "policy create p --day 10 --txn 10 --auto 0.5",
        ] {
            operator.must(line).await;
        }
        let created = operator.outcome("agent register bot --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!() };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, false);
        Self { engine, agent, paid: 0, _home: home }
    }

    fn address(&self) -> SocketAddr {
        self.engine.url.strip_prefix("http://").and_then(|at| at.parse().ok()).expect("an address")
    }

    async fn connect_many(&self, size: usize) -> Vec<RawClient> {
        let mut crowd = Vec::with_capacity(size);
        for _one in 0..size {
            crowd.push(RawClient::to(self.address()).await);
        }
        crowd
    }

    /// Pays over a new connection.
    async fn assert_pays(&mut self) {
        self.assert_pays_within(1).await;
    }

    /// Pays over one of several new connections. A full server may close a connection before it reads the request, so
    /// an agent sends the same request again over another one.
    async fn assert_pays_within(&mut self, connections: usize) {
        // A full server closes a connection that sends nothing, so the request is ready before it connects.
        let request = self.next_request();
        for _connection in 0..connections {
            let mut caller = RawClient::to(self.address()).await;
            caller.send(&request).await;
            if let Some(reply) = caller.reply(false).await {
                return assert_paid(&reply);
            }
        }
        panic!("no connection got an answer");
    }

    async fn assert_pays_over(&mut self, caller: &mut RawClient) {
        assert_paid(&caller.ask(&self.next_request()).await);
    }

    fn next_request(&mut self) -> Vec<u8> {
        self.paid += 1;
        let now = jiff::Timestamp::now().as_second();
        let body = self.agent.ask(now, &offer(12_000, self.paid), None).to_string();
        post("/sign", "", &body)
    }
}

fn assert_paid(reply: &Reply) {
    assert_eq!((reply.status, &reply.json()["status"]), (200, &"success".into()), "{reply:?}");
}

#[tokio::test]
async fn t_40_a_thousand_idle_connections_block_no_caller() {
    let mut engine = LoadedEngine::new().await;
    let crowd = engine.connect_many(1_000).await;
    for _payment in 0..5 {
        engine.assert_pays().await;
    }
    // There was room for all connections, so none was closed.
    for mut idle in crowd {
        assert_eq!(idle.ask(HEALTH).await.status, 200);
    }
}

#[tokio::test]
async fn t_40_the_longest_idle_connection_is_evicted_for_a_new_caller() {
    let mut engine = LoadedEngine::new().await;
    let mut crowd = engine.connect_many(CONNECTIONS_MAX).await;
    // The first connection becomes active; now the second has been idle for longest.
    assert_eq!(crowd[0].ask(HEALTH).await.status, 200);
    engine.assert_pays().await;
    assert!(crowd.remove(1).reply(false).await.is_none());
    for mut connection in crowd {
        assert_eq!(connection.ask(HEALTH).await.status, 200);
    }
}

#[tokio::test]
async fn t_40_a_byte_on_every_connection_blocks_no_caller() {
    let mut engine = LoadedEngine::new().await;
    let mut crowd = engine.connect_many(CONNECTIONS_MAX).await;
    for caller in &mut crowd {
        caller.send(b"G").await;
    }
    engine.assert_pays().await;
}

#[tokio::test]
async fn t_40_slow_large_bodies_do_not_block_small_ones() {
    let mut engine = LoadedEngine::new().await;
    let mut crowd = engine.connect_many(LARGE_BODIES_MAX).await;
    for caller in &mut crowd {
        let head =
            "POST /sign HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2400\r\n";
        caller.send(head.as_bytes()).await;
        caller.send(&[b'x'; 9000]).await;
    }
    engine.assert_pays().await;
    let body = r#"{"agent_id":"ABC123"}"#;
    let chunked = format!(
        "POST /ping HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let reply = RawClient::to(engine.address()).await.ask(chunked.as_bytes()).await;
    assert_eq!(reply.status, 404, "it was read, and there is no such agent: {reply:?}");
}

#[tokio::test]
async fn t_40_five_hundred_slow_senders_block_no_caller() {
    let mut engine = LoadedEngine::new().await;
    let mut crowd = engine.connect_many(500).await;
    let dribble = tokio::spawn(async move {
        // Uses real time, because the attack sends one byte per second; only the attackers wait for it.
        let mut second = tokio::time::interval(Duration::from_secs(1));
        for byte in HEALTH.iter().take(8) {
            second.tick().await;
            for caller in &mut crowd {
                caller.send(&[*byte]).await;
            }
        }
        crowd
    });
    while !dribble.is_finished() {
        engine.assert_pays().await;
        tokio::task::yield_now().await;
        if engine.paid >= 200 {
            break;
        }
    }
    for mut slow in dribble.await.expect("it dribbled") {
        let reply = slow.reply(false).await.expect("an answer");
        assert_eq!((reply.status, reply.code().as_str()), (408, "REQUEST_TIMEOUT"), "{reply:?}");
        assert!(reply.closes_connection());
    }
    engine.assert_pays().await;
}

/// Slow bodies open at once; together with the agent's connections they exceed the slots.
const SLOW_BODIES_COUNT: usize = CONNECTIONS_MAX;
/// Rounds of calls during the attack, and slow bodies begun before each round.
const CALL_ROUNDS: usize = 60;
const SLOW_BODIES_PER_ROUND: u64 = 20;

/// Sends a head whose body never arrives, and repeats this whenever the server closes the connection.
async fn repeat_slow_bodies(address: SocketAddr, begun: Arc<AtomicU64>) {
    let head = "POST /sign HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{";
    loop {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        if stream.write_all(head.as_bytes()).await.is_ok() {
            begun.fetch_add(1, Ordering::SeqCst);
            // A refusal, a reset or the end of the stream ends this attempt.
            let _ended = stream.read(&mut [0; 64]).await;
        }
    }
}

/// Slow bodies use up neither the rate nor the connections of a proven agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_42_repeated_slow_bodies_block_no_agent() {
    // Tests the default rate, and a rate so high that no request is refused before its body is read.
    for rate in ["300", "1000000"] {
        let env = vec![("BURSAR_SERVER_RATE_PER_MINUTE".to_owned(), rate.to_owned())];
        let mut engine =
            LoadedEngine::start(&StartOptions { env, ..StartOptions::default() }).await;
        let mut connection = RawClient::to(engine.address()).await;
        engine.assert_pays_over(&mut connection).await;
        let begun = Arc::new(AtomicU64::new(0));
        let mut attack = JoinSet::new();
        for _body in 0..SLOW_BODIES_COUNT {
            attack.spawn(repeat_slow_bodies(engine.address(), Arc::clone(&begun)));
        }
        let mut wanted = SLOW_BODIES_COUNT as u64;
        for _call in 0..CALL_ROUNDS {
            while begun.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
            engine.assert_pays_within(10).await;
            engine.assert_pays_over(&mut connection).await;
            wanted = begun.load(Ordering::SeqCst) + SLOW_BODIES_PER_ROUND;
        }
        attack.shutdown().await;
    }
}
