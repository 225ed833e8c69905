//! The parts that the HTTP services of this workspace share: settings, access control, self-checks, listeners, the
//! HTTP edge, logs, shutdown signals and exit codes. Each service defines its own keys and routes.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::{Router, routing::get};
//! use bursar_chain::clock::SystemClock;
//! use bursar_serve::http::{Bounds, Edge, plain_refusal, serve};
//! use bursar_serve::listen::listen;
//! use tokio_util::{sync::CancellationToken, task::TaskTracker};
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Port 0 picks a free port.
//! let (listener, address) = listen(([127, 0, 0, 1], 0).into()).await?;
//! let router = Router::new().route("/health", get(|| async { "ok" }));
//! let clock = Arc::new(SystemClock::new()?);
//! let edge = Edge { bounds: Bounds::public(100), refuse: plain_refusal(), clock };
//! let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
//! serve([listener], router, edge, &tasks, &stopping);
//! # let mut client = tokio::net::TcpStream::connect(address).await?;
//! # client
//! #     .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
//! #     .await?;
//! # let mut response = String::new();
//! # client.read_to_string(&mut response).await?;
//! # drop(client);
//! // `response` is the text that a client of `address` reads after `GET /health`.
//! assert!(response.starts_with("HTTP/1.1 200 OK") && response.ends_with("ok"));
//!
//! // Requests in progress still get their responses.
//! stopping.cancel();
//! tasks.close();
//! tasks.wait().await;
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod exit;
pub mod findings;
pub mod http;
pub mod listen;
pub mod logs;
pub mod panics;
pub mod program;
pub mod secret_file;
pub mod settings;
pub mod signals;
pub mod wait;
