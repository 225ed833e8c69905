//! Reports whether the store accepts writes. A recent commit proves it. Without one, the first query writes a probe,
//! so an idle service writes nothing.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use tokio::sync::Mutex;

use crate::book::ledger::Ledger;
use crate::book::store::PaymentStore;

/// How long a commit proves that the store accepts writes, in milliseconds.
const COMMIT_PROOF_MS: u64 = 10_000;

/// The last proof.
#[derive(Debug, Clone, Copy)]
struct WriteProof {
    /// Number of commits at the time of the proof.
    commits: u64,
    /// The monotonic time of the proof, in milliseconds.
    at_ms: u64,
    accepts_writes: bool,
}

/// Probes the store if necessary.
#[derive(Debug)]
pub struct StoreProbe {
    payments: Arc<dyn PaymentStore>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    /// The lock is held during a probe, so that simultaneous questions cause one probe.
    last: Mutex<Option<WriteProof>>,
}

impl StoreProbe {
    pub fn new(payments: Arc<dyn PaymentStore>, ledger: Ledger, clock: Arc<dyn Clock>) -> Self {
        Self { payments, ledger, clock, last: Mutex::default() }
    }

    /// Treats any commit since the last call as a proof that the store accepts writes.
    ///
    /// It must be called every few seconds, because the call determines the age of the proof.
    pub async fn note_commits(&self) {
        let mut last = self.last.lock().await;
        self.renew(&mut last);
    }

    fn renew(&self, last: &mut Option<WriteProof>) {
        let commits = self.ledger.commits();
        let known = last.map_or(0, |proof| proof.commits);
        if commits != known {
            *last = Some(WriteProof { commits, at_ms: self.clock.mono_ms(), accepts_writes: true });
        }
    }

    /// Returns whether the store accepts writes.
    ///
    /// It writes at most once in ten seconds.
    pub async fn accepts_writes(&self) -> bool {
        let mut last = self.last.lock().await;
        self.renew(&mut last);
        let now_ms = self.clock.mono_ms();
        if let Some(proof) =
            last.filter(|proof| now_ms.saturating_sub(proof.at_ms) < COMMIT_PROOF_MS)
        {
            return proof.accepts_writes;
        }
        let accepts = self.payments.probe().await.is_ok();
        let (commits, at_ms) = (self.ledger.commits(), self.clock.mono_ms());
        *last = Some(WriteProof { commits, at_ms, accepts_writes: accepts });
        accepts
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;

    use super::*;
    use crate::book::record::RequestOrigin;
    use crate::book::redb_store::RedbPayments;
    use crate::job_key::JobKey;

    const NOW: Utc = Utc(1_700_000_000_000);

    /// Whether the file has changed since the last look.
    struct WatchedFile {
        path: std::path::PathBuf,
        bytes: Vec<u8>,
    }

    impl WatchedFile {
        fn has_changed(&mut self) -> bool {
            let before = std::mem::replace(&mut self.bytes, std::fs::read(&self.path).unwrap());
            before != self.bytes
        }
    }

    #[tokio::test]
    async fn only_a_question_without_a_recent_commit_writes_to_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        let payments: Arc<dyn PaymentStore> = Arc::new(RedbPayments::open_file(&path).unwrap().0);
        let (ledger, _open) = Ledger::load(Arc::clone(&payments), NOW).await.unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let probe = StoreProbe::new(Arc::clone(&payments), ledger.clone(), Arc::clone(&clock) as _);
        let mut file = WatchedFile { path, bytes: Vec::new() };
        file.has_changed();
        // The upkeep of an idle service writes nothing.
        for _hour in 0..3 {
            clock.advance(3_600_000);
            probe.note_commits().await;
            assert_eq!(payments.prune(clock.utc(), 1_000).await, Ok(0));
            assert!(!file.has_changed(), "an idle service writes");
        }
        for (pause_ms, writes) in [(0, true), (0, false), (9_999, false), (1, true)] {
            clock.advance(pause_ms);
            assert!(probe.accepts_writes().await);
            assert_eq!(file.has_changed(), writes, "after {pause_ms} ms");
        }
        clock.advance(20_000);
        let origin = RequestOrigin { caller: B256::ZERO, idempotency: None };
        ledger.mark_answered(JobKey(B256::ZERO), origin, NOW).await.unwrap();
        file.has_changed();
        assert!(probe.accepts_writes().await);
        assert!(!file.has_changed(), "a commit proves it");
    }
}
