//! URLs in offers and requests: the wallet checks and shows them, and never connects to them.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bursar_tests::offers::{BASE, challenge, header};
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};

use crate::threats::stage::{add_agent, set_up_wallet};
use crate::threats::wire::KeepAlive;

/// A listener that only counts connections.
struct CountingListener {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl CountingListener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let came = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&came);
        std::thread::spawn(move || {
            for visitor in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(visitor);
            }
        });
        Self { url, connections: came }
    }

    /// Connects once and returns the number of connections; the listener accepts them in order.
    fn connections_including_ours(&self) -> usize {
        let mut ours =
            TcpStream::connect(self.url.trim_start_matches("http://")).expect("it listens");
        let _closed = ours.read(&mut [0]);
        self.connections.load(Ordering::SeqCst)
    }
}

fn post(connection: &mut KeepAlive, path: &str, body: &Value) -> (u16, Value) {
    let (status, bytes) = connection.ask("POST", path, body.to_string().as_bytes());
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_22_urls_in_a_payment_are_never_contacted() {
    let listeners = [CountingListener::start(), CountingListener::start()];
    let home = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, "--day 1000 --txn 10 --auto 0.5").await;
    let mut connection = KeepAlive::open(&engine.url);
    let now = || jiff::Timestamp::now().as_second();
    let (request, resource) = (&listeners[0].url, &listeners[1].url);
    let mut outcomes = Vec::new();
    let mut n = 0;
    for auth in ["hmac", "bearer"] {
        let agent = add_agent(&mut operator, auth, auth).await;
        for lists in [
            "--allow-domains \"\" --block-domains \"\"",
            "--allow-domains 127.0.0.1 --block-domains \"\"",
            "--allow-domains example.com --block-domains 127.0.0.1",
        ] {
            operator.must(&format!("policy edit p {lists}")).await;
            for (version, atoms) in [(2, 1_000), (2, 2_000_000), (2, 20_000_000), (1, 1_000)] {
                n += 1;
                let mut offer = challenge(BASE, atoms, &format!("{resource}/{n}?a=b#c"));
                offer["x402Version"] = json!(version);
                if version == 1 {
                    offer["accepts"][0]["maxAmountRequired"] = json!(atoms.to_string());
                }
                // All other fields that may contain a URL.
                let seen = json!(format!("{resource}/elsewhere/{n}"));
                offer["resource"]["icon"] = seen.clone();
                offer["facilitator"] = seen.clone();
                offer["extensions"] = json!({"bazaar": {"info": {"url": seen}}});
                for name in ["resource", "outputSchema", "facilitatorUrl", "url"] {
                    offer["accepts"][0][name] = seen.clone();
                    offer["accepts"][0]["extra"][name] = seen.clone();
                }
                let url = format!("{request}/{n}");
                let body = agent.ask(now(), &header(&offer), Some(&url));
                let (status, answer) = post(&mut connection, "/sign", &body);
                outcomes.push(status);
                let id = answer["request_id"].as_str().or(answer["transaction_id"].as_str());
                let Some(id) = id.map(str::to_owned) else { continue };
                if status == 202 {
                    operator.must("requests").await;
                    let verb = if n % 2 == 0 { "approve" } else { "deny" };
                    operator.must(&format!("{verb} {id}")).await;
                }
                for path in ["/sign/status/", "/receipt/"] {
                    connection.ask("GET", &format!("{path}{id}"), b"");
                }
                let hash = json!(format!("0x{}", "ab".repeat(32)));
                let report = json!({"callback": {"transaction_id": id, "event": "settled", "tx_hash": hash}});
                let mut fields = report.as_object().unwrap().clone();
                let signature = agent.sign(now(), &fields);
                fields = report["callback"].as_object().unwrap().clone();
                fields.insert("agent_id".into(), json!(agent.id));
                fields.insert("signature".into(), json!(signature));
                let (reported, answer) = post(&mut connection, "/callback", &Value::Object(fields));
                assert!(matches!(reported, 200 | 400 | 404), "{reported} {answer}");
            }
        }
    }
    for status in [200, 202, 403] {
        assert!(outcomes.contains(&status), "{status} is not among {outcomes:?}");
    }
    // The engine finishes its work for payments before it exits, so every connection has arrived by now.
    drop((connection, operator));
    let mut engine = engine;
    assert_eq!(engine.terminate(), Some(0));
    for listener in &listeners {
        assert_eq!(listener.connections_including_ours(), 1, "a connection arrived before ours");
    }
}
