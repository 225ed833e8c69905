//! HTTP/1.1 and 1.0 for agents: one request after the other on each connection, every byte and every wait
//! bounded. The routes are axum's; the rules of the wire are ours, because the bounds that are promised
//! here are none that a library keeps.

mod accept;
mod body;
mod connections;
mod framing;
mod head;
mod reply;
mod wire;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, Response};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{HANDLER_MS, IDLE_MS, KEPT_BYTES};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tower::Service;

use super::calls;
use super::host::LocalAddress;
use super::reply::Answer;
pub(super) use accept::Reception;
use connections::Seat;
use framing::Framing;
use head::Head;
use reply::After;
use wire::{Broken, Wire};

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
}

/// Serves one connection to its end.
async fn serve<S>(stream: S, ends: Ends, router: Router, seat: Seat)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection =
        Connection { wire: Wire::new(stream), out: Vec::new(), router, ends, seat };
    while connection.has_next().await {
        match connection.exchange().await {
            Ok(After::Continue | After::SayContinue) => {}
            Ok(After::Close) => return connection.wire.linger().await,
            Err(Gone) => return,
        }
    }
}

/// Tells a caller that there is no room for it.
async fn turn_away<S>(stream: S, peer: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut wire, mut out) = (Wire::new(stream), Vec::new());
    let response = Answer::from(Fault::new(Code::Busy)).into_http();
    calls::log("-", None, &response, Instant::now(), peer);
    reply::encode(&mut out, response, false, After::Close).await;
    if wire.write(&out).await.is_ok() {
        wire.linger().await;
    }
}

/// The peer is there no more, or does not read.
struct Gone;

#[derive(Debug)]
struct Connection<S> {
    wire: Wire<S>,
    /// The answer, kept for the next one's sake.
    out: Vec<u8>,
    router: Router,
    ends: Ends,
    seat: Seat,
}

/// What came of a request: the answer, and whether its body has been read.
struct Answered {
    response: Response<Body>,
    read_body: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Waits for the first byte of a request. An idle connection that is given up, or that the peer ends,
    /// is closed without a word.
    async fn has_next(&mut self) -> bool {
        if !self.seat.rest() {
            return false;
        }
        if !self.wire.buffer.is_empty() {
            return true;
        }
        self.wire.trim();
        if self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
        let idle = Duration::from_millis(IDLE_MS);
        // cancel-safe: a read that is dropped has read nothing, and whoever is given up reads no more.
        tokio::select! {
            biased;
            () = self.seat.given_up() => false,
            read = timeout(idle, self.wire.read()) => matches!(read, Ok(Ok(count)) if count > 0),
        }
    }

    /// One request and its answer.
    async fn exchange(&mut self) -> Result<After, Gone> {
        let started = Instant::now();
        // Until its head is whole a request keeps nobody out: one byte is cheap to send.
        // cancel-safe: whoever is given up reads no more.
        let head = tokio::select! {
            biased;
            () = self.seat.given_up() => return Err(Gone),
            head = head::read(&mut self.wire) => head,
        };
        let Head { request, framing, keeps_alive, waits_for_continue } = match head {
            Ok(head) => head,
            Err(broken) => return self.refuse(broken, None, started).await,
        };
        if !self.seat.work() {
            return Err(Gone);
        }
        let is_old = request.version() == axum::http::Version::HTTP_10;
        let method = request.method().clone();
        let answered = match self.answer(request, framing, waits_for_continue).await {
            Ok(answered) => answered,
            Err(broken) => return self.refuse(broken, Some(method), started).await,
        };
        // A body that was not read would be taken for the next request.
        let unread = framing != Framing::Empty && !answered.read_body;
        let after = match (keeps_alive && !unread && !self.seat.is_closing(), is_old) {
            (false, _) => After::Close,
            (true, true) => After::SayContinue,
            (true, false) => After::Continue,
        };
        let to_head = method == Method::HEAD;
        reply::encode(&mut self.out, answered.response, to_head, after).await;
        self.send().await.map(|()| after)
    }

    /// Has the routes answer, and reads the body if they ask for it.
    async fn answer(
        &mut self,
        request: Request<()>,
        framing: Framing,
        waits_for_continue: bool,
    ) -> Result<Answered, Broken> {
        let (body, asked) = match framing {
            Framing::Empty => (Body::empty(), None),
            Framing::Length(_) | Framing::Chunked => {
                let (body, asked) = body::on_demand();
                (body, Some(asked))
            }
        };
        let mut request = request.map(|()| body);
        request.extensions_mut().insert(ConnectInfo(self.ends.peer));
        request.extensions_mut().insert(LocalAddress(self.ends.local));
        let patience = Duration::from_millis(HANDLER_MS);
        let answering = timeout(patience, self.router.call(request));
        tokio::pin!(answering);
        let mut read_body = false;
        let mut room = self.seat.room();
        let answered = match asked {
            None => answering.await,
            // cancel-safe: the answer goes on where it stands, and an ask is not lost by not looking.
            Some(asked) => tokio::select! {
                biased;
                answered = &mut answering => answered,
                Ok(give) = asked => {
                    // What reads a body does nothing before it has it, so it may be dropped here.
                    let bytes =
                        body::read(&mut self.wire, framing, waits_for_continue, &mut room).await?;
                    read_body = true;
                    let _answered_meanwhile = give.send(bytes);
                    answering.await
                }
            },
        };
        match answered {
            Ok(Ok(response)) => Ok(Answered { response, read_body }),
            Ok(Err(never)) => match never {},
            Err(_elapsed) => Err(Code::Busy.into()),
        }
    }

    /// Tells why this request gets no other answer; it is the last of its connection.
    async fn refuse(
        &mut self,
        broken: Broken,
        method: Option<Method>,
        started: Instant,
    ) -> Result<After, Gone> {
        let Broken::Refused(fault) = broken else { return Err(Gone) };
        let response = Answer::from(fault).into_http();
        let name = method.as_ref().map_or("-", Method::as_str);
        calls::log(name, None, &response, started, self.ends.peer);
        let to_head = method == Some(Method::HEAD);
        reply::encode(&mut self.out, response, to_head, After::Close).await;
        self.send().await.map(|()| After::Close)
    }

    async fn send(&mut self) -> Result<(), Gone> {
        self.wire.write(&self.out).await.map_err(|_gone| Gone)
    }
}

#[cfg(test)]
mod tests;
