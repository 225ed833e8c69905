//! An in-process engine with its agent server on a port.

use std::net::SocketAddr;
use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_engine::agent_api::listen::bind;
use bursar_engine::agent_api::{Exposure, Server};
use bursar_engine::service::data_dir::DataFolder;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use tempfile::TempDir;

/// Pays up to 0.50 dollars automatically, so every request that is not refused is paid.
const POLICY: &str = "--day 10 --txn 10 --auto 0.5";

/// A rate that no test reaches.
pub(crate) const UNLIMITED: u32 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) engine: TestEngine,
    pub(crate) agent: Agent,
    pub(crate) address: SocketAddr,
    pub(crate) server: Server,
    _home: TempDir,
}

impl Stage {
    /// Starts the server; `rate` is the setting `server.rate_per_minute`.
    pub(crate) async fn new(rate: u32) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let data = home.path().join("data");
        let folder = DataFolder::open(&data).expect("the folder can be used");
        let settings = format!("[server]\nrate_per_minute = {rate}\n");
        std::fs::write(folder.file("settings.toml"), settings).expect("written");
        let engine = TestEngine::open(data, Setup::default()).await;
        engine.set_up_wallet(POLICY).await;
        let agent = engine.add_agent("bot", "hmac").await;
        let (address, listeners) =
            bind(SocketAddr::from(([127, 0, 0, 1], 0)), Exposure::Loopback).await.expect("bound");
        let server = Server::start(Arc::new(engine.engine.api()), address, listeners);
        Self { engine, agent, address, server, _home: home }
    }

    /// Returns number and hash of the newest journal entry; if they are unchanged, nothing was recorded.
    pub(crate) async fn head(&self) -> (u64, String) {
        match self.engine.operator().must("status").await {
            Answer::Status(status) => (status.journal, status.head),
            other => panic!("{other:?}"),
        }
    }

    /// Returns a body that is paid if the server parses it.
    pub(crate) fn payable(&self, n: u64) -> String {
        self.agent.ask(self.engine.now_s(), &offer(12_000, n), None).to_string()
    }
}

/// Returns a POST request with this body.
pub(crate) fn post(path: &str, lines: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
