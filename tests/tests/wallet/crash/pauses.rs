//! A process that is paused while time passes, as under SIGSTOP or with a closed lid.

use std::io::{Read, Write};
use std::net::TcpStream;

use bursar_core::codes::Code;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};

use crate::crash::scenario::now_s;

const MINUTE_MS: i64 = 60_000;

/// Sends a request that stays in the kernel's buffers, unread.
fn send(engine: &EngineProcess, body: &Value) -> TcpStream {
    let address = engine.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!("POST /sign HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    write!(stream, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
    stream
}

/// Returns status and body; `None` if no answer came.
fn answer(mut stream: TcpStream) -> Option<(u16, Value)> {
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, json_or_null(body.as_bytes())))
}

async fn set_up_agent(engine: &EngineProcess) -> Agent {
    let mut operator = engine.operator().await;
    for line in [
        "wallet create main",
        "seed create",
        "address create pay 0",
        "policy create p --day 1 --txn 1 --auto 0.5",
    ] {
        operator.must(line).await;
    }
    let created = operator.outcome("agent register a --auth hmac").await;
    let Ok(bursar_control::answers::Answer::Credentials(given)) = created.reply.result else {
        panic!()
    };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    Agent::new(given.agent_id, created.secret.unwrap(), false)
}

#[tokio::test]
async fn a_paused_engine_answers_queued_requests_once_and_expires_old_holds() {
    let home = tempfile::tempdir().unwrap();
    let mut engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let agent = set_up_agent(&engine).await;
    let caller = AgentClient::for_url(&engine.url);
    let held = agent.ask(now_s(), &offer(600_000, 1), None);
    let (status, bytes) = caller.post("/sign", &held).await.unwrap();
    assert_eq!(status, 202, "{}", json_or_null(&bytes));
    let id = json_or_null(&bytes)["request_id"].as_str().unwrap().to_owned();

    // Pauses for three minutes: proofs are valid for five minutes, and the hold for fifteen.
    engine.pause();
    engine.set_clock_offset(3 * MINUTE_MS);
    let body = agent.ask(now_s(), &offer(300_000, 2), None);
    let copies: Vec<_> = (0..12).map(|_copy| send(&engine, &body)).collect();
    let other = send(&engine, &agent.ask(now_s(), &offer(300_000, 3), None));
    engine.resume();
    let answers: Vec<_> = copies.into_iter().map(|copy| answer(copy).unwrap()).collect();
    assert!(answers.iter().all(|reply| *reply == answers[0]), "{answers:?}");
    // Besides the hold, the daily dollar covers only one of the two payments; the engine may read either first.
    let mut reply = [answers[0].clone(), answer(other).unwrap()];
    reply.sort_by_key(|(status, _)| *status);
    assert_eq!((reply[0].0, &reply[0].1["status"]), (200, &json!("success")), "{reply:?}");
    assert_eq!(
        (reply[1].0, &reply[1].1["code"]),
        (429, &json!("EXCEEDS_DAILY_LIMIT")),
        "{reply:?}"
    );

    // Pauses for thirteen more minutes, which exceeds the fifteen minutes of the hold.
    engine.pause();
    engine.set_clock_offset(16 * MINUTE_MS);
    engine.resume();
    let fault = engine.operator().await.run_refused(&format!("approve {id} --yes")).await;
    assert_eq!(fault.code, Code::RequestExpired, "{fault}");
    // Uses a new connection, because the engine may have closed the idle one.
    let polled =
        AgentClient::for_url(&engine.url).get(&format!("/sign/status/{id}")).await.unwrap();
    assert_eq!(json_or_null(&polled.1)["code"], "REQUEST_EXPIRED");
    assert_eq!(engine.terminate(), Some(0));
}

#[tokio::test]
async fn a_request_unread_at_the_kill_is_signed_once_when_repeated() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let mut engine = EngineProcess::start(&folder, &StartOptions::default());
    let agent = set_up_agent(&engine).await;
    let body = agent.ask(now_s(), &offer(100_000, 1), None);
    engine.pause();
    let unread = send(&engine, &body);
    engine.kill();
    assert_eq!(answer(unread), None);

    let start = StartOptions { has_password: true, ..StartOptions::default() };
    let mut engine = EngineProcess::start(&folder, &start);
    let caller = AgentClient::for_url(&engine.url);
    let first = caller.post("/sign", &body).await.unwrap();
    assert_eq!(first.0, 200, "{}", json_or_null(&first.1));
    assert_eq!(caller.post("/sign", &body).await.unwrap(), first);
    let read = caller.post("/status", &agent.read(now_s())).await.unwrap();
    assert_eq!(json_or_null(&read.1)["agent"]["spent_today_micro"], 100_000);
    assert_eq!(engine.terminate(), Some(0));
}
