//! Takes connections and finds them a place.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bursar_core::limits::{ACCEPT_PAUSE_MS, TURNED_AWAY};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::Connections;
use super::{Ends, serve, turn_away};

/// What the listeners of one server share.
#[derive(Debug, Clone)]
pub(crate) struct Reception {
    router: Router,
    connections: Arc<Connections>,
    /// Callers that are being told that there is no room.
    turned_away: Arc<Semaphore>,
    stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Reception {
    pub(crate) fn new(router: Router) -> Self {
        Self {
            router,
            connections: Arc::default(),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY)),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Until the server stops.
    pub(crate) async fn receive(self, listener: TcpListener) {
        loop {
            // cancel-safe: accept
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.seat(stream, peer),
                // Gone before it was its turn: that is no reason to keep the others waiting.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                }
            }
        }
    }

    /// Takes no more connections, closes the idle ones, and waits until the others have their answers.
    /// Whether they had them in time.
    pub(crate) async fn close(&self, patience: Duration) -> bool {
        self.stop.cancel();
        self.connections.close();
        self.tasks.close();
        tokio::time::timeout(patience, self.tasks.wait()).await.is_ok()
    }

    fn seat(&self, stream: TcpStream, peer: SocketAddr) {
        // A peer that has gone already has no addresses any more.
        let Ok(local) = stream.local_addr() else { return };
        // Answers are one small write: waiting to fill a packet only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let ends = Ends { peer, local };
        match self.connections.admit(peer.ip()) {
            Some(seat) => {
                self.tasks.spawn(serve(stream, ends, self.router.clone(), seat));
            }
            None => {
                // Beyond the bound they are hung up on: being polite to a flood is taking part in it.
                let Ok(permit) = Arc::clone(&self.turned_away).try_acquire_owned() else { return };
                self.tasks.spawn(async move {
                    turn_away(stream, peer).await;
                    drop(permit);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_core::limits::CONNECTIONS;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn t_40_who_finds_no_room_is_told_so_and_finds_it_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "served" }));
        let reception = Reception::new(router);
        let busy = || {
            let seat = reception.connections.admit(address.ip()).unwrap();
            assert!(seat.work());
            seat
        };
        let mut seats: Vec<_> = (0..CONNECTIONS).map(|_one| busy()).collect();
        let receiving = tokio::spawn(reception.clone().receive(listener));
        let heard = async || {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.unwrap();
            heard
        };
        let refused = heard().await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        for part in ["\r\nretry-after: 5\r\n", "\r\nconnection: close\r\n", "\"code\":\"BUSY\""] {
            assert!(refused.contains(part), "{refused}");
        }
        seats.pop();
        assert!(heard().await.ends_with("served"));
        drop(seats);
        assert!(reception.close(Duration::from_secs(60)).await);
        receiving.await.unwrap();
    }
}
