//! HTTP calls to an engine process, as an agent makes them.

use std::time::Duration;

use serde_json::Value;

/// An answer: the status and the bytes of the body.
pub type Answered = (u16, Vec<u8>);

/// Calls one engine. A new one for each life of it, so that no connection outlives it.
#[derive(Debug, Clone)]
pub struct Caller {
    client: reqwest::Client,
    url: String,
}

impl Caller {
    pub fn to(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build();
        Self { client: client.expect("a client"), url: url.to_owned() }
    }

    /// The error says that no whole answer came.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Answered, reqwest::Error> {
        answered(self.client.post(format!("{}{path}", self.url)).body(body.to_string())).await
    }

    pub async fn get(&self, path: &str) -> Result<Answered, reqwest::Error> {
        answered(self.client.get(format!("{}{path}", self.url))).await
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Result<Answered, reqwest::Error> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    Ok((status, response.bytes().await?.to_vec()))
}

/// The JSON of a body; null if it is none.
pub fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
