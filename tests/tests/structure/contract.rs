//! The contract of the agent server, and the manuals in `docs`.
//!
//! The checked-in description equals the generated one and names every route. A request without a proof gets a
//! described answer and changes nothing. The manuals contain the programs' tables.

use std::sync::LazyLock;

use bursar_control::grammar::Order;
use bursar_core::codes::Code;
use bursar_core::settings::keys;
use bursar_engine::agent_api::openapi::{Route, document, routes_of};
use bursar_engine::agent_api::{helper_of, skill_of};
use bursar_engine::edition::Edition;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::offer;
use bursar_tests::tree::root;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const ID: &str = "6fa459ea-ee8a-4ca4-894e-db77e160355e";

async fn engine() -> (TestEngine, Agent) {
    let engine =
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    (engine, agent)
}

fn path(route: &Route) -> String {
    route.path.replace("{id}", ID)
}

/// Asserts that a file in `docs` is the generated text; `BURSAR_BLESS=1` writes it.
fn assert_manual(name: &str, generated: &str) {
    let file = root().join("docs").join(name);
    if std::env::var_os("BURSAR_BLESS").is_some() {
        std::fs::write(&file, generated).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == generated,
        "docs/{name} is old: BURSAR_BLESS=1 cargo test -p bursar-tests --test structure contract"
    );
}

/// Asserts that a manual in `docs` contains the generated tables between their marks; `BURSAR_BLESS=1` writes them.
fn assert_manual_tables(name: &str, tables: &[(&str, String)]) {
    let mut text = std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    for (table, rows) in tables {
        let (begin, end) = (format!("<!-- {table} -->\n"), format!("<!-- end of {table} -->"));
        let (before, rest) = text.split_once(&begin).expect("a place for the table");
        let (_old, after) = rest.split_once(&end).expect("its end");
        text = format!("{before}{begin}{rows}{end}{after}");
    }
    assert_manual(name, &text);
}

#[test]
fn the_checked_in_description_is_the_generated_one() {
    for (name, edition) in
        [("openapi.json", Edition::full()), ("openapi-pay.json", Edition::payments())]
    {
        let text = serde_json::to_string_pretty(&document(&edition)).unwrap();
        assert_manual(name, &format!("{text}\n"));
    }
}

#[test]
fn the_manual_of_settings_matches_the_table() {
    assert_manual("settings.md", &keys::manual());
}

#[test]
fn the_tables_of_the_facilitators_manual_are_those_of_the_program() {
    let tables = [
        ("settings", bursar_facilitator::config::reference()),
        ("codes", bursar_facilitator::reason::reference()),
        ("errors", bursar_facilitator::api::error_code::reference()),
    ];
    assert_manual_tables("facilitator.md", &tables);
}

#[test]
fn the_tables_of_the_proxys_manual_are_those_of_the_program() {
    let settings = ("settings", bursar_proxy::config::reference());
    assert_manual_tables("proxy.md", &[settings, ("errors", bursar_proxy::fault::reference())]);
}

/// Appends a row for each command below `tree` that runs by itself.
fn push_commands(tree: &clap::Command, above: &str, rows: &mut String) {
    let shown = |command: &&clap::Command| command.get_name() != "help" && !command.is_hide_set();
    for command in tree.get_subcommands().filter(shown) {
        let name = format!("{above}{}", command.get_name());
        if !command.is_subcommand_required_set() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            *rows += &format!("| `{name}` | {about} |\n");
        }
        push_commands(command, &format!("{name} "), rows);
    }
}

#[test]
fn the_manual_of_commands_lists_the_grammar() {
    let mut rows = String::new();
    push_commands(&Order::tree(), "", &mut rows);
    let head = "# Commands\n\nEvery command that an engine runs. Each has `--help`, and `--json` prints one object. \
                The console takes\nthe same lines after `:`. Commands about the machine (`engine`, `pay`, \
                `install-service`, `completions` and\nothers) are in `bursar --help`. Generated from \
                the grammar.\n\n\
                | command | effect |\n|---|---|\n";
    assert_manual("commands.md", &format!("{head}{rows}"));
}

#[test]
fn the_operators_manual_lists_the_exit_codes() {
    let rows = bursar_core::codes::EXITS.iter();
    let rows: String = rows.map(|(exit, meaning)| format!("| {exit} | {meaning} |\n")).collect();
    let table = format!("| exit | meaning |\n|---|---|\n{rows}");
    assert_manual_tables("wallet.md", &[("exit codes", table)]);
    for code in Code::ALL {
        let known = bursar_core::codes::EXITS.iter().any(|(exit, _meaning)| *exit == code.exit());
        assert!(known, "{code}: exit code {}", code.exit());
    }
}

#[test]
fn the_manual_of_codes_lists_every_code() {
    let rows = Code::ALL.iter().map(|code| {
        let hint = code.hint().map(|command| format!(" Try `bursar {command}`."));
        let (text, http, exit) = (code.text(), code.http(), code.exit());
        format!(
            "| `{text}` | {http} | {exit} | {}{} |\n",
            code.sentence(),
            hint.unwrap_or_default()
        )
    });
    let head = "# Codes\n\nEvery refusal has a stable code. Agents receive it with an HTTP status, commands end with \
                its exit\ncode. Act on the code, never on the sentence. Generated from the table of codes.\n\n\
                | code | HTTP | exit | meaning |\n|---|---|---|---|\n";
    assert_manual("codes.md", &format!("{head}{}", rows.collect::<String>()));
}

