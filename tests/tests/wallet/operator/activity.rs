//! `activity`: every journal entry exactly once, without secrets and without control characters.

use std::collections::BTreeSet;

use bursar_control::answers::{ActivityAnswer, ActivityRow, Answer};
use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_core::status::EntryKind;
use bursar_engine::engine::Mode;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, challenge, header, offer};
use bursar_tests::operator::{Expect, Operator};
use serde_json::{Value, json};

use super::watch::Watcher;

pub(crate) async fn activity(operator: &mut Operator, line: &str) -> ActivityAnswer {
    match operator.must(line).await {
        Answer::Activity(activity) => activity,
        other => panic!("{other:?}"),
    }
}

/// Asks for a payment and returns its id.
pub(crate) async fn ask(engine: &TestEngine, agent: &Agent, atoms: u64, n: u64) -> String {
    let url = format!("https://host{n}.example/private-path?key=PRIVATE-QUERY");
    let body = agent.ask(engine.now_s(), &offer(atoms, n), Some(&url));
    let (_status, answer) = engine.post("/sign", &body).await;
    let id = answer.get("transaction_id").or(answer.get("request_id"));
    id.and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn seqs(rows: &[ActivityRow]) -> Vec<u64> {
    rows.iter().map(|row| row.seq).collect()
}

/// Creates a journal with every outcome of a payment and most operator commands.
async fn engine_with_activity() -> (TestEngine, Agent) {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 20 --txn 3 --auto 0.5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    let mut watcher = Watcher::begin(&engine, "watch --since 0").await;
    let paid = ask(&engine, &agent, 12_000, 1).await;
    watcher.rows_until(|row| row.kind.text() == "payment.signed").await;
    let report = agent.report(engine.now_s(), &paid, "failed", None);
    let (status, answer) = engine.post("/callback", &report).await;
    assert_eq!(status, 200, "{answer}");
    let approved = ask(&engine, &agent, 2_000_000, 2).await;
    operator.must(&format!("approve {approved} --yes")).await;
    let denied = ask(&engine, &agent, 2_000_001, 3).await;
    operator.must(&format!("deny {denied} too dear")).await;
    ask(&engine, &agent, 4_000_000, 4).await;
    let rejected = ask(&engine, &agent, 2_000_002, 5).await;
    operator.must("policy edit p --txn 1").await;
    operator.run_refused(&format!("approve {rejected} --yes")).await;
    operator.must("policy edit p --txn 3").await;
    ask(&engine, &agent, 2_000_003, 6).await;
    engine.clock.advance(u64::try_from(HOLD_MS).unwrap() + 1000);
    for line in [
        "freeze",
        "thaw",
        "network disable base",
        "config set payments.max_validity 1234",
        "config set server.hosts other.example",
        "agent suspend bot",
        "agent resume bot",
        "agent instructions bot --regenerate",
        "agent register other --auth hmac",
        "agent delete other",
        "address create spare 1",
        "address rename spare fresh",
        "address delete fresh",
        "wallet passwd",
        "policy create q --day 1",
        "policy delete q",
    ] {
        operator.must(line).await;
    }
    (engine, agent)
}

fn row_of_kind<'a>(rows: &'a [ActivityRow], kind: &str) -> &'a ActivityRow {
    rows.iter()
        .find(|row| row.kind.text() == kind)
        .unwrap_or_else(|| panic!("no {kind}: {rows:#?}"))
}

