//! Trades from a hardware device: what is recorded, shown, pressed, sent and answered.

use bursar_auditor::observations::*;

use crate::common::device::*;
use crate::common::trading::*;
use crate::common::{COIN, MAIN};

/// Returns a person whose approval of 40 dollars is on the chain.
fn approved() -> Person {
    let mut person = Person::new();
    person.has_allowance(0);
    person.starts(&buy(40));
    let approval = person.approval(40 * DOLLAR);
    person.executes(&approval);
    person.has_allowance(40 * DOLLAR);
    person
}

/// Returns a person whose trade has swapped, and the final swap.
fn swapped() -> (Person, Transaction) {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.executes(&swap);
    person.has_allowance(0);
    (person, swap)
}

/// Returns a person who refused the swap after the approval.
fn refused() -> Person {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.asks(&swap);
    person.refuses(&swap);
    person.ends();
    person.answers(rejected_on_device());
    person
}

#[test]
fn a_trade_with_two_presses_is_executed() {
    let (mut person, swap) = swapped();
    person.ends();
    person.closes();
    person.answers(executed_state(&swap, None));
    person.answers(executed_state(&swap, None));
    person.is_calm();
    person.trader.accepts(Observation::Over);
}

#[test]
fn a_refused_swap_is_followed_by_a_revocation() {
    for agrees in [true, false] {
        let mut person = refused();
        let revocation = person.approval(0);
        if agrees {
            person.executes(&revocation);
            person.has_allowance(0);
        } else {
            person.asks(&revocation);
            person.refuses(&revocation);
        }
        person.closes();
        person.is_calm();
        person.trader.accepts(Observation::Over);
    }
}

#[test]
fn an_allowance_that_no_person_kept_may_not_stay() {
    let mut person = refused();
    person.closes();
    person.is_calm();
    person.trader.rejects("I-s", Observation::Over);
}

#[test]
fn an_allowance_from_before_the_trade_may_stay() {
    let mut person = Person::new();
    person.has_allowance(50 * DOLLAR);
    person.starts(&buy(40));
    let swap = person.swap(&buy(40));
    person.executes(&swap);
    person.has_allowance(10 * DOLLAR);
    person.closes();
    person.is_calm();
    person.trader.accepts(Observation::Over);
}

#[test]
fn every_plan_is_closed_at_the_end() {
    let mut person = refused();
    person.is_calm();
    person.trader.rejects("I-n", Observation::Over);
}

#[test]
fn a_prompt_needs_its_record_and_the_address() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.derives();
    person.trader.rejects("unrecorded", Observation::Device(prompted(&swap)));
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.records(&swap);
    person.trader.rejects("T-35", Observation::Device(prompted(&swap)));
}

#[test]
fn a_step_needs_an_allowed_request() {
    let mut person = Person::new();
    person.calls(CALL, "HHH111", &buy(40));
    let approval = person.approval(40 * DOLLAR);
    let step = person.step(ID, &approval);
    person.rejects("unrecorded", step);
}

#[test]
fn no_prompt_follows_the_end_of_a_request() {
    let ends: [fn(&mut Person); 5] = [
        Person::denies,
        Person::ends,
        |person| person.answers(rejected_on_device()),
        |person| {
            person.driver().advance_ms(300_000);
            person.driver().advance_ms(1_000);
        },
        Person::closes,
    ];
    for end in ends {
        let mut person = approved();
        let swap = person.swap(&buy(40));
        end(&mut person);
        person.ask_rejected("late prompt", &swap);
    }
}

/// After a wall clock was set back, the wallet notices the end of the five minutes at its next check.
#[test]
fn a_prompt_may_coincide_with_the_end_of_the_five_minutes() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.driver().advance_ms(300_000);
    person.asks(&swap);
}

#[test]
fn a_revocation_may_follow_a_denial_and_only_the_end() {
    let mut person = approved();
    person.denies();
    person.ends();
    let revocation = person.approval(0);
    person.asks(&revocation);
    person.denies();
    person.closes();
    let again = person.approval(0);
    person.ask_rejected("late prompt", &again);
}

#[test]
fn no_prompt_while_the_agent_is_stopped() {
    let agent = || "HHH111".to_owned();
    let stops = [
        ("I-g", Order::Freeze),
        ("I-f", Order::LockWallet),
        ("I-i", Order::Suspend { agent: agent() }),
    ];
    for (rule, stop) in stops {
        let mut person = approved();
        let swap = person.swap(&buy(40));
        person.trader.order(stop);
        person.ask_rejected(rule, &swap);
    }
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.trader.accepts(Observation::JournalDoubted { doubted: true });
    person.ask_rejected("I-f", &swap);
}

#[test]
fn an_empty_transaction_replaces_only_a_signed_one() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    person.sends(&swap);
    person.driver().advance_ms(400_000);
    let empty = person.empty(swap.nonce);
    person.executes(&empty);
    let mut person = approved();
    let empty = person.empty(7);
    person.ask_rejected("late prompt", &empty);
}

