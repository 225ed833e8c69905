//! The HTTP server of a JSON-RPC proxy in front of the local chain.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use tokio::task::JoinHandle;

/// Maximum length of a request body, in bytes. The simulation of a hostile payment exceeds axum's default.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A server on a free port of this machine. It stops when dropped.
#[derive(Debug)]
pub(crate) struct RpcServer {
    pub(crate) url: String,
    task: JoinHandle<()>,
}

impl RpcServer {
    /// Starts a server whose answers come from `answers` and its state.
    pub(crate) async fn start<S: Clone + Send + Sync + 'static>(
        answers: MethodRouter<S>,
        state: S,
    ) -> Self {
        let limit = DefaultBodyLimit::max(BODY_BYTES_MAX);
        let router = Router::new().route("/", answers).layer(limit).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        Self { url, task: tokio::spawn(serve) }
    }
}

impl Drop for RpcServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The node behind a proxy.
#[derive(Debug, Clone)]
pub(crate) struct NodeClient {
    url: String,
    client: reqwest::Client,
}

impl NodeClient {
    pub(crate) fn new(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { url: url.to_owned(), client }
    }

    /// Forwards the body of a request, and returns the node's answer unchanged.
    pub(crate) async fn forward(&self, body: String) -> Response {
        const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
        let request = self.client.post(&self.url).header(JSON[0].0, JSON[0].1).body(body);
        let answer = async { request.send().await?.bytes().await };
        match answer.await {
            Ok(bytes) => (JSON, bytes).into_response(),
            Err(_unreachable) => StatusCode::BAD_GATEWAY.into_response(),
        }
    }
}
