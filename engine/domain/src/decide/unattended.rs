//! Applies the limit of unattended days to requests and to running plans.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::time::Moment;

use crate::approver::Approver;
use crate::command::Command;
use crate::plan::Execution;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

/// Returns whether spending `usd` would exceed the limit of an unattended day.
///
/// Value that running plans and devices may still spend counts too, except that of the plan `own`. An operation
/// without value, such as a withdrawal, never exceeds the limit.
pub(super) fn exceeds_daily_limit(
    state: &State,
    moment: &Moment,
    usd: Usd,
    own: Option<RequestId>,
) -> bool {
    let Some(limit) = state.settings.unattended_daily.filter(|_limit| state.unattended.active)
    else {
        return false;
    };
    let running = state.executing.values().filter(|request| Some(request.id) != own);
    let running = running.filter_map(|request| Some(request.execution()?.reserved()));
    let by_device = state.reserved_for_device().map(|request| request.ask.usd());
    let spent = state.unattended.spent_at(moment);
    let sum =
        running.chain(by_device).chain([usd]).try_fold(spent, |sum, one| sum.checked_add(one));
    usd > Usd::ZERO && sum.map_or(true, |sum| sum > limit)
}

/// Refuses a plan that no person approved and that would exceed the limit of an unattended day.
pub(super) fn check_unattended(
    state: &State,
    command: &Command,
    request: &Request,
    execution: &Execution,
    value: Option<Usd>,
) -> Result<(), Refusal> {
    let counted = execution.counted_value.max(value.unwrap_or_default());
    let is_over = execution.by == Approver::Policy
        && exceeds_daily_limit(state, &command.moment, counted, Some(request.id));
    if is_over {
        return Err(Refusal::because(
            Code::RequestNoLongerValid,
            format!(
                "The request was stopped because it now needs the operator's approval: {}. Send it again.",
                HoldReason::UnattendedLimit.sentence()
            ),
        ));
    }
    Ok(())
}
