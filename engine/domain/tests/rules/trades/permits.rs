//! The permits of v4 swaps: each is ordered, signed and replaced within the rules of its plan.

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::command::PermitOrder;
use bursar_domain::plan::StepPurpose;
use bursar_domain::trades::PERMITS_MAX;
use bursar_domain::{Action, Effect};

use crate::support::build;
use crate::trades::bench::{Bench, Fate, in_v4, trade};

const VALUE: u64 = 40_000_000;

fn start_trade(bench: &mut Bench) -> RequestId {
    let id = bench.starts(0, in_v4(trade(VALUE)));
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    id
}

#[test]
fn an_ordered_permit_is_signed_once_under_its_own_digest() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    let order = bench.permit(id);
    let decision = bench.order_permit(order.clone()).unwrap();
    assert_eq!(decision.effects, [Effect::SignPermit(id)]);
    let exchange = build::base().exchange.unwrap();
    let digest = order.permit.digest(build::base().chain, exchange.permit2).unwrap();
    assert_eq!(bench.record(id).permit_digest(), Some(digest));

    assert_eq!(bench.record_permit(id, order.permit).unwrap().events.len(), 1);
    let signed = bench.execution(id).permit.clone().unwrap();
    assert!(signed.signature.is_some() && signed.permit == order.permit && signed.count == 1);
    assert_eq!(bench.record(id).permit_digest(), None);
    assert!(bench.record_permit(id, order.permit).unwrap().events.is_empty());
    bench.open_and_finish(id, StepPurpose::Swap, Fate::Succeeded);
    bench.end_executed(id);
    assert!(bench.is_closed(id));
}

#[test]
fn a_signature_of_a_replaced_permit_is_not_recorded() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    let first = bench.permit(id);
    bench.order_permit(first.clone()).unwrap();
    let mut second = first.clone();
    second.permit.nonce += 1;
    bench.order_permit(second.clone()).unwrap();
    assert!(bench.record_permit(id, first.permit).unwrap().events.is_empty());
    assert_eq!(bench.record_permit(id, second.permit).unwrap().events.len(), 1);
}

#[test]
fn a_permit_that_does_not_fit_the_trade_is_refused() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    let good = bench.permit(id);
    let wrong: [fn(&mut PermitOrder); 6] = [
        |order| order.permit.token = build::address("spare"),
        |order| order.permit.amount += U256::ONE,
        |order| order.permit.amount -= U256::ONE,
        |order| order.permit.spender = build::address("spare"),
        |order| order.permit.expiration += 1,
        |order| order.permit.signature_deadline += 1,
    ];
    for change in wrong {
        let mut order = good.clone();
        change(&mut order);
        let refusal = bench.order_permit(order).unwrap_err();
        assert_eq!(refusal.code, Code::BadInput);
        assert_eq!(bench.execution(id).permit, None);
    }
    let old = PermitOrder { index: 0, ..good };
    assert_eq!(bench.order_permit(old).unwrap_err().code, Code::AlreadyDecided);
}

#[test]
fn the_agents_own_deadline_bounds_the_permit() {
    let mut bench = Bench::new();
    let deadline = u64::try_from(bench.world.clock.utc.seconds()).unwrap() + 30;
    let mut asked = in_v4(trade(VALUE));
    asked.deadline = Some(deadline);
    let id = bench.starts(0, asked);
    bench.open_and_finish(id, StepPurpose::Allowance, Fate::Succeeded);
    let mut order = bench.permit(id);
    order.quote.block_time = deadline - 20;
    order.permit.expiration = deadline + 1;
    order.permit.signature_deadline = deadline;
    assert_eq!(bench.order_permit(order.clone()).unwrap_err().code, Code::BadInput);
    order.permit.expiration = deadline;
    bench.order_permit(order).unwrap();
}

#[test]
fn a_swap_of_v3_has_no_permit() {
    let mut bench = Bench::new();
    let id = bench.starts(0, trade(VALUE));
    let order = bench.permit(id);
    assert_eq!(bench.order_permit(order).unwrap_err().code, Code::BadInput);
}

#[test]
fn a_permit_is_not_signed_for_what_the_policy_no_longer_allows() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    let mut order = bench.permit(id);
    order.quote.out.0 -= order.quote.out.0 / U256::from(20);
    let decision = bench.order_permit(order).unwrap();
    assert!(decision.effects.is_empty());
    assert_eq!(bench.end_code(id), Some(Code::PriceMoved));
}

#[test]
fn a_plan_orders_a_bounded_number_of_permits() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    for _each in 0..PERMITS_MAX {
        bench.order_permit(bench.permit(id)).unwrap();
    }
    let decision = bench.order_permit(bench.permit(id)).unwrap();
    assert!(decision.effects.is_empty());
    assert_eq!(bench.end_code(id), Some(Code::PlanExpired));
}

#[test]
fn a_stopped_plan_orders_and_keeps_no_permit_to_sign() {
    for stop in [Action::Freeze, Action::Suspend { agent: build::agent(0) }] {
        let mut bench = Bench::new();
        let id = start_trade(&mut bench);
        let order = bench.permit(id);
        bench.order_permit(order.clone()).unwrap();
        bench.world.must(stop);
        assert_eq!(bench.record(id).permit_digest(), None);
        assert!(bench.order_permit(order.clone()).is_err());
        let recorded = bench.record_permit(id, order.permit).unwrap().events;
        assert_eq!(recorded, [], "a signature after the stop is discarded");
        assert!(bench.try_open(id, StepPurpose::Swap).is_err());
    }
}

/// A locked wallet cannot seal the entry.
#[test]
fn a_locked_wallet_records_no_signature() {
    let mut bench = Bench::new();
    let id = start_trade(&mut bench);
    let order = bench.permit(id);
    bench.order_permit(order.clone()).unwrap();
    bench.world.unlocked = false;
    assert_eq!(bench.record_permit(id, order.permit).unwrap_err().code, Code::WalletLocked);
}
