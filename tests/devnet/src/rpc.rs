//! Plain JSON-RPC over HTTP to the local chain.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::DevnetError;

/// Timeout of an answer. A local answer takes a millisecond; only a dead chain takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The JSON-RPC error code of a reverted call.
const REVERTED: i64 = 3;

/// A connection to one node.
#[derive(Debug, Clone)]
pub(crate) struct Rpc {
    client: reqwest::Client,
    url: Arc<str>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Value,
    error: Option<RpcFailure>,
}

#[derive(Deserialize)]
struct RpcFailure {
    code: i64,
    message: String,
    /// The data with which a contract reverted.
    #[serde(default)]
    data: Value,
}

impl Rpc {
    pub(crate) fn new(url: &str) -> Result<Self, DevnetError> {
        // Uses no proxy: a proxy from the environment would otherwise receive requests for this machine's ports.
        let client =
            reqwest::Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build().map_err(
                |error| DevnetError::Rpc {
                    method: "connect".into(),
                    detail: error_with_causes(&error),
                },
            )?;
        Ok(Self { client, url: url.into() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Calls a method and decodes its result as `T`.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: Value,
    ) -> Result<T, DevnetError> {
        let failed = |detail: String| DevnetError::Rpc { method: method.to_owned(), detail };
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer: Answer =
            async { self.client.post(&*self.url).json(&question).send().await?.json().await }
                .await
                .map_err(|error: reqwest::Error| failed(error_with_causes(&error)))?;
        match answer.error {
            Some(error) if error.code == REVERTED => {
                let data = serde_json::from_value(error.data).unwrap_or_default();
                Err(DevnetError::Reverted { message: error.message, data })
            }
            Some(error) => Err(failed(format!("{} (code {})", error.message, error.code))),
            None => {
                serde_json::from_value(answer.result).map_err(|error| failed(error.to_string()))
            }
        }
    }
}

/// Formats an error with its causes: reqwest's own text stops at "error sending request".
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
