//! Payments from an address of a hardware device: when terms are fixed, and how long value stays reserved or is
//! spent.

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::limits::{HELD_PER_AGENT_MAX, HOLD_MS};
use bursar_core::money::Usd;
use bursar_domain::prompts::{PROMPT_MARGIN_S, WaitEnd};
use bursar_domain::{Action, Effect, Event, Reply, Status, cards};
use bursar_x402::authorization::Authorization;

use crate::support::clock::{Clock, DAY, HOUR, MINUTE, SECOND};
use crate::support::{Answer, World, build, denial, policy_name};
use build::{payment, policy};

fn world() -> World {
    build::world_with_device(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy())
}

#[track_caller]
fn ask_awaiting(world: &mut World, micros: u64) -> RequestId {
    match world.ask(payment(micros)) {
        Answer::Awaits(id) => id,
        other => panic!("does not wait: {other:?}"),
    }
}

/// Reports to the wallet that the device is ready for the request. Returns the terms for the device to sign.
#[track_caller]
fn prompt(world: &mut World, id: RequestId) -> Authorization {
    let nonce = world.draw_nonce();
    let decision = world.must(Action::Prompt { id, nonce });
    assert_eq!((decision.reply, decision.effects), (Reply::Request(id), vec![Effect::Sign(id)]));
    world.records[&id].terms().expect("terms").clone()
}

fn sign(world: &World, id: RequestId) -> Action {
    Action::SignedOnDevice { id, signature: build::signature(world.records.get(&id)) }
}

fn refusal_code(world: &mut World, action: Action) -> Code {
    world.run_refused(action).code
}

fn spent_and_reserved(world: &World) -> (Usd, Usd) {
    (world.spent(), world.reserved_value())
}

#[test]
fn times_begin_with_the_prompt_and_the_value_is_spent_with_the_signature() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd(900_000)));
    assert!(world.records[&id].digest().is_none(), "nothing to sign yet");
    world.clock.pass(10 * MINUTE);
    let terms = prompt(&mut world, id);
    let now = u64::try_from(world.clock.utc.seconds()).unwrap();
    assert_eq!(terms.valid_before, now + 60);
    assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd(900_000)));
    world.clock.pass(20 * SECOND);
    let signed = sign(&world, id);
    world.must(signed);
    assert_eq!(spent_and_reserved(&world), (Usd(900_000), Usd::ZERO));
    let Status::Authorized { terms: kept, signature: Some(_), .. } = world.status(id) else {
        panic!("{:?}", world.status(id))
    };
    assert_eq!(*kept, terms);
    // The signature is accepted only once.
    let again = Action::SignedOnDevice { id, signature: build::signature(world.records.get(&id)) };
    assert_eq!(refusal_code(&mut world, again), Code::RequestNotFound);
}

#[test]
fn an_approved_payment_waits_for_its_device_too() {
    let mut world = world();
    let id = world.holds(payment(5_000_000));
    let decision = world.approve(id).unwrap();
    assert_eq!(decision.effects, vec![], "nothing is signed without the device");
    assert!(matches!(world.status(id), Status::AwaitingDevice(_)));
    assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd(5_000_000)));
    prompt(&mut world, id);
    let signed = sign(&world, id);
    world.must(signed);
    assert_eq!(spent_and_reserved(&world), (Usd(5_000_000), Usd::ZERO));
    assert_eq!(world.approve(id).unwrap_err().code, Code::AlreadyDecided);
}

#[test]
fn a_refusal_of_the_only_prompt_returns_the_value_at_once() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    prompt(&mut world, id);
    world.must(Action::RefusedOnDevice { id });
    assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd::ZERO));
    assert!(matches!(world.status(id), Status::NotSigned { end: WaitEnd::Refused, .. }));
    let signed = sign(&world, id);
    assert_eq!(refusal_code(&mut world, signed), Code::RequestNotFound);
}

#[test]
fn after_an_unknown_outcome_a_refusal_returns_the_value_only_once_the_terms_lapse() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    let first = prompt(&mut world, id);
    // The cable was pulled, but the person may have pressed before.
    world.clock.pass(5 * SECOND);
    let second = prompt(&mut world, id);
    assert_eq!(first, second, "the same terms, and so at most one payment");
    world.must(Action::RefusedOnDevice { id });
    assert!(matches!(world.status(id), Status::NotSigned { end: WaitEnd::Refused, .. }));
    for (pass, reserved) in [(0, 900_000), (54 * SECOND, 900_000), (SECOND, 0)] {
        world.clock.pass(pass);
        world.tick();
        assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd(reserved)), "after {pass} ms");
    }
}

