//! Describes a policy's limits for loans in answers, and how much of each is left.

use bursar_core::json::{Object, Value};
use bursar_core::money::Usd;
use bursar_core::policy::Policy;
use bursar_domain::assess::lending::{ceiling, total_lent};
use bursar_domain::loan_context::{operations, reserved};
use bursar_domain::loans::Exposure;

use super::admit::Caller;
use super::numbers::{decimal, percent};

/// Describes a policy's limits for loans. Fields that depend on the exposure are null if it is `None`.
pub(super) fn lending_policy(
    caller: &Caller,
    policy: &Policy,
    exposure: Option<&Exposure>,
) -> Object {
    let (state, agent, moment) = (&caller.view.state, caller.agent(), &caller.moment);
    let usd = |usd: Usd| decimal(&usd.to_string());
    let optional = |usd: Option<Usd>| usd.map_or(Value::Null, |usd| decimal(&usd.to_string()));
    let Policy { networks, lending: policy, .. } = policy;
    let owner = caller.paying_address().map(|known| known.address);
    let known = owner.zip(exposure);
    let lent =
        known.and_then(|(owner, exposure)| total_lent(&state.loans, owner, networks, exposure));
    let liquid = exposure.map(|exposure| exposure.liquid).filter(|_any| lent.is_some());
    let limit = lent.zip(liquid).map(|(lent, liquid)| ceiling(policy, liquid, lent));
    let open = owner.map_or(Usd::ZERO, |owner| reserved(state, moment, owner, networks, None));
    let left = limit.zip(lent).map(|(limit, lent)| limit.left_after(lent).left_after(open));
    let auto = Some(policy.auto_below).filter(|auto| *auto > Usd::ZERO);
    let done = operations(state, moment, agent, None);
    Object::new()
        .with("enabled", policy.enabled)
        .with("restricted_to_curated", policy.curated_only)
        .with("restricted_to_steakhouse", policy.curated_only)
        .with("max_deposit_usd", usd(policy.max_deposit))
        .with("max_total_deployed_usd", usd(policy.max_total))
        .with(
            "max_deployed_percent",
            policy.max_share.map_or(Value::Null, |share| decimal(&percent(share))),
        )
        .with("auto_approve_below_usd", optional(auto))
        .with("max_ops_per_day", u64::from(policy.operations_per_day))
        .with("ops_today", u64::from(done))
        .with("ops_remaining_today", u64::from(policy.operations_per_day.saturating_sub(done)))
        .with("deployed_usd", optional(lent))
        .with("reserved_usd", usd(open))
        .with("liquid_usdg", optional(liquid))
        .with("exposure_limit_usd", optional(limit))
        .with("remaining_deployable_usd", optional(left))
}
