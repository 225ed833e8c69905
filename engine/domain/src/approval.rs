//! Whether an agent may work now, and what an approval of its waiting request would come to.

use bursar_core::codes::Code;
use bursar_core::time::Moment;

use crate::agents::{Agent, Commission};
use crate::assess::payments::{Question, Verdict, assess, clock_is_off};
use crate::due::renewed;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

/// Whether an agent may ask for anything at all now.
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

/// What an approval would be refused for at this moment.
pub(crate) fn obstacle(state: &State, request: &Request, moment: &Moment) -> Option<Refusal> {
    // Distrust of the journal holds a request; it refuses none.
    let verdict = || fresh_verdict(state, moment, true, request).1;
    may_be_approved(state, request).and_then(|()| verdict()).err()
}

/// What stands against an approval and leaves the request waiting.
pub(crate) fn may_be_approved(state: &State, request: &Request) -> Result<(), Refusal> {
    if request.ask.unpriced {
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

/// Today's policy on a request that was held: tightened limits and suspended agents take effect. With it
/// the renewals of the allowance that it has counted on.
pub(crate) fn fresh_verdict(
    state: &State,
    moment: &Moment,
    trusted: bool,
    request: &Request,
) -> (Vec<Event>, Result<(), Refusal>) {
    let mut events = Vec::new();
    let mut judge = || {
        let gone = Refusal::new(Code::AgentNotCommissioned);
        let agent = state.agents.get(&request.agent).ok_or(gone.clone())?;
        let commission = may_work(state, agent)?;
        let policy = state.policy_of(agent).ok_or(gone)?;
        let (renewals, spent) = renewed(agent, commission, moment);
        events = renewals;
        let verdict = assess(&Question {
            ask: &request.ask,
            from: request.from,
            policy,
            network_enabled: state.network_enabled(request.ask.chain),
            trusted,
            clock_off: clock_is_off(moment),
            max_validity_s: state.settings.max_validity_s,
            spent,
            // Its own reservation is what it is about to spend.
            reserved: agent.reserved.left_after(request.ask.usd),
            held_by_agent: 0,
            held_in_all: 0,
        });
        match verdict {
            // Whatever a hold asks for, the operator has just given.
            Verdict::Act | Verdict::Hold(_) => Ok(()),
            Verdict::Refuse(refusal) => Err(refusal),
        }
    };
    let verdict = judge();
    (events, verdict)
}
