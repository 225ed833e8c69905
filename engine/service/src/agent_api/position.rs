//! `POST /position` and `GET /position/status/{id}`: an agent asks to lend, or to take lent money back (wallet
//! specification, "Lending rules").

mod result;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::Object;
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_domain::loans::LoanAsk;
use bursar_domain::{LaneAsk, Refusal};

use super::api::Api;
use super::message::Endpoint;
use super::plan_request::{Payer, PlanInput, Proposed};
use super::plan_result::PlanResult;
use super::reply::Answer;
use crate::lanes::InputFault;
use crate::lanes::lending::{KnownVenues, LoanInput};

impl PlanInput for LoanInput {
    type Ask = LoanAsk;

    const ENDPOINT: Endpoint = Endpoint::Position;
    const FIELD: (&'static str, Code) = ("position", Code::MissingPosition);
    const DISABLED_CODE: Code = Code::DefiDisabled;
    // If another loan of the address ends during the measurement, the measurement is too old for a decision.
    const MEASUREMENTS_MAX: usize = 3;

    fn is_enabled(policy: &Policy) -> bool {
        policy.lending.enabled
    }

    fn read(object: &Object) -> Result<Self, InputFault> {
        Self::read(object)
    }

    fn chain(&self) -> ChainId {
        self.chain()
    }

    async fn propose(&self, api: &Api, payer: Payer<'_>) -> Result<Proposed, Refusal> {
        let Payer { state, policy, owner, id, outbox } = payer;
        let known = KnownVenues::new(state, policy, owner);
        let proposal = api.lending.propose(self, owner, &known).await?;
        let refused = proposal.refusal().cloned();
        // A loan, unlike a trade, can have a measurement although its plan cannot be made.
        if let Ok(measured) = proposal.measured
            && refused.is_none()
        {
            api.lending.cache_measurement(id, outbox, measured);
        }
        Ok((LaneAsk::Loan(Box::new(proposal.ask)), refused))
    }

    /// Answers two codes with an error, although `/trade` answers every refusal with a result.
    fn answer_rule_refusal(refusal: Refusal) -> Result<Answer, Fault> {
        match refusal.code {
            Code::DefiDisabled | Code::InvalidRequest => Err(refusal.into()),
            _other => Ok(LoanAsk::answer_refused(&refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_refusals_by_the_rules_are_errors_and_the_others_results() {
        for code in [Code::DefiDisabled, Code::InvalidRequest] {
            let answered = LoanInput::answer_rule_refusal(Refusal::new(code));
            assert_eq!(answered.unwrap_err(), Fault::new(code));
        }
        for code in [Code::NetworkDisabled, Code::VenueNotPermitted, Code::InsufficientLiquidity] {
            let answer = LoanInput::answer_rule_refusal(Refusal::new(code)).unwrap();
            assert_eq!(answer.body.get("status"), Some(&"rejected".into()), "{code}");
        }
    }
}
