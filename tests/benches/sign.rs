//! `/sign` over HTTP with durable commits, compared with a stateless server and the disk's own fsync.
//!
//! The stateless server does the same arithmetic and stores nothing. The ratios are the result; run it with
//! `cargo bench -p bursar-tests`.
//!
//! Both servers run in this process on the same runtime. The same client drives them one after the other, for several
//! rounds. Each figure is the best round, so that a busy moment of the machine does not count against either.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, keccak256};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use bursar_chain::clock::SystemClock;
use bursar_chain::icon_http::IconHttp;
use bursar_chain::registry_http::RegistryHttp;
use bursar_core::json::{self, Value};
use bursar_core::networks::by_chain;
use bursar_devnet::agent::Agent;
use bursar_engine::agent_api::auth::Proof;
use bursar_engine::agent_api::message::{Endpoint, canonical_text};
use bursar_engine::edition::AgentWire;
use bursar_engine::engine::{Engine, Mode, Options};
use bursar_engine::ports::{NoFailpoints, Ports, PriceSource, SystemDisk, SystemRandom};
use bursar_engine::rules::Rules;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::vault::derive::PrivateKey;
use bursar_tests::engine::{lock_folder, test_edition};
use bursar_tests::offers::{BASE, offer};
use bursar_tests::operator::{Expect, Operator, PASSWORD};
use bursar_tui::link::Link;
use bursar_x402::authorization::Authorization;
use bursar_x402::header;
use bursar_x402::required::PaymentRequired;
use bursar_x402::requirements::choose;
use bursar_x402::signature::Signature65;
use bursar_x402::typed_data::TokenDomain;
use bursar_x402::{Echo, payment_header};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Number of requests in one round, for each number of connections.
const REQUESTS_PER_ROUND: usize = 4_000;
const ROUNDS: usize = 3;
const CONNECTIONS: [usize; 3] = [1, 8, 64];

fn main() {
    let runtime = bursar_tests::bench::runtime();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on the disk");
    let synced = fsyncs_per_second(folder.path());
    println!("fsync of a 4 KiB append: {synced:.0} a second");
    runtime.block_on(measure(folder.path(), synced));
}

async fn measure(folder: &Path, synced: f64) {
    let engine = engine(&folder.join("data")).await;
    let address = engine.start_server().await.expect("it listens");
    let agent = add_agent(&engine).await;
    let peer = start_stateless_server(&agent).await;
    println!(
        "{:>5}  {:>12} {:>8} {:>8}  {:>12} {:>8} {:>8}  {:>9} {:>9}",
        "conns",
        "bursar /s",
        "p50 ms",
        "p99 ms",
        "stateless /s",
        "p50 ms",
        "p99 ms",
        "of peer",
        "of fsync"
    );
    let mut number = 0;
    for connections in CONNECTIONS {
        let (mut ours, mut theirs) = (Round::default(), Round::default());
        for _round in 0..ROUNDS {
            let bodies = requests(&agent, &mut number);
            ours = ours.better_of(drive(address, connections, &bodies).await);
            let bodies = requests(&agent, &mut number);
            theirs = theirs.better_of(drive(peer, connections, &bodies).await);
        }
        println!(
            "{connections:>5}  {:>12.0} {:>8.2} {:>8.2}  {:>12.0} {:>8.2} {:>8.2}  {:>8.0}% {:>8.1}x",
            ours.rate,
            ours.p50,
            ours.p99,
            theirs.rate,
            theirs.p50,
            theirs.p99,
            100.0 * ours.rate / theirs.rate,
            ours.rate / synced
        );
    }
    engine.stop().await;
}

/// Opens the product's engine with its journal on disk.
async fn engine(path: &Path) -> Engine {
    let folder = DataFolder::open(path).expect("a folder");
    std::fs::write(
        folder.file("settings.toml"),
        "[server]\nlisten = \"127.0.0.1:0\"\nrate_per_minute = 4000000000\n",
    )
    .expect("settings");
    let lock = lock_folder(&folder);
    let mut options = Options::new(folder, lock, test_edition(), Mode::Full);
    options.ports = Some(Ports {
        clock: Arc::new(SystemClock::new().expect("a zone")),
        random: Arc::new(SystemRandom),
        disk: Arc::new(SystemDisk),
        failpoints: Arc::new(NoFailpoints),
        chains: Default::default(),
        explorers: Default::default(),
        prices: PriceSource::default(),
        icons: Arc::new(IconHttp::new()),
        registry: Arc::new(RegistryHttp),
        devices: None,
        signer: None,
        rules: Rules::default(),
    });
    Engine::open(options).await.expect("an engine")
}

async fn add_agent(engine: &Engine) -> Agent {
    let mut operator = Operator::new(Link::over(engine.attach()), PASSWORD);
    for line in [
        "wallet create bench",
        "seed create",
        "address create pay 0",
        "policy create p --day 1000000 --txn 10 --auto 5",
    ] {
        operator.must(line).await;
    }
    let created = operator.outcome("agent register bench --auth hmac").await;
    let Ok(bursar_control::answers::Answer::Credentials(given)) = created.reply.result else {
        unreachable!("an agent was registered")
    };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    Agent::new(given.agent_id, created.secret.expect("a token"), false)
}

