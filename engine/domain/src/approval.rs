//! Whether an agent may make requests now, and the verdict on approving one of its held requests.

use bursar_core::codes::Code;
use bursar_core::time::Moment;

use crate::agents::{Agent, Commission};
use crate::assess::payments::{PaymentContext, Verdict, assess, clock_is_off};
use crate::due::renewal_if_due;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Returns the commission of an agent that may make requests now.
pub(crate) fn may_work<'a>(state: &State, agent: &'a Agent) -> Result<&'a Commission, Refusal> {
    let commission = agent.commission.as_ref().ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    if agent.suspended {
        return Err(Refusal::new(Code::AgentSuspended));
    }
    if state.frozen.is_some() {
        return Err(Refusal::new(Code::AgentsFrozen));
    }
    Ok(commission)
}

/// Returns why an approval would be refused at this moment, if it would be.
pub(crate) fn obstacle(state: &State, request: &Request, moment: &Moment) -> Option<Refusal> {
    // An untrusted journal holds requests but never refuses them.
    let verdict = || fresh_verdict(state, moment, true, request).1;
    may_be_approved(state, request).and_then(|()| verdict()).err()
}

/// Checks the reasons that refuse an approval but keep the request held.
pub(crate) fn may_be_approved(state: &State, request: &Request) -> Result<(), Refusal> {
    let LaneAsk::Payment(payment) = &request.ask;
    if payment.unpriced {
        return Err(Refusal::new(Code::Unpriced));
    }
    if state.frozen.is_some() {
        return Err(Refusal::because(
            Code::AgentsFrozen,
            "All agents are frozen: `thaw` first, or deny the request.",
        ));
    }
    Ok(())
}

/// Applies the current policy to a held request.
///
/// Tightened limits and suspensions thus take effect. Also returns the allowance renewals that the verdict assumes.
pub(crate) fn fresh_verdict(
    state: &State,
    moment: &Moment,
    trusted: bool,
    request: &Request,
) -> (Vec<Event>, Result<(), Refusal>) {
    let mut events = Vec::new();
    let mut evaluate = || {
        let gone = Refusal::new(Code::AgentNotCommissioned);
        let agent = state.agents.get(&request.agent).ok_or(gone.clone())?;
        let commission = may_work(state, agent)?;
        let policy = state.policy_of(agent).ok_or(gone)?;
        let (renewals, spent) = renewal_if_due(agent, commission, moment);
        events = renewals;
        let LaneAsk::Payment(payment) = &request.ask;
        let verdict = assess(&PaymentContext {
            ask: payment,
            from: request.from,
            policy,
            network_enabled: state.network_enabled(payment.chain),
            trusted,
            clock_off: clock_is_off(moment),
            max_validity_s: state.settings.max_validity_s,
            spent: spent.payment,
            // Without the request's own reservation, which the approval turns into spending.
            reserved: agent.reserved.payment.left_after(payment.usd),
            held_by_agent: 0,
            held_in_all: 0,
        });
        match verdict {
            // The operator has just given the approval that a hold requires.
            Verdict::Act | Verdict::Hold(_) => Ok(()),
            Verdict::Refuse(refusal) => Err(refusal),
        }
    };
    let verdict = evaluate();
    (events, verdict)
}