#[test]
fn a_signature_needs_a_press_that_the_wallet_read() {
    let signed = |tx: &Transaction| DeviceTradeObservation::Signed { digest: digest_of(tx) };
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.asks(&swap);
    person.rejects("I-l", signed(&swap));
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.asks(&swap);
    person.presses(&swap);
    person.rejects("I-l", signed(&swap));
}

#[test]
fn a_signature_that_came_after_a_stop_is_not_recorded() {
    let read = || {
        let mut person = approved();
        let swap = person.swap(&buy(40));
        person.asks(&swap);
        person.presses(&swap);
        person.reads(&swap);
        (person, DeviceTradeObservation::Signed { digest: digest_of(&swap) })
    };
    let (mut person, signed) = read();
    person.trader.order(Order::Freeze);
    person.rejects("I-g", signed);
    let (mut person, signed) = read();
    person.denies();
    person.rejects("late press", signed);
    // The process may have written it before it died.
    let (mut person, signed) = read();
    person.trader.accepts(Observation::Died);
    person.trade(signed);
}

#[test]
fn a_transaction_carries_the_pressed_signature() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.asks(&swap);
    person.rejects("I-l", carried(&swap));
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    let DeviceTradeObservation::Carried { hash, digest, .. } = carried(&swap) else {
        unreachable!()
    };
    let signature = format!("0x{}", "1".repeat(130));
    person.rejects("I-l", DeviceTradeObservation::Carried { hash, digest, signature });
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    person.trader.rejects("I-l", Observation::Broadcast(swap));
}

#[test]
fn a_transaction_is_the_recorded_one() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    person.trade(carried(&swap));
    let other = Transaction { value: 1, ..swap };
    person.trader.rejects("call data", Observation::Broadcast(other));
}

#[test]
fn a_request_has_one_swap() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.asks(&swap);
    // A process reads its journal again when it starts.
    person.records(&swap);
    let second = person.swap(&buy(40));
    let step = person.step(ID, &second);
    person.rejects("I-b", step);
}

#[test]
fn a_swap_is_shown_after_its_approval() {
    for amount in [0, 40 * DOLLAR - 1] {
        let mut person = approved();
        person.has_allowance(amount);
        let swap = person.swap(&buy(40));
        person.ask_rejected("plan order", &swap);
    }
}

#[test]
fn one_plan_of_the_address_runs_at_a_time() {
    for ends in [true, false] {
        let mut person = approved();
        let trade = buy(30);
        person.calls(2, "BBB111", &trade);
        let allowed = person.allowed("second", 2);
        person.trade(allowed);
        if ends {
            person.ends();
        }
        let approval = person.approval(30 * DOLLAR);
        let step = person.step("second", &approval);
        person.trade(step);
        person.derives();
        if ends {
            person.device(prompted(&approval));
        } else {
            person.trader.rejects("one plan", Observation::Device(prompted(&approval)));
        }
    }
}

#[test]
fn the_reported_fill_is_what_arrived() {
    for (told, is_right) in [(fair_output(40), true), (fair_output(40) + 1, false)] {
        let mut person = approved();
        let swap = person.swap(&buy(40));
        person.signs(&swap);
        person.sends(&swap);
        let log = transfer(WETH, V3_ROUTER, DEVICE, fair_output(40));
        person.trader.includes(&swap, true, vec![log]);
        person.is_final(&swap, true);
        let state = executed_state(&swap, Some(told));
        if is_right { person.answers(state) } else { person.rejects("fill", answer(state)) }
    }
}

#[test]
fn a_call_is_executed_as_one_request() {
    for agent in ["HHH111", "BBB111"] {
        let mut person = Person::new();
        person.calls(CALL, agent, &buy(40));
        for request in ["first", "first"] {
            let allowed = person.allowed(request, CALL);
            person.trade(allowed);
        }
        let second = person.allowed("second", CALL);
        person.rejects("I-b", second);
    }
}

#[test]
fn a_swap_moves_the_asked_amount_to_the_address_within_the_floor() {
    let least = floor_of(fair_output(40), 50);
    let wrong = [
        ("call data", DEVICE, 41 * DOLLAR, least, 180),
        ("call data", MAIN, 40 * DOLLAR, least, 180),
        ("deadline", DEVICE, 40 * DOLLAR, least, 181),
        ("floor", DEVICE, 40 * DOLLAR, floor_of(fair_output(40), 301), 180),
        ("floor", DEVICE, 40 * DOLLAR, fair_output(40) + 1, 180),
    ];
    for (rule, to, amount, least, lasts_s) in wrong {
        let mut person = approved();
        let swap = person.swap_to(to, amount, least, lasts_s);
        let step = person.step(ID, &swap);
        person.rejects(rule, step);
    }
}

#[test]
fn a_swap_accepts_no_less_than_the_answer_stated() {
    let mut person = approved();
    let least = floor_of(fair_output(40), 50);
    let state = TradeState::Executing;
    let answer = Answer::Trade(TradeAnswer { id: Some(ID.into()), state });
    let (call, least_out) = (Some(CALL), Some(least));
    let given = DeviceTradeAnswer { call, polled: None, answer, least_out, settled: false };
    person.trade(DeviceTradeObservation::Answered(Box::new(given)));
    let swap = person.swap_to(DEVICE, 40 * DOLLAR, least - 1, 180);
    let step = person.step(ID, &swap);
    person.rejects("floor", step);
}

