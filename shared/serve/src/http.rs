//! The HTTP/1.1 edge of a server: hyper parses and encodes, axum routes, and this module bounds every byte, wait and
//! connection.
//!
//! hyper bounds one head and one connection. What it does not bound, and what this module therefore adds:
//!
//! - **Connections** ([`Bounds::slots`]): slots for all of them, a share for each peer, and eviction. Where slots run
//!   out, the peer with the most connections that wait for a request or a body loses one of them.
//! - **Half-sent heads**: a head reaches hyper when it is whole, so a slow head costs its own bytes and no hyper buffer.
//! - **Bodies**: a pace, a total time and a memory limit over all requests.
//! - **Writes**: a peer that stops reading is disconnected.
//! - **Stop**: connections without a request in progress end at once.
//! - **One reading** ([`head`](self)): a request that two readers could frame in two ways is refused. hyper accepts a
//!   repeated `Content-Length` of the same value, `Content-Length` next to `Transfer-Encoding`, bare LF as a line end,
//!   empty lines before the request line, chunk extensions, trailers and bodies of GET.
//! - **Delivery** ([`delivery`]): whether the kernel accepted all bytes of a response.

mod accept;
mod body;
mod bounds;
mod chunks;
mod connection;
mod deliver;
mod head;
mod progress;
mod refusal;
mod service;
mod slots;
mod wire;

pub use accept::{Edge, serve};
pub use bounds::{BodyBounds, Bounds, HeadBounds, Loopback, slots};
pub use deliver::{Delivered, Delivery, delivery};
pub use refusal::{Refusal, Refuse, Refused, plain_refusal};
pub use service::{LocalAddress, ProvenCaller};

#[cfg(test)]
mod tests;
