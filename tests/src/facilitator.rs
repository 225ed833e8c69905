//! A facilitator for tests, in this process or in its own, with a settings folder as an operator writes it.

use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::Address;
use bursar_chain::failpoints::NoFailpoints;
use bursar_core::networks::Network;
use bursar_facilitator::config::Config;
use bursar_facilitator::service::{Running, load_keys};
use serde_json::Value;
use tempfile::TempDir;

use crate::service::ServiceProcess;
use crate::service_key::ServiceKey;

/// The key in `authorizer.key`.
const AUTHORIZER_KEY: &str = "6161616161616161616161616161616161616161616161616161616161616161";

/// A facilitator's folder: settings, keys and store.
#[derive(Debug)]
pub struct FacilitatorHome {
    folder: TempDir,
    /// The addresses that pay gas.
    pub signers: Vec<Address>,
}

impl FacilitatorHome {
    /// Writes settings for one network with one endpoint.
    ///
    /// `more` is added to the network's table, `general` before all tables.
    pub fn new(network: &Network, rpc: &str, signers: u8, general: &str, more: &str) -> Self {
        Self::with_signers(network, rpc, 0..signers, general, more)
    }

    /// Like [`Self::new`], but with the signers of these numbers. Facilitators on one chain need different signers.
    pub fn with_signers(
        network: &Network,
        rpc: &str,
        signers: Range<u8>,
        general: &str,
        more: &str,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Vec::new();
        let mut addresses = Vec::new();
        let write = |name: &str, key: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, key).expect("written");
            let closed = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, closed).expect("closed");
        };
        // The settings refer to this file only if a test wants an authorizer.
        write("authorizer.key", AUTHORIZER_KEY);
        for n in signers {
            write(&format!("signer{n}.key"), &signer_key(n));
            addresses.push(signer_address(n));
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

    /// Returns the address of the key in `authorizer.key`.
    pub fn authorizer(&self) -> Address {
        ServiceKey::from_hex(AUTHORIZER_KEY).address()
    }

    /// Returns the path of the settings file.
    pub fn settings(&self) -> PathBuf {
        self.folder.path().join("facilitator.toml")
    }

    /// Returns the folder with settings, keys and store.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Loads the settings, ignoring the environment.
    pub fn config(&self) -> Config {
        Config::load(Some(&self.settings()), &|_name| None).expect("good settings")
    }

    /// Starts the facilitator in this process.
    pub async fn start(&self) -> Facilitator {
        let config = self.config();
        let keys = load_keys(&config).expect("keys");
        let running = Running::start(config, keys, Arc::new(NoFailpoints)).await.expect("started");
        Facilitator { client: client(), url: format!("http://{}", running.address), running }
    }

    /// Starts the facilitator after the previous one has released the store.
    pub async fn start_again(&self) -> Facilitator {
        self.wait_for_store().await;
        self.start().await
    }

    /// Waits until no facilitator holds the store.
    pub async fn wait_for_store(&self) {
        let config = self.config();
        loop {
            match bursar_facilitator::book::redb_store::RedbPayments::open_file(&config.store) {
                Ok(_free) => return,
                Err(_held) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    }

    /// Starts the facilitator as a separate process, which kills itself at `fault`, written `<point>:<n>`.
    pub fn start_process(&self, fault: Option<&str>) -> ServiceProcess {
        ServiceProcess::start("bursar-test-facilitator", &self.settings(), "warn", fault)
    }
}

/// Returns the address of the signer with this number. [`FacilitatorHome::new`] numbers its signers from 0.
pub fn signer_address(n: u8) -> Address {
    ServiceKey::from_hex(&signer_key(n)).address()
}

fn signer_key(n: u8) -> String {
    format!("{:064x}", 0x5151 + u64::from(n))
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

/// Returns the `Idempotency-Key` of a merchant that repeats its requests: equal for equal bodies.
pub fn idempotency_key(body: &Value) -> String {
    alloy_primitives::keccak256(body.to_string()).to_string()
}

/// Posts to a facilitator like a merchant that repeats its requests.
///
/// Returns `None` if the facilitator is not reachable or dies during the request.
pub async fn ask(url: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let request =
        client().post(format!("{url}{path}")).header("idempotency-key", idempotency_key(body));
    let answer = request.json(body).send().await.ok()?;
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
    /// Posts a JSON body and returns status and JSON; null if the response is not JSON.
    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        status_and_json(self.client.post(format!("{}{path}", self.url)).json(body)).await
    }

    /// Like [`Self::post`], with this idempotency key.
    pub async fn post_with_key(&self, path: &str, body: &Value, key: &str) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url));
        status_and_json(request.header("idempotency-key", key).json(body)).await
    }

    /// Posts `body` as it is, whether or not it is valid JSON.
    pub async fn post_text(&self, path: &str, body: &str) -> (u16, Value) {
        let request = self.client.post(format!("{}{path}", self.url));
        status_and_json(request.header("content-type", "application/json").body(body.to_owned()))
            .await
    }

    /// Gets `path` and returns status and JSON; null if the response is not JSON.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        status_and_json(self.client.get(format!("{}{path}", self.url))).await
    }

    /// Returns a request that the test completes itself.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.client.request(method, format!("{}{path}", self.url))
    }

    /// Stops the facilitator gracefully.
    pub async fn stop(self) {
        self.running.stop().await;
    }
}

async fn status_and_json(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("answered");
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or(Value::Null))
}