#[test]
fn every_schema_that_is_named_exists() {
    for edition in [Edition::full(), Edition::payments()] {
        assert_complete(&document(&edition));
    }
}

fn assert_complete(document: &Value) {
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn every_described_route_is_served_and_no_other_method() {
    let (engine, _agent) = engine().await;
    for route in routes_of(&Edition::full()) {
        let (status, answer) =
            engine.send(&route.method.to_uppercase(), &path(route), Vec::new()).await;
        assert_ne!(answer["code"], Code::NotFound.text(), "{} {}", route.method, route.path);
        assert!(
            route.statuses(&Edition::full()).contains(&status),
            "{} {}: {status}",
            route.method,
            route.path
        );
        for other in ["PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
            assert_eq!(engine.send(other, &path(route), Vec::new()).await.0, 405, "{other}");
        }
    }
    for unknown in
        ["/sign/", "/Sign", "/sign/x/y", "/health/", "/status/1", "/%73ign", "/favicon.ico"]
    {
        let (status, answer) = engine.get(unknown).await;
        assert_eq!((status, &answer["code"]), (404, &json!("NOT_FOUND")), "{unknown}");
    }
}

/// Bodies that no agent would send, from random bytes to objects with all but one field right.
fn arbitrary_bodies() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
        Just(json!(ID)),
        Just(json!("0x")),
        Just(json!("settled")),
        Just(json!("ABC123")),
        Just(json!(format!("SIG:1767225600:{}", "0".repeat(64)))),
        Just(json!(format!("AT_{}", "0".repeat(64)))),
        Just(json!(offer(10_000, 1))),
    ];
    let value = scalar.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{0,9}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let names = prop::sample::select(vec![
        "agent_id",
        "signature",
        "payment_required",
        "x402_data",
        "request_url",
        "idempotency_key",
        "transaction_id",
        "event",
        "tx_hash",
        "error",
        "trade",
        "position",
        "action",
    ]);
    let object = prop::collection::btree_map(names, value.clone(), 0..8).prop_map(|map| {
        let map = map.into_iter().map(|(name, value)| (name.to_owned(), value));
        Value::Object(map.collect()).to_string().into_bytes()
    });
    let cut = (object.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut bytes, at, byte)| {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        },
    );
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..200),
        2 => value.prop_map(|value| value.to_string().into_bytes()),
        4 => object,
        2 => cut,
    ]
}

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Runtime::new().unwrap());

/// Random bytes without a valid proof get only a described refusal, and change nothing.
#[test]
fn any_body_gets_a_described_status_and_changes_nothing() {
    let (engine, _agent) = RUNTIME.block_on(engine());
    let before = engine.engine.core().view();
    let posts: Vec<&Route> =
        routes_of(&Edition::full()).filter(|route| route.method == "post").collect();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let bodies = (prop::sample::select((0..posts.len()).collect::<Vec<_>>()), arbitrary_bodies());
    let judged = runner.run(&bodies, |(route, body)| {
        let route = posts[route];
        let (status, answer) = RUNTIME.block_on(engine.send("POST", route.path, body));
        prop_assert!(
            route.statuses(&Edition::full()).contains(&status),
            "{}: {status} {answer}",
            route.path
        );
        // An empty body counts as an empty object, and `/status` without a proof is public.
        let nothing_asked = route.path == "/status" && answer.get("agent").is_none();
        prop_assert!(status >= 400 || nothing_asked, "{}: {status} {answer}", route.path);
        if status >= 400 {
            let code = answer["code"].as_str().unwrap_or("none").to_owned();
            let known = route.all_codes(&Edition::full()).iter().any(|known| known.text() == code);
            prop_assert!(known, "{}: {code} is not described", route.path);
            prop_assert!(!answer["error"].as_str().unwrap_or_default().is_empty());
        }
        Ok(())
    });
    judged.unwrap();
    let after = engine.engine.core().view();
    assert_eq!((before.head, &before.state), (after.head, &after.state));
    RUNTIME.block_on(engine.engine.stop());
}

#[tokio::test]
async fn agents_read_the_checked_in_texts_and_the_operators_own_partner() {
    let engine =
        TestEngine::start(Setup { settings: UNLIMITED_RATE_SETTINGS, ..Setup::default() }).await;
    let read = async |path: &str| {
        let (status, bytes) = engine.raw("GET", path, Vec::new()).await;
        assert_eq!(status, 200, "{path}");
        String::from_utf8(bytes).unwrap()
    };
    let partner = root().join("engine/service/src/agent_api/assets/partner.md");
    let partner = std::fs::read_to_string(partner).unwrap();
    let (skill, helper) = (skill_of(&Edition::full()), helper_of(&Edition::full()));
    assert!(read("/").await.contains("GET /agent"));
    for (path, text) in [
        ("/agent", &skill),
        ("/agent/other", &skill),
        ("/agent/partner", &partner),
        ("/agent/1claw", &partner),
        ("/sign/helper", &helper),
    ] {
        assert_eq!(read(path).await, *text, "{path}");
    }
    let own = engine.folder.join("partner.md");
    let largest = "x".repeat(256 << 10);
    for (text, served) in
        [("Ours.\n", "Ours.\n"), (&largest, &largest), (&format!("{largest}x"), &partner)]
    {
        std::fs::write(&own, text).unwrap();
        assert!(read("/agent/partner").await == served, "{} bytes", text.len());
    }
}
