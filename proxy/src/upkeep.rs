//! Periodic tasks: look up pending settlements, and delete old payments.

use futures::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::book::PaymentId;
use crate::book::keeper::Claim;
use crate::sell::Seller;

/// Interval between lookups of pending settlements.
const LOOK_MS: u64 = 5_000;
/// Number of concurrent lookups. One slow answer of the facilitator does not delay all others.
const AT_ONCE: usize = 8;
/// Interval between sweeps.
const SWEEP_MS: u64 = 300_000;
/// Maximum number of payments deleted per commit.
const SWEEP_MAX: usize = 1_000;
/// How long answers are stored.
const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;
/// How long after its expiry a payment may still be found settled.
const LATE_SECONDS: u64 = 3_600;

/// Looks up pending settlements until the service stops.
pub(crate) async fn look(seller: Seller, stopping: CancellationToken) {
    loop {
        let parts = seller.parts();
        // Each payment is claimed before it is written, so a record has one writer.
        let looked = stream::iter(parts.keeper.pending())
            .for_each_concurrent(AT_ONCE, |id| reconcile(&seller, id));
        // cancel-safe: whatever was begun is either on disk or begun again.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = looked => {}
        }
        parts.metrics.busy.set(i64::try_from(parts.keeper.busy()).unwrap_or(i64::MAX));
        let pending = parts.keeper.pending().len();
        parts.metrics.pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        if !is_time(&seller, LOOK_MS, &stopping).await {
            return;
        }
    }
}

/// Deletes old payments until the service stops. A separate task, because lookups must not wait for it.
pub(crate) async fn forget(seller: Seller, stopping: CancellationToken) {
    loop {
        // cancel-safe: a commit that was begun goes on.
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sweep(&seller) => {}
        }
        if !is_time(&seller, SWEEP_MS, &stopping).await {
            return;
        }
    }
}

/// Waits for `ms`. Returns false if the service stops.
async fn is_time(seller: &Seller, ms: u64, stopping: &CancellationToken) -> bool {
    let clock = &seller.parts().clock;
    let wake = clock.mono_ms().saturating_add(ms);
    // cancel-safe: both only wait.
    tokio::select! {
        () = stopping.cancelled() => false,
        () = clock.sleep_until(wake) => true,
    }
}

async fn reconcile(seller: &Seller, id: PaymentId) {
    let parts = seller.parts();
    let Ok(Some(record)) = parts.keeper.find(id).await else { return };
    // The task that holds the payment writes it. Retry at the next interval.
    let Claim::Mine(_held) = parts.keeper.claim(id, &record.body) else { return };
    let Ok(Some(record)) = parts.keeper.find(id).await else { return };
    let now = u64::try_from(parts.clock.utc().0).unwrap_or(0) / 1_000;
    let over = now > record.ends.saturating_add(LATE_SECONDS);
    seller.reconcile(record, over).await;
}

async fn sweep(seller: &Seller) {
    let parts = seller.parts();
    let now = parts.clock.utc().0;
    loop {
        match parts.keeper.sweep(now, KEPT_MS, SWEEP_MAX).await {
            // The rest is recent, or still needed.
            Ok(forgotten) if forgotten < SWEEP_MAX => return,
            Ok(_many) => {}
            Err(fault) => {
                tracing::warn!(%fault, "ended payments could not be deleted");
                return;
            }
        }
    }
}
