//! Request and response bodies between hyper and the routes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body as AxumBody;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::edge::ServerState;
use super::progress::{ConnectionState, ResponseState};

/// A request's body. Its rate is measured from the moment when the route first polls it.
#[derive(Debug)]
pub(super) struct RequestBody {
    inner: Incoming,
    link: Arc<ConnectionState>,
    shared: Arc<ServerState>,
    was_polled: bool,
}

impl RequestBody {
    pub(super) fn new(
        inner: Incoming,
        link: Arc<ConnectionState>,
        shared: Arc<ServerState>,
    ) -> Self {
        Self { inner, link, shared, was_polled: false }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if !std::mem::replace(&mut self.was_polled, true) {
            let now = self.shared.now();
            let mut progress = self.link.progress();
            progress.want_body(now, self.shared.bounds.body.bytes_max);
            if progress.is_refused() {
                // The connection's task responds instead of the route.
                drop(progress);
                self.link.waker.wake();
                return Poll::Pending;
            }
        }
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if self.inner.is_end_stream() {
            return polled;
        }
        // Copies the bytes: a slice would keep hyper's whole buffer in memory until the rest of the body arrives.
        polled.map_ok(|frame| frame.map_data(|part| Bytes::copy_from_slice(&part)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response's body. Records when hyper has all of it.
#[derive(Debug)]
pub(super) struct ResponseBody {
    inner: AxumBody,
    link: Arc<ConnectionState>,
    /// Remaining bytes of the body, if the length is known. At zero hyper stops polling.
    bytes_left: Option<u64>,
}

impl ResponseBody {
    pub(super) fn new(
        inner: AxumBody,
        link: Arc<ConnectionState>,
        method: &Method,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Self {
        let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse().ok());
        let left = announced.or_else(|| inner.size_hint().exact());
        let has_none = method == Method::HEAD
            || status.is_informational()
            || status == StatusCode::NO_CONTENT
            || status == StatusCode::NOT_MODIFIED;
        let is_over = has_none || inner.is_end_stream() || left == Some(0);
        let body = Self { inner, link, bytes_left: left };
        if is_over {
            body.end();
        }
        body
    }

    fn end(&self) {
        self.link.progress().response = ResponseState::Ended;
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let count = frame.data_ref().map_or(0, Bytes::len);
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                self.bytes_left = self.bytes_left.map(|left| left.saturating_sub(count));
                if self.bytes_left == Some(0) || self.inner.is_end_stream() {
                    self.end();
                }
            }
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