#[test]
fn a_prompt_that_was_not_shown_leaves_no_terms() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    let first = prompt(&mut world, id);
    world.must(Action::FailPrompt { id });
    assert!(world.records[&id].terms().is_none());
    // The prompt stays recorded, so that the status shown to agents does not return from `executing` to `pending`.
    let turn = world.records[&id].device_turn().expect("it waits");
    assert!(turn.prompt.is_some() && turn.shown_prompt().is_none());
    world.clock.pass(MINUTE);
    let later = prompt(&mut world, id);
    assert!(later.valid_before > first.valid_before && later.nonce != first.nonce);
    // The device showed the first of these two prompts and failed the second one, so the terms stay.
    prompt(&mut world, id);
    world.must(Action::FailPrompt { id });
    assert_eq!(world.records[&id].terms(), Some(&later));
}

#[test]
fn a_prompt_ends_ten_seconds_before_its_terms_and_the_wait_after_fifteen_minutes() {
    let mut world = world();
    let (early, late) = (ask_awaiting(&mut world, 100_000), ask_awaiting(&mut world, 200_000));
    world.clock.pass(HOLD_MS - 60 * SECOND);
    prompt(&mut world, late);
    let shown = 60 * SECOND - i64::try_from(PROMPT_MARGIN_S).unwrap() * SECOND;
    world.clock.pass(shown - SECOND);
    world.tick();
    assert!(matches!(world.status(late), Status::AwaitingDevice(_)));
    world.clock.pass(SECOND);
    let nonce = world.draw_nonce();
    let ended = world.must(Action::Prompt { id: late, nonce });
    assert_eq!(ended.reply, Reply::Refused(Code::LedgerDisconnected.into()));
    assert!(matches!(world.status(late), Status::NotSigned { end: WaitEnd::TooLate, .. }));
    assert!(matches!(world.status(early), Status::AwaitingDevice(_)));
    assert_eq!(world.reserved_value(), Usd(300_000), "the device may have signed");
    world.clock.pass(10 * SECOND);
    world.tick();
    assert!(matches!(world.status(early), Status::NotSigned { end: WaitEnd::TooLate, .. }));
    assert_eq!(world.reserved_value(), Usd::ZERO);
}

/// Setting the clock back extends neither the wait nor the prompt. The value stays reserved while the terms may be
/// redeemed.
#[test]
fn a_clock_that_is_set_back_prolongs_no_wait() {
    let mut world = world();
    let (waits, shown) = (ask_awaiting(&mut world, 100_000), ask_awaiting(&mut world, 200_000));
    let terms = prompt(&mut world, shown);
    world.clock.shift_wall_clock(-2 * DAY);
    world.clock.pass(HOLD_MS);
    world.tick();
    assert!(matches!(world.status(waits), Status::NotSigned { end: WaitEnd::TooLate, .. }));
    assert!(matches!(world.status(shown), Status::AwaitingDevice(_)));
    world.clock.pass(60 * SECOND - i64::try_from(PROMPT_MARGIN_S).unwrap() * SECOND);
    world.tick();
    assert!(matches!(world.status(shown), Status::NotSigned { end: WaitEnd::TooLate, .. }));
    assert_eq!(world.reserved_value(), Usd(200_000));
    let end = i64::try_from(terms.valid_before).unwrap() * SECOND;
    world.clock.pass(end - SECOND - world.clock.utc.0);
    world.tick();
    assert_eq!(world.reserved_value(), Usd(200_000));
    world.clock.pass(SECOND);
    world.tick();
    assert_eq!(world.reserved_value(), Usd::ZERO);
}

/// Terms that a device may have signed can outlast the 15 minutes of a stored result. A repeat is not paid before
/// they lapse.
#[test]
fn a_repeat_is_no_new_payment_while_the_device_may_have_signed_the_first() {
    let mut world = world();
    let agent = build::agent(0);
    let identity = build::bearer_identity(&agent, b"report", None);
    let long = || {
        let mut ask = payment(900_000);
        ask.valid_seconds = 1_800;
        ask
    };
    let Answer::Awaits(id) = world.ask_as(&agent, identity.clone(), long()) else {
        panic!("it waits")
    };
    prompt(&mut world, id);
    world.must(denial(id));
    // The denial itself is returned for 15 minutes only.
    world.clock.pass(1_799 * SECOND);
    let answer = world.ask_as(&agent, identity.clone(), long());
    assert!(matches!(&answer, Answer::Earlier(first) if first.id == id), "{answer:?}");
    world.clock.pass(SECOND);
    let Answer::Awaits(next) = world.ask_as(&agent, identity, long()) else { panic!("it waits") };
    assert_ne!(next, id);
}

