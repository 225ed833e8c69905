//! News: new requests, the time left, ends, and the connection.

use bursar_control::wire::ToClient;
use bursar_core::codes::Code;

use super::*;

fn entry(kind: &str, request: &RequestAnswer, detail: &str) -> ActivityRow {
    ActivityRow {
        seq: 1,
        at: "2026-01-01T00:01:02Z".to_owned(),
        kind: kind.parse().unwrap(),
        request: Some(request.id.clone()),
        agent_id: None,
        agent: None,
        amount: None,
        host: None,
        detail: Some(detail.to_owned()),
        changes: Vec::new(),
    }
}

impl Stage {
    /// Reports an entry of the journal, and what the engine lists after it.
    fn entry(&mut self, kind: &str, request: &RequestAnswer, detail: &str) {
        self.now_ms += 1_000;
        let entries = vec![entry(kind, request, detail)];
        self.frame(ToClient::Entries { id: 99, entries });
    }
}

#[test]
fn a_card_is_printed_once_and_says_how_to_decide() {
    let request = held(1, 600_000, |_card| {});
    let mut stage = Stage::new(Vec::new());
    assert!(stage.printed().ends_with("No requests are waiting.\n"));
    stage.deadlines = stage.now_ms + 1_000;
    stage.waiting.push(request.clone());
    stage.entry("payment.held", &request, "above the threshold");
    let printed = stage.printed();
    let end = "Decide with: approve 0123ab01   or: deny 0123ab01\n";
    assert!(printed.ends_with(end) && count(&printed, "leaves") == 1, "{printed}");
    stage.wait(30_000);
    assert_eq!(stage.printed(), "");
}

#[test]
fn time_left_is_announced_once_at_each_mark() {
    let mut stage = Stage::new(vec![held(1, 900_000, |_card| {}), held(2, 200_000, |_card| {})]);
    stage.printed();
    stage.wait_in_steps(899_000);
    let printed = stage.printed();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            "0123ab02 expires in 1:00.",
            "0123ab02 expires in 0:10.",
            "0123ab02: expired.",
            "0123ab01 expires in 5:00.",
            "0123ab01 expires in 1:00.",
            "0123ab01 expires in 0:10.",
        ]
    );
    stage.wait_in_steps(30_000);
    assert_eq!(stage.printed(), "0123ab01: expired.\n");
}

#[test]
fn news_wait_until_the_question_is_answered() {
    let mut stage = Stage::new(vec![held(1, 301_000, |_card| {})]);
    stage.type_("approve 0123ab01");
    stage.printed();
    let other = held(2, 900_000, |_card| {});
    stage.waiting.push(other.clone());
    stage.entry("payment.held", &other, "above the threshold");
    stage.wait_in_steps(20_000);
    assert_eq!(stage.printed(), "");
    stage.type_("no");
    let printed = stage.printed();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["Nothing was decided: type yes.", "0123ab01 expires in 4:40."]);
    assert!(printed.contains("Decide with: approve 0123ab02"), "{printed}");
}

#[test]
fn decisions_made_elsewhere_take_one_line() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.printed();
    let request = stage.waiting.remove(0);
    stage.entry("payment.denied", &request, "by a command (process 42)");
    let printed = stage.printed();
    assert!(printed.starts_with("0123ab01: denied, by a command (process 42), "), "{printed}");
    assert_eq!(printed.lines().count(), 1);
    stage.wait(30_000);
    assert_eq!(stage.printed(), "");
}

#[test]
fn an_outage_takes_one_line_at_its_begin_and_one_at_its_end() {
    let mut stage = Stage::new(Vec::new());
    stage.printed();
    let since = "2026-01-01T00:00:07Z".to_owned();
    stage.silent = vec![SilentNetworkAnswer { network: "Base".to_owned(), since }];
    stage.wait_in_steps(60_000);
    assert_eq!(stage.printed(), "Base: no answer since 2026-01-01T00:00:07Z.\n");
    stage.silent.clear();
    stage.wait_in_steps(60_000);
    assert_eq!(stage.printed(), "Base answers again.\n");
}

#[test]
fn many_new_requests_are_counted() {
    let mut stage = Stage::new((0..40).map(|number| held(number, 600_000, |_card| {})).collect());
    let printed = stage.printed();
    assert_eq!(count(&printed, "leaves"), 5);
    assert!(printed.ends_with("35 more requests are waiting. Show all with: requests\n"));
}

#[test]
fn loss_and_return_of_the_engine_take_one_line_each() {
    let mut stage = Stage::new(vec![held(1, 600_000, |_card| {})]);
    stage.type_("approve 0123ab01");
    stage.printed();
    let fault = bursar_core::fault::Fault::new(Code::EngineDown);
    for _attempt in 0..3 {
        let effects = stage.session.lost(&fault, stage.now_ms);
        stage.apply(effects);
    }
    let lost = "The connection to the engine is lost. Nothing was decided.\n";
    assert_eq!(stage.printed(), lost);
    stage.type_("approve 0123ab01");
    assert_eq!(stage.printed(), "No engine is connected: nothing was sent.\n");
    let effects = stage.session.connected(stage.now_ms);
    stage.apply(effects);
    assert_eq!(stage.printed(), "Connected to the engine again.\n", "no card is repeated");
}
