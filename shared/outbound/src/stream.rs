//! Responses that are read chunk by chunk, so that callers can forward them.

use std::fmt;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};

use crate::client::{Client, describe_failure};
use crate::target::Target;

/// A request to send.
#[derive(Debug)]
pub struct OutboundRequest<'a> {
    pub method: Method,
    pub target: &'a Target,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no reply; the texts show no URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendFailure {
    /// The request was not sent.
    NotSent(String),
    /// The server may have received the request and acted on it.
    Lost(String),
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

/// The head of a response with any status, redirects included.
///
/// Its body is read afterwards.
#[derive(Debug)]
pub struct ReplyStream {
    pub status: StatusCode,
    pub headers: HeaderMap,
    response: Response,
    target: Target,
}

impl ReplyStream {
    /// Returns the next chunk as it arrived, or `None` at the end.
    ///
    /// The response is incomplete until `None` is returned.
    ///
    /// # Errors
    /// Describes why the response broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        self.response.chunk().await.map_err(|error| describe_failure(&self.target, &error))
    }

    /// Returns the rest of the body, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Describes why the body could not be read: the response broke off, or is too long.
    pub async fn read_to_end(mut self, bytes_max: usize) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            // Counts the bytes that arrive: Content-Length is optional and may be false.
            if chunk.len() > bytes_max.saturating_sub(body.len()) {
                return Err(format!("the answer is longer than {bytes_max} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl Client {
    /// Sends a request and waits for the head of the response.
    ///
    /// Only the client's own timeouts apply.
    ///
    /// # Errors
    /// [`SendFailure`].
    pub async fn open(&self, request: OutboundRequest<'_>) -> Result<ReplyStream, SendFailure> {
        let OutboundRequest { method, target, headers, body } = request;
        let request = self.request(method, target).map_err(SendFailure::NotSent)?;
        let request = request.headers(headers).body(body);
        let mut response = request.send().await.map_err(|error| {
            let why = describe_failure(target, &error);
            if error.is_connect() { SendFailure::NotSent(why) } else { SendFailure::Lost(why) }
        })?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok(ReplyStream { status, headers, response, target: target.clone() })
    }
}
