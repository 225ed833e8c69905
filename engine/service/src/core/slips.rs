//! Issues the slips of decided actions.

use bursar_core::ids::{AgentId, RequestId};
use bursar_domain::mandates::Purpose;
use bursar_domain::proofs::Statement;
use bursar_domain::{Effect, State};

use crate::journal::{Committed, SigningOrder, Slip};

/// A signature that an action permits.
#[derive(Debug, Clone)]
pub(super) enum ToSign {
    Payment(RequestId),
    Permit(RequestId),
    /// The issued mandate of an agent.
    Mandate(AgentId),
    /// A statement that was recorded in the same commit.
    Receipt(Box<Statement>),
}

impl ToSign {
    /// Returns the signature that an effect permits.
    pub(super) fn of(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Sign(id) => Some(Self::Payment(*id)),
            Effect::SignPermit(id) => Some(Self::Permit(*id)),
            Effect::SignMandate(agent) => Some(Self::Mandate(agent.clone())),
            Effect::SignStatement(statement) => Some(Self::Receipt(statement.clone())),
            Effect::Outbox(..) => None,
        }
    }
}

/// Issues a slip. `None` without the proof of a commit, for an agent that may not work, or if nothing is to be signed.
pub(super) fn issue(
    state: &State,
    proof: Option<&Committed>,
    to_sign: &ToSign,
    epoch: u64,
) -> Option<SigningOrder> {
    let proof = proof?;
    let may_work = |agent: &AgentId| {
        let agent = state.agents.get(agent);
        agent.is_some_and(|agent| !agent.suspended && state.frozen.is_none())
    };
    match to_sign {
        ToSign::Payment(id) => {
            let request = state.authorized.get(id).or_else(|| state.waiting.get(id))?;
            may_work(&request.agent).then(|| Slip::issue(proof, request, epoch))?
        }
        ToSign::Permit(id) => {
            let request = state.executing.get(id)?;
            may_work(&request.agent).then(|| Slip::for_permit(proof, request, epoch))?
        }
        ToSign::Mandate(agent) => {
            let issued = state.mandates.unsigned.get(agent)?;
            // A retirement only withdraws, so nothing that stopped the agent stops it.
            let is_allowed = issued.purpose == Purpose::Retirement || may_work(agent);
            is_allowed.then(|| Slip::for_mandate(proof, issued, epoch))?
        }
        // The operator's own command: nothing that stops agents stops it.
        ToSign::Receipt(statement) => Some(Slip::for_receipt(proof, statement, epoch)),
    }
}
