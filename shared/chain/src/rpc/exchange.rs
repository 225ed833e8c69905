//! Sends one request to one endpoint. Checks the endpoint's chain id first if that is due.

use std::sync::atomic::Ordering;

use bursar_core::networks::ChainId;
use serde_json::json;
use serde_json::value::RawValue;

use crate::rpc::endpoint::Endpoint;
use crate::rpc::envelope::{self, Call, Content, MethodKind};
use crate::rpc::quantity::{Unusable, decode_as, u64_of};
use crate::rpc::setback::Setback;
use crate::rpc::{RpcChain, refusal};

impl RpcChain {
    /// Checks the endpoint's chain id if that is due, and rejects a foreign endpoint. Two concurrent requests may
    /// both check; that costs one extra request and avoids a lock across an await.
    pub(super) async fn ensure_identity(&self, endpoint: &Endpoint) -> Result<(), Setback> {
        if endpoint.identity_is_due(self.mono_ms()) {
            self.ask_identity(endpoint).await?;
        }
        Ok(())
    }

    /// Requests the endpoint's chain id, and rejects a foreign endpoint.
    pub(super) async fn ask_identity(&self, endpoint: &Endpoint) -> Result<ChainId, Setback> {
        let call = Call { method: "eth_chainId", params: json!([]), kind: MethodKind::Read };
        let decode = |raw: &RawValue| u64_of(&decode_as::<String>(raw)?).map(ChainId);
        let answered = self.exchange(endpoint, &call, &decode).await?;
        if endpoint.learn_identity(answered, self.config.chain, self.mono_ms()) {
            Ok(answered)
        } else {
            Err(Setback::WrongChain { answered })
        }
    }

    /// Sends one request and decodes its answer.
    pub(super) async fn exchange<T>(
        &self,
        endpoint: &Endpoint,
        call: &Call,
        decode: &(impl Fn(&RawValue) -> Result<T, Unusable> + Sync),
    ) -> Result<T, Setback> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let malformed = |why: Unusable| Setback::Malformed(why.0.to_owned());
        let request = envelope::request(id, call).map_err(malformed)?;
        let bytes_max = self.config.limits.reply_bytes_max;
        let reply = self.client.post(endpoint.target(), request, bytes_max).await;
        let reply = reply.map_err(Setback::Unreachable)?;
        let content = envelope::answer(&reply.body, id);
        let refused =
            |error| refusal::classify(call.kind, error, |text| endpoint.target().scrub(text));
        if reply.status.is_success() {
            return match content.map_err(malformed)? {
                Content::Result(raw) => decode(raw).map_err(malformed),
                Content::Error(error) => Err(refused(error)),
            };
        }
        // Some nodes send their error objects, including reverts, with an HTTP error status.
        match content {
            Ok(Content::Error(error)) => Err(refused(error)),
            Ok(Content::Result(_)) | Err(_) => {
                Err(Setback::Unreachable(format!("HTTP {}", reply.status)))
            }
        }
    }
}
