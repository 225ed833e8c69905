//! `history`, its export, and `receipt`.

use bursar_control::answers::{Answer, HistoryAnswer, HistoryRow};
use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_engine::engine::Mode;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use serde_json::json;

async fn history(engine: &TestEngine, line: &str) -> HistoryAnswer {
    match engine.operator().must(line).await {
        Answer::History(history) => history,
        other => panic!("{other:?}"),
    }
}

async fn ask(engine: &TestEngine, agent: &Agent, atoms: u64, n: u64) -> String {
    let url = format!("https://host{n}.example/x");
    let body = agent.ask(engine.now_s(), &offer(atoms, n), Some(&url));
    let (_status, answer) = engine.post("/sign", &body).await;
    let id = answer.get("transaction_id").or(answer.get("request_id"));
    id.and_then(|id| id.as_str()).unwrap_or_default().to_owned()
}

/// Creates one request with each outcome; returns the engine and its two agents.
async fn engine_with_history() -> (TestEngine, Agent, Agent) {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 3 --auto 0.5").await;
    let (first, second) =
        (engine.add_agent("first", "bearer").await, engine.add_agent("second", "hmac").await);
    let mut operator = engine.operator();
    ask(&engine, &first, 2_000_000, 1).await;
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() + 1000);
    operator.must("policy list").await;
    ask(&engine, &first, 12_000, 2).await;
    let denied = ask(&engine, &second, 2_000_000, 3).await;
    operator.must(&format!("deny {denied}")).await;
    ask(&engine, &second, 4_000_000, 4).await;
    engine.clock.advance(1000);
    ask(&engine, &second, 2_000_000, 5).await;
    (engine, first, second)
}

fn statuses(history: &HistoryAnswer) -> Vec<(&str, &str)> {
    let each = history.requests.iter();
    each.map(|row| (row.status.text(), row.agent.as_deref().unwrap_or("-"))).collect()
}

#[tokio::test]
async fn history_lists_requests_newest_first() {
    let (engine, first, _second) = engine_with_history().await;
    let all = history(&engine, "history").await;
    let expected = [
        ("pending", "second"),
        ("refused", "second"),
        ("denied", "second"),
        ("signed", "first"),
        ("expired", "first"),
    ];
    // The record of a signature follows the answer to the agent.
    let answer = statuses(&all);
    let answer: Vec<_> =
        answer.into_iter().map(|(s, a)| (if s == "executing" { "signed" } else { s }, a)).collect();
    assert_eq!(answer, expected);
    assert!(!all.more);
    let HistoryRow { amount, symbol, usd, host, tx_hash, created, .. } = all.requests[3].clone();
    assert_eq!(
        [amount.coins.as_deref(), symbol.as_deref(), usd.as_deref(), host.as_deref()],
        [Some("0.012000"), Some("USDC"), Some("0.012"), Some("host2.example")]
    );
    assert_eq!((amount.atoms.as_str(), tx_hash), ("12000", None));
    assert_eq!(created, "2026-01-01T00:15:01Z");

    for (line, count, more) in [
        ("history --limit 2", 2, true),
        ("history --limit 5", 5, false),
        ("history --agent second", 3, false),
        ("history --agent SECOND --status denied", 1, false),
        ("history --lane payments --status expired", 1, false),
        ("history --status verified", 0, false),
        ("history --since 5m", 4, false),
        ("history --since 500s --status pending", 1, false),
        ("history --since 2026-01-01T00:15:02Z", 1, false),
        ("history --since 2026-01-01", 5, false),
        ("history --since 2026-01-02", 0, false),
    ] {
        let answer = history(&engine, line).await;
        assert_eq!((answer.requests.len(), answer.more), (count, more), "{line}");
    }
    let answer = history(&engine, &format!("history --agent {} --limit 1", first.id)).await;
    assert_eq!((answer.requests.len(), answer.more), (1, true));
}

