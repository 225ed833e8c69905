//! Approvals and denials: one card, one question, one answer.

use bursar_control::grammar::{Approve, Deny, Order};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;

use super::*;

#[test]
fn yes_approves_exactly_the_card_that_was_printed_last() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    let first = stage.printed();
    assert_eq!((count(&first, "leaves"), count(&first, "Decide with: approve 0123ab01")), (1, 1));
    stage.type_("approve 0123ab01");
    let asked = stage.printed();
    assert_eq!(asked, "Approve 0123ab01? Type yes. Anything else leaves it waiting.\n");
    stage.type_("yes");
    let digest = stage.waiting[0].card.as_ref().unwrap().digest.clone();
    let (id, request, card, confirm) = approval(stage.order());
    assert_eq!((request, card, confirm), (stage.waiting[0].id.clone(), Some(digest), None));
    assert!(!stage.session.wants_line(), "the lines stay in the terminal");
    stage.waiting.clear();
    let decided = DecidedAnswer { id: held(1, 1, |_| {}).id, ..fixtures::decided("signed") };
    stage.reply(id, Ok(Answer::Decided(decided)));
    let end = stage.printed();
    assert!(end.starts_with("Approved 0123ab01: ") && end.lines().count() <= 3, "{end}");
    stage.wait(20_000);
    assert_eq!(stage.printed(), "", "this console's own decision is not announced again");
}

#[test]
fn the_card_is_printed_again_after_other_text_or_a_change() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.printed();
    stage.type_("next");
    stage.printed();
    stage.type_("approve 0123ab01");
    assert_eq!(count(&stage.printed(), "leaves"), 1);
    stage.type_("");
    assert_eq!(stage.printed(), "Nothing was decided: type yes.\n");
    // The balance changes often; other terms are another card.
    stage.type_("approve 0123ab01");
    stage.type_("no");
    stage.printed();
    stage.waiting[0].card.as_mut().unwrap().digest = "f00d".to_owned();
    stage.type_("approve 0123");
    let printed = stage.printed();
    assert!(count(&printed, "leaves") == 1 && printed.contains("f00d"), "{printed}");
    stage.type_("yes");
    assert_eq!(approval(stage.order()).2.as_deref(), Some("f00d"));
}

/// A table of many requests has no payee and no risks: the card of the last one would count as printed.
#[test]
fn a_list_of_many_requests_has_every_card() {
    let mut stage = Stage::new((1..=4).map(|number| held(number, 600_000, |_card| {})).collect());
    stage.printed();
    stage.type_("requests");
    assert_eq!(count(&stage.printed(), "leaves"), 4);
}

#[test]
fn nothing_but_the_word_yes_agrees() {
    for typed in ["y", "", "Y", "YES", "yes please", "approve 0123ab01", "ja"] {
        let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
        stage.type_("approve 0123ab01");
        stage.printed();
        stage.type_(typed);
        assert_eq!(stage.printed(), "Nothing was decided: type yes.\n", "{typed}");
        assert_eq!(stage.order(), None);
    }
}

#[test]
fn a_large_amount_is_typed() {
    let large = |card: &mut Card| {
        card.type_amount = true;
        card.usd = Usd(1_500_000_000);
    };
    for (typed, confirm) in
        [("yes", None), ("y", None), ("", None), ("1500", Some("1500.00")), ("15", None)]
    {
        let mut stage = Stage::new(vec![held(1, 600_000, large)]);
        stage.type_("approve 0123ab01 --yes --confirm 1500");
        assert!(stage.printed().ends_with(
            "Approve 0123ab01? Type the amount, 1500.00. Anything else leaves it waiting.\n"
        ));
        stage.type_(typed);
        match confirm {
            Some(confirm) => assert_eq!(approval(stage.order()).3.as_deref(), Some(confirm)),
            None => {
                assert!(stage.printed().starts_with("Nothing was decided: "), "{typed}");
                assert_eq!(stage.order(), None, "{typed}");
            }
        }
    }
}

#[test]
fn a_changed_card_is_refused_and_another_digest_is_not_asked_about() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.type_("approve 0123ab01");
    stage.type_("yes");
    let (id, ..) = approval(stage.order());
    stage.printed();
    stage.reply(id, Err(Fault::new(Code::CardChanged)));
    assert!(stage.printed().contains(&Fault::new(Code::CardChanged).message));
    stage.type_("approve 0123ab01 --card other");
    assert!(stage.printed().contains(&Fault::new(Code::CardChanged).message));
    assert!(stage.session.wants_line());
    assert_eq!(stage.order(), None);
}

