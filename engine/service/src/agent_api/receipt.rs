//! `GET /receipt/{id}`: one payment from its request to its settlement, as AP2 JSON or as a page for browsers. The id
//! in the path is the capability to read it.

use std::net::SocketAddr;
use std::sync::Arc;

use alloy_primitives::B256;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Response, header};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{Object, Value};

use super::api::Api;
use super::path_id::{PathId, text_of};
use super::reply::{Answer, page};
use crate::journal::StoreError;
use crate::receipts;

pub(super) async fn receipt(
    State(api): State<Arc<Api>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    id: PathId,
) -> Response<Body> {
    let by_hash = api.edition.wire.receipts_by_hash && peer.ip().to_canonical().is_loopback();
    match find(&api, &text_of(id), by_hash).await {
        Ok(receipt) if wants_page(&headers) => page(200, &html(&receipt)),
        Ok(receipt) => Answer::new(200, receipt).into_http(),
        Err(fault) => Answer::from(fault).into_http(),
    }
}

pub(super) async fn missing_id() -> Response<Body> {
    Answer::from(Fault::new(Code::MissingTransactionId)).into_http()
}

/// Returns the receipt of a request. A hash is public, so `by_hash` is for callers on this machine.
async fn find(api: &Api, id: &str, by_hash: bool) -> Result<Object, Fault> {
    let unknown = || Fault::new(Code::TransactionNotFound);
    let unreadable = |error: StoreError| Fault::new(Code::InternalError).with_detail(error);
    let reader = api.core.reader();
    let hash = Some(id).filter(|id| by_hash && id.starts_with("0x"));
    let hash = hash.and_then(|hash| hash.parse::<B256>().ok());
    let request = match hash {
        Some(hash) => {
            let found = reader.request_of_transaction(hash).map_err(unreadable)?;
            Arc::new(found.ok_or_else(unknown)?)
        }
        None => {
            let id: RequestId =
                id.parse().map_err(|_bad| Fault::new(Code::InvalidTransactionId))?;
            api.request(id).await.ok_or_else(unknown)?
        }
    };
    let settlement = reader.settlement(request.seq).map_err(unreadable)?;
    // An index row alone proves nothing.
    if hash.is_some() && settlement.as_ref().and_then(|known| known.tx_hash) != hash {
        return Err(unknown());
    }
    let view = api.core.view();
    let agent = view.state.agents.get(&request.agent);
    Ok(receipts::receipt(
        api.edition.wire.agent_member.text(),
        agent.map(|agent| agent.name.as_str()),
        &request,
        settlement.as_ref(),
    ))
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepted.is_some_and(|accept| accept.contains("text/html"))
}

/// Renders the receipt's fields as a table, without those that are null. Text from outside is escaped.
fn html(receipt: &Object) -> String {
    let mut rows = String::new();
    add_rows(&mut rows, "", receipt);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Receipt</title>\
         <h1>Receipt</h1><table>{rows}</table></html>"
    )
}

fn add_rows(rows: &mut String, path: &str, object: &Object) {
    for (key, value) in object.iter() {
        let name = if path.is_empty() { key.to_owned() } else { format!("{path} {key}") };
        match value {
            Value::Object(inner) => add_rows(rows, &name, inner),
            Value::Null => {}
            Value::String(text) => add_row(rows, &name, &with_host(text)),
            Value::Array(texts) => {
                for text in texts.iter().filter_map(Value::as_str) {
                    add_row(rows, &name, &with_host(text));
                }
            }
            other => add_row(rows, &name, &other.to_compact()),
        }
    }
}

/// Appends the host to a URL that does not show it plainly. Returns other texts unchanged.
fn with_host(text: &str) -> String {
    let host = bursar_core::text::host_note(text);
    host.map_or_else(|| text.to_owned(), |note| format!("{text} ({note})"))
}

fn add_row(rows: &mut String, name: &str, value: &str) {
    let (name, value) = (escape_html(name), escape_html(&bursar_core::text::visible(value)));
    rows.push_str(&format!("<tr><th>{name}<td>{value}"));
}

fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_page_shows_every_field_and_escapes_markup() {
        let inner = Object::new()
            .with("url", "https://shop.test@evil.test/a?b&c")
            .with("note", "<script>\"it's\"</script>\u{202e}")
            .with("missing", Value::Null);
        let receipt = Object::new()
            .with("id", "7")
            .with("payment", inner)
            .with("urls", Value::Array(vec!["https://ok.test/".into(), "plain".into()]))
            .with("times", 2u64);
        let page = html(&receipt);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</table></html>"), "{page}");
        let (_head, rows) = page.split_once("<table>").unwrap();
        let rows: Vec<&str> = rows.split("<tr><th>").skip(1).collect();
        assert_eq!(
            rows,
            [
                "id<td>7",
                "payment url<td>https://shop.test@evil.test/a?b&amp;c (host evil.test)",
                "payment note<td>&lt;script&gt;&quot;it&#39;s&quot;&lt;/script&gt;\\u{202e}",
                "urls<td>https://ok.test/",
                "urls<td>plain",
                "times<td>2</table></html>",
            ]
        );
    }
}
