//! Whether an agent may make requests now, and the policy's verdict on approving a held request.

use std::borrow::Cow;

use bursar_core::card::ByLane;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_core::time::Moment;

use crate::agents::{Agent, Commission};
use crate::assess::lending;
use crate::assess::payments::{self, PaymentContext};
use crate::assess::trading::{self, TradeContext};
use crate::assess::{Verdict, clock_is_off};
use crate::command::{Approval, Requote};
use crate::due::{renewal_if_due, unattended_day_if_due};
use crate::event::Event;
use crate::loan_context::{Lender, context};
use crate::loans::LoanAsk;
use crate::plan::Quote;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, PaymentAsk, Request};
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

/// Returns the reason that would refuse an approval at this moment, if there is one.
pub(crate) fn approval_refusal(
    state: &State,
    request: &Request,
    moment: &Moment,
) -> Option<Refusal> {
    // Assumes a trusted journal: an untrusted one only holds requests and never refuses them.
    let verdict = || fresh_verdict(state, moment, true, request, &Requote::Nothing).1;
    may_be_approved(state).and_then(|()| verdict()).err()
}

/// Checks the reasons that refuse an approval but keep the request held.
pub(crate) fn may_be_approved(state: &State) -> Result<(), Refusal> {
    if state.frozen.is_some() {
        return Err(Refusal::because(
            Code::AgentsFrozen,
            "All agents are frozen: `thaw` first, or deny the request.",
        ));
    }
    Ok(())
}

/// The prices at the moment of an approval.
pub(crate) enum FreshPrices<'a> {
    /// The policy judges the request by these prices.
    Known(&'a Requote),
    /// The prices are not available, and the request ends with this refusal.
    Missing(Refusal),
}

/// Returns the fresh prices that an approval needs.
///
/// # Errors
/// The approval is refused, but the request stays held.
pub(crate) fn fresh_prices<'a>(
    request: &Request,
    approval: &'a Approval,
) -> Result<FreshPrices<'a>, Refusal> {
    let quote = &approval.quote;
    match (&request.ask, quote) {
        (LaneAsk::Payment(payment), _) => {
            let Some(held) = payment.foreign() else {
                return Ok(FreshPrices::Known(&Requote::Nothing));
            };
            match quote {
                Requote::Asset(asset) => {
                    held.check_payable(asset).map(|()| FreshPrices::Known(quote))
                }
                Requote::Failed(refusal) => Err(refusal.clone()),
                Requote::Plan(_) | Requote::Nothing => Err(Refusal::new(Code::Unpriced)),
            }
        }
        (LaneAsk::Trade(_), Requote::Plan(Quote::Trade(_)))
        | (LaneAsk::Loan(_), Requote::Plan(Quote::Loan(_))) => Ok(FreshPrices::Known(quote)),
        (LaneAsk::Trade(_) | LaneAsk::Loan(_), Requote::Failed(refusal)) => {
            Ok(FreshPrices::Missing(refusal.clone()))
        }
        (
            LaneAsk::Trade(_) | LaneAsk::Loan(_),
            Requote::Plan(_) | Requote::Asset(_) | Requote::Nothing,
        ) => Ok(FreshPrices::Missing(Refusal::new(Code::QuoteFailed))),
    }
}

/// Refuses a quote below the least output that the request accepts.
pub(crate) fn check_floor(trade: &TradeAsk, quote: &TradeQuote) -> Result<(), Refusal> {
    let floor = trade.floor(&trade.quote);
    if quote.out.0 < floor.0 { Err(Refusal::new(Code::PriceMoved)) } else { Ok(()) }
}

