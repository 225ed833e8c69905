//! Settings that may loosen something: an open wallet for that, and none for tightening.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::settings::{LanBearer, Setting};
use bursar_domain::{Action, PaymentAsk};

use crate::support::{Answer, World, build};
use build::{ordinary, payment};

fn set(world: &mut World, setting: Setting) -> Result<usize, Code> {
    let decided = world.run(Action::Set(setting));
    decided.map(|decision| decision.events.len()).map_err(|refusal| refusal.code)
}

#[test]
fn loosening_needs_an_open_wallet_and_tightening_does_not() {
    let mut world = ordinary();
    world.unlocked = false;
    for setting in [
        Setting::AllowLan(true),
        Setting::RateLimitOff(true),
        Setting::Hosts(vec!["wallet.lan".into()]),
        Setting::MaxValidity(7200),
        Setting::ConfirmTypingAbove(Some(Usd::dollars(100))),
    ] {
        assert_eq!(set(&mut world, setting.clone()), Err(Code::WalletLocked), "{setting:?}");
        world.unlocked = true;
        assert_eq!(set(&mut world, setting.clone()), Ok(1), "{setting:?}");
        assert_eq!(set(&mut world, setting), Ok(0), "it is so already");
        world.unlocked = false;
    }
    assert_eq!(set(&mut world, Setting::LanBearer(LanBearer::Refuse)), Ok(1));
    assert_eq!(set(&mut world, Setting::LanBearer(LanBearer::Warn)), Err(Code::WalletLocked));
    assert_eq!(set(&mut world, Setting::AllowLan(false)), Ok(1));
    assert_eq!(set(&mut world, Setting::Hosts(vec!["a b".into()])), Err(Code::BadInput));
}

#[test]
fn the_longest_unasked_validity_is_a_setting() {
    let mut world = ordinary();
    let long = |seconds| PaymentAsk { valid_seconds: seconds, ..payment(1000) };
    assert!(matches!(world.ask(long(3600)), Answer::Signs(_)));
    assert!(matches!(world.ask(long(3601)), Answer::Holds(_, HoldReason::LongValidity)));
    set(&mut world, Setting::MaxValidity(60)).unwrap();
    assert!(matches!(world.ask(long(60)), Answer::Signs(_)));
    assert!(matches!(world.ask(long(61)), Answer::Holds(_, HoldReason::LongValidity)));
}

#[test]
fn an_amount_is_typed_from_where_the_operator_wants_it() {
    let mut world = ordinary();
    let id = world.holds(payment(2_000_000));
    assert!(!world.card(id).unwrap().type_amount);
    set(&mut world, Setting::ConfirmTypingAbove(Some(Usd(2_000_000)))).unwrap();
    assert!(world.card(id).unwrap().type_amount);
    set(&mut world, Setting::ConfirmTypingAbove(Some(Usd(2_000_001)))).unwrap();
    assert!(!world.card(id).unwrap().type_amount);
}

#[test]
fn what_has_no_price_is_held_and_never_signed() {
    let mut world = ordinary();
    let strange = PaymentAsk { unpriced: true, usd: Usd::ZERO, ..payment(1) };
    let Answer::Holds(id, reason) = world.ask(strange.clone()) else { panic!("not held") };
    assert_eq!(reason, HoldReason::Unpriced);
    let card = world.card(id).unwrap();
    assert!(card.unpriced && card.amount.contains("units of 0x"), "{}", card.amount);
    assert_eq!(world.approve(id).unwrap_err().code, Code::Unpriced);
    assert_eq!((world.spent(), world.reserved()), (Usd::ZERO, Usd::ZERO));
    world.deny(id).unwrap();
    // The other rules come first: a policy that allows no payments refuses it.
    world.edit(|policy| policy.payments.enabled = false).unwrap();
    assert_eq!(world.refuses(strange).code, Code::X402Disabled);
}

#[test]
fn requests_whose_time_is_over_hold_nothing_back_before_time_is_kept() {
    let mut world = ordinary();
    // Twenty wait, which is as many as may, and hold nearly the whole day back.
    let waiting: Vec<_> = (0..20).map(|_ask| world.holds(payment(4_900_000))).collect();
    assert_eq!(world.refuses(payment(4_900_000)).code, Code::ExceedsDailyLimit);
    world.clock.pass(bursar_core::limits::HOLD_MS);
    let next = world.holds(payment(4_900_000));
    assert_eq!(world.reserved(), Usd(4_900_000));
    for id in waiting {
        assert!(matches!(world.status(id), bursar_domain::Status::Expired { .. }));
    }
    assert!(world.deny(next).is_ok());
}

#[test]
fn t_14_a_clock_far_off_the_newest_block_asks_the_operator() {
    let mut world = ordinary();
    for (apart, held) in [(600_000, false), (600_001, true), (-600_000, false), (-600_001, true)] {
        world.clock.chain_hint = Some(world.clock.utc.plus_ms(apart));
        let answer = world.ask(payment(1000));
        let wanted = matches!(answer, Answer::Holds(_, HoldReason::ClockOff));
        assert_eq!(wanted, held, "{apart}: {answer:?}");
    }
    world.clock.chain_hint = None;
    assert!(matches!(world.ask(payment(1000)), Answer::Signs(_)));
}
