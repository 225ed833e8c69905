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
use bursar_core::json::Object;

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
        Ok(receipt) if wants_page(&headers) => page(200, &receipts::page(&receipt)),
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