#[test]
fn a_denial_asks_once_and_keeps_its_reason() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.printed();
    stage.type_("deny 0123ab01 too dear");
    assert_eq!(stage.printed(), "Deny 0123ab01? Type yes. Anything else leaves it waiting.\n");
    stage.type_("y");
    assert_eq!((stage.printed(), stage.order()), ("Nothing was decided: type yes.\n".into(), None));
    stage.type_("deny 0123ab01 too dear");
    stage.type_("yes");
    let reason = vec!["too".to_owned(), "dear".to_owned()];
    let wanted = Order::Deny(Deny { reason, ..Deny::one(stage.waiting[0].id.clone()) });
    assert_eq!(stage.order().unwrap().1, wanted);
}

#[test]
fn several_ids_are_decided_one_after_the_other() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_| {}), held(2, 600_000, |_| {})]);
    stage.printed();
    stage.type_("approve 0123ab01 0123ab02");
    let first = stage.printed();
    assert!(count(&first, "leaves") == 1 && first.contains("Approve 0123ab01?"), "{first}");
    stage.type_("yes");
    let (id, ..) = approval(stage.order());
    stage.waiting.remove(0);
    let decided = DecidedAnswer { id: held(1, 1, |_| {}).id, ..fixtures::decided("signed") };
    stage.reply(id, Ok(Answer::Decided(decided)));
    let second = stage.printed();
    assert!(count(&second, "leaves") == 1 && second.contains("Approve 0123ab02?"), "{second}");
    stage.type_("no");
    assert_eq!(stage.order(), None);
    assert!(stage.session.wants_line());
}

#[test]
fn what_cannot_be_approved_is_not_asked_about() {
    let broken = |card: &mut Card| card.obstacle = Some("Exceeds the maximum".into());
    let mut stage = Stage::new(vec![held(1, 600_000, broken)]);
    stage.type_("approve 0123ab01");
    assert!(stage.printed().ends_with("0123ab01 cannot be approved here.\n"));
    stage.type_("deny 0123ab01");
    stage.type_("yes");
    assert_eq!(stage.order().unwrap().1.name(), "deny");
    for (line, said) in [
        ("approve 99", "No waiting request starts with 99."),
        ("deny 0", "Several requests start with 0: type more of the id."),
    ] {
        let mut stage = Stage::new(vec![held(1, 600_000, |_| {}), held(2, 600_000, |_| {})]);
        stage.printed();
        stage.type_(line);
        assert_eq!(stage.printed(), format!("{said}\n"));
    }
}

#[test]
fn lines_that_came_before_the_question_are_discarded() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.type_("approve 0123ab01");
    assert!(stage.others.contains(&"DiscardInput".to_owned()));
    stage.printed();
    for _pasted in 0..3 {
        stage.wait(GUARD_MS - 1);
        stage.type_at_once("yes");
        let said = stage.printed();
        assert!(said.starts_with("Ignored: this line came before the question"), "{said}");
    }
    assert_eq!(stage.order(), None);
    stage.type_("yes");
    assert!(matches!(stage.order(), Some((_, Order::Approve(Approve { card: Some(_), .. })))));
}

#[test]
fn closed_input_in_a_question_decides_nothing_and_ends_with_8() {
    for line in ["approve 0123ab01", "deny 0123ab01"] {
        let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
        stage.type_(line);
        stage.others.clear();
        stage.wait(GUARD_MS);
        let effects = stage.session.typed(&Typed::End, stage.now_ms);
        stage.apply(effects);
        assert_eq!(stage.others, ["Leave(8)"]);
        assert!(stage.printed().ends_with("Nothing was decided: the input has ended.\n"));
        assert_eq!(stage.order(), None);
    }
}

#[test]
fn an_observer_decides_nothing() {
    let setup = Setup { observe: true, ..Setup::default() };
    let mut stage = Stage::with(setup, vec![held(1, 600_000, |_card| {})]);
    let printed = stage.printed();
    assert!(printed.contains("leaves") && !printed.contains("Decide with"), "{printed}");
    for line in [
        "approve 0123ab01",
        "deny 0123ab01",
        "deny --all",
        "freeze",
        "wallet open",
        "seed words S001",
    ] {
        stage.type_(line);
        assert_eq!(
            stage.printed(),
            "This console only observes (--observe): nothing was sent.\n",
            "{line}"
        );
        assert_eq!(stage.order(), None);
    }
    stage.type_("balances");
    assert_eq!(stage.order().unwrap().1.name(), "balances");
}
