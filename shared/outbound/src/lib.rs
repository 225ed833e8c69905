//! The one way out of this machine: which URLs may be asked, how they are named, and exchanges over HTTP whose
//! bounds the caller sets. Never follows a redirect, never uses a proxy, never shows a URL. Plain reqwest and
//! not alloy's transport: that one reads a reply of any length into memory, and writes the whole URL, API key
//! included, into its tracing span.

mod exchange;
mod label;
mod stream;
mod target;

pub use bytes::Bytes;
pub use exchange::{Client, Reply};
pub use label::EndpointLabel;
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};
pub use stream::{Answered, Asked, Unanswered};
pub use target::{Plain, Target, TargetFault};
