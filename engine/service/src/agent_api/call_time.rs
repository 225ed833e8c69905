//! The time limit of a call, and the claim that decides whether its route or the HTTP edge responds.

use std::future::Future;

use axum::http::Extensions;
use bursar_chain::ports::Clock;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::ANSWER_TIMEOUT_MS;
use bursar_serve::http::ResponseClaim;

/// The arrival time of a call, and the claim to its response.
///
/// A route that measures, records and waits must respond within [`ANSWER_TIMEOUT_MS`] of the arrival.
#[derive(Debug, Clone)]
pub(super) struct CallTime {
    began_ms: u64,
    /// `None` if the call did not come through the HTTP edge, which alone could respond before the route.
    claim: Option<ResponseClaim>,
}

impl CallTime {
    /// Reads the arrival and the claim from the extensions of a request. Without an HTTP edge, the arrival is now.
    pub(super) fn of(extensions: &Extensions, clock: &dyn Clock) -> Self {
        let claim = extensions.get::<ResponseClaim>().cloned();
        let began_ms = claim.as_ref().map_or_else(|| clock.mono_ms(), ResponseClaim::began_ms);
        Self { began_ms, claim }
    }

    /// Claims the response for the route, which may then record the request.
    ///
    /// # Errors
    /// `BUSY` if the edge has responded already.
    pub(super) fn claim(&self) -> Result<(), Fault> {
        let is_ours = self.claim.as_ref().is_none_or(ResponseClaim::claim);
        if is_ours { Ok(()) } else { Err(Fault::new(Code::Busy)) }
    }

    /// Waits until [`ANSWER_TIMEOUT_MS`] after the arrival, when the call must be answered.
    pub(super) async fn wait_until_over(&self, clock: &dyn Clock) {
        clock.sleep_until(self.began_ms.saturating_add(ANSWER_TIMEOUT_MS)).await;
    }

    /// Runs `work`, which must record nothing, until the call's time is over.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE` if the work takes longer; the work is then cancelled.
    pub(super) async fn limit<T>(
        &self,
        clock: &dyn Clock,
        work: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        // Cancel-safe: the work records nothing.
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.wait_until_over(clock) => {
                let message = "The network's nodes or the price service answered too slowly to measure this request, and nothing was recorded. Ask again in a minute.";
                Err(Fault::because(Code::ChainUnavailable, message))
            }
        }
    }
}
