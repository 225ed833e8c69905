//! Sends one request to the endpoints, within a time budget and as far as their breakers permit.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::value::RawValue;
use tokio::time::Sleep;
use tracing::debug;

use crate::ports::{BoxFuture, ChainFault, ChainReply};
use crate::rpc::RpcChain;
use crate::rpc::endpoint::{Admission, Endpoint, Permit};
use crate::rpc::envelope::Call;
use crate::rpc::health::Health;
use crate::rpc::quantity::Unusable;
use crate::rpc::setback::{Setback, Tally};

/// Sends the request to one endpoint.
pub(super) type EndpointRequest<'a, T> =
    dyn Fn(&'a Endpoint) -> BoxFuture<'a, Result<T, Setback>> + Send + Sync + 'a;

impl RpcChain {
    pub(super) fn ask<'a, T, D>(&'a self, call: Call, decode: D) -> ChainReply<'a, T>
    where
        T: Send + 'a,
        D: Fn(&RawValue) -> Result<T, Unusable> + Send + Sync + 'a,
    {
        let step = self.endpoint_request(call, decode);
        Box::pin(async move { self.run_in_order(&step).await })
    }

    /// Asks every endpoint: see [`RpcChain::run_everywhere`].
    pub(super) fn ask_everywhere<'a, T, D>(&'a self, call: Call, decode: D) -> ChainReply<'a, T>
    where
        T: Send + 'a,
        D: Fn(&RawValue) -> Result<T, Unusable> + Send + Sync + 'a,
    {
        let step = self.endpoint_request(call, decode);
        Box::pin(async move { self.run_everywhere(&step).await })
    }

    /// Returns whether something is true at any endpoint: see [`RpcChain::run_anywhere`].
    pub(super) fn ask_anywhere<'a, D>(&'a self, call: Call, decode: D) -> ChainReply<'a, bool>
    where
        D: Fn(&RawValue) -> Result<bool, Unusable> + Send + Sync + 'a,
    {
        let step = self.endpoint_request(call, decode);
        Box::pin(async move { self.run_anywhere(&step).await })
    }

    /// Builds the request to one endpoint, with its identity check.
    pub(super) fn endpoint_request<'a, T, D>(
        &'a self,
        call: Call,
        decode: D,
    ) -> impl Fn(&'a Endpoint) -> BoxFuture<'a, Result<T, Setback>> + Send + Sync + 'a
    where
        T: Send + 'a,
        D: Fn(&RawValue) -> Result<T, Unusable> + Send + Sync + 'a,
    {
        let job = Arc::new((call, decode));
        move |endpoint: &'a Endpoint| -> BoxFuture<'a, Result<T, Setback>> {
            let job = Arc::clone(&job);
            Box::pin(async move {
                self.ensure_identity(endpoint).await?;
                self.exchange(endpoint, &job.0, &job.1).await
            })
        }
    }

    /// Asks the endpoints in their order until one gives a final answer.
    pub(super) async fn run_in_order<'a, T>(
        &'a self,
        step: &EndpointRequest<'a, T>,
    ) -> Result<T, ChainFault> {
        let total = Duration::from_millis(self.config.limits.total_timeout_ms);
        let mut budget = pin!(tokio::time::sleep(total));
        let mut tally = Tally::default();
        let mut cooling = Vec::new();
        for (position, endpoint) in self.endpoints.iter().enumerate() {
            let setback = match endpoint.admit(self.mono_ms()) {
                Admission::Foreign { answered } => Setback::WrongChain { answered },
                Admission::Cooling => {
                    cooling.push((position, endpoint));
                    continue;
                }
                Admission::Admitted(permit) => {
                    match self.attempt(endpoint, permit, step, budget.as_mut()).await {
                        Ok(result) => return Ok(result),
                        Err(Setback::Final(fault)) => return Err(fault),
                        Err(setback) => setback,
                    }
                }
            };
            tally.note(position, endpoint, setback);
        }
        // If every usable endpoint is cooling down, try the endpoint that failed longest ago: a request to no
        // endpoint cannot succeed.
        let spare = cooling.iter().min_by_key(|(_, endpoint)| endpoint.last_failure_ms()).copied();
        if let Some((position, endpoint)) = spare.filter(|_| !tally.any_was_asked()) {
            let permit = endpoint.admit_anyway();
            match self.attempt(endpoint, permit, step, budget.as_mut()).await {
                Ok(result) => return Ok(result),
                Err(Setback::Final(fault)) => return Err(fault),
                Err(setback) => tally.note(position, endpoint, setback),
            }
            cooling.retain(|(other, _)| *other != position);
        }
        for (position, endpoint) in cooling {
            tally.note(position, endpoint, Setback::Cooling);
        }
        Err(tally.into_fault(self.config.chain))
    }

    /// Asks every endpoint at once, except those that are cooling down or foreign. The best answer counts: a
    /// result before a final error, and a final error before any other setback.
    pub(super) async fn run_everywhere<'a, T>(
        &'a self,
        step: &EndpointRequest<'a, T>,
    ) -> Result<T, ChainFault> {
        let mut tally = Tally::default();
        let mut rejection = None;
        for (position, endpoint, end) in futures::future::join_all(self.run_at_each(step)).await {
            match end {
                Ok(result) => return Ok(result),
                Err(Setback::Final(fault)) => rejection = rejection.or(Some(fault)),
                Err(setback) => tally.note(position, endpoint, setback),
            }
        }
        Err(rejection.unwrap_or_else(|| tally.into_fault(self.config.chain)))
    }

    /// Asks every endpoint at once, except those that are cooling down or foreign, and returns all results.
    ///
    /// # Errors
    /// No endpoint gave a result.
    pub(super) async fn run_at_all<'a, T>(
        &'a self,
        step: &EndpointRequest<'a, T>,
    ) -> Result<Vec<T>, ChainFault> {
        let mut tally = Tally::default();
        let mut results = Vec::new();
        for (position, endpoint, end) in futures::future::join_all(self.run_at_each(step)).await {
            match end {
                Ok(result) => results.push(result),
                Err(setback) => tally.note(position, endpoint, setback),
            }
        }
        if results.is_empty() { Err(tally.into_fault(self.config.chain)) } else { Ok(results) }
    }

    /// Asks every endpoint at once whether something is true. `false` only if every endpoint denies it.
    pub(super) async fn run_anywhere<'a>(
        &'a self,
        step: &EndpointRequest<'a, bool>,
    ) -> Result<bool, ChainFault> {
        let mut tally = Tally::default();
        let mut unknown = false;
        // Return at the first positive answer: other endpoints may hang.
        let mut ends: FuturesUnordered<_> = self.run_at_each(step).collect();
        while let Some((position, endpoint, end)) = ends.next().await {
            match end {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(setback) => {
                    unknown = true;
                    tally.note(position, endpoint, setback);
                }
            }
        }
        if unknown { Err(tally.into_fault(self.config.chain)) } else { Ok(false) }
    }

    /// Asks each endpoint, except those that are cooling down or foreign.
    fn run_at_each<'a: 's, 's, T: 's>(
        &'a self,
        step: &'s EndpointRequest<'a, T>,
    ) -> impl Iterator<Item = impl Future<Output = (usize, &'a Endpoint, Result<T, Setback>)> + 's> + 's
    {
        self.endpoints.iter().enumerate().map(move |(position, endpoint)| async move {
            let total = Duration::from_millis(self.config.limits.total_timeout_ms);
            let mut budget = pin!(tokio::time::sleep(total));
            let end = match endpoint.admit(self.mono_ms()) {
                Admission::Foreign { answered } => Err(Setback::WrongChain { answered }),
                Admission::Cooling => Err(Setback::Cooling),
                Admission::Admitted(permit) => {
                    self.attempt(endpoint, permit, step, budget.as_mut()).await
                }
            };
            (position, endpoint, end)
        })
    }

    /// Asks one endpoint within the remaining time and records its health.
    async fn attempt<'a, T>(
        &'a self,
        endpoint: &'a Endpoint,
        permit: Permit<'a>,
        step: &EndpointRequest<'a, T>,
        budget: Pin<&mut Sleep>,
    ) -> Result<T, Setback> {
        // cancel-safe: a late answer is dropped with its connection. The budget is polled first, so that no
        // request starts without time left.
        let outcome = tokio::select! {
            biased;
            () = budget => Err(Setback::OutOfTime),
            outcome = step(endpoint) => outcome,
        };
        let health = match &outcome {
            Ok(_) => Health::Healthy,
            Err(setback) => setback.health(),
        };
        if let Err(setback) = &outcome {
            debug!(endpoint = %endpoint.label(), reason = %setback, "endpoint gave no result");
        }
        permit.settle(health, self.mono_ms());
        outcome
    }
}
