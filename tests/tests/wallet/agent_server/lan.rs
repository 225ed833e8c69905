//! The agent server opened to the network, called over this machine's own address. To the engine, that caller is
//! another machine.

use std::net::{IpAddr, UdpSocket};

use bursar_control::answers::{Answer, ServerAnswer};
use bursar_core::codes::Code;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::Value;

/// Returns this machine's network address. Sends nothing: connecting a datagram socket only chooses a route.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

async fn add_agent(operator: &mut Operator, auth: &str) -> Agent {
    let created = operator.outcome(&format!("agent register {auth} --auth {auth}")).await;
    let Ok(Answer::Credentials(given)) = created.reply.result else {
        panic!("{:?}", created.reply.result);
    };
    operator.must(&format!("agent commission {auth} p pay")).await;
    let token = created.secret.expect("a token");
    Agent::new(given.agent_id, token, auth == "bearer")
}

/// Runs a command; returns the server's answer and the codes of its warnings.
async fn server(operator: &mut Operator, line: &str) -> (ServerAnswer, Vec<String>) {
    let reply = operator.outcome(line).await.reply;
    let Ok(Answer::Server(answer)) = reply.result else { panic!("{:?}", reply.result) };
    (answer, reply.warnings.into_iter().map(|warning| warning.code).collect())
}

fn port_of(answer: &ServerAnswer) -> u16 {
    let url = answer.url.as_deref().expect("it runs");
    url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

async fn ask(url: &str, agent: &Agent, n: u64) -> (u16, Value) {
    let body = agent.ask(jiff::Timestamp::now().as_second(), &offer(10_000, n), None);
    let (status, bytes) = AgentClient::for_url(url).post("/sign", &body).await.expect("an answer");
    (status, json_or_null(&bytes))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_24_the_network_has_access_only_while_the_operator_allows_it() {
    let Some(address) = own_address() else {
        eprintln!("skipped: this machine is in no network");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let mut engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    for line in
        ["wallet create main", "seed create", "address create pay 0 x", "policy create p --auto 5"]
    {
        operator.must(line).await;
    }
    let (hmac, bearer) =
        (add_agent(&mut operator, "hmac").await, add_agent(&mut operator, "bearer").await);

    // A loopback server does not listen at the network address.
    let (before, warnings) = server(&mut operator, "server status").await;
    assert_eq!((before.open_to_network, warnings), (false, Vec::new()));
    let refused = AgentClient::for_url(&format!("http://{address}:{}", port_of(&before)))
        .get("/health")
        .await;
    assert!(refused.is_err());
    operator.must("wallet lock").await;
    let fault = operator.run_refused("server start --allow-lan").await;
    assert_eq!(fault.code, Code::WalletLocked);
    operator.must("wallet open").await;

    let (open, warnings) = server(&mut operator, "server start --allow-lan").await;
    assert!(open.open_to_network && warnings == ["OPEN_TO_NETWORK"], "{warnings:?}");
    let url = format!("http://{address}:{}", port_of(&open));
    assert_eq!(AgentClient::for_url(&url).get("/health").await.unwrap().0, 200);
    assert_eq!(ask(&url, &hmac, 1).await.0, 200);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for host in ["evil.test", "0.0.0.0", "192.0.2.77", ""] {
        let answer = client.get(format!("{url}/health")).header("host", host).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{host}");
    }
    let (_open, warnings) = server(&mut operator, "server status").await;
    assert_eq!(warnings, ["OPEN_TO_NETWORK"], "an hmac agent gives nothing away");
    assert_eq!(ask(&url, &bearer, 2).await.0, 200);
    let (_open, warnings) = server(&mut operator, "server status").await;
    assert_eq!(warnings, ["OPEN_TO_NETWORK", "LAN_BEARER"]);

    operator.must("config set server.lan_bearer refuse").await;
    let wrong = Agent { token: format!("AT_{}", "0".repeat(64)), ..bearer.clone() };
    let (right, wrong) = (ask(&url, &bearer, 3).await, ask(&url, &wrong, 3).await);
    assert_eq!(right.1["code"], Code::LanBearerRefused.text(), "{right:?}");
    assert_eq!(right, wrong, "nothing is said of the token");
    let local = open.url.as_deref().unwrap();
    assert_eq!(ask(local, &bearer, 3).await.0, 200, "programs of this machine are no strangers");
    assert_eq!(ask(&url, &hmac, 4).await.0, 200);

    let (closed, _warnings) = server(&mut operator, "server start").await;
    assert!(!closed.open_to_network);
    let url = format!("http://{address}:{}", port_of(&closed));
    assert!(AgentClient::for_url(&url).get("/health").await.is_err());

    // `--allow-lan` holds for one run: another start closes the server, and the next engine does not open it.
    server(&mut operator, "server start --allow-lan").await;
    operator.must("server stop").await;
    assert!(!server(&mut operator, "server start").await.0.open_to_network);
    server(&mut operator, "server start --allow-lan").await;
    assert_eq!(engine.terminate(), Some(0));
    let mut engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    operator.must("wallet open").await;
    assert!(!server(&mut operator, "server status").await.0.open_to_network);
    // The setting persists and every unlock warns about it. A server whose journal is not yet verified stays closed.
    operator.must("config set server.allow_lan true").await;
    assert!(server(&mut operator, "server status").await.0.open_to_network);
    drop(operator);
    assert_eq!(engine.terminate(), Some(0));
    let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    assert!(!server(&mut operator, "server status").await.0.open_to_network);
    let opened = operator.outcome("wallet open").await.reply;
    let codes: Vec<_> = opened.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["OPEN_TO_NETWORK"]);
    assert!(server(&mut operator, "server status").await.0.open_to_network);
    assert!(server(&mut operator, "server start").await.0.open_to_network);
    operator.must("config set server.allow_lan false").await;
    assert!(!server(&mut operator, "server status").await.0.open_to_network);
}
