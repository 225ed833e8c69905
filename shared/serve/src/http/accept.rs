//! Accepts connections and assigns each a slot.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection;
use super::edge::{Edge, ServerState};
use super::service::ConnectionAddresses;

/// Pause after a failed accept. If files have run out, an immediate retry would only burn CPU.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Delay between the end of a flood and the release of its memory.
const RELEASE_DELAY_MS: u64 = 1_000;

/// Serves `router` on all `listeners` until `stopping` is cancelled.
///
/// All tasks are spawned on `tracker`.
///
/// When `stopping` is cancelled, the listeners close, and connections without a request in progress end at once.
/// Other connections end after their responses; a caller that cannot wait for them drops the runtime.
pub fn serve(
    listeners: impl IntoIterator<Item = TcpListener>,
    router: Router,
    edge: Edge,
    tracker: &TaskTracker,
    stopping: &CancellationToken,
) {
    let shared = Arc::new(ServerState::new(router, edge));
    tracker.spawn(release_memory(Arc::clone(&shared), stopping.clone()));
    for listener in listeners {
        let acceptor = Acceptor {
            shared: Arc::clone(&shared),
            tracker: tracker.clone(),
            stopping: stopping.clone(),
        };
        tracker.spawn(acceptor.run(listener));
    }
}

/// Returns memory to the system after a flood of connections.
async fn release_memory(shared: Arc<ServerState>, stopping: CancellationToken) {
    let release = async {
        loop {
            shared.slots.memory_freed.notified().await;
            // Other connections of the flood end during the delay.
            shared.clock.sleep_until(shared.now().saturating_add(RELEASE_DELAY_MS)).await;
            let _ended = tokio::task::spawn_blocking(bursar_heap::release_free_pages).await;
        }
    };
    // cancel-safe: a release that has begun runs to its end on its blocking thread.
    tokio::select! {
        () = stopping.cancelled() => {}
        () = release => {}
    }
}

/// Accepts the connections of one listener.
struct Acceptor {
    shared: Arc<ServerState>,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        loop {
            // cancel-safe: a cancelled accept loses no connection.
            let accepted = tokio::select! {
                biased;
                () = self.stopping.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                // The peer left while it was queued. The next connection is accepted without a delay.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    let retry_at = self.shared.now().saturating_add(ACCEPT_PAUSE_MS);
                    self.shared.clock.sleep_until(retry_at).await;
                }
            }
        }
        self.shared.slots.stop();
        self.shared.refused_slots.stop();
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        // The socket of a peer that has already left has no address.
        let Ok(local) = stream.local_addr() else { return };
        // Sends each write at once: Nagle's algorithm would only delay responses.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let addresses = ConnectionAddresses { peer, local };
        let shared = Arc::clone(&self.shared);
        if let Some(guard) = shared.slots.admit(peer.ip(), shared.now()) {
            self.tracker.spawn(connection::serve(stream, addresses, guard, shared));
            return;
        }
        // More refusals at once would only help a flood, so further connections are closed without a response.
        let Ok(permit) = Arc::clone(&shared.refusal_permits).try_acquire_owned() else { return };
        let Some(guard) = shared.refused_slots.admit(peer.ip(), shared.now()) else { return };
        self.tracker.spawn(async move {
            connection::refuse_connection(stream, addresses, guard, shared).await;
            drop(permit);
        });
    }
}
