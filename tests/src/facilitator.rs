//! A facilitator of a test: its settings in a folder as an operator writes them, in this process or in one of
//! its own.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::points::NoPoints;
use bursar_core::networks::Network;
use bursar_facilitator::config::Config;
use bursar_facilitator::service::{Running, load_keys};
use serde_json::Value;
use tempfile::TempDir;

use crate::service::ServiceProcess;
use crate::service_key::ServiceKey;

/// Where a facilitator lives: settings, keys and store.
#[derive(Debug)]
pub struct Home {
    folder: TempDir,
    /// Who pays gas.
    pub signers: Vec<Address>,
}

impl Home {
    /// Settings of one network at one endpoint. `more` is added to the network's table, `general` before all
    /// tables.
    pub fn new(network: &Network, rpc: &str, signers: u8, general: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Vec::new();
        let mut addresses = Vec::new();
        for n in 0..signers {
            let key = format!("{:064x}", 0x5151 + u64::from(n));
            let file = folder.path().join(format!("signer{n}.key"));
            std::fs::write(&file, &key).expect("written");
            let closed = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, closed).expect("closed");
            addresses.push(ServiceKey::from_hex(&key).address());
            files.push(format!("\"signer{n}.key\""));
        }
        let mut text = String::new();
        writeln!(text, "listen = \"127.0.0.1:0\"\nmetrics_listen = \"127.0.0.1:0\"\n{general}")
            .expect("text");
        writeln!(text, "[networks.{}]\nrpc = [\"{rpc}\"]", network.chain).expect("text");
        let poll = if more.contains("poll_ms") { "" } else { "poll_ms = 20" };
        writeln!(text, "signers = [{}]\n{poll}\n{more}", files.join(", ")).expect("text");
        std::fs::write(folder.path().join("facilitator.toml"), text).expect("written");
        Self { folder, signers: addresses }
    }

    pub fn settings(&self) -> PathBuf {
        self.folder.path().join("facilitator.toml")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn config(&self) -> Config {
        Config::load(Some(&self.settings()), &|_name| None).expect("good settings")
    }

    /// Starts it in this process.
    pub async fn start(&self) -> Facilitator {
        let config = self.config();
        let keys = load_keys(&config).expect("keys");
        let running = Running::start(config, keys, Arc::new(NoPoints)).await.expect("started");
        Facilitator { client: client(), url: format!("http://{}", running.address), running }
    }

    /// The same once one that ran before has let go of the store.
    pub async fn start_again(&self) -> Facilitator {
        self.until_free().await;
        self.start().await
    }

    /// Ends once no facilitator holds the store.
    pub async fn until_free(&self) {
        let config = self.config();
        loop {
            match bursar_facilitator::book::redb_store::RedbPayments::open_file(&config.store) {
                Ok(_free) => return,
                Err(_held) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    }

    /// Starts it as a process of its own; `fault` is `<point>:<n>`, where it ends itself.
    pub fn start_process(&self, fault: Option<&str>) -> ServiceProcess {
        ServiceProcess::start("bursar-test-facilitator", &self.settings(), "warn", fault)
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// The `Idempotency-Key` of a merchant that repeats its requests: the same for the same body.
pub fn key_of(body: &Value) -> String {
    alloy_primitives::keccak256(body.to_string()).to_string()
}

/// Asks a facilitator wherever it is, as a merchant that repeats itself; `None` if it is not there, or goes while it
/// is asked.
pub async fn ask(url: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let asked = client().post(format!("{url}{path}")).header("idempotency-key", key_of(body));
    let answer = asked.json(body).send().await.ok()?;
    let status = answer.status().as_u16();
    Some((status, answer.json().await.ok()?))
}

/// A facilitator in this process.
#[derive(Debug)]
pub struct Facilitator {
    pub url: String,
    pub running: Running,
    client: reqwest::Client,
}

impl Facilitator {
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        told(self.client.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// The same as a merchant that repeats its requests by this key.
    pub async fn post_by(&self, path: &str, body: &Value, key: &str) -> (u16, Value) {
        let asked = self.client.post(format!("{}{path}", self.url));
        told(asked.header("idempotency-key", key).json(body)).await
    }

    pub async fn post_text(&self, path: &str, body: &str) -> (u16, Value) {
        let asked = self.client.post(format!("{}{path}", self.url));
        told(asked.header("content-type", "application/json").body(body.to_owned())).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        told(self.client.get(format!("{}{path}", self.url))).await
    }

    /// A request that a test writes itself.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn stop(self) {
        self.running.stop().await;
    }
}

async fn told(asked: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = asked.send().await.expect("answered");
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or(Value::Null))
}
