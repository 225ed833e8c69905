//! One connection from its first byte to its end.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bursar_chain::ports::BoxFuture;
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncWrite};

use super::edge::ServerState;
use super::progress::{ConnectionState, DeadlineAction, Phase, Signal};
use super::refusal::{Refusal, encode};
use super::service::{ConnectionAddresses, RefusedHead, refuse, respond};
use super::slots::ConnectionGuard;
use super::wire::Wire;

/// Serves a connection that has a slot.
pub(super) async fn serve<S>(
    stream: S,
    addresses: ConnectionAddresses,
    guard: ConnectionGuard,
    shared: Arc<ServerState>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let link = Arc::clone(&guard.link);
    let mut watch = Watch::new(&shared, &link);
    let mut wire = Wire::new(stream, guard, Arc::clone(&shared));
    // hyper allocates its buffers only once there is a head.
    let Some(has_head) = watch.run(|cx, _stop| wire.poll_head(cx)).await else { return };
    if !has_head {
        return finish(wire, addresses, &mut watch).await;
    }
    let service =
        service_fn(|request| respond(request, addresses, Arc::clone(&link), Arc::clone(&shared)));
    let mut connection = shared.http.serve_connection(wire, service);
    let ended = watch.run(|cx, stop| {
        if stop {
            Pin::new(&mut connection).graceful_shutdown();
        }
        Pin::new(&mut connection).poll(cx)
    });
    match ended.await {
        Some(Ok(())) => {
            let wire = connection.into_parts().io;
            finish(wire, addresses, &mut watch).await;
        }
        Some(Err(fault)) => tracing::debug!(%fault, peer = %addresses.peer, "connection failed"),
        None => {}
    }
}

/// Refuses a connection that has no slot.
pub(super) async fn refuse_connection<S>(
    stream: S,
    addresses: ConnectionAddresses,
    guard: ConnectionGuard,
    shared: Arc<ServerState>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let link = Arc::clone(&guard.link);
    link.progress().refuse(Refusal::Busy, shared.now());
    let mut watch = Watch::new(&shared, &link);
    finish(Wire::new(stream, guard, Arc::clone(&shared)), addresses, &mut watch).await;
}

/// Writes the pending refusal, if any, and closes the socket.
async fn finish<S>(wire: Wire<S>, addresses: ConnectionAddresses, watch: &mut Watch<'_>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let refusal = {
        let mut progress = watch.link.progress();
        progress.enter(Phase::Linger, watch.shared.now());
        progress.take_refusal()
    };
    let bytes = match refusal {
        Some(why) => {
            encode(refuse(watch.shared, why, RefusedHead::default(), addresses, watch.link)).await
        }
        None if wire.has_ended() => return,
        None => Vec::new(),
    };
    let mut lingering = pin!(wire.linger(&bytes));
    let _ended_or_cut = watch.run(|cx, _stop| lingering.as_mut().poll(cx)).await;
}

/// Ends a connection at its deadline, on eviction, or when the server stops.
struct Watch<'a> {
    shared: &'a ServerState,
    link: &'a Arc<ConnectionState>,
    /// The timer, and the time at which it fires.
    timer: Option<(u64, BoxFuture<'a, ()>)>,
    stopping: bool,
}

/// The next step of a connection.
enum NextStep {
    Wait,
    /// Poll again, because the state has changed.
    PollAgain,
    End,
}

impl<'a> Watch<'a> {
    fn new(shared: &'a ServerState, link: &'a Arc<ConnectionState>) -> Self {
        Self { shared, link, timer: None, stopping: false }
    }

    /// Polls `work`, and passes `true` to it once when the server stops.
    ///
    /// Resolves to `None` if the connection must end before the work is done.
    fn run<T>(
        &mut self,
        mut work: impl FnMut(&mut Context<'_>, bool) -> Poll<T>,
    ) -> impl Future<Output = Option<T>> {
        let mut has_passed_stop = false;
        poll_fn(move |cx| {
            loop {
                let stop = self.stopping && !std::mem::replace(&mut has_passed_stop, self.stopping);
                if let Poll::Ready(done) = work(cx, stop) {
                    return Poll::Ready(Some(done));
                }
                match self.check_signal(cx) {
                    NextStep::Wait => return Poll::Pending,
                    NextStep::PollAgain => {}
                    NextStep::End => return Poll::Ready(None),
                }
            }
        })
    }

    fn check_signal(&mut self, cx: &mut Context<'_>) -> NextStep {
        self.link.waker.register(cx.waker());
        match self.link.signal() {
            Signal::Open => {}
            Signal::Evicted => return NextStep::End,
            Signal::Stop => {
                let mut progress = self.link.progress();
                if progress.has_no_request() {
                    return NextStep::End;
                }
                if !std::mem::replace(&mut self.stopping, true) {
                    progress.stop(self.shared.now());
                    return NextStep::PollAgain;
                }
            }
        }
        self.check_deadline(cx)
    }

    fn check_deadline(&mut self, cx: &mut Context<'_>) -> NextStep {
        let Some((at, due)) = self.link.progress().next_deadline(&self.shared.bounds) else {
            return NextStep::Wait;
        };
        // Keep the old timer if the new deadline is later. The timer is set again when it fires, which is rare,
        // because most requests end before that.
        if self.timer.as_ref().is_none_or(|(set, _timer)| *set > at) {
            self.timer = Some((at, self.shared.clock.sleep_until(at)));
        }
        loop {
            let Some((set, timer)) = &mut self.timer else { return NextStep::Wait };
            if timer.as_mut().poll(cx).is_pending() {
                return NextStep::Wait;
            }
            if *set >= at {
                break;
            }
            self.timer = Some((at, self.shared.clock.sleep_until(at)));
        }
        self.timer = None;
        match due {
            DeadlineAction::Close => NextStep::End,
            DeadlineAction::Refuse(refusal) => {
                self.link.progress().refuse(refusal, self.shared.now());
                NextStep::PollAgain
            }
        }
    }
}
