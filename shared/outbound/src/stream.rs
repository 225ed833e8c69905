//! Answers that come piece by piece, for callers that pass them on and watch the time themselves.

use std::fmt;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response, StatusCode};

use crate::exchange::{Client, unreachable};
use crate::target::Target;

/// A request as its sender wants it.
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
    /// Nothing was sent.
    Unreached(String),
    /// It may have been received, and acted on.
    Lost(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached(why) | Self::Lost(why) => f.write_str(why),
        }
    }
}

/// The head of an answer, whatever its status, redirects among them; its body is still to come.
#[derive(Debug)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    rest: Response,
    target: Target,
}

impl Answered {
    /// The next piece as it came; `None` at the end. Without an end the answer broke off.
    ///
    /// # Errors
    /// Why it broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        self.rest.chunk().await.map_err(|error| unreachable(&self.target, &error))
    }

    /// What is left of it, if that is no longer than the bound.
    ///
    /// # Errors
    /// It broke off, or is too long.
    pub async fn whole(mut self, bytes_max: usize) -> Result<Vec<u8>, String> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            // The announced length is a claim, and optional: what arrives is counted.
            if chunk.len() > bytes_max.saturating_sub(body.len()) {
                return Err(format!("the answer is longer than {bytes_max} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

impl Client {
    /// Sends a request and waits for the head of the answer, for as long as the caller does.
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
