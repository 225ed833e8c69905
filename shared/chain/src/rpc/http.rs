//! One POST and its bounded answer. Plain reqwest and not alloy's transport: that one reads a reply of any
//! length into memory, and writes the whole URL, API key included, into its tracing span.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

use crate::rpc::config::{ConfigError, RpcLimits};
use crate::rpc::endpoint::Endpoint;
use crate::rpc::setback::Setback;

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// A client that goes where the settings say and nowhere else: no redirects, no proxy from the
/// environment, and `localhost` is this machine whatever a name server thinks of it.
pub(super) fn client(limits: &RpcLimits) -> Result<Client, ConfigError> {
    // Port 0: the port of the URL.
    let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()];
    let timeout = Duration::from_millis(limits.attempt_timeout_ms);
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .resolve_to_addrs("localhost", &here)
        .connect_timeout(timeout)
        .timeout(timeout)
        .user_agent(concat!("bursar/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| ConfigError::Client(root_cause(&error)))
}

pub(super) async fn post(
    client: &Client,
    endpoint: &Endpoint,
    question: Vec<u8>,
    bytes_max: usize,
) -> Result<Reply, Setback> {
    let failed = |error: reqwest::Error| unreachable(endpoint, &error);
    let request = client
        .post(endpoint.url().clone())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(question);
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    if status.is_redirection() {
        return Err(Setback::Unreachable(format!("HTTP {status}: redirects are not followed")));
    }
    let body = read(response, bytes_max, failed).await?;
    Ok(Reply { status, body })
}

async fn read(
    mut response: Response,
    bytes_max: usize,
    failed: impl Fn(reqwest::Error) -> Setback,
) -> Result<Vec<u8>, Setback> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(&failed)? {
        // The announced length is a claim, and optional: what arrives is counted.
        if chunk.len() > bytes_max.saturating_sub(body.len()) {
            return Err(Setback::Unreachable(format!(
                "the answer is longer than {bytes_max} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// reqwest's own text quotes the URL; this one is ours.
fn unreachable(endpoint: &Endpoint, error: &reqwest::Error) -> Setback {
    Setback::Unreachable(if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        format!("cannot connect: {}", endpoint.scrub(&root_cause(error)))
    } else {
        "the connection broke off".to_owned()
    })
}

/// The innermost error, which knows sockets and certificates but no URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause.and_then(Error::source) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "unknown reason".to_owned(), ToString::to_string)
}