#[test]
fn an_allowance_is_exact_and_for_a_router() {
    let mut person = Person::new();
    person.starts(&buy(40));
    for (token, spender, amount) in
        [(COIN, V3_ROUTER, 41 * DOLLAR), (COIN, MAIN, 40 * DOLLAR), (WETH, V3_ROUTER, 40 * DOLLAR)]
    {
        let data = crate::common::encode::approve(spender, amount);
        let approval = person.tx(token, data);
        let step = person.step(ID, &approval);
        person.rejects("allowance", step);
    }
}

#[test]
fn a_permit_lasts_as_long_as_the_plan() {
    for (lasts_s, is_allowed) in [(300, true), (301, false)] {
        let mut person = Person::new();
        let trade = Trade { pool: Route::Pool(v4(NATIVE)), ..buy(40) };
        person.starts(&trade);
        let until_s = person.trader.time_s() + lasts_s;
        let permit = Permit {
            chain: trade.chain,
            token: COIN.into(),
            amount: 40 * DOLLAR,
            expiration_s: until_s,
            nonce: 0,
            spender: V4_ROUTER.into(),
            deadline_s: until_s,
        };
        let content = SignedContent::Permit(permit);
        let (request, signer, digest) = (ID.to_owned(), DEVICE.into(), "0xdd".to_owned());
        let step = DeviceStep { request, signer, digest, content };
        let step = DeviceTradeObservation::Recorded(Box::new(step));
        if is_allowed { person.trade(step) } else { person.rejects("permit", step) }
    }
}

#[test]
fn answers_never_step_back() {
    let states = [
        TradeState::Pending,
        TradeState::Executing,
        rejected_on_device(),
        TradeState::Failed { code: None },
    ];
    for (first, next) in [(1, 0), (2, 1), (2, 0), (2, 3), (3, 2)] {
        let mut person = Person::new();
        person.starts(&buy(40));
        person.answers(states[first].clone());
        person.answers(states[first].clone());
        person.rejects("I-p", answer(states[next].clone()));
    }
}

#[test]
fn a_trade_is_executed_only_by_its_final_swap() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    person.sends(&swap);
    person.trader.includes(&swap, true, vec![]);
    person.rejects("executed", answer(executed_state(&swap, None)));
    let (mut person, _swap) = swapped();
    let other = person.swap(&buy(40));
    person.rejects("executed", answer(executed_state(&other, None)));
    let (mut person, _swap) = swapped();
    person.rejects("executed", answer(rejected_on_device()));
}

#[test]
fn a_rejected_trade_sends_no_swap() {
    let mut person = approved();
    let swap = person.swap(&buy(40));
    person.signs(&swap);
    person.trade(carried(&swap));
    person.answers(rejected_on_device());
    person.trader.rejects("T-53", Observation::Broadcast(swap));
}

#[test]
fn every_request_ends() {
    let mut person = Person::new();
    person.starts(&buy(40));
    let DeviceTradeObservation::Answered(mut given) = answer(TradeState::Executing) else {
        unreachable!()
    };
    given.settled = true;
    person.rejects("I-n", DeviceTradeObservation::Answered(given));
}

#[test]
fn trades_stay_within_their_limits() {
    for (dollars, approves, rule) in [(100, false, "I-j"), (201, true, "volume")] {
        let mut person = Person::new();
        person.calls(CALL, "HHH111", &buy(dollars));
        if approves {
            person.device(DeviceObservation::Decided { request: ID.into(), approved: true });
        }
        let allowed = person.allowed(ID, CALL);
        person.rejects(rule, allowed);
    }
    let mut person = Person::new();
    person.calls(CALL, "HHH111", &buy(200));
    person.device(DeviceObservation::Decided { request: ID.into(), approved: true });
    let allowed = person.allowed(ID, CALL);
    person.trade(allowed);
}

#[test]
fn the_swaps_of_a_day_stay_within_the_daily_volume() {
    for renews in [false, true] {
        let mut person = Person::new();
        for call in 1..=4 {
            let (id, trade) = (format!("request {call}"), buy(80));
            person.calls(call, "HHH111", &trade);
            let allowed = person.allowed(&id, call);
            person.trade(allowed);
            person.has_allowance(80 * DOLLAR);
            let swap = person.swap(&trade);
            let step = person.step(&id, &swap);
            person.trade(step);
            person.derives();
            person.device(prompted(&swap));
            person.presses(&swap);
            person.reads(&swap);
            if call == 4 && renews {
                let (agent, start_ms) = ("HHH111".to_owned(), person.driver().clocks.wall_ms);
                person.device(DeviceObservation::Renewed { agent, start_ms });
            }
            let signed = DeviceTradeObservation::Signed { digest: digest_of(&swap) };
            if call == 4 && !renews {
                person.rejects("volume", signed);
            } else {
                person.trade(signed);
                person.trade(DeviceTradeObservation::Ended { request: id });
            }
        }
    }
}
