//! The health of an endpoint.

/// The effect of a request's outcome on the health of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// It answered.
    Healthy,
    /// It did not answer, gave an invalid answer, or refused although the request was valid.
    Failing,
    /// The outcome shows nothing about its health.
    Unknown,
}
