//! One request between hyper and the routes.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::extract::ConnectInfo;
use axum::response::Response;
use http::{HeaderValue, Method, Request, header};
use hyper::body::Incoming;
use tower::Service;

use super::body::{RequestBody, ResponseBody};
use super::deliver::DeliverySender;
use super::edge::ServerState;
use super::progress::{ConnectionState, ResponseState};
use super::refusal::{Refusal, RefusedRequest};

/// The server's address of a connection, as an extension of each request.
///
/// The peer's address is in axum's `ConnectInfo`.
#[derive(Debug, Clone, Copy)]
pub struct LocalAddress(pub SocketAddr);

/// Marks a response whose caller has proven its identity, such as by a signature.
///
/// A route puts this marker into `response.extensions_mut()`. The peer's connections of unproven callers are then
/// evicted before this one.
#[derive(Debug, Clone, Copy)]
pub struct ProvenCaller;

/// A route's claim to respond itself, as an extension of each request.
///
/// A route claims its response before it causes an effect that only its own response can report correctly.
#[derive(Debug, Clone)]
pub struct ResponseClaim {
    link: Arc<ConnectionState>,
    began_ms: u64,
}

impl ResponseClaim {
    /// Returns when the request's first byte arrived, in milliseconds of the server's clock.
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Leaves the response to the route: the edge no longer responds in its place.
    ///
    /// If the route does not respond within twice [`Bounds::handler_ms`](super::bounds::Bounds::handler_ms), the
    /// connection ends without a response.
    ///
    /// Returns `false` if the edge has refused the request already. The route must then cause no effect.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.link.progress().claim()
    }
}

/// The addresses of both ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionAddresses {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

/// Returns the response of the routes, or the edge's refusal if the edge refuses the request first.
pub(super) async fn respond(
    request: Request<Incoming>,
    addresses: ConnectionAddresses,
    link: Arc<ConnectionState>,
    shared: Arc<ServerState>,
) -> Result<Response<ResponseBody>, Infallible> {
    let method = request.method().clone();
    let origin = request.headers().get(header::ORIGIN).cloned();
    let body = |inner| RequestBody::new(inner, Arc::clone(&link), Arc::clone(&shared));
    let mut request = request.map(body);
    request.extensions_mut().insert(ConnectInfo(addresses.peer));
    request.extensions_mut().insert(LocalAddress(addresses.local));
    let began_ms = link.progress().request_start_ms;
    request.extensions_mut().insert(ResponseClaim { link: Arc::clone(&link), began_ms });
    let mut routed = pin!(None);
    let mut request = Some(request);
    let response = poll_fn(|cx| {
        let refusal = || link.progress().take_refusal();
        if let Some(refusal) = refusal() {
            return Poll::Ready(Err(refusal));
        }
        // A request that is already refused does not reach its route.
        if let Some(request) = request.take() {
            routed.set(Some(shared.router().call(request)));
        }
        let Some(routes) = routed.as_mut().as_pin_mut() else { return Poll::Pending };
        match (routes.poll(cx), refusal()) {
            (_any, Some(refusal)) => Poll::Ready(Err(refusal)),
            (Poll::Ready(Ok(response)), None) => Poll::Ready(Ok(response)),
            (Poll::Pending, None) => Poll::Pending,
        }
    });
    let response = match response.await {
        Ok(response) => response,
        Err(why) => {
            let head = RefusedHead { method: Some(&method), origin: origin.as_ref() };
            refuse(&shared, why, head, addresses, &link)
        }
    };
    Ok(start_response(response, &method, link))
}

/// The values of a request's head that a refusal reports, as far as the head was read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RefusedHead<'a> {
    method: Option<&'a Method>,
    origin: Option<&'a HeaderValue>,
}

/// Builds the response of a refusal.
pub(super) fn refuse(
    shared: &ServerState,
    why: Refusal,
    head: RefusedHead<'_>,
    addresses: ConnectionAddresses,
    link: &ConnectionState,
) -> Response {
    let took_ms = shared.now().saturating_sub(link.progress().request_start_ms);
    let peer = addresses.peer.ip();
    let RefusedHead { method, origin } = head;
    shared.refuse.response(&RefusedRequest { why, method, origin, peer, took_ms })
}

/// Records a response before hyper gets it.
fn start_response(
    mut response: Response,
    method: &Method,
    link: Arc<ConnectionState>,
) -> Response<ResponseBody> {
    let delivery = response.extensions_mut().remove::<DeliverySender>();
    if response.extensions_mut().remove::<ProvenCaller>().is_some() {
        link.prove();
    }
    let is_unread = {
        let mut progress = link.progress();
        progress.response = ResponseState::Started;
        progress.delivery = delivery;
        progress.is_unread()
    };
    if is_unread {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let (parts, body) = response.into_parts();
    let body = ResponseBody::new(body, link, method, parts.status, &parts.headers);
    Response::from_parts(parts, body)
}
