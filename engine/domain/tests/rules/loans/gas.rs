//! Failed trades and failed supplies count together. Withdrawals neither count nor wait because of failed plans.

use bursar_core::card::HoldReason;
use bursar_domain::plan::StepPurpose;

use crate::loans::asks::{supply, withdrawal};
use crate::loans::bench::{Bench, Fate, policy};
use crate::trades::asks as trades;

#[test]
fn failed_supplies_and_trades_count_together_and_withdrawals_do_not() {
    let mut policy = policy();
    policy.trading.enabled = true;
    policy.trading.auto_below = trades::policy().trading.auto_below;
    let mut bench = Bench::with_policy(&policy);
    for count in 0..20 {
        if count % 2 == 0 {
            let id = bench.starts(0, supply(1_000_000));
            bench.open_and_finish(id, StepPurpose::Supply, Fate::Reverted);
        } else {
            let trade = Box::new(trades::trade(1_000_000));
            let id = bench.ask_lane(0, bursar_domain::LaneAsk::Trade(trade)).unwrap();
            bench.open_and_finish(id, StepPurpose::Swap, Fate::Cancelled);
        }
        // Failed withdrawals do not count.
        let id = bench.starts(0, withdrawal(1_000_000));
        bench.open_and_finish(id, StepPurpose::Withdrawal, Fate::Reverted);
    }
    let held = bench.holds(0, supply(1_000_000));
    assert_eq!(bench.hold_reason(held), Some(HoldReason::FailedPlans));
    let trade = Box::new(trades::trade(1_000_000));
    let held = bench.ask_lane(0, bursar_domain::LaneAsk::Trade(trade)).unwrap();
    assert_eq!(bench.hold_reason(held), Some(HoldReason::FailedPlans));
    bench.starts(0, withdrawal(1_000_000));
}
