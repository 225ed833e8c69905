//! Loads the results of the scan, and saves them seldom and on a blocking thread.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use bursar_core::limits::{SCAN_SAVE_IDLE_INTERVAL_MS, SCAN_SAVE_INTERVAL_MS};

use super::file;
use super::results::{SaveUrgency, Scan};
use super::store::ScanStore;
use crate::blocking::blocking;

/// Restores the saved results. If that is not possible, the scan starts from the beginning.
pub(super) fn load(scan: &Scan, store: &dyn ScanStore) {
    let loaded = store.load().map_err(|error| error.to_string());
    let findings = loaded.and_then(|data| match data {
        Some(data) => file::decode(&data).map_err(str::to_owned),
        None => Ok(Default::default()),
    });
    match findings {
        Ok(findings) => scan.restore(findings),
        Err(why) => tracing::warn!(
            why,
            "the file of the scan for lending is not used: the scan starts again"
        ),
    }
}

/// Saves the results when they change, after a delay that depends on the urgency. Runs until it is dropped.
pub(super) async fn save_changes(scan: &Scan, store: &Arc<dyn ScanStore>, clock: &Arc<dyn Clock>) {
    let mut unsaved = scan.watch_urgency();
    let mut saved_ms = clock.mono_ms();
    loop {
        let due_ms = match *unsaved.borrow_and_update() {
            SaveUrgency::Nothing => u64::MAX,
            SaveUrgency::NewBlocks => saved_ms.saturating_add(SCAN_SAVE_IDLE_INTERVAL_MS),
            SaveUrgency::Progress => saved_ms.saturating_add(SCAN_SAVE_INTERVAL_MS),
            SaveUrgency::CaughtUp => 0,
        };
        // cancel-safe: both branches only wait. The timer comes first, because a scan that catches up reports changes
        // all the time.
        tokio::select! {
            biased;
            () = clock.sleep_until(due_ms) => {
                saved_ms = clock.mono_ms();
                save(scan, store).await;
            }
            changed = unsaved.changed() => if changed.is_err() { return },
        }
    }
}

/// Saves the results, if some are not saved yet.
pub(super) async fn save_unsaved(scan: &Scan, store: &Arc<dyn ScanStore>) {
    if *scan.watch_urgency().borrow() > SaveUrgency::Nothing {
        save(scan, store).await;
    }
}

async fn save(scan: &Scan, store: &Arc<dyn ScanStore>) {
    let findings = scan.copy_to_save();
    let store = Arc::clone(store);
    let saved = blocking(move || match file::encode(&findings) {
        Some(data) => store.save(&data).map_err(|error| error.to_string()),
        None => Err("it cannot be encoded".to_owned()),
    });
    let saved = saved.await.unwrap_or_else(|fault| Err(fault.to_string()));
    if let Err(why) = saved {
        tracing::warn!(why, "the results of the scan for lending are not saved");
        scan.raise_urgency(SaveUrgency::NewBlocks);
    }
}