#[tokio::test]
async fn activity_lists_every_payment_outcome_and_operator_command() {
    let (engine, agent) = engine_with_activity().await;
    let rows = activity(&mut engine.operator(), "activity --raw --limit 500").await.entries;
    for (kind, amount, host, detail) in [
        ("payment.authorized", "0.012000 USDC", "host1.example", None),
        ("payment.signed", "0.012000 USDC", "host1.example", None),
        ("settlement.reported", "0.012000 USDC", "host1.example", Some("failed")),
        ("payment.approved", "2.000000 USDC", "host2.example", Some("by the engine's own console")),
        (
            "payment.denied",
            "2.000001 USDC",
            "host3.example",
            Some("by the engine's own console: too dear"),
        ),
        (
            "payment.refused",
            "4.000000 USDC",
            "host4.example",
            Some("Exceeds per-request maximum (4.00 USD requested, at most 3.00)"),
        ),
        (
            "payment.rejected",
            "2.000002 USDC",
            "host5.example",
            Some("Exceeds per-request maximum (2.000002 USD requested, at most 1.00)"),
        ),
        ("payment.expired", "2.000003 USDC", "host6.example", None),
    ] {
        let fits = |row: &&ActivityRow| {
            row.kind.text() == kind && row.host.as_deref() == Some(host) && row.request.is_some()
        };
        let row = rows.iter().find(fits).unwrap_or_else(|| panic!("{kind}: {rows:#?}"));
        assert_eq!(row.amount.as_ref().map(|amount| amount.text.as_str()), Some(amount), "{kind}");
        assert_eq!(row.detail.as_deref(), detail, "{kind}");
        assert_eq!(row.agent_id.as_deref(), Some(agent.id.as_str()), "{kind}");
        assert_eq!(row.agent.as_deref(), Some("bot"), "{kind}");
    }
    let held: Vec<_> = rows.iter().filter(|row| row.kind.text() == "payment.held").collect();
    assert_eq!(held.len(), 4);
    let why = "at or over the policy's automatic limit";
    assert!(held.iter().all(|row| row.detail.as_deref() == Some(why)));
    for (kind, detail) in [
        ("wallet.created", Some("main")),
        ("seed.added", Some("S001, 12 words")),
        ("address.renamed", Some("spare to fresh")),
        ("address.deleted", Some("fresh")),
        ("policy.set", Some("q")),
        ("wallet.password_changed", None),
        ("policy.deleted", Some("q")),
        ("agent.registered", Some("other, hmac")),
        ("agent.credential_replaced", Some("bearer")),
        ("agent.commissioned", Some("policy p, address pay")),
        ("agent.suspended", None),
        ("agent.resumed", None),
        ("agent.deleted", None),
        ("network.set", Some("Base enabled -> disabled")),
        ("setting.changed", Some("server.hosts none -> other.example")),
        ("frozen", None),
        ("thawed", None),
    ] {
        assert_eq!(row_of_kind(&rows, kind).detail.as_deref(), detail, "{kind}");
    }
    assert!(row_of_kind(&rows, "address.added").detail.as_ref().unwrap().starts_with("spare, 0x"));
    let deleted = row_of_kind(&rows, "agent.deleted");
    assert!(deleted.agent.is_none() && deleted.agent_id.is_some(), "it has no name any more");
    assert_eq!(rows.last().unwrap().at, "2026-01-01T00:00:00Z");
}

/// Each request has one row, at its newest entry. Pages of any size hold the same rows, except that a request may
/// return on an older page with the state that it had there.
#[tokio::test]
async fn a_request_has_one_row_and_raw_shows_its_entries() {
    let (engine, _agent) = engine_with_activity().await;
    let mut operator = engine.operator();
    let raw = activity(&mut operator, "activity --raw --limit 500").await.entries;
    let rows = activity(&mut operator, "activity --limit 500").await;
    assert!(!rows.more);
    let mut seen = BTreeSet::new();
    let is_newest = |row: &&ActivityRow| {
        row.request.as_ref().is_none_or(|request| seen.insert(request.clone()))
    };
    let newest: Vec<_> = raw.iter().filter(is_newest).cloned().collect();
    assert_eq!(seen.len(), 6, "every request of the journal");
    assert!(newest.len() < raw.len());
    assert_eq!(rows.entries, newest);
    for limit in [1, 7, newest.len() - 1, newest.len()] {
        let page = activity(&mut operator, &format!("activity --limit {limit}")).await;
        assert_eq!(page.entries, newest[..limit]);
        assert_eq!(page.more, limit < newest.len(), "{limit}");
        let last = page.entries.last().expect("rows").seq;
        let older = activity(&mut operator, &format!("activity --limit 1 --before {last}")).await;
        assert_eq!(older.entries.first(), raw.iter().find(|row| row.seq < last), "{limit}");
    }
}

