//! The health of an endpoint.

/// What the outcome of a request shows about the health of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// It answered.
    Healthy,
    /// It did not answer, gave an invalid answer, or refused although the request was valid.
    Failing,
    /// The outcome shows nothing about its health.
    Unknown,
}
