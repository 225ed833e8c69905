//! `POST /trade` and `GET /trade/status/{id}`: an agent asks for a swap (wallet specification, "Trade request").

mod quote;
mod result;

use bursar_core::codes::Code;
use bursar_core::json::Object;
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{LaneAsk, Refusal};

use super::api::Api;
use super::message::Endpoint;
use super::plan_request::{Payer, PlanInput, Proposed};
use crate::lanes::InputFault;
use crate::lanes::trading::{Proposal, TradeInput};

impl PlanInput for TradeInput {
    type Ask = TradeAsk;

    const ENDPOINT: Endpoint = Endpoint::Trade;
    const FIELD: (&'static str, Code) = ("trade", Code::MissingTrade);
    const DISABLED_CODE: Code = Code::TradingDisabled;
    // The rules accept any measurement of a trade, so it is measured only once.
    const MEASUREMENTS_MAX: usize = 1;

    fn is_enabled(policy: &Policy) -> bool {
        policy.trading.enabled
    }

    fn read(object: &Object) -> Result<Self, InputFault> {
        Self::read(object)
    }

    fn chain(&self) -> ChainId {
        self.chain()
    }

    async fn propose(&self, api: &Api, payer: Payer<'_>) -> Result<Proposed, Refusal> {
        let Payer { state, policy, owner, id, outbox } = payer;
        let by_device = state.is_on_device(owner);
        let proposal = api.trading.propose(self, owner, by_device, &policy.trading);
        let Proposal { ask, measured } = proposal.await?;
        let refused =
            measured.map(|measured| api.trading.cache_measurement(id, outbox, measured)).err();
        Ok((LaneAsk::Trade(Box::new(ask)), refused))
    }
}
