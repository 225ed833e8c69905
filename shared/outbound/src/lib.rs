//! Outgoing HTTP: permitted URLs, their names in logs, and exchanges with bounds that the caller sets. No other crate
//! of the programs contains an HTTP client. Never follows a redirect, never uses a proxy, never shows a URL.
//!
//! Uses reqwest and not alloy's transport. That one reads replies of any length into memory and writes the whole URL,
//! API key included, into its tracing span.

mod client;
mod exchange;
mod label;
mod stream;
mod target;

pub use bytes::Bytes;
pub use client::Client;
pub use exchange::Reply;
pub use label::EndpointLabel;
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};
pub use stream::{Answered, Asked, Unanswered};
pub use target::{Plain, Target, TargetFault};
