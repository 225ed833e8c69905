//! Settings: loosening one needs an unlocked wallet, tightening does not.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::money::Usd;
use bursar_core::settings::{LanBearer, Setting};
use bursar_domain::{Action, PaymentAsk};

use crate::support::{Answer, World, build};
use build::{ordinary_world, payment};

fn set(world: &mut World, setting: Setting) -> Result<usize, Code> {
    let decided = world.run(Action::Set(setting));
    decided.map(|decision| decision.events.len()).map_err(|refusal| refusal.code)
}

#[test]
fn loosening_needs_an_open_wallet_and_tightening_does_not() {
    let mut world = ordinary_world();
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
fn the_longest_automatic_validity_is_a_setting() {
    let mut world = ordinary_world();
    let long = |seconds| PaymentAsk { valid_seconds: seconds, ..payment(1000) };
    assert!(matches!(world.ask(long(3600)), Answer::Signs(_)));
    assert!(matches!(world.ask(long(3601)), Answer::Holds(_, HoldReason::LongValidity)));
    set(&mut world, Setting::MaxValidity(60)).unwrap();
    assert!(matches!(world.ask(long(60)), Answer::Signs(_)));
    assert!(matches!(world.ask(long(61)), Answer::Holds(_, HoldReason::LongValidity)));
}

#[test]
fn the_setting_decides_from_which_amount_typing_is_required() {
    let mut world = ordinary_world();
    let id = world.holds(payment(2_000_000));
    assert!(!world.card(id).unwrap().type_amount);
    set(&mut world, Setting::ConfirmTypingAbove(Some(Usd(2_000_000)))).unwrap();
    assert!(world.card(id).unwrap().type_amount);
    set(&mut world, Setting::ConfirmTypingAbove(Some(Usd(2_000_001)))).unwrap();
    assert!(!world.card(id).unwrap().type_amount);
}

#[test]
fn expired_holds_reserve_nothing_before_the_tick() {
    let mut world = ordinary_world();
    // Twenty held requests fill the queue and reserve nearly the whole daily limit.
    let waiting: Vec<_> = (0..20).map(|_ask| world.holds(payment(4_900_000))).collect();
    assert_eq!(world.refuses(payment(4_900_000)).code, Code::ExceedsDailyLimit);
    world.clock.pass(bursar_core::limits::HOLD_MS);
    let next = world.holds(payment(4_900_000));
    assert_eq!(world.reserved_value(), Usd(4_900_000));
    for id in waiting {
        assert!(matches!(world.status(id), bursar_domain::Status::Expired { .. }));
    }
    assert!(world.deny(next).is_ok());
}

#[test]
fn refused_requests_are_recorded_at_a_bounded_rate() {
    let mut world = ordinary_world();
    let long = format!("https://api.example/{}", "a".repeat(4000));
    let dear = PaymentAsk {
        request_url: Some(long.clone()),
        resource_url: Some(long),
        ..payment(11_000_000)
    };
    let before = world.entries.len();
    for _ask in 0..300 {
        assert_eq!(world.refuses(dear.clone()).code, Code::ExceedsPerRequestMax);
    }
    assert_eq!(world.entries.len() - before, 30, "the others were told, and not recorded");
    let stored = postcard::to_allocvec(&world.entries[before..]).unwrap();
    assert!(stored.len() < 30 * 600, "{} bytes", stored.len());
    let kept = world.records.values().next_back().unwrap();
    assert_eq!(kept.ask.payment().unwrap().request_url.as_deref(), Some("https://api.example"));
    world.clock.pass(60_000);
    world.refuses(dear);
    assert_eq!(world.entries.len() - before, 31, "the next minute is another");
    // A payment that the policy does not refuse is not affected.
    world.signs(payment(1000));
}

#[test]
fn the_card_names_the_label_that_the_paying_address_has_now() {
    let mut world = ordinary_world();
    let id = world.holds(payment(2_000_000));
    let card = world.card(id).unwrap();
    let renamed = build::name("old");
    world.must(Action::RenameAddress { from: card.label.clone(), to: renamed.clone() });
    let now = world.card(id).unwrap();
    assert_eq!((now.label, now.terms.address), (renamed, card.terms.address));
    assert_eq!(now.digest, card.digest, "a name is no term");
}

#[test]
fn t_14_a_clock_far_off_the_newest_block_asks_the_operator() {
    let mut world = ordinary_world();
    for (apart, held) in [(600_000, false), (600_001, true), (-600_000, false), (-600_001, true)] {
        world.clock.chain_hint = Some(world.clock.utc.plus_ms(apart));
        let answer = world.ask(payment(1000));
        let wanted = matches!(answer, Answer::Holds(_, HoldReason::ClockOff));
        assert_eq!(wanted, held, "{apart}: {answer:?}");
    }
    world.clock.chain_hint = None;
    assert!(matches!(world.ask(payment(1000)), Answer::Signs(_)));
}
