//! The end of a run: every plan of a hardware address is closed, and its allowances are as before (rule I-s).

use crate::{Auditor, Violation, violation};

impl Auditor {
    /// Checks at the end of a calm run that every plan is closed and leaves no allowance.
    pub(crate) fn check_device_plans_over(&self) -> Result<(), Violation> {
        let open = self.is_running && self.possible_configs.iter().all(|w| w.config.is_open);
        if self.calm_since.is_none() || !open {
            return Ok(());
        }
        let plans = &self.device_plans;
        // Nothing is signed for a stopped agent, so its revocation waits for the operator.
        let stopped = |id: &str| {
            plans.call_of(id).is_none_or(|call| {
                let mut configs = self.possible_configs.iter();
                configs.any(|w| w.config.may_sign_for(&call.agent).is_err())
            })
        };
        let mut is_any_stopped = false;
        for (id, plan) in plans.requests.iter().filter(|(_id, plan)| plan.allowed.is_some()) {
            if !plan.ended || !plan.closed && !stopped(id) {
                return Err(violation("I-n", format!("the plan of {id} is not closed: {plan:?}")));
            }
            is_any_stopped |= !plan.closed;
        }
        for (at, open) in &plans.open_allowances {
            if !self.devices.has(&at.1) || is_any_stopped {
                continue;
            }
            let first = plans.first_allowances.get(at);
            let left = open.iter().find(|one| {
                let kept = (at.0, one.token.clone(), one.spender.clone());
                let mut before = first.into_iter().flatten();
                !one.permit2
                    && !plans.kept_allowances.contains(&kept)
                    && !before.any(|first| {
                        (&first.token, &first.spender, first.permit2)
                            == (&one.token, &one.spender, one.permit2)
                            && first.amount >= one.amount
                    })
            });
            if let Some(left) = left {
                let what = format!("the plans of {} left the allowance {left:?}", at.1);
                return Err(violation("I-s", what));
            }
        }
        Ok(())
    }
}
