//! The time that a call may take, and its right to the response.

use std::future::Future;

use axum::http::Extensions;
use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::ANSWER_MS;
use bursar_serve::http::ResponseClaim;

/// When a call arrived. A call that measures, records and waits is answered [`ANSWER_MS`] later at the latest, and only by
/// its route.
#[derive(Debug, Clone)]
pub(super) struct CallTime {
    began_ms: u64,
    /// `None` without the HTTP edge, which alone could respond in the route's place.
    claim: Option<ResponseClaim>,
}

impl CallTime {
    /// Returns the time of a request with these extensions, which arrived now if no edge has noted when.
    pub(super) fn of(extensions: &Extensions, clock: &dyn Clock) -> Self {
        let claim = extensions.get::<ResponseClaim>().cloned();
        let began_ms = claim.as_ref().map_or_else(|| clock.mono_ms(), ResponseClaim::began_ms);
        Self { began_ms, claim }
    }

    /// Leaves the response to the route, which from here on may record the request.
    ///
    /// # Errors
    /// `BUSY` if the edge has responded already.
    pub(super) fn claim(&self) -> Result<(), Fault> {
        let is_ours = self.claim.as_ref().is_none_or(ResponseClaim::claim);
        if is_ours { Ok(()) } else { Err(Fault::new(Code::Busy)) }
    }

    /// Waits until the call must be answered.
    pub(super) async fn over(&self, clock: &dyn Clock) {
        clock.sleep_until(self.began_ms.saturating_add(ANSWER_MS)).await;
    }

    /// Does `work`, which records nothing, within the time of the call.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE` if it takes longer. The work is cancelled.
    pub(super) async fn limit<T>(
        &self,
        clock: &dyn Clock,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        // Cancel-safe: the work records nothing.
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.over(clock) => {
                let message = "The network's nodes or the price service answered too slowly to measure this request, and nothing was recorded. Ask again in a minute.";
                Err(Fault::because(Code::ChainUnavailable, message))
            }
        }
    }
}
