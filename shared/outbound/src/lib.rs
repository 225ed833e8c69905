//! Outgoing HTTP: permitted URLs, their names in logs, and exchanges with bounds that the caller sets. Apart from
//! tests, no other crate uses an HTTP client. This crate never follows a redirect, uses a proxy or shows a URL.
//!
//! It uses reqwest, because alloy's transport reads replies of any length into memory, and writes the whole URL with
//! its API key into a tracing span.
//!
//! # Examples
//!
//! ```
//! use bursar_outbound::{Client, PlainHttpHosts, Target, TargetFault};
//!
//! /// Asks a node for its newest block. Fails if the reply is longer than 64 KiB.
//! async fn newest_block(client: &Client, node: &Target) -> Result<Vec<u8>, String> {
//!     let question = br#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
//!     let reply = client.post(node, question.to_vec(), 64 << 10).await?;
//!     Ok(reply.body)
//! }
//!
//! # fn main() -> Result<(), TargetFault> {
//! let node = Target::parse("https://node.example/v2/KEY", PlainHttpHosts::ThisMachine)?;
//! // Errors and logs show the label only, because the path holds the API key.
//! assert_eq!(node.label().as_str(), "https://node.example:443");
//!
//! let refused = Target::parse("http://node.example/v2/KEY", PlainHttpHosts::ThisMachine);
//! assert!(matches!(refused, Err(TargetFault::PlainHttp(_))));
//! # Ok(())
//! # }
//! ```

mod client;
mod exchange;
mod label;
mod public;
mod public_client;
mod stream;
mod target;
mod tls;

pub use bytes::Bytes;
pub use client::Client;
pub use exchange::Reply;
pub use label::EndpointLabel;
pub use public::is_public;
pub use public_client::{PublicClient, PublicFault};
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};
pub use stream::{OutboundRequest, ReplyStream, SendFailure};
pub use target::{PlainHttpHosts, Target, TargetFault};
