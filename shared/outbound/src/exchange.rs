//! Exchanges that read the whole reply.

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};

use crate::client::Client;
use crate::stream::OutboundRequest;
use crate::target::Target;

/// A reply with any status except a redirect.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

impl Client {
    /// Sends JSON and returns the reply, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Describes why there is no usable reply, without showing the URL.
    pub async fn post(
        &self,
        target: &Target,
        body: Vec<u8>,
        bytes_max: usize,
    ) -> Result<Reply, String> {
        self.exchange(Method::POST, target, Some(body), bytes_max).await
    }

    /// Requests JSON and returns the reply, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Describes why there is no usable reply, without showing the URL.
    pub async fn get(&self, target: &Target, bytes_max: usize) -> Result<Reply, String> {
        self.exchange(Method::GET, target, None, bytes_max).await
    }

    async fn exchange(
        &self,
        method: Method,
        target: &Target,
        body: Option<Vec<u8>>,
        bytes_max: usize,
    ) -> Result<Reply, String> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let body = Bytes::from(body.unwrap_or_default());
        let request = OutboundRequest { method, target, headers, body };
        let reply = self.open(request).await.map_err(|fault| fault.to_string())?;
        let status = reply.status;
        if status.is_redirection() {
            return Err(format!("HTTP {status}: redirects are not followed"));
        }
        Ok(Reply { status, body: reply.read_to_end(bytes_max).await? })
    }
}