#[tokio::test]
async fn invalid_history_and_receipt_arguments_are_refused() {
    let engine = TestEngine::start(Setup { mode: Mode::Maintenance, ..Setup::default() }).await;
    let mut operator = engine.operator();
    assert!(
        matches!(operator.must("history").await, Answer::History(answer) if answer.requests.is_empty())
    );
    assert_eq!(operator.run_refused("history --agent nobody").await.code, Code::NothingFound);
    for line in ["history --limit 0", "history --limit 501", "receipt 12", "receipt xyz123"] {
        assert_eq!(operator.run_refused(line).await.code, Code::BadInput, "{line}");
    }
    for line in ["receipt 0123abcd", "receipt 01234567-89ab-4cde-8f01-23456789abcd"] {
        assert_eq!(operator.run_refused(line).await.code, Code::NothingFound, "{line}");
    }
    for line in
        ["history --status paid", "history --lane x", "history --since soon", "history export"]
    {
        assert!(bursar_control::grammar::Order::parse_line(line).is_err(), "{line}");
    }
}

#[tokio::test]
async fn an_export_has_every_matching_row_and_no_formula() {
    let (engine, ..) = engine_with_history().await;
    let mut operator = engine.operator();
    let all = operator.outcome("history export /tmp/a.csv").await;
    let Ok(Answer::Exported(exported)) = all.reply.result else { panic!("{:?}", all.reply) };
    assert_eq!((exported.rows, exported.file.as_str()), (5, "/tmp/a.csv"));
    let lines: Vec<&str> = all.file.split("\r\n").collect();
    assert_eq!(lines.len(), 7, "a head, five rows, an end: {}", all.file);
    assert!(lines[0].starts_with("id,created,lane,agent_id,agent,label,status,amount,symbol"));
    assert!(lines[4].contains(",0.012000,USDC,12000,0.012,eip155:8453,0x833589"), "{}", lines[4]);
    assert!(!std::path::Path::new("/tmp/a.csv").exists(), "the engine writes nothing");

    let some = operator.outcome("history export --agent first --status expired x.csv").await;
    assert_eq!(some.file.lines().count(), 2);
    let some = operator.outcome("history --limit 2 export x.csv").await;
    assert_eq!(some.file.lines().count(), 3);

    // An agent with a spreadsheet formula as its name.
    engine.add_agent("'=1+1'", "bearer").await;
    let agent = engine.add_agent("'@SUM(A1)'", "bearer").await;
    ask(&engine, &agent, 4_000_000, 9).await;
    let hostile = operator.outcome("history --agent '@SUM(A1)' export x.csv").await;
    assert!(hostile.file.contains(",'@SUM(A1),"), "{}", hostile.file);
}

#[tokio::test]
async fn a_large_export_comes_in_pieces() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 1000 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    for n in 0..400 {
        // Stays below the server's rate limit.
        engine.clock.advance(300);
        ask(&engine, &agent, 100_000, n).await;
    }
    let mut operator = engine.operator();
    let out = operator.outcome("history export x.csv").await;
    assert!(out.file.len() > bursar_core::limits::EXPORT_PART_BYTES, "{}", out.file.len());
    assert_eq!(out.file.lines().count(), 401);
    let ids: std::collections::BTreeSet<&str> =
        out.file.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(ids.len(), 400, "no row twice");
}

#[tokio::test]
async fn a_receipt_is_found_by_its_id_or_a_unique_prefix() {
    let (engine, ..) = engine_with_history().await;
    let mut operator = engine.operator();
    let all = history(&engine, "history").await;
    for row in &all.requests {
        let short: String = row.id.chars().take(8).collect();
        for id in [&row.id, &short] {
            let Answer::Receipt(receipt) = operator.must(&format!("receipt {id}")).await else {
                panic!("no receipt")
            };
            assert_eq!(receipt.form["transactionId"], json!(row.id));
            assert_eq!(receipt.form["payment"]["amount"]["atomic"], json!(row.amount.atoms));
        }
    }
    let id = &all.requests[3].id;
    let (status, served) = engine.get(&format!("/receipt/{id}")).await;
    let Answer::Receipt(answer) = operator.must(&format!("receipt {id}")).await else { panic!() };
    assert_eq!((status, served), (200, answer.form), "the operator reads what the agent reads");
}

