//! Caches the upstream's list of models. A list is fresh for a minute, however many callers there are. If the
//! upstream fails, the last list is served for a bounded time.

use std::sync::Arc;

use bursar_chain::ports::Clock;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::fault::{Code, Fault};
use crate::upstream::Passthrough;

/// How long a list is served before it is fetched again.
const LIST_FRESH_MS: u64 = 60_000;
/// How long a failure is served before the list is fetched again.
const FAILURE_CACHE_MS: u64 = 5_000;
/// Maximum age of a list that is served because the upstream fails.
const STALE_LIST_MS_MAX: u64 = 600_000;

/// The list, or the reason why the upstream returned none.
pub type ModelsResult = Result<Passthrough, Fault>;

/// The cached list of models.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct ModelsList {
    // The lock is held during a request to the upstream, so that simultaneous callers share the answer.
    cache: Arc<Mutex<Cache>>,
    clock: Arc<dyn Clock>,
    /// Completes requests whose callers have left.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Cache {
    /// The last list and its time.
    list: Option<(u64, Passthrough)>,
    /// The last failure and its time, unless a request has succeeded since.
    failure: Option<(u64, ModelsResult)>,
}

impl Cache {
    /// Returns the cached result, or `None` if the upstream must be asked.
    fn fresh(&self, now_ms: u64) -> Option<ModelsResult> {
        let is_younger = |at: u64, ms: u64| now_ms.saturating_sub(at) < ms;
        if let Some((at, list)) = &self.list
            && is_younger(*at, LIST_FRESH_MS)
        {
            return Some(Ok(list.clone()));
        }
        let (at, failure) = self.failure.as_ref()?;
        is_younger(*at, FAILURE_CACHE_MS).then(|| self.stale_list_or(failure, now_ms))
    }

    /// Returns the last list if it is recent enough, or else the failure.
    fn stale_list_or(&self, failure: &ModelsResult, now_ms: u64) -> ModelsResult {
        match &self.list {
            Some((at, list)) if now_ms.saturating_sub(*at) < STALE_LIST_MS_MAX => Ok(list.clone()),
            _too_old => failure.clone(),
        }
    }

    fn update(&mut self, answer: ModelsResult, now_ms: u64) -> ModelsResult {
        match answer {
            Ok(list) if list.status < 400 => {
                self.list = Some((now_ms, list.clone()));
                self.failure = None;
                Ok(list)
            }
            failure => {
                let served = self.stale_list_or(&failure, now_ms);
                self.failure = Some((now_ms, failure));
                served
            }
        }
    }
}

impl ModelsList {
    /// Creates an empty cache.
    ///
    /// Requests to the upstream run on `tasks`.
    pub fn new(clock: Arc<dyn Clock>, tasks: TaskTracker) -> Self {
        Self { cache: Arc::default(), clock, tasks }
    }

    /// Returns the list.
    ///
    /// Calls `fetch` if the cached list is not fresh.
    ///
    /// # Errors
    /// The upstream's [`Fault`], if the cached list is too old.
    pub async fn get<F>(&self, fetch: impl FnOnce() -> F) -> ModelsResult
    where
        F: Future<Output = ModelsResult> + Send + 'static,
    {
        let mut cache = Arc::clone(&self.cache).lock_owned().await;
        if let Some(known) = cache.fresh(self.clock.mono_ms()) {
            return known;
        }
        let (request, clock) = (fetch(), Arc::clone(&self.clock));
        let fetching = self.tasks.spawn(async move {
            let answer = request.await;
            cache.update(answer, clock.mono_ms())
        });
        fetching.await.unwrap_or_else(|_ended| Err(Fault::of(Code::Stopping)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_chain::clock::manual::ManualClock;
    use bursar_core::time::Utc;
    use bursar_outbound::Bytes;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn response(status: u16, text: &'static str) -> Passthrough {
        Passthrough {
            status,
            content_type: None,
            retry_after: None,
            body: Bytes::from_static(text.as_bytes()),
        }
    }

    struct Stage {
        list: ModelsList,
        clock: Arc<ManualClock>,
        requests: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::new(Utc(0)));
            let list = ModelsList::new(clock.clone(), TaskTracker::new());
            Self { list, clock, requests: Arc::default() }
        }

        async fn get(&self, answer: ModelsResult) -> ModelsResult {
            let requests = Arc::clone(&self.requests);
            self.list
                .get(|| async move {
                    requests.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    answer
                })
                .await
        }

        fn requests(&self) -> usize {
            self.requests.load(Ordering::SeqCst)
        }
    }

    #[tokio::test]
    async fn simultaneous_callers_share_one_models_request() {
        let stage = Stage::new();
        let all = (0..50).map(|_n| stage.get(Ok(response(200, "one"))));
        for list in futures::future::join_all(all).await {
            assert_eq!(list.unwrap(), response(200, "one"));
        }
        assert_eq!(stage.requests(), 1);
        stage.clock.advance(LIST_FRESH_MS - 1);
        assert_eq!(stage.get(Ok(response(200, "two"))).await.unwrap(), response(200, "one"));
        stage.clock.advance(1);
        assert_eq!(stage.get(Ok(response(200, "two"))).await.unwrap(), response(200, "two"));
        assert_eq!(stage.requests(), 2);
    }

    #[tokio::test]
    async fn the_last_models_list_is_served_for_a_bounded_time() {
        let stage = Stage::new();
        stage.get(Ok(response(200, "one"))).await.unwrap();
        let fault = || Err(Fault::of(Code::UpstreamUnavailable));
        stage.clock.advance(LIST_FRESH_MS);
        assert_eq!(stage.get(fault()).await.unwrap(), response(200, "one"));
        assert_eq!(stage.get(fault()).await.unwrap(), response(200, "one"));
        assert_eq!(stage.requests(), 2, "a failure is shared, too");
        stage.clock.advance(FAILURE_CACHE_MS);
        assert_eq!(stage.get(Ok(response(503, "no"))).await.unwrap(), response(200, "one"));
        assert_eq!(stage.requests(), 3);
        stage.clock.advance(STALE_LIST_MS_MAX - LIST_FRESH_MS - FAILURE_CACHE_MS);
        assert_eq!(stage.get(Ok(response(503, "no"))).await.unwrap(), response(503, "no"));
        assert_eq!(stage.get(fault()).await.unwrap(), response(503, "no"));
        stage.clock.advance(FAILURE_CACHE_MS);
        assert_eq!(stage.get(fault()).await, fault());
        assert_eq!(stage.get(Ok(response(200, "two"))).await, fault(), "it waits");
        stage.clock.advance(FAILURE_CACHE_MS);
        assert_eq!(stage.get(Ok(response(200, "two"))).await.unwrap(), response(200, "two"));
        stage.clock.advance(LIST_FRESH_MS);
        assert_eq!(stage.get(fault()).await.unwrap(), response(200, "two"));
        assert_eq!(stage.requests(), 7);
    }

    #[tokio::test]
    async fn a_models_request_completes_after_its_caller_left() {
        let stage = Stage::new();
        let (open, gate) = tokio::sync::oneshot::channel::<()>();
        let first = stage.list.get(|| async move {
            let _open = gate.await;
            Ok(response(200, "one"))
        });
        let mut first = Box::pin(first);
        assert!(futures::poll!(&mut first).is_pending());
        drop(first);
        open.send(()).unwrap();
        assert_eq!(stage.get(Ok(response(200, "two"))).await.unwrap(), response(200, "one"));
        assert_eq!(stage.requests(), 0);
    }
}
