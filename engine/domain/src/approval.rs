//! Whether an agent may make requests now, and the verdict on approving one of its held requests.

use bursar_core::codes::Code;
use bursar_core::time::Moment;

use crate::agents::{Agent, Commission};
use crate::assess::payments::{self, PaymentContext};
use crate::assess::trading::{self, TradeContext};
use crate::assess::{Verdict, clock_is_off};
use crate::due::renewal_if_due;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;
use crate::trades::{TradeAsk, TradeQuote};

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
    let verdict = || fresh_verdict(state, moment, true, request, None).1;
    may_be_approved(state, request).and_then(|()| verdict()).err()
}

/// Checks the reasons that refuse an approval but keep the request held.
pub(crate) fn may_be_approved(state: &State, request: &Request) -> Result<(), Refusal> {
    if request.ask.payment().is_some_and(|payment| payment.unpriced) {
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

/// Refuses a quote below the least output that the request accepts.
pub(crate) fn check_floor(trade: &TradeAsk, quote: &TradeQuote) -> Result<(), Refusal> {
    let floor = trade.floor(&trade.quote);
    if quote.out.0 < floor.0 { Err(Refusal::new(Code::PriceMoved)) } else { Ok(()) }
}

/// Applies the current policy to a held request. `quote` holds a trade's current prices; without it, those of the
/// request count.
///
/// Tightened limits and suspensions thus take effect. Also returns the allowance renewals that the verdict assumes.
pub(crate) fn fresh_verdict(
    state: &State,
    moment: &Moment,
    trusted: bool,
    request: &Request,
    quote: Option<&TradeQuote>,
) -> (Vec<Event>, Result<(), Refusal>) {
    let mut events = Vec::new();
    let mut evaluate = || {
        let gone = Refusal::new(Code::AgentNotCommissioned);
        let agent = state.agents.get(&request.agent).ok_or(gone.clone())?;
        let commission = may_work(state, agent)?;
        let policy = state.policy_of(agent).ok_or(gone)?;
        let (renewals, spent) = renewal_if_due(agent, commission, moment);
        events = renewals;
        let verdict = match &request.ask {
            LaneAsk::Payment(payment) => payments::assess(&PaymentContext {
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
            }),
            LaneAsk::Trade(trade) => {
                let quote = quote.unwrap_or(&trade.quote);
                check_floor(trade, quote)?;
                trading::assess(&TradeContext {
                    ask: trade,
                    quote,
                    policy,
                    network_enabled: state.network_enabled(trade.chain),
                    trusted,
                    clock_off: clock_is_off(moment),
                    now: u64::try_from(moment.utc.seconds()).unwrap_or(0),
                    promised: state.promised(
                        request.from,
                        trade.chain,
                        trade.token_in.address,
                        moment,
                        None,
                    ),
                    spent: spent.trade,
                    reserved: agent.reserved.trade.left_after(trade.counted),
                    held_by_agent: 0,
                    held_in_all: 0,
                })
            }
        };
        match verdict {
            // The operator has just given the approval that a hold requires.
            Verdict::Act | Verdict::Hold(_) => Ok(()),
            Verdict::Refuse(refusal) => Err(refusal),
        }
    };
    let verdict = evaluate();
    (events, verdict)
}
