//! The texts that an agent reads before it pays: the skill, the text about a partner wallet service, the helper script.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;

use super::api::Api;
use super::reply::text;
use crate::edition::{AgentWire, Edition};

const PLAIN_TEXT_TYPE: &str = "text/plain; charset=utf-8";
const PYTHON_TYPE: &str = "text/x-python; charset=utf-8";

/// The maximum size of the operator's text about a partner wallet service, in bytes. A larger text is not served.
const PARTNER_BYTES_MAX: u64 = 256 << 10;

/// `GET /`: where to begin.
pub(super) async fn root() -> Response<Body> {
    text(200, PLAIN_TEXT_TYPE, "A wallet for agents. Read GET /agent first.\n".to_owned())
}

/// `GET /agent`, and in the full edition all longer paths without their own route: agents written for the original
/// wallet request several of them.
pub(super) async fn skill(State(api): State<Arc<Api>>) -> Response<Body> {
    text(200, api.edition.wire.skill_type, skill_of(&api.edition))
}

/// Returns the skill of an edition.
pub fn skill_of(edition: &Edition) -> String {
    for_edition(include_str!("assets/skill.md"), edition)
}

/// Returns the helper script of an edition.
pub fn helper_of(edition: &Edition) -> String {
    for_edition(include_str!("assets/helper.py"), edition)
}

/// Returns a text without the blocks of other editions, and with the edition's name of the agent field.
///
/// A block begins with a line that contains `[[trades and loans]]` or `[[payments only]]`, and ends with a line that
/// contains `[[end]]`. These lines are left out.
fn for_edition(source: &str, edition: &Edition) -> String {
    let (mut text, mut is_shown) = (String::with_capacity(source.len()), true);
    for line in source.split_inclusive('\n') {
        if line.contains("[[trades and loans]]") {
            is_shown = edition.has_trades_or_loans();
        } else if line.contains("[[payments only]]") {
            is_shown = !edition.has_trades_or_loans();
        } else if line.contains("[[end]]") {
            is_shown = true;
        } else if is_shown {
            text.push_str(line);
        }
    }
    let full = AgentWire::FULL;
    text.replace(full.missing.text(), edition.wire.missing.text())
        .replace(full.field, edition.wire.field)
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
pub(super) async fn helper(State(api): State<Arc<Api>>) -> Response<Body> {
    text(200, PYTHON_TYPE, helper_of(&api.edition))
}
