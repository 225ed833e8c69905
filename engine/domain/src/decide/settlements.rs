//! Settlements of signed payments: agents' reports and our own chain lookups.

use alloy_primitives::B256;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::limits::{SETTLEMENT_CHECKS_MAX, SETTLEMENT_CHECKS_PER_AGENT_MAX};

use crate::approval::may_work;
use crate::command::{Command, Report};
use crate::decision::{Decision, Reply, require_unlocked};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::settlement::{Check, Settlement};
use crate::state::State;

/// Records an agent's report about its own payment.
///
/// A report changes no allowance, so reporting cannot enable an agent to spend more.
pub(super) fn report(
    state: &State,
    command: &Command,
    report: &Report,
) -> Result<Decision, Refusal> {
    let agent = state.agents.get(&report.agent).ok_or(Refusal::new(Code::AuthFailed))?;
    may_work(state, agent)?;
    require_unlocked(command)?;
    if let Some(stage) = report.context.earlier_reply {
        return Ok(Decision::reply(Vec::new(), Reply::Reported(stage)));
    }
    let request = report.context.request.as_ref().ok_or(Refusal::new(Code::TransactionNotFound))?;
    if request.agent != agent.id {
        return Err(Refusal::new(Code::Unauthorized));
    }
    let before = match &report.context.settlement {
        Some(known) => known.clone(),
        None => Settlement::of(request)?,
    };
    let own = state.settling.values().filter(|one| one.agent == report.agent).count();
    let room =
        state.settling.len() < SETTLEMENT_CHECKS_MAX && own < SETTLEMENT_CHECKS_PER_AGENT_MAX;
    let (now, looks) = (command.moment.utc, report.check_chain && room);
    let after = if report.is_proven {
        before.after_report(&report.content, now, looks)
    } else {
        before.after_unproven_report(&report.content, now, looks)
    };
    Ok(match after {
        None => Decision::reply(Vec::new(), Reply::Reported(before.stage)),
        Some(settlement) => {
            let reply = Reply::Reported(settlement.stage);
            let identity = report.identity.clone();
            let settlement = Box::new(settlement);
            Decision::reply(vec![Event::SettlementReported { settlement, identity }], reply)
        }
    })
}

/// Records the end of a chain lookup. Ignores a transaction that is not the pending one.
pub(super) fn record_check(state: &State, id: RequestId, tx_hash: B256, found: &Check) -> Decision {
    let is_pending = state.settling.get(&id).is_some_and(|known| known.tx_hash == Some(tx_hash));
    let ended = !matches!(found, Check::Pending { .. } | Check::Off);
    let event = Event::SettlementChecked { id, found: found.clone() };
    Decision::done(if is_pending && ended { vec![event] } else { Vec::new() })
}