/// Returns complete HTTP requests that are signed in advance, each for another resource.
fn requests(agent: &Agent, number: &mut u64) -> Vec<Vec<u8>> {
    let now = jiff::Timestamp::now().as_second();
    (0..REQUESTS_PER_ROUND)
        .map(|_request| {
            *number += 1;
            let body = agent.ask(now, &offer(1_000, *number), None).to_string();
            format!(
                "POST /sign HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        })
        .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Round {
    rate: f64,
    p50: f64,
    p99: f64,
}

impl Round {
    fn better_of(self, other: Self) -> Self {
        if other.rate > self.rate { other } else { self }
    }
}

/// Sends all requests over `connections`, each after the previous answer of its connection.
async fn drive(address: SocketAddr, connections: usize, requests: &[Vec<u8>]) -> Round {
    let requests: Arc<[Vec<u8>]> = requests.into();
    let started = Instant::now();
    let clients = (0..connections).map(|client| {
        let requests = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            stream.set_nodelay(true).expect("nodelay");
            let mut times = Vec::new();
            let mut buffer = Vec::with_capacity(8192);
            for request in requests.iter().skip(client).step_by(connections) {
                let sent = Instant::now();
                stream.write_all(request).await.expect("sent");
                answer(&mut stream, &mut buffer).await;
                times.push(sent.elapsed());
            }
            times
        })
    });
    let mut times: Vec<Duration> = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        times.extend(client.await.expect("a client"));
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| {
        let index = ((times.len() - 1) as f64 * share) as usize;
        times[index].as_secs_f64() * 1000.0
    };
    Round { rate, p50: at(0.5), p99: at(0.99) }
}

/// Reads one answer, which must be a payment.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    buffer.clear();
    loop {
        assert_ne!(stream.read_buf(buffer).await.expect("read"), 0, "the server hung up");
        let text = String::from_utf8_lossy(buffer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        let length: usize = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
            })
            .and_then(|length| length.parse().ok())
            .expect("a length");
        if body.len() >= length {
            return;
        }
    }
}

/// Starts a server that stores nothing.
///
/// It parses, checks the HMAC, signs the same kind of digest and answers with the same header.
async fn start_stateless_server(agent: &Agent) -> SocketAddr {
    let secret: [u8; 32] = hex::decode(&agent.token[3..]).unwrap().try_into().unwrap();
    let key = PrivateKey::from_bytes(&keccak256("a bench").0).expect("a key");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let router =
        Router::new().route("/sign", post(sign_and_forget)).with_state(Arc::new((secret, key)));
    tokio::spawn(async move {
        use axum::serve::ListenerExt;
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).expect("nodelay"));
        axum::serve(listener, router).await.expect("served");
    });
    address
}

async fn sign_and_forget(State(state): State<Arc<([u8; 32], PrivateKey)>>, body: Bytes) -> String {
    let (secret, key) = &*state;
    let Ok(Value::Object(body)) = json::parse(&body, 127) else { unreachable!("an object") };
    let Some(Proof::Hmac { timestamp, digest }) =
        body.get("signature").and_then(Value::as_str).and_then(Proof::parse)
    else {
        unreachable!("a proof")
    };
    let id = body.get("agent_id").and_then(Value::as_str).unwrap();
    let messages = Endpoint::Sign.messages(&AgentWire::FULL, id, timestamp, &body).unwrap();
    let message = messages.into_iter().next().unwrap();
    Hmac::<Sha256>::new_from_slice(secret)
        .unwrap()
        .chain_update(canonical_text(message))
        .verify_slice(&digest)
        .expect("the right digest");
    let text = body.get("payment_required").and_then(Value::as_str).unwrap();
    let required = PaymentRequired::parse(&header::decode(text).unwrap()).unwrap();
    let choice = choose(&required.offers, |_chain| true).unwrap();
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).unwrap();
    let terms = Authorization {
        from: key.address(),
        to: choice.payee,
        value: choice.offer.amount,
        valid_after: 0,
        valid_before: timestamp + 60,
        nonce: B256::from(nonce),
    };
    let network = by_chain(BASE).unwrap();
    let digest = TokenDomain::of_stablecoin(network).digest(&terms);
    let signature = Signature65::from_bytes(&key.sign_digest(&digest).unwrap()).unwrap();
    let echo = Echo::new(&required, choice.offer).unwrap();
    let value = payment_header(&echo, &terms, &signature);
    json::Object::new()
        .with("status", "success")
        .with("x402_version", 2u64)
        .with("header_name", "PAYMENT-SIGNATURE")
        .with("header_value", value)
        .with("transaction_id", "00000000-0000-4000-8000-000000000000")
        .to_compact()
}

/// Returns how many consecutive 4 KiB appends the disk makes durable per second.
fn fsyncs_per_second(folder: &Path) -> f64 {
    let mut file = std::fs::File::create(folder.join("fsync")).expect("a file");
    let block = [7u8; 4096];
    let (count, started) = (200, Instant::now());
    for _append in 0..count {
        file.write_all(&block).expect("written");
        file.sync_data().expect("synced");
    }
    f64::from(count) / started.elapsed().as_secs_f64()
}