#[tokio::test]
async fn a_change_shows_its_old_and_new_value_as_text_and_as_data() {
    let (engine, _agent) = engine_with_activity().await;
    engine.operator().must("policy create wide --day 500 --txn 5").await;
    engine.operator().must("agent edit bot --policy wide").await;
    let rows = activity(&mut engine.operator(), "activity --raw --limit 500").await.entries;
    let changes_of = |kind: &str| -> Vec<_> {
        let of = rows.iter().rev().filter(|row| row.kind.text() == kind);
        of.map(|row| row.detail.clone().unwrap_or_default()).collect()
    };
    assert_eq!(
        changes_of("policy.set")[..3],
        ["p", "p: max per payment 3.00 -> 1.00 USD", "p: max per payment 1.00 -> 3.00 USD",]
    );
    assert_eq!(changes_of("agent.commissioned")[1..], ["policy p -> wide"]);
    assert_eq!(
        changes_of("setting.changed"),
        ["payments.max_validity 3600 s -> 1234 s", "server.hosts none -> other.example"]
    );
    let raised = rows
        .iter()
        .find(|row| row.detail.as_deref().is_some_and(|d| d.ends_with("1.00 -> 3.00 USD")));
    let data = serde_json::to_value(&raised.unwrap().changes).unwrap();
    let want = json!([{
        "field": "payments.per_request", "name": "max per payment", "from": "1.00", "to": "3.00",
        "unit": "USD", "loosens": true,
    }]);
    assert_eq!(data, want);
}

/// Wrong passwords leave entries, also on a locked wallet. None of them makes the journal untrusted.
#[tokio::test]
async fn opening_locking_and_wrong_passwords_leave_a_trace() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 20 --txn 3 --auto 0.5").await;
    let mut operator = engine.operator();
    operator.must("wallet lock").await;
    operator.must("wallet lock").await;
    for _attempt in 0..3 {
        operator.passwords.push_back("not the password".to_owned());
        let refused = engine.while_time_passes(operator.run_refused("wallet open")).await;
        assert_eq!(refused.code, Code::WrongPassword);
    }
    let opened = engine.while_time_passes(operator.outcome("wallet open")).await;
    assert!(opened.reply.result.is_ok() && opened.reply.warnings.is_empty(), "{:?}", opened.reply);
    operator.must("freeze").await;
    operator.passwords.push_back("not the password".to_owned());
    operator.run_refused("thaw").await;
    let answer = activity(&mut operator, "activity --raw --limit 500").await.entries;
    let answer: Vec<_> =
        answer.iter().rev().filter(|row| row.kind.text().starts_with("wallet.")).collect();
    let answer: Vec<_> =
        answer.iter().map(|row| (row.kind.text(), row.detail.as_deref())).collect();
    let wrong = "wrong passwords since the last unlock";
    assert_eq!(
        answer,
        [
            ("wallet.created", Some("main")),
            ("wallet.locked", Some("by the operator")),
            ("wallet.password_refused", Some("1 wrong password since the last unlock")),
            ("wallet.password_refused", Some(format!("2 {wrong}").as_str())),
            ("wallet.password_refused", Some(format!("3 {wrong}").as_str())),
            ("wallet.unlocked", None),
            ("wallet.password_refused", Some("1 wrong password since the last unlock")),
        ]
    );
}

#[tokio::test]
async fn backward_pages_contain_every_entry_once() {
    let (engine, _agent) = engine_with_activity().await;
    let mut operator = engine.operator();
    let all = activity(&mut operator, "activity --raw --limit 500").await;
    let head = all.entries[0].seq;
    assert_eq!(seqs(&all.entries), (1..=head).rev().collect::<Vec<_>>());
    assert!(!all.more);
    for limit in [1, 7, head] {
        let mut answer = Vec::new();
        let mut line = format!("activity --raw --limit {limit}");
        loop {
            let page = activity(&mut operator, &line).await;
            let Some(last) = page.entries.last() else { panic!("an empty page after more") };
            line = format!("activity --raw --limit {limit} --before {}", last.seq);
            answer.extend(page.entries);
            if !page.more {
                break;
            }
        }
        assert_eq!(answer, all.entries, "{limit}");
    }
    assert_eq!(activity(&mut operator, "activity --raw").await.entries, all.entries[..20]);
    let beyond = activity(&mut operator, "activity --raw --before 999999 --limit 1").await;
    assert_eq!((seqs(&beyond.entries), beyond.more), (vec![head], true));
    for line in ["activity --raw --before 1", "activity --before 0"] {
        let none = activity(&mut operator, line).await;
        assert_eq!((none.entries.len(), none.more), (0, false), "{line}");
    }
    for line in ["activity --raw --limit 0", "activity --limit 501"] {
        assert_eq!(operator.run_refused(line).await.code, Code::BadInput, "{line}");
    }
}

