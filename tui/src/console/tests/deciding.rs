//! A key decides only if it is pressed on a readable card.

use bursar_control::answers::{Answer, DecidedAnswer};
use bursar_control::grammar::{Approve, Order};
use bursar_control::wire::{Prompt, ToClient};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use super::{Stage, feed, held};
use crate::console::keymap::table::KEYS;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::{PASTE_GAP_MS, Setup};
use crate::console::update::Message;

const SIZE: (u16, u16) = (80, 24);

fn sent_approval(stage: &mut Stage) -> Option<(u64, Approve)> {
    stage.wait(PASTE_GAP_MS);
    match stage.take_newest_order("approve") {
        Some((id, Order::Approve(approve))) => Some((id, approve)),
        _none => None,
    }
}

#[test]
fn two_keys_approve_the_shown_card() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    let (call, approve) = sent_approval(&mut stage).unwrap();
    let card = stage.model.server.queue[0].request.card.clone().unwrap();
    assert_eq!((approve.id, approve.card), (card.id.to_string(), Some(card.digest)));
    assert!(approve.yes && approve.confirm.is_none());
    // Until the answer arrives, no other decision is sent.
    stage.wait(KEY_GUARD_MS);
    stage.keys("yyn");
    assert!(sent_approval(&mut stage).is_none() && stage.take_newest_order("deny").is_none());
    let decided = DecidedAnswer {
        id: card.id.to_string(),
        lane: card.terms.lane,
        status: "signed".parse().unwrap(),
        summary: "1.500000 USDC".into(),
        payee: "0x".into(),
    };
    stage.answer(call, Ok(Answer::Decided(decided)));
    assert!(stage.model.overlay.is_none());
    assert!(stage.screen().contains("approved and signed"));
}

#[test]
fn deciding_keys_count_only_after_the_guard_time() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("ay");
    stage.wait(KEY_GUARD_MS - 1);
    stage.keys("y");
    // Each early key restarts the delay, so a stream of keys never gets through.
    for _ in 0..20 {
        stage.wait(KEY_GUARD_MS - 1);
        stage.keys("y");
    }
    assert!(sent_approval(&mut stage).is_none());
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_some());
}

#[test]
fn enter_and_pasted_text_never_decide() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.press(KeyCode::Enter);
    for _ in 0..5 {
        stage.wait(KEY_GUARD_MS);
        stage.press(KeyCode::Enter);
        stage.wait(KEY_GUARD_MS);
        stage.handle_message(Message::Paste("y\ny".into()));
        stage.keys("y");
    }
    assert!(sent_approval(&mut stage).is_none(), "a paste restarts the guard time");
}

#[test]
fn changed_card_rearms_its_keys_and_its_new_digest_is_sent() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    let changed = held(1, 700_000, |card| card.digest = "ff".repeat(32));
    let rest = [held(2, 200_000, |_| {}), held(3, 40_000, |_| {})];
    // A new entry makes the console query the requests again. The answer has a changed card.
    stage.frame(ToClient::Entries { id: 7, entries: feed(41, 1) });
    stage.wait(1_000);
    let (call, _) = stage.take_newest_order("requests").unwrap();
    let requests = [vec![changed], rest.to_vec()].concat();
    stage.answer(call, Ok(Answer::Requests { requests }));
    assert!(stage.screen().contains("The card changed"));
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_none(), "the new card was not there to be read");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    assert_eq!(sent_approval(&mut stage).unwrap().1.card, Some("ff".repeat(32)));
}

