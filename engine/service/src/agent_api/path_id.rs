//! An id in the path of a request.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;

/// An unchecked id in a path.
pub(super) type PathId = Result<Path<String>, PathRejection>;

/// Returns the text of the id; empty if it is not UTF-8 after percent-decoding.
pub(super) fn text_of(id: PathId) -> String {
    id.map_or(String::new(), |Path(id)| id)
}
