//! The running agent server.

use std::net::SocketAddr;
use std::sync::Arc;

use bursar_serve::http::{self, Edge};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::api::Api;
use super::edge;
use super::lan::Exposure;
use super::router::router;

/// A running server. Dropping it does not stop it.
#[derive(Debug)]
pub struct Server {
    pub address: SocketAddr,
    pub api: Arc<Api>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Server {
    /// Whether other machines can connect.
    pub fn is_open_to_network(&self) -> bool {
        self.api.exposure == Exposure::Lan
    }

    /// Starts serving on bound listeners.
    pub fn start(api: Arc<Api>, address: SocketAddr, listeners: Vec<TcpListener>) -> Self {
        let (tasks, stopping) = (TaskTracker::new(), api.stopping.clone());
        let clock = Arc::clone(&api.ports.clock);
        let edge = Edge { bounds: edge::bounds(), refuse: edge::refuse(), clock };
        http::serve(listeners, router(Arc::clone(&api)), edge, &tasks, &stopping);
        Self { address, api, tasks, stopping }
    }

    /// Stops accepting calls, and waits at most `patience` for the calls in flight.
    pub async fn stop(&self, patience: std::time::Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("calls were still in progress when the server stopped");
        }
    }
}