/// A new request arrives at different moments of an approval and at different positions in the list. In some lists it
/// replaces the request that is shown.
#[test]
fn t_33_new_request_never_changes_what_the_key_approves() {
    let digest_of = |number: u8| format!("{number:02x}").repeat(32);
    let waits = |number, left_ms| held(number, left_ms, |card| card.digest = digest_of(number));
    let shown = || waits(1, 754_000);
    // The new request is more urgent than all others. Apart from that, it is the same payment.
    let arrived = || waits(9, 5_000);
    let lists = [
        (true, vec![arrived(), shown(), waits(2, 223_000)]),
        (true, vec![shown(), arrived()]),
        (true, vec![waits(2, 223_000), shown(), arrived()]),
        (false, vec![arrived()]),
        (false, vec![arrived(), waits(2, 223_000)]),
    ];
    for (n, (is_still_there, requests)) in lists.iter().enumerate() {
        for moment in ["while keys are dead", "before y", "y is down", "y is sent"] {
            let mut stage = Stage::with_all_panes(SIZE);
            let first = vec![shown(), waits(2, 223_000), waits(3, 47_000)];
            let list = |stage: &mut Stage, requests: Vec<_>| {
                stage.model.mark_stale(&[crate::console::model::server::Topic::Requests]);
                stage.wait(1_000);
                let (call, _) = stage.take_newest_order("requests").unwrap();
                stage.answer(call, Ok(Answer::Requests { requests }));
            };
            list(&mut stage, first);
            // The query is sent before the card opens, and answered at a later moment.
            stage.model.mark_stale(&[crate::console::model::server::Topic::Requests]);
            stage.wait(1_000);
            let (call, _) = stage.take_newest_order("requests").unwrap();
            let arrive = |stage: &mut Stage, at: &str| {
                if at == moment {
                    let requests = requests.clone();
                    stage.answer(call, Ok(Answer::Requests { requests }));
                }
            };
            stage.keys("a");
            arrive(&mut stage, "while keys are dead");
            stage.wait(KEY_GUARD_MS);
            arrive(&mut stage, "before y");
            stage.keys("y");
            arrive(&mut stage, "y is down");
            let sent = sent_approval(&mut stage);
            let ours = shown().card.unwrap();
            if *is_still_there || moment == "y is sent" {
                let (_, approve) = sent.expect("the shown request is approved");
                assert_eq!((approve.id, approve.card), (ours.id.to_string(), Some(ours.digest)));
            } else if let Some((_, approve)) = sent {
                panic!("list {n}, {moment}: {approve:?} was not on the screen");
            }
            arrive(&mut stage, "y is sent");
            // Later keys on this card do not approve the new request, either.
            for _again in 0..3 {
                stage.wait(KEY_GUARD_MS);
                stage.keys("y");
                if let Some((_, approve)) = sent_approval(&mut stage) {
                    assert_eq!(approve.id, ours.id.to_string(), "list {n}, {moment}");
                }
            }
        }
    }
}

#[test]
fn large_amount_must_be_typed_before_approval() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("ja");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.screen().contains("Type the amount first"));
    stage.keys("1");
    assert!(!stage.screen().contains("Type the amount first"), "it is being typed");
    stage.keys(".6y");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.screen().contains("The amount is 1.50, not 1.60"));
    stage.press(KeyCode::Backspace);
    stage.keys("5y");
    let (_, approve) = sent_approval(&mut stage).unwrap();
    assert_eq!(approve.confirm.map(|usd| usd.to_string()), Some("1.50".into()));
}

#[test]
fn approval_that_the_engine_would_refuse_is_not_sent() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("jja");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_none());
    stage.keys("n");
    stage.wait(PASTE_GAP_MS);
    assert!(stage.take_newest_order("deny").is_some());

    // The engine's reason takes precedence over the hint to scroll.
    let mut stage = Stage::with_all_panes((60, 16));
    stage.keys("jja");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    let screen = stage.screen();
    assert!(screen.contains("Not approved: Exceeds per-request") && !screen.contains("scroll ("));
}

/// A key without an effect shows the reason.
#[test]
fn key_without_effect_on_a_card_shows_a_hint() {
    for (keys, said) in [("a", "press only y to approve"), ("ja", "type digits, then only y")] {
        for code in [KeyCode::Enter, KeyCode::Char('Y'), KeyCode::Char('x'), KeyCode::F(1)] {
            let mut stage = Stage::with_all_panes(SIZE);
            stage.keys(keys);
            stage.wait(KEY_GUARD_MS);
            stage.press(code);
            assert!(stage.screen().contains(said), "{code:?}: {}", stage.screen());
            stage.wait(KEY_GUARD_MS);
            stage.keys("n");
            assert!(!stage.screen().contains(said), "{code:?}: {}", stage.screen());
        }
        let mut stage = Stage::with_all_panes(SIZE);
        stage.keys(keys);
        stage.wait(KEY_GUARD_MS);
        stage.handle_message(Message::Paste("1.5".into()));
        assert!(stage.screen().contains("pasted text is not taken here: type it"));
        assert!(!stage.screen().contains("[1.5"), "{}", stage.screen());
    }
    for (keys, moment, said) in [
        ("yy", KEY_GUARD_MS, "two keys at once count as pasted text"),
        ("y", 0, "too early: press the key again"),
        ("n", 0, "too early: press the key again"),
    ] {
        let mut stage = Stage::with_all_panes(SIZE);
        stage.keys("a");
        stage.wait(moment);
        stage.keys(keys);
        assert!(stage.screen().contains(said), "{}", stage.screen());
    }
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("jja");
    stage.wait(KEY_GUARD_MS);
    stage.press(KeyCode::Enter);
    assert!(stage.screen().contains("this key does nothing here"), "{}", stage.screen());
}