#[tokio::test]
async fn an_empty_journal_has_no_activity() {
    let engine = TestEngine::start(Setup { mode: Mode::Maintenance, ..Setup::default() }).await;
    let answer = activity(&mut engine.operator(), "activity --raw").await;
    assert_eq!((answer.entries.len(), answer.more), (0, false));
}

/// Rows contain no RPC endpoints, because those include keys, and no URL paths of agents.
#[tokio::test]
async fn no_row_has_a_key_or_a_path() {
    let (engine, _agent) = engine_with_activity().await;
    let mut operator = engine.operator();
    operator.must("network rpc base https://rpc.example/v2/PRIVATE-KEY").await;
    operator.must("network enable base").await;
    let answer = activity(&mut operator, "activity --raw --limit 500").await;
    let text = serde_json::to_string(&answer).unwrap();
    assert!(text.contains("server.hosts") && text.contains("payments.max_validity"));
    for private in ["PRIVATE", "private-path", "rpc.example", "legal winner"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[tokio::test]
async fn hostile_text_of_an_agent_is_shown_escaped() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 3 --auto 0.5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    let evil = "\u{1b}[2J\u{9b}\u{202e}\r\n\"approved";
    for (n, url) in [
        format!("https://a.example/{evil}"),
        format!("https://{evil}.example/"),
        "https://\u{202e}moc.elpmaxe/".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let atoms = 1000 + u64::try_from(n).unwrap();
        let ask = agent.ask(engine.now_s(), &header(&challenge(BASE, atoms, url)), Some(url));
        engine.post("/sign", &ask).await;
    }
    let paid = ask(&engine, &agent, 12_000, 1).await;
    let mut report = agent.report(engine.now_s(), &paid, "failed", None);
    report["error"] = json!(evil);
    let (status, answer) = engine.post("/callback", &report).await;
    assert_eq!(status, 200, "{answer}");
    let reply = activity(&mut engine.operator(), "activity --raw").await.entries;
    let reported = row_of_kind(&reply, "settlement.reported").detail.clone().unwrap();
    assert!(reported.starts_with("failed: \"\\u{1b}[2J\\u{9b}\\u{202e}"), "{reported}");
    for row in &reply {
        let amount = row.amount.as_ref().map(|amount| amount.text.clone());
        let texts = [&row.agent, &amount, &row.host, &row.detail];
        for text in texts.into_iter().flatten() {
            let acts = |c: char| c.is_control() || c == '\u{202e}';
            assert!(!text.chars().any(acts), "{text:?}");
        }
    }
}

/// If an engine ended without an entry, its next start shows that.
#[tokio::test]
async fn a_start_is_recorded_only_when_a_wallet_exists() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.engine.record_start().await.unwrap();
    assert_eq!(activity(&mut engine.operator(), "activity --raw").await.entries, []);
    engine.set_up_wallet("--day 20").await;
    let engine = engine.restart(Setup::default()).await;
    engine.engine.record_start().await.unwrap();
    let opened = engine.operator().outcome("wallet open").await;
    assert_eq!(opened.reply.warnings, [], "it may follow the seal of the lock");
    let answer = activity(&mut engine.operator(), "activity --raw --limit 3").await.entries;
    let kinds: Vec<&str> = answer.iter().map(|row| row.kind.text()).collect();
    assert_eq!(kinds, ["wallet.unlocked", "engine.started", "wallet.locked"]);
}

/// After a burst, lapsed payments leave memory even if no request follows.
#[tokio::test]
async fn payments_that_have_lapsed_are_recorded_once_while_nothing_else_is() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 20 --txn 3 --auto 0.5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    for n in 0..16 {
        ask(&engine, &agent, 1_000, n).await;
    }
    let mut operator = engine.operator();
    let is_lapsed = |row: &ActivityRow| row.kind == EntryKind::AuthorizationsLapsed;
    engine
        .while_time_passes(async {
            while !activity(&mut operator, "activity --raw --limit 1")
                .await
                .entries
                .iter()
                .any(is_lapsed)
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
    let last = activity(&mut operator, "activity --raw --limit 1").await.entries[0].seq;
    engine.clock.advance(60_000);
    assert_eq!(ask(&engine, &agent, 1_000, 16).await.len(), 36);
    let rows = activity(&mut operator, "activity --raw --limit 100").await.entries;
    assert_eq!(rows.iter().filter(|row| is_lapsed(row)).count(), 1);
    assert!(rows.iter().all(|row| row.seq <= last || !is_lapsed(row)));
}