/// A repeat of an overdue request gets that request's end, even before a tick has recorded it, as for a held request.
#[test]
fn a_repeat_records_the_end_of_a_wait_that_is_over() {
    let mut world = world();
    let agent = build::agent(0);
    let identity = build::bearer_identity(&agent, b"report", None);
    let Answer::Awaits(id) = world.ask_as(&agent, identity.clone(), payment(900_000)) else {
        panic!("it waits")
    };
    world.clock.pass(HOLD_MS);
    world.ask_as(&agent, identity, payment(900_000));
    assert!(matches!(world.status(id), Status::NotSigned { end: WaitEnd::TooLate, .. }));
}

/// The clock was days ahead when the wait began and the terms were fixed.
///
/// After a reboot, only the new boot clock shows that time passes.
#[test]
fn a_reboot_with_a_corrected_clock_prolongs_no_wait() {
    let mut world = world();
    world.clock.shift_wall_clock(5 * DAY);
    let (waits, shown) = (ask_awaiting(&mut world, 100_000), ask_awaiting(&mut world, 200_000));
    prompt(&mut world, shown);
    world.clock.shift_wall_clock(-5 * DAY);
    world.clock.reboot(MINUTE);
    let end = 60 * SECOND - i64::try_from(PROMPT_MARGIN_S).unwrap() * SECOND;
    let of = |world: &World, id| matches!(world.status(id), Status::AwaitingDevice(_));
    for (pass, left) in
        [(HOLD_MS - MINUTE - 1, (true, true)), (1, (false, true)), (end - 1, (false, true))]
    {
        world.clock.pass(pass);
        world.tick();
        assert_eq!((of(&world, waits), of(&world, shown)), left);
    }
    world.clock.pass(1);
    world.tick();
    assert!(matches!(world.status(shown), Status::NotSigned { end: WaitEnd::TooLate, .. }));
    // The terms may be redeemed on the chain for five more days.
    assert_eq!(world.reserved_value(), Usd(200_000));
}

/// A locked wallet records the end of a wait, so setting the clock back does not make the request active again.
#[test]
fn a_locked_wallet_records_the_end_of_a_wait_and_frees_only_what_was_not_shown() {
    let mut world = world();
    let (waits, shown) = (ask_awaiting(&mut world, 100_000), ask_awaiting(&mut world, 200_000));
    prompt(&mut world, shown);
    world.lock();
    world.clock.shift_wall_clock(5 * DAY);
    world.tick();
    world.clock.shift_wall_clock(-5 * DAY);
    let mut restarted = world.restarted();
    restarted.unlock();
    for id in [waits, shown] {
        let status = restarted.status(id);
        assert!(matches!(status, Status::NotSigned { end: WaitEnd::TooLate, .. }), "{status:?}");
    }
    assert_eq!(restarted.reserved_value(), Usd(200_000));
}

/// The clock was days ahead, so the journal's time still is. The value returns once the boot clock proves the end.
#[test]
fn a_value_returns_within_the_boot_although_the_journal_is_ahead() {
    let mut world = world();
    world.clock.shift_wall_clock(5 * DAY);
    world.must(Action::Freeze);
    world.must(Action::Thaw);
    world.clock.shift_wall_clock(-5 * DAY);
    let id = ask_awaiting(&mut world, 100_000);
    prompt(&mut world, id);
    world.clock.pass(10 * SECOND);
    // The clock jumps ahead again, but the merchant may still redeem the terms.
    world.clock.shift_wall_clock(5 * DAY);
    world.tick();
    assert_eq!(world.reserved_value(), Usd(100_000));
    world.clock.shift_wall_clock(-5 * DAY);
    for (pass, reserved) in [(HOLD_MS + 49 * SECOND, 100_000), (SECOND, 0)] {
        world.clock.pass(pass);
        world.tick();
        assert_eq!(world.reserved_value(), Usd(reserved));
    }
}