#[tokio::test]
async fn a_refused_payment_names_the_limit_and_the_policy_to_its_operator_alone() {
    let (engine, _first, second) = engine_with_history().await;
    let mut operator = engine.operator();
    let refused = history(&engine, "history --status refused").await.requests.remove(0);
    let id = &refused.id;
    let read_receipt =
        async |operator: &mut Operator| match operator.must(&format!("receipt {id}")).await {
            Answer::Receipt(receipt) => receipt,
            other => panic!("{other:?}"),
        };
    let limit = read_receipt(&mut operator).await;
    let why = limit.refused.clone().unwrap();
    assert_eq!(why.why, "4.00 USD requested, `p` v1 allows 3.00 per payment");
    assert_eq!((why.policy.as_deref(), why.option.as_deref()), (Some("p"), Some("--txn")));
    assert_eq!(refused.refused.as_deref(), Some(why.why.as_str()));
    assert!(limit.origins_only && limit.form["payment"]["requestUrl"] == "https://host4.example");
    let (_status, served) = engine.get(&format!("/receipt/{id}")).await;
    assert_eq!(served, limit.form);
    assert_eq!(served["rejection"], json!({"reason": "Exceeds per-request maximum"}));

    operator.must("policy edit p --txn 4").await;
    let raised = read_receipt(&mut operator).await.refused.unwrap();
    let now = "4.00 USD requested, 3.00 per payment was allowed then; `p` v2 allows 4.00 now";
    assert_eq!((raised.why.as_str(), raised.option), (now, None));

    // The pending request reserves 2.00 of the 3.00.
    operator.must("policy edit p --day 3").await;
    ask(&engine, &second, 2_000_000, 6).await;
    let day = history(&engine, "history --status refused --limit 1").await.requests.remove(0);
    let left = "2.00 USD requested, 1.00 was left for the day; `p` v3 allows 3.00 per day";
    assert_eq!(day.refused.as_deref(), Some(left));
}

#[tokio::test]
async fn export_as_json_lines_has_the_rows_of_history_and_until_ends_it() {
    let (engine, _first, _second) = engine_with_history().await;
    let mut operator = engine.operator();
    let out = operator.outcome("history export --jsonl x.jsonl").await;
    let lines: Vec<HistoryRow> =
        out.file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = history(&engine, "history").await;
    assert_eq!(lines, all.requests);
    // The newest request is a second younger than the others.
    let newest = &all.requests[0].created;
    let earlier = history(&engine, &format!("history --until {newest}")).await;
    assert_eq!(earlier.requests, all.requests[1..]);
    let window = format!("history export --jsonl --since {newest} --until {newest} x.jsonl");
    assert_eq!(operator.outcome(&window).await.file, "");
}

#[tokio::test]
async fn receipt_is_found_by_its_transaction_and_written_as_a_page() {
    let (engine, first, _second) = engine_with_history().await;
    let all = history(&engine, "history --agent first --status signed").await;
    let id = &all.requests[0].id;
    let hash = format!("0x{}", "ab".repeat(32));
    let mut operator = engine.operator();
    assert_eq!(operator.run_refused(&format!("receipt {hash}")).await.code, Code::NothingFound);
    let report = first.report(engine.now_s(), id, "submitted", Some(&hash));
    assert_eq!(engine.post("/callback", &report).await.0, 200);
    let Answer::Receipt(by_hash) = operator.must(&format!("receipt {hash}")).await else {
        panic!("a receipt")
    };
    let Answer::Receipt(by_id) = operator.must(&format!("receipt {id}")).await else {
        panic!("a receipt")
    };
    assert_eq!(by_hash, by_id);
    let out = operator.outcome(&format!("receipt {id} --html x.html")).await;
    assert!(matches!(out.reply.result, Ok(Answer::Exported(_))), "{:?}", out.reply);
    assert!(out.file.starts_with("<!doctype html>") && out.file.contains("default-src"));
    assert!(out.file.replace("<wbr>", "").contains(&hash), "{}", out.file);
}
