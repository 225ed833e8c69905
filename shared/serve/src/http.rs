//! The HTTP/1.1 edge of a server: hyper parses and encodes, axum routes, and this module bounds every byte, wait and
//! connection.
//!
//! hyper bounds one head and one connection. This module adds the bounds that hyper lacks:
//!
//! - **Connections** ([`Bounds::slots_max`]): a total limit, a limit for each peer, and eviction. If slots run out, the
//!   peer with the most connections that wait for a request or a body loses one of them.
//! - **Half-sent heads**: hyper gets only complete heads, so a slow first head costs no hyper buffer.
//! - **Bodies**: a minimum rate and a total time for each body, and a memory limit over all requests.
//! - **Writes**: a peer that stops reading is disconnected.
//! - **Stop**: connections without a request in progress end at once.
//! - **Framing** ([`head`](self)): requests that two parsers could frame differently are refused. hyper alone would
//!   accept a repeated `Content-Length` of the same value, `Content-Length` next to `Transfer-Encoding`, bare LF as a
//!   line end, empty lines before the request line, chunk extensions, trailers and bodies of GET.
//! - **Delivery** ([`delivery`]): reports whether the kernel accepted all bytes of a response.

mod accept;
mod body;
mod bounds;
mod chunks;
mod connection;
mod deliver;
mod edge;
mod head;
mod openmetrics;
mod progress;
mod refusal;
mod service;
mod slots;
mod wire;

pub use accept::serve;
pub use bounds::{BodyBounds, Bounds, HeadBounds, Loopback, slots_for_files};
pub use deliver::{DeliveryReport, DeliverySender, delivery};
pub use edge::Edge;
pub use openmetrics::openmetrics;
pub use refusal::{Refusal, RefusalWriter, RefusedRequest, plain_refusal};
pub use service::{LocalAddress, ProvenCaller, ResponseClaim};

#[cfg(test)]
mod tests;