#[test]
fn a_late_signature_is_never_recorded() {
    type Stop = fn(&mut World, RequestId);
    let stops: [(&str, Stop, Code); 7] = [
        ("given up", |world, _id| world.clock.pass(50 * SECOND), Code::PaymentExpired),
        ("frozen", |world, _id| drop(world.must(Action::Freeze)), Code::AgentsFrozen),
        ("locked", |world, _id| world.lock(), Code::WalletLocked),
        ("denied", |world, id| drop(world.must(denial(id))), Code::RequestNotFound),
        (
            "suspended",
            |world, _id| drop(world.must(Action::Suspend { agent: build::agent(0) })),
            Code::AgentSuspended,
        ),
        ("expired", |world, _id| world.clock.pass(MINUTE), Code::PaymentExpired),
        ("untrusted", |world, _id| world.trusted = false, Code::JournalUntrusted),
    ];
    for (what, stop, expected) in stops {
        let mut world = world();
        let id = ask_awaiting(&mut world, 900_000);
        prompt(&mut world, id);
        stop(&mut world, id);
        let signed = sign(&world, id);
        assert_eq!(refusal_code(&mut world, signed), expected, "{what}");
        assert_eq!(world.reserved_value(), Usd(900_000), "{what}: it may exist");
    }
}

#[test]
fn only_the_signature_of_the_address_over_the_terms_is_recorded() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    // Before a prompt there are no terms, so a signature is rejected.
    let unprompted = sign(&world, id);
    assert_eq!(refusal_code(&mut world, unprompted), Code::RequestNotFound);
    prompt(&mut world, id);
    let digest = world.records[&id].digest().unwrap();
    let other_key = build::sign("spare", digest);
    let other_terms = build::sign("main", alloy_primitives::B256::repeat_byte(1));
    for signature in [other_key, other_terms] {
        let action = Action::SignedOnDevice { id, signature };
        assert_eq!(refusal_code(&mut world, action), Code::LedgerError);
    }
    let signed = sign(&world, id);
    world.must(signed);
}

#[test]
fn a_freeze_or_lock_keeps_the_request_and_prompts_go_on_with_the_same_terms() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    let terms = prompt(&mut world, id);
    world.must(Action::Freeze);
    let nonce = world.draw_nonce();
    assert_eq!(refusal_code(&mut world, Action::Prompt { id, nonce }), Code::AgentsFrozen);
    world.must(Action::Thaw);
    world.lock();
    assert_eq!(refusal_code(&mut world, Action::Prompt { id, nonce }), Code::WalletLocked);
    assert_eq!(refusal_code(&mut world, Action::RefusedOnDevice { id }), Code::WalletLocked);
    world.unlock();
    assert_eq!(prompt(&mut world, id), terms);
    let mut restarted = world.restarted();
    assert_eq!(prompt(&mut restarted, id), terms);
    let signed = sign(&restarted, id);
    restarted.must(signed);
}

#[test]
fn a_tightened_policy_rejects_the_request_at_its_turn() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    world.edit(|policy| policy.payments.per_request = Usd(500_000)).unwrap();
    let nonce = world.draw_nonce();
    let decision = world.must(Action::Prompt { id, nonce });
    assert!(
        matches!(decision.reply, Reply::Refused(ref why) if why.code == Code::ExceedsPerRequestMax)
    );
    assert!(decision.effects.is_empty());
    assert!(matches!(world.status(id), Status::Refused { .. }));
    assert_eq!(spent_and_reserved(&world), (Usd::ZERO, Usd::ZERO));
}

#[test]
fn waiting_payments_count_against_every_limit_and_have_a_bound() {
    let mut policy = policy();
    policy.payments.daily = Usd::dollars(2);
    let mut world = build::world_with_device(Clock::at("2026-01-15T12:00:00Z", "UTC"), &policy);
    ask_awaiting(&mut world, 900_000);
    ask_awaiting(&mut world, 900_000);
    assert_eq!(world.refuses(payment(900_000)).code, Code::ExceedsDailyLimit);
    let mut world = self::world();
    for _place in 0..HELD_PER_AGENT_MAX {
        ask_awaiting(&mut world, 10_000);
    }
    assert_eq!(world.refuses(payment(10_000)).code, Code::TooManyPending);
}

#[test]
fn what_is_signed_after_midnight_counts_on_the_new_day() {
    let mut world = world();
    world.clock.pass(12 * HOUR - 30 * SECOND);
    let spent = ask_awaiting(&mut world, 900_000);
    prompt(&mut world, spent);
    let signed = sign(&world, spent);
    world.must(signed);
    let late = ask_awaiting(&mut world, 800_000);
    prompt(&mut world, late);
    world.clock.pass(45 * SECOND);
    let signed = sign(&world, late);
    world.must(signed);
    assert_eq!(spent_and_reserved(&world), (Usd(800_000), Usd::ZERO));
}

