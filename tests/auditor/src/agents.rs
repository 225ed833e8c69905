//! Orders that concern one agent.

use crate::clocks::Period;
use crate::config::{Agent, Commission, Config, Out};
use crate::orders::{Around, Course, waits};
use crate::seen::{Order, Ticket};

pub(crate) fn agents(
    mut c: Course,
    mut to: Config,
    ticket: Ticket,
    order: &Order,
    around: Around<'_>,
) -> Vec<(Config, Out)> {
    let named = match order {
        Order::RegisterAgent { name, bearer } => {
            c.closed();
            let taken = to.agents.values().any(|a| a.name.eq_ignore_ascii_case(name));
            c.refuse(taken, "NAME_TAKEN");
            let made = Agent {
                name: name.clone(),
                bearer: *bearer,
                token_untold: false,
                suspended: false,
                commission: None,
            };
            // The agent's code is unknown until the order is answered.
            to.agents.insert(format!("?{ticket}"), made);
            return c.end(Out::Registered, Some(to));
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
        c.closed();
    }
    let code = to.agent_code(named);
    c.refuse(code.is_none(), "NOTHING_FOUND");
    let Some(code) = code else { return c.end(Out::Done, None) };
    if let Order::DeleteAgent { .. } = order {
        let (sure, may) = waits(around, |r| r.agent == code);
        c.refuse(sure, "IN_USE");
        c.may_refuse(may, "IN_USE");
        to.agents.remove(&code);
        to.gone.insert(code);
        return c.end(Out::Done, Some(to));
    }
    let (mut policy, mut account) = (None, None);
    if let Order::Commission { policy: p, label, .. } = order {
        (policy, account) = (to.policy_named(p), to.account_named(label));
        c.refuse(policy.is_none() || account.is_none(), "NOTHING_FOUND");
    }
    let Some(agent) = to.agents.get_mut(&code) else { return c.end(Out::Done, None) };
    match order {
        Order::ReplaceToken { .. } => {
            c.refuse(!agent.bearer, "BAD_INPUT");
            agent.token_untold = true;
        }
        Order::Suspend { .. } => {
            c.may_refuse(agent.commission.is_none(), "AGENT_NOT_COMMISSIONED");
            agent.suspended = true;
        }
        Order::Resume { .. } => {
            c.may_refuse(agent.commission.is_none(), "AGENT_NOT_COMMISSIONED");
            agent.suspended = false;
        }
        Order::Commission { .. } => {
            if let (Some(policy), Some(account)) = (policy, account) {
                let running = agent.commission.take().map(|m| m.periods);
                let first = || Period::first(around.time).into_iter().collect();
                let periods = running.unwrap_or_else(first);
                agent.commission = Some(Commission { policy, account, periods });
            }
        }
        Order::Renew { .. } => return renew(c, to, &code, around),
        _ => {}
    }
    c.end(Out::Done, Some(to))
}

fn renew(mut c: Course, to: Config, code: &str, around: Around<'_>) -> Vec<(Config, Out)> {
    let Some(periods) = to.agents.get(code).and_then(|a| a.commission.as_ref()).map(|m| &m.periods)
    else {
        c.refuse(true, "AGENT_NOT_COMMISSIONED");
        return c.end(Out::Done, None);
    };
    // Each allowance that may be in force is renewed separately.
    let mut all = Vec::new();
    for p in periods {
        let mut one = to.clone();
        let mut course = Course { from: to.clone(), codes: c.codes.clone(), sure: c.sure };
        let due = p.due(&around.time.now);
        course.refuse(!due, "BAD_INPUT");
        let next = if due { p.renewed(&around.time.now, around.seq) } else { None };
        for (config, period) in [(&mut one, next), (&mut course.from, Some(p.clone()))] {
            if let (Some(m), Some(period)) =
                (config.agents.get_mut(code).and_then(|a| a.commission.as_mut()), period)
            {
                m.periods = vec![period];
            }
        }
        all.extend(course.end(Out::Done, Some(one)));
    }
    all
}