#[test]
fn after_the_deny_key_y_denies_and_no_key_approves() {
    for size in [SIZE, (60, 16)] {
        // The second request requires a typed amount, and the third cannot be approved.
        for opens in ["d", "jd", "jjd"] {
            let mut stage = Stage::with_all_panes(size);
            stage.keys(opens);
            stage.wait(KEY_GUARD_MS);
            let screen = stage.screen();
            assert!(screen.contains("Deny 0123ab0"), "{screen}");
            assert!(screen.contains(" y deny   esc not now "), "{screen}");
            stage.keys("d");
            stage.wait(KEY_GUARD_MS);
            assert!(
                stage.take_newest_order("deny").is_none(),
                "the key that opened it does not confirm"
            );
            stage.keys("y");
            assert!(sent_approval(&mut stage).is_none(), "{opens}");
            assert!(stage.take_newest_order("deny").is_some(), "{opens}");
        }
    }
}

/// The key that confirms does what the title asks, also after the operator changed their mind.
#[test]
fn each_card_leads_to_the_other_one_and_n_answers_its_title() {
    let mut stage = Stage::with_all_panes(SIZE);
    for (keys, title, sends) in [
        ("d", "Deny 0123ab01?", None),
        ("a", "Request 0123ab01", None),
        ("d", "Deny 0123ab01?", None),
        ("n", "1 Approvals", None),
        ("d", "Deny 0123ab01?", None),
        ("a", "Request 0123ab01", None),
        ("y", "Request 0123ab01", Some("approve")),
    ] {
        stage.keys(keys);
        stage.wait(PASTE_GAP_MS);
        for order in ["approve", "deny"] {
            let sent = stage.take_newest_order(order).is_some();
            assert_eq!(sent, sends == Some(order), "{keys} {title} {order}");
        }
        assert!(stage.screen().contains(title), "{keys}: {}", stage.screen());
        stage.wait(KEY_GUARD_MS);
    }
    // A key that is too early after the change of the card decides nothing.
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("d");
    stage.wait(KEY_GUARD_MS - 1);
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_none() && stage.take_newest_order("deny").is_none());
}

/// No keys approve on a card that was opened to deny, even if the amount is typed or the unlock key is pressed.
#[test]
fn no_key_approves_on_a_card_that_was_opened_to_deny() {
    for keys in ["1.50y", "u1.50y", "jy", " y", "Gy"] {
        let mut stage = Stage::with_all_panes(SIZE);
        stage.keys("jd");
        for key in keys.chars() {
            stage.wait(KEY_GUARD_MS);
            stage.keys(&key.to_string());
        }
        assert!(sent_approval(&mut stage).is_none(), "{keys}");
        assert!(stage.take_newest_order("wallet.open").is_none(), "{keys}");
    }
}

#[test]
fn closed_card_ignores_keys_and_shows_its_end() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    let id = stage.model.server.queue[0].request.id.clone();
    let mut entries = feed(41, 1);
    entries[0].kind = "payment.denied".parse().unwrap();
    entries[0].request = Some(id);
    stage.frame(ToClient::Entries { id: 7, entries });
    assert!(stage.screen().contains("Can no longer be decided: denied"));
    stage.wait(KEY_GUARD_MS);
    stage.keys("yn");
    assert!(sent_approval(&mut stage).is_none() && stage.take_newest_order("deny").is_none());

    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(754_000);
    assert!(stage.screen().contains("longer be decided: expired."));
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_none());
}

