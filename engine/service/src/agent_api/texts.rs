//! The texts that an agent reads before it pays: the skill, the text about a partner wallet service, the helper script.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;

use super::api::Api;
use super::reply::text;

const PLAIN_TEXT_TYPE: &str = "text/plain; charset=utf-8";
const PYTHON_TYPE: &str = "text/x-python; charset=utf-8";

/// The maximum size of the operator's text about a partner wallet service, in bytes. A larger text is not served.
const PARTNER_BYTES_MAX: u64 = 256 << 10;

/// `GET /`: where to begin.
pub(super) async fn root() -> Response<Body> {
    text(200, PLAIN_TEXT_TYPE, "A wallet for agents. Read GET /agent first.\n".to_owned())
}

/// `GET /agent` and all longer paths without their own route. Agents written for the original wallet request several of
/// them.
pub(super) async fn skill() -> Response<Body> {
    text(200, PLAIN_TEXT_TYPE, include_str!("assets/skill.md").to_owned())
}

/// `GET /agent/partner` and `/agent/1claw`: `partner.md` of the data folder if it is UTF-8 of at most
/// [`PARTNER_BYTES_MAX`], else the built-in text.
pub(super) async fn partner(State(api): State<Arc<Api>>) -> Response<Body> {
    let path = api.folder.join("partner.md");
    let own =
        tokio::task::spawn_blocking(move || bursar_files::read_text(&path, PARTNER_BYTES_MAX).ok())
            .await;
    let own = own.ok().flatten();
    text(200, PLAIN_TEXT_TYPE, own.unwrap_or_else(|| include_str!("assets/partner.md").to_owned()))
}

/// `GET /sign/helper`.
pub(super) async fn helper() -> Response<Body> {
    text(200, PYTHON_TYPE, include_str!("assets/helper.py").to_owned())
}
