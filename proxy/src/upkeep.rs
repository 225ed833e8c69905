//! Periodic tasks: look up pending settlements, delete old payments, and return memory to the system.

use bursar_serve::wait::pause;
use futures::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::book::PaymentId;
use crate::book::ledger::ClaimResult;
use crate::sell::Seller;

/// Interval between lookups of pending settlements.
const RECONCILE_INTERVAL_MS: u64 = 5_000;
/// Number of concurrent lookups, so that one slow answer of the facilitator does not delay all others.
const CONCURRENT_LOOKUPS_MAX: usize = 8;
/// Interval between sweeps.
const SWEEP_INTERVAL_MS: u64 = 300_000;
/// Maximum number of payments deleted per commit.
const SWEPT_PAYMENTS_MAX: usize = 1_000;
/// Delay between the end of a long answer and the release of its memory.
const RELEASE_DELAY_MS: u64 = 1_000;
/// How long answers are stored.
const RETENTION_MS: i64 = 24 * 60 * 60 * 1_000;
/// How long a settlement is still looked up after its payment has expired.
const LOOKUP_AFTER_EXPIRY_SECONDS: u64 = 3_600;

/// Looks up pending settlements until the service stops.
pub(crate) async fn reconcile_pending(seller: Seller, stopping: CancellationToken) {
    loop {
        let deps = seller.deps();
        // Each payment is claimed before it is written, so a record has one writer.
        let lookups = stream::iter(deps.ledger.pending())
            .for_each_concurrent(CONCURRENT_LOOKUPS_MAX, |id| reconcile(&seller, id));
        // cancel-safe: unfinished work is on disk, or starts again at the next interval.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = lookups => {}
        }
        deps.metrics.busy.set(i64::try_from(deps.ledger.held_count()).unwrap_or(i64::MAX));
        let pending = deps.ledger.pending().len();
        deps.metrics.pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        if !pause(&*seller.deps().clock, RECONCILE_INTERVAL_MS, &stopping).await {
            return;
        }
    }
}

/// Deletes old payments until the service stops. A separate task, because lookups must not wait for it.
pub(crate) async fn delete_old(seller: Seller, stopping: CancellationToken) {
    loop {
        // cancel-safe: a commit that has started completes in the writer.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sweep(&seller) => {}
        }
        if !pause(&*seller.deps().clock, SWEEP_INTERVAL_MS, &stopping).await {
            return;
        }
    }
}

/// Returns memory to the system after long answers, until the service stops. Otherwise the allocator would keep it.
pub(crate) async fn release_memory(seller: Seller, stopping: CancellationToken) {
    loop {
        // cancel-safe: it only waits.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = seller.deps().answers.wait_for_freed_memory() => {}
        }
        // Waits, so that further answers of a burst can end first.
        if !pause(&*seller.deps().clock, RELEASE_DELAY_MS, &stopping).await {
            return;
        }
        let _ended = tokio::task::spawn_blocking(bursar_heap::release_free_pages).await;
    }
}

async fn reconcile(seller: &Seller, id: PaymentId) {
    let deps = seller.deps();
    let Ok(Some(record)) = deps.ledger.find(id).await else { return };
    // If another task holds the payment, the next interval retries.
    let ClaimResult::Held(_held) = deps.ledger.claim(id, &record.body) else { return };
    let Ok(Some(record)) = deps.ledger.find(id).await else { return };
    let now = u64::try_from(deps.clock.utc().0).unwrap_or(0) / 1_000;
    let expired = now > record.expires_at.saturating_add(LOOKUP_AFTER_EXPIRY_SECONDS);
    seller.reconcile(record, expired).await;
}

async fn sweep(seller: &Seller) {
    let deps = seller.deps();
    let now = deps.clock.utc().0;
    loop {
        match deps.ledger.sweep(now, RETENTION_MS, SWEPT_PAYMENTS_MAX).await {
            // The remaining payments are recent, or still needed.
            Ok(deleted) if deleted < SWEPT_PAYMENTS_MAX => return,
            Ok(_many) => {}
            Err(fault) => {
                tracing::warn!(%fault, "ended payments could not be deleted");
                return;
            }
        }
    }
}
