//! An HTTP client that calls an engine process as an agent does.

use std::time::Duration;

use serde_json::Value;

/// A response: its status and the bytes of its body.
pub type HttpResponse = (u16, Vec<u8>);

/// A client of one engine process. A new process needs a new client, so that no pooled
/// connection outlives the old process.
#[derive(Debug, Clone)]
pub struct AgentClient {
    client: reqwest::Client,
    url: String,
}

impl AgentClient {
    /// Creates a client for the agent server at `url`. Calls time out after 30 seconds.
    pub fn for_url(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build();
        Self { client: client.expect("a client"), url: url.to_owned() }
    }

    /// Sends a JSON body. Fails if no complete response arrives.
    pub async fn post(&self, path: &str, body: &Value) -> Result<HttpResponse, reqwest::Error> {
        send(self.client.post(format!("{}{path}", self.url)).body(body.to_string())).await
    }

    /// Gets `path`. Fails if no complete response arrives.
    pub async fn get(&self, path: &str) -> Result<HttpResponse, reqwest::Error> {
        send(self.client.get(format!("{}{path}", self.url))).await
    }
}

async fn send(request: reqwest::RequestBuilder) -> Result<HttpResponse, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.to_vec()))
}

/// Parses a body as JSON; null if it is not valid JSON.
pub fn json_or_null(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