#[test]
fn a_refused_decision_stays_on_the_card_with_its_reason() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("a");
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    let (call, _) = sent_approval(&mut stage).unwrap();
    stage.answer(call, Err(Fault::new(Code::CardChanged)));
    assert!(stage.model.overlay.is_some());
    assert!(stage.screen().contains(Code::CardChanged.sentence().split(' ').next().unwrap()));
    stage.keys("y");
    assert!(sent_approval(&mut stage).is_none());
}

#[test]
fn pending_list_keeps_its_order_under_the_cursor() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("j");
    let before: Vec<String> =
        stage.model.server.queue.iter().map(|row| row.request.id.clone()).collect();
    stage.frame(ToClient::Entries { id: 7, entries: feed(41, 1) });
    stage.wait(1_000);
    let (call, _) = stage.take_newest_order("requests").unwrap();
    // In the engine's new list, the order differs, one request is missing, and an urgent one is new.
    let requests = vec![held(9, 5_000, |_| {}), held(3, 40_000, |_| {}), held(2, 200_000, |_| {})];
    stage.answer(call, Ok(Answer::Requests { requests }));
    let after: Vec<String> =
        stage.model.server.queue.iter().map(|row| row.request.id.clone()).collect();
    assert_eq!(after[..2], before[1..]);
    assert!(after[2].contains("ab09") && after[3] == before[0], "{after:?}");
    assert_eq!(stage.model.selected_row(crate::console::model::Pane::Approvals), 0);
    stage.keys("s");
    assert!(stage.model.server.queue[0].request.id.contains("09"));
    assert_eq!(stage.model.selected_row(crate::console::model::Pane::Approvals), 2);
}

#[test]
fn observer_and_too_small_screen_decide_nothing() {
    let observing = Setup { observe: true, ..Setup::default() };
    for mut stage in [Stage::with_rows(observing, SIZE), Stage::with_all_panes((59, 15))] {
        stage.keys("a");
        stage.wait(KEY_GUARD_MS);
        stage.keys("yn");
        stage.control('x');
        if stage.model.setup.observe {
            stage.control('x');
            stage.keys(":");
            assert!(stage.model.line.is_none());
        }
        assert_eq!(stage.sent.iter().filter(|(_, order)| order.name() != "status").count(), 0);
    }
}

