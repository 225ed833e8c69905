//! The edge of one server: its bounds, and the state that its connections share.

use std::sync::Arc;

use axum::Router;
use bursar_chain::ports::Clock;
use hyper::server::conn::http1;
use tokio::sync::Semaphore;

use super::bounds::Bounds;
use super::refusal::RefusalWriter;
use super::slots::Slots;

/// Bytes by which hyper's buffer exceeds the longest head.
const BUFFER_SPARE_BYTES: usize = 8 << 10;

/// The configuration of a server's edge.
#[derive(Debug, Clone)]
pub struct Edge {
    pub bounds: Bounds,
    /// Writes the responses of refusals.
    pub refuse: RefusalWriter,
    pub clock: Arc<dyn Clock>,
}

/// State that all connections of one server share.
#[derive(Debug)]
pub(super) struct ServerState {
    router: Router,
    pub(super) bounds: Arc<Bounds>,
    pub(super) refuse: RefusalWriter,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) http: http1::Builder,
    pub(super) slots: Arc<Slots>,
    /// Slots of connections that are being refused.
    pub(super) refused_slots: Arc<Slots>,
    pub(super) refusal_permits: Arc<Semaphore>,
}

impl ServerState {
    pub(super) fn new(router: Router, edge: Edge) -> Self {
        let Edge { bounds, refuse, clock } = edge;
        let bounds = Arc::new(bounds);
        let mut http = http1::Builder::new();
        // This module sets the deadlines of heads and of idle connections, so hyper needs no timer.
        http.header_read_timeout(None)
            .half_close(bounds.allow_half_close)
            .auto_date_header(bounds.send_date)
            .max_buf_size(bounds.head.bytes_max.saturating_add(BUFFER_SPARE_BYTES));
        let refused = Bounds { slots_per_peer_max: usize::MAX, ..Bounds::clone(&bounds) };
        let refused = Bounds { slots_max: bounds.refused_connections_max, ..refused };
        Self {
            router,
            slots: Slots::new(Arc::clone(&bounds)),
            refused_slots: Slots::new(Arc::new(refused)),
            refusal_permits: Arc::new(Semaphore::new(bounds.refused_connections_max)),
            bounds,
            refuse,
            clock,
            http,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.mono_ms()
    }

    pub(super) fn router(&self) -> Router {
        self.router.clone()
    }
}
