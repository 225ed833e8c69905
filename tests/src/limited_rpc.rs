//! A JSON-RPC proxy in front of the local chain that refuses large batches, or all batches.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

use crate::rpc_server::{NodeClient, RpcServer};

/// A proxy that answers a batch of too many requests with one error. It stops when dropped.
#[derive(Debug)]
pub struct LimitedRpc {
    pub url: String,
    _server: RpcServer,
}

impl LimitedRpc {
    /// Starts a proxy in front of the endpoint `node`, for batches of at most `batch_max` requests.
    pub async fn in_front_of(node: &str, batch_max: usize) -> Self {
        let state = (NodeClient::new(node), batch_max);
        let server = RpcServer::start(post(answer), state).await;
        Self { url: server.url.clone(), _server: server }
    }
}

async fn answer(State((node, batch_max)): State<(NodeClient, usize)>, body: String) -> Response {
    match serde_json::from_str(&body) {
        Ok(Value::Array(requests)) if requests.len() > batch_max => {
            let error = json!({ "code": -32600, "message": "batch too large" });
            let refused = json!({ "jsonrpc": "2.0", "id": null, "error": error });
            ([("content-type", "application/json")], refused.to_string()).into_response()
        }
        _fits => node.forward(body).await,
    }
}