/// Generates key presses, each with the pause before it.
fn any_key_presses() -> impl Strategy<Value = Vec<(u64, KeyCode)>> {
    let keys = "aydnjkgGsruq:+?1256 .x";
    let key = prop_oneof![
        6 => prop::sample::select(keys.chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        2 => Just(KeyCode::Enter),
        1 => Just(KeyCode::Esc),
        1 => Just(KeyCode::Tab),
        1 => Just(KeyCode::Down),
    ];
    let pause = prop_oneof![3 => Just(0u64), 3 => 1u64..KEY_GUARD_MS, 3 => KEY_GUARD_MS..3_000];
    prop::collection::vec((pause, key), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Only a lone `y` approves, on a card that `a` or Enter opened. The key before it came at least 400 ms earlier,
    /// unless it was a digit of the amount.
    #[test]
    fn no_stream_of_keys_approves_by_accident(strokes in any_key_presses()) {
        let mut stage = Stage::with_all_panes(SIZE);
        // The last two key presses, each with the pause before it.
        let mut before: [Option<(u64, KeyCode)>; 2] = [None, None];
        let mut opened = false;
        let mut on_deny_card = false;
        let end = [(KEY_GUARD_MS, KeyCode::Null)];
        for (pause, code) in strokes.into_iter().chain(end) {
            stage.wait(pause);
            if stage.take_newest_order("approve").is_some() {
                let [other, decided] = before;
                let (quiet, key) = decided.unwrap();
                prop_assert_eq!(key, KeyCode::Char('y'));
                prop_assert!(opened && pause >= PASTE_GAP_MS, "it came alone");
                prop_assert!(!on_deny_card);
                let digit = |key| matches!(key, KeyCode::Char('0'..='9' | '.'));
                prop_assert!(quiet >= KEY_GUARD_MS || other.is_some_and(|(_, key)| digit(key)));
            }
            on_deny_card = matches!(&stage.model.overlay, Some(Overlay::Card(v)) if v.opened_to_deny);
            stage.press(code);
            opened |= matches!(code, KeyCode::Enter | KeyCode::Char('a'));
            before = [before[1], Some((pause, code))];
        }
    }

    /// A single key approves nothing, even if it is pressed many times at any speed.
    #[test]
    fn no_single_key_approves(code in any_key_presses(), pauses in prop::collection::vec(0u64..2_000, 1..30)) {
        let key = code[0].1;
        let mut stage = Stage::with_all_panes(SIZE);
        for pause in pauses {
            stage.wait(pause);
            stage.press(key);
        }
        prop_assert!(sent_approval(&mut stage).is_none());
    }
}

#[test]
fn an_amount_typed_for_one_card_does_not_count_for_another() {
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys("ja");
    stage.wait(KEY_GUARD_MS);
    stage.keys("1.5");
    let changed = held(2, 223_000, |card| {
        card.type_amount = true;
        card.digest = "ee".repeat(32);
    });
    let requests = vec![held(1, 754_000, |_card| {}), changed];
    stage.model.mark_stale(&[crate::console::model::server::Topic::Requests]);
    stage.wait(KEY_GUARD_MS);
    let (call, _) = stage.take_newest_order("requests").unwrap();
    stage.answer(call, Ok(Answer::Requests { requests }));
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    assert!(
        sent_approval(&mut stage).is_none() && stage.screen().contains("Type the amount first")
    );
}

/// An observer can press any key without an effect.
#[test]
fn no_key_of_an_observer_changes_anything() {
    let mut stage = Stage::with_rows(Setup { observe: true, ..Setup::default() }, SIZE);
    let queries =
        ["status", "requests", "agent.list", "policy.list", "history", "activity", "watch"];
    let shows = ["address.list", "balances", "config.get", "agent.show", "policy.show", "receipt"];
    for binding in KEYS {
        for key in binding.keys {
            let modifiers = if key.control { KeyModifiers::CONTROL } else { KeyModifiers::NONE };
            for (twice, card) in [(false, false), (true, false), (false, true), (true, true)] {
                if !twice {
                    stage.model.overlay = None;
                    stage.keys(if card { "1a" } else { "" });
                    stage.wait(KEY_GUARD_MS);
                }
                stage.handle_message(Message::Key(KeyEvent::new(key.code, modifiers)));
                stage.wait(if twice { KEY_GUARD_MS } else { 1 });
                assert!(stage.model.line.is_none(), "{}", key.name);
            }
            for (_id, order) in stage.sent.drain(..) {
                let name = order.name();
                assert!(queries.contains(&name) || shows.contains(&name), "{}: {name}", key.name);
            }
            assert!(!stage.intents.iter().any(|one| one.starts_with("Send")), "{}", key.name);
        }
    }
}

#[test]
fn question_ignores_an_early_yes_and_pasted_text() {
    let answers = |stage: &Stage| {
        stage.intents.iter().filter(|one| one.starts_with("Send")).cloned().collect::<Vec<_>>()
    };
    let mut stage = Stage::with_all_panes(SIZE);
    stage.keys(":address delete research");
    stage.press(KeyCode::Enter);
    let (id, _) = stage.take_newest_order("address.delete").unwrap();
    let prompt = Prompt::Confirm { lines: Vec::new(), question: "Remove it?".into() };
    stage.frame(ToClient::Prompt { id, prompt });
    stage.keys("yy");
    stage.wait(KEY_GUARD_MS - 1);
    stage.keys("y");
    assert_eq!(answers(&stage), Vec::<String>::new());
    stage.wait(KEY_GUARD_MS);
    stage.keys("y");
    stage.wait(PASTE_GAP_MS);
    assert!(answers(&stage)[0].contains("yes: true"));

    for prompt in [
        Prompt::TypeName { lines: Vec::new(), name: "research".into() },
        Prompt::TypeAmount { lines: Vec::new(), amount: "1.50".into() },
    ] {
        stage.frame(ToClient::Prompt { id, prompt });
        stage.handle_message(Message::Paste("research".into()));
        assert!(!stage.screen().contains("> research"), "{}", stage.screen());
    }
}