#[test]
fn a_repeat_gets_the_answer_of_the_first() {
    for end in [WaitEnd::Refused, WaitEnd::TooLate] {
        let mut world = world();
        let agent = build::agent(0);
        let identity = build::bearer_identity(&agent, b"report", None);
        let Answer::Awaits(id) = world.ask_as(&agent, identity.clone(), payment(900_000)) else {
            panic!("it waits")
        };
        let first = |answer| matches!(answer, Answer::Earlier(first) if first.id == id);
        assert!(first(world.ask_as(&agent, identity.clone(), payment(900_000))));
        prompt(&mut world, id);
        assert!(first(world.ask_as(&agent, identity.clone(), payment(900_000))));
        match end {
            WaitEnd::Refused => drop(world.must(Action::RefusedOnDevice { id })),
            WaitEnd::TooLate => {
                world.clock.pass(MINUTE);
                world.tick();
            }
        }
        assert!(first(world.ask_as(&agent, identity.clone(), payment(900_000))));
        world.clock.pass(HOLD_MS);
        assert!(matches!(world.ask_as(&agent, identity, payment(900_000)), Answer::Awaits(_)));
    }
}

#[test]
fn an_address_an_agent_and_a_wallet_with_a_waiting_payment_stay() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    assert_eq!(
        refusal_code(&mut world, Action::DeleteAgent { agent: build::agent(0) }),
        Code::InUse
    );
    assert_eq!(refusal_code(&mut world, Action::DeleteWallet { is_file_gone: false }), Code::InUse);
    world.must(denial(id));
    world.must(Action::DeleteAgent { agent: build::agent(0) });
    world.must(Action::DeleteAddress { label: build::name("main") });
}

#[test]
fn accepting_a_journal_or_restoring_a_backup_ends_what_waits() {
    for action in [Action::AcceptJournal, Action::RecordRestore] {
        let mut world = world();
        let (waiting, prompted) =
            (ask_awaiting(&mut world, 100_000), ask_awaiting(&mut world, 200_000));
        prompt(&mut world, prompted);
        world.must(action);
        for id in [waiting, prompted] {
            assert!(!matches!(world.status(id), Status::AwaitingDevice(_)));
            let nonce = world.draw_nonce();
            assert_eq!(
                refusal_code(&mut world, Action::Prompt { id, nonce }),
                Code::RequestNotFound
            );
        }
        assert_eq!(world.reserved_value(), Usd(200_000));
        world.clock.pass(MINUTE);
        world.tick();
        assert_eq!(world.reserved_value(), Usd::ZERO);
    }
}

#[test]
fn a_forger_can_free_no_value_and_sign_nothing() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    prompt(&mut world, id);
    let at = world.state.clock;
    let told_until = bursar_domain::requests::Deadline::after(&world.now());
    for event in [
        Event::DeviceWaitEnded { id, end: WaitEnd::Refused, repeatable_until: told_until.clone() },
        Event::PromptFailed { id },
        Event::PaymentLapsed { id },
        Event::SignedOnDevice { id, signature: build::signature(world.records.get(&id)) },
        Event::RequestExpired { id, repeatable_until: told_until },
    ] {
        let entry = bursar_domain::Entry { seq: world.state.seq + 1, at, event };
        let may = bursar_domain::unsealed_tail::may_follow_a_seal(&world.state, &entry);
        assert!(!may, "{:?}", entry.event);
    }
    // A locked wallet may deny the request or end its wait. Neither releases the value of terms that the device may
    // sign.
    let told_until = bursar_domain::requests::Deadline::after(&world.now());
    let event = Event::DeviceWaitEnded { id, end: WaitEnd::TooLate, repeatable_until: told_until };
    let entry = bursar_domain::Entry { seq: world.state.seq + 1, at, event };
    assert!(bursar_domain::unsealed_tail::may_follow_a_seal(&world.state, &entry));
    world.lock();
    world.must(denial(id));
    assert_eq!(world.reserved_value(), Usd(900_000));
}

#[test]
fn the_card_names_the_device_and_a_commission_may_use_it() {
    let mut world = world();
    let id = ask_awaiting(&mut world, 900_000);
    let card = cards::card(&world.state, &world.records[&id], &world.now()).unwrap();
    assert_eq!((card.hold, card.expires_in_seconds), (HoldReason::Device, 900));
    let action = world.approval(id, &card.digest);
    assert_eq!(refusal_code(&mut world, action), Code::AlreadyDecided);
    let again = build::commission(0, policy_name().as_str(), "main");
    world.must(again);
    // A day later, nothing is reserved.
    world.clock.pass(DAY + HOUR);
    world.tick();
    assert_eq!(world.reserved_value(), Usd::ZERO);
}
