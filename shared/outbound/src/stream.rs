//! Responses that arrive chunk by chunk. Callers pass them on and set their own timeouts.

use std::fmt;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};

use crate::client::{Client, unreachable};
use crate::target::Target;

/// A request to send.
#[derive(Debug)]
pub struct Asked<'a> {
    pub method: Method,
    pub target: &'a Target,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Why there is no answer, in our own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The request was not sent.
    Unreached(String),
    /// The server may have received the request and acted on it.
    Lost(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

/// The head of a response with any status, redirects included. Its body is read afterwards.
#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    rest: Response,
    target: Target,
}

impl Answered {
    /// Returns the next chunk as it arrived, or `None` at the end. Unless `None` was returned, the response is
    /// incomplete.
    ///
    /// # Errors
    /// Describes why the response broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        self.rest.chunk().await.map_err(|error| unreachable(&self.target, &error))
    }

    /// Returns the rest of the body, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Describes why: the response broke off, or is too long.
    pub async fn whole(mut self, bytes_max: usize) -> Result<Vec<u8>, String> {
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
    /// Sends a request and waits for the head of the response. Has no timeout of its own.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn open(&self, asked: Asked<'_>) -> Result<Answered, Unanswered> {
        let Asked { method, target, headers, body } = asked;
        let request = self.request(method, target).headers(headers).body(body);
        let mut rest = request.send().await.map_err(|error| {
            let why = unreachable(target, &error);
            if error.is_connect() { Unanswered::Unreached(why) } else { Unanswered::Lost(why) }
        })?;
        let (status, headers) = (rest.status(), std::mem::take(rest.headers_mut()));
        Ok(Answered { status, headers, rest, target: target.clone() })
    }
}
