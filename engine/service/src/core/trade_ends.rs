//! The waiters for the end of a trade. A view is published at each commit, so waiting for views would wake every caller
//! each time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bursar_core::ids::RequestId;
use bursar_domain::State;
use tokio::sync::oneshot;

type Callers = BTreeMap<RequestId, Vec<oneshot::Sender<()>>>;

/// The callers that wait, by trade, in the order in which they came; `None` once the core has stopped.
#[derive(Debug, Clone)]
pub(super) struct TradeEnds {
    // A lock instead of an owning task: it is never held across an await.
    waiting: Arc<Mutex<Option<Callers>>>,
}

impl TradeEnds {
    pub(super) fn new() -> Self {
        Self { waiting: Arc::new(Mutex::new(Some(Callers::new()))) }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Callers>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a caller. The receiver gets a message once the trade has ended, or an error once the core has stopped.
    pub(super) fn wait_for(&self, id: RequestId) -> oneshot::Receiver<()> {
        let (ended, waiting) = oneshot::channel();
        if let Some(all) = &mut *self.waiting() {
            // Drop callers that have gone away: during the minutes of a trade there may be many.
            let of_trade = all.entry(id).or_default();
            of_trade.retain(|other| !other.is_closed());
            of_trade.push(ended);
        }
        waiting
    }

    /// Wakes the callers whose trades have ended in this state.
    pub(super) fn wake(&self, state: &State) {
        if let Some(all) = &mut *self.waiting() {
            for (_id, callers) in all.extract_if(.., |id, _callers| !is_executing(state, *id)) {
                for caller in callers {
                    let _gone = caller.send(());
                }
            }
        }
    }

    /// Wakes all callers, because no trade will end any more.
    pub(super) fn stop(&self) {
        *self.waiting() = None;
    }
}

/// Returns whether a trade was allowed and has not ended.
pub(super) fn is_executing(state: &State, id: RequestId) -> bool {
    let execution = state.executing.get(&id).and_then(|request| request.execution());
    execution.is_some_and(|execution| execution.end.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> RequestId {
        RequestId::from_entropy([byte; 16])
    }

    #[tokio::test]
    async fn callers_wake_at_the_end_and_at_the_stop() {
        let ends = TradeEnds::new();
        let (first, second) = (ends.wait_for(id(1)), ends.wait_for(id(2)));
        ends.wake(&State::new(Arc::default()));
        assert_eq!((first.await, second.await), (Ok(()), Ok(())));
        let waiting = ends.wait_for(id(1));
        ends.stop();
        assert!(waiting.await.is_err());
        assert!(ends.wait_for(id(1)).await.is_err());
    }

    #[tokio::test]
    async fn callers_that_have_gone_are_forgotten() {
        let ends = TradeEnds::new();
        for _call in 0..100 {
            drop(ends.wait_for(id(1)));
        }
        let _waits = ends.wait_for(id(1));
        assert_eq!(ends.waiting().as_ref().map(|all| all[&id(1)].len()), Some(1));
    }
}
