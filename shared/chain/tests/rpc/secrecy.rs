//! Secrecy: the path and query of an endpoint contain the operator's key and are never shown.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bursar_chain::ports::{BlockTag, Chain};
use serde_json::json;

use crate::node::{
    ACCOUNT, Answer, Node, SECRET, chain, chain_with, clock, limits, ours, unreachable_url,
};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_faults_nor_debug_nor_logs_show_a_path_or_query() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let node = Node::serving(ours()).await;
    let mut shown = String::new();
    for answer in [
        Answer::Error(json!({"code": -32002, "message": format!("no project {SECRET}")})),
        Answer::Text(503, SECRET.to_owned()),
        Answer::Text(200, SECRET.to_owned()),
        Answer::Redirect(format!("http://127.0.0.1:1/{SECRET}")),
    ] {
        node.set_answer("eth_getBalance", answer);
        for chain in
            [chain(&[&node]), chain_with(&[node.url(), unreachable_url()], limits(), &clock())]
        {
            for _ in 0..3 {
                // Another test's subscriber may have switched off the log statements that both tests share.
                tracing::callsite::rebuild_interest_cache();
                let fault = chain.balance(ACCOUNT, BlockTag::Latest).await.unwrap_err();
                shown.push_str(&format!("{fault} {fault:?} {chain:?}\n"));
            }
        }
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(shown.contains("http://127.0.0.1:") && log.contains("http://127.0.0.1:"));
    for text in [&shown, &log] {
        assert!(
            !text.contains(SECRET) && !text.contains("/v2") && !text.contains("apikey"),
            "{text}"
        );
    }
}
