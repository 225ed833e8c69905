//! Orders that concern one agent.

use crate::clocks::AllowancePeriod;
use crate::config::{Agent, Commission, Config, OrderEnd};
use crate::observations::{Order, Ticket};
use crate::orders::{OrderContext, OrderOutcomes, has_held_requests};

pub(crate) fn agents(
    mut c: OrderOutcomes,
    mut to: Config,
    ticket: Ticket,
    order: &Order,
    context: OrderContext<'_>,
) -> Vec<(Config, OrderEnd)> {
    let named = match order {
        Order::RegisterAgent { name, bearer } => {
            c.require_open();
            let taken = to.agents.values().any(|a| a.name.eq_ignore_ascii_case(name));
            c.refuse(taken, "NAME_TAKEN");
            let created = Agent {
                name: name.clone(),
                is_bearer: *bearer,
                is_token_unreturned: false,
                is_suspended: false,
                commission: None,
            };
            // The agent's code is unknown until the order is answered.
            to.agents.insert(format!("?{ticket}"), created);
            return c.end(OrderEnd::Registered, Some(to));
        }
        Order::ReplaceToken { agent }
        | Order::Suspend { agent }
        | Order::Resume { agent }
        | Order::Renew { agent }
        | Order::DeleteAgent { agent }
        | Order::Commission { agent, .. } => agent,
        _ => return Vec::new(),
    };
    if !matches!(order, Order::Suspend { .. } | Order::DeleteAgent { .. }) {
        c.require_open();
    }
    let code = to.agent_code(named);
    c.refuse(code.is_none(), "NOTHING_FOUND");
    let Some(code) = code else { return c.end(OrderEnd::Done, None) };
    if let Order::DeleteAgent { .. } = order {
        let (sure, may) = has_held_requests(context, |r| r.agent == code);
        c.refuse(sure, "IN_USE");
        c.may_refuse(may || (context.may_have_running_plans)(&code), "IN_USE");
        to.agents.remove(&code);
        to.deleted_agents.insert(code);
        return c.end(OrderEnd::Done, Some(to));
    }
    let (mut policy, mut account) = (None, None);
    if let Order::Commission { policy: p, label, .. } = order {
        (policy, account) = (to.policy_named(p), to.account_named(label));
        c.refuse(policy.is_none() || account.is_none(), "NOTHING_FOUND");
    }
    let Some(agent) = to.agents.get_mut(&code) else { return c.end(OrderEnd::Done, None) };
    match order {
        Order::ReplaceToken { .. } => {
            c.refuse(!agent.is_bearer, "BAD_INPUT");
            agent.is_token_unreturned = true;
        }
        Order::Suspend { .. } => {
            c.may_refuse(agent.commission.is_none(), "AGENT_NOT_COMMISSIONED");
            agent.is_suspended = true;
        }
        Order::Resume { .. } => {
            c.may_refuse(agent.commission.is_none(), "AGENT_NOT_COMMISSIONED");
            agent.is_suspended = false;
        }
        Order::Commission { .. } => {
            if let (Some(policy), Some(account)) = (policy, account) {
                let running = agent.commission.take().map(|m| m.periods);
                let first = || AllowancePeriod::first(context.time).into_iter().collect();
                let periods = running.unwrap_or_else(first);
                agent.commission = Some(Commission { policy, account, periods });
            }
        }
        Order::Renew { .. } => return renew(c, to, &code, context),
        _ => {}
    }
    c.end(OrderEnd::Done, Some(to))
}

fn renew(
    mut c: OrderOutcomes,
    to: Config,
    code: &str,
    context: OrderContext<'_>,
) -> Vec<(Config, OrderEnd)> {
    let Some(periods) = to.agents.get(code).and_then(|a| a.commission.as_ref()).map(|m| &m.periods)
    else {
        c.refuse(true, "AGENT_NOT_COMMISSIONED");
        return c.end(OrderEnd::Done, None);
    };
    // Renew each allowance that may be in force separately.
    let mut all = Vec::new();
    for p in periods {
        let mut one = to.clone();
        let mut course =
            OrderOutcomes { from: to.clone(), codes: c.codes.clone(), is_certain: c.is_certain };
        let due = p.is_due(&context.time.now);
        course.refuse(!due, "BAD_INPUT");
        let next = if due { p.renew(&context.time.now, context.seq) } else { None };
        for (config, period) in [(&mut one, next), (&mut course.from, Some(p.clone()))] {
            if let (Some(m), Some(period)) =
                (config.agents.get_mut(code).and_then(|a| a.commission.as_mut()), period)
            {
                m.periods = vec![period];
            }
        }
        all.extend(course.end(OrderEnd::Done, Some(one)));
    }
    all
}