/// Applies the current policy to a held request, with the prices in `fresh`, or else with those of the request.
///
/// Limits that were tightened since the request take effect, and so does a suspension. Also returns the allowance
/// renewals that the verdict assumes.
pub(crate) fn fresh_verdict(
    state: &State,
    moment: &Moment,
    trusted: bool,
    request: &Request,
    fresh: &Requote,
) -> (Vec<Event>, Result<(), Refusal>) {
    let mut events = Vec::new();
    let mut evaluate = || {
        let gone = Refusal::new(Code::AgentNotCommissioned);
        let agent = state.agents.get(&request.agent).ok_or(gone.clone())?;
        let commission = may_work(state, agent)?;
        let policy = state.policy_of(agent).ok_or(gone)?;
        let (renewals, spent) = renewal_if_due(agent, commission, moment);
        events = renewals;
        events.extend(unattended_day_if_due(state, moment));
        let review = Review { state, moment, trusted, request, agent, policy, spent };
        let verdict = match &request.ask {
            LaneAsk::Payment(payment) => review.payment(payment, fresh)?,
            LaneAsk::Trade(trade) => review.trade(trade, fresh)?,
            LaneAsk::Loan(loan) => review.loan(loan, fresh),
        };
        match verdict {
            // The operator's approval satisfies every reason to hold.
            Verdict::Act | Verdict::Hold(_) => Ok(()),
            Verdict::Refuse(refusal) => Err(refusal),
        }
    };
    let verdict = evaluate();
    (events, verdict)
}

/// A held request, and the inputs of the policy's new verdict on it.
struct Review<'a> {
    state: &'a State,
    moment: &'a Moment,
    trusted: bool,
    request: &'a Request,
    agent: &'a Agent,
    policy: &'a Policy,
    spent: ByLane<Usd>,
}

impl Review<'_> {
    fn payment(&self, payment: &PaymentAsk, fresh: &Requote) -> Result<Verdict, Refusal> {
        let repriced = reprice(payment, fresh)?;
        Ok(payments::assess(&PaymentContext {
            ask: &repriced,
            from: self.request.from,
            policy: self.policy,
            network_enabled: self.state.is_network_enabled(payment.chain),
            trusted: self.trusted,
            is_clock_off: clock_is_off(self.moment),
            max_validity_s: self.state.settings.max_validity_s,
            spent: self.spent.payment,
            // Excludes the request's own reservation, which the approval turns into spending.
            reserved: self.agent.reserved.payment.left_after(payment.usd),
            held_by_agent: 0,
            held_in_all: 0,
        }))
    }

    fn trade(&self, trade: &TradeAsk, fresh: &Requote) -> Result<Verdict, Refusal> {
        let quote = fresh.plan().and_then(Quote::trade).unwrap_or(&trade.quote);
        check_floor(trade, quote)?;
        let Self { state, moment, request, .. } = *self;
        Ok(trading::assess(&TradeContext {
            ask: trade,
            quote,
            policy: self.policy,
            network_enabled: state.is_network_enabled(trade.chain),
            trusted: self.trusted,
            is_clock_off: clock_is_off(moment),
            now: u64::try_from(moment.utc.seconds()).unwrap_or(0),
            commitments: state.commitments(
                request.from,
                trade.chain,
                trade.token_in.address,
                moment,
                None,
            ),
            spent: self.spent.trade,
            reserved: self.agent.reserved.trade.left_after(trade.counted_value),
            held_by_agent: 0,
            held_in_all: 0,
        }))
    }

    fn loan(&self, loan: &LoanAsk, fresh: &Requote) -> Verdict {
        let quote = fresh.plan().and_then(Quote::loan).unwrap_or(&loan.quote);
        let Self { state, moment, trusted, request, agent, policy, .. } = *self;
        let id = Some(request.id);
        let lender = Lender { agent, from: request.from, request: id, started: None };
        lending::assess(&context(state, moment, trusted, lender, policy, (loan, quote)))
    }
}

/// Returns a payment at its fresh price, or refuses it if the price has moved by more than one percent.
fn reprice<'a>(payment: &'a PaymentAsk, fresh: &Requote) -> Result<Cow<'a, PaymentAsk>, Refusal> {
    let (Some(held), Requote::Asset(fresh)) = (payment.foreign(), fresh) else {
        return Ok(Cow::Borrowed(payment));
    };
    if let (Some(assessed), Some(now)) = (&held.quote, &fresh.quote) {
        payments::check_drift(assessed, now)?;
    }
    let mut payment = payment.clone();
    payment.set_asset((**fresh).clone());
    Ok(Cow::Owned(payment))
}
