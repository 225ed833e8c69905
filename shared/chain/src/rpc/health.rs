//! The health of an endpoint.

/// The effect of a request's outcome on the health of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// The endpoint answered.
    Healthy,
    /// The endpoint did not answer, gave an invalid answer, or refused a valid request.
    Failing,
    /// The outcome shows nothing about the endpoint's health.
    Unknown,
}
