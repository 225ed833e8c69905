//! The route of a service's metrics.

use axum::routing::{MethodRouter, get};
use http::header;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the route that serves `text` as OpenMetrics text.
pub fn openmetrics(text: impl Fn() -> String + Clone + Send + Sync + 'static) -> MethodRouter {
    get(move || async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], text()) })
}
