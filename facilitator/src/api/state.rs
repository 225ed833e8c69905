//! The state that all requests share.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_serve::access::Access;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::catalogue::Catalogue;
use crate::health::ServiceHealth;
use crate::metrics::Metrics;
use crate::settle::intake::SettlementService;
use crate::store_probe::StoreProbe;

/// The state that all requests share.
#[derive(Debug)]
pub struct Api {
    pub settlement: SettlementService,
    pub catalogue: Catalogue,
    pub metrics: Arc<Metrics>,
    pub access: Access,
    pub clock: Arc<dyn Clock>,
    pub stopping: CancellationToken,
    pub health: Arc<ServiceHealth>,
    pub store: Arc<StoreProbe>,
    /// Tasks that record whether successes were written.
    pub deliveries: TaskTracker,
}
