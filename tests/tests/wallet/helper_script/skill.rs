//! The skill text: its blocks run as printed, in order, and its table matches the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use bursar_chain::clock::manual::ManualClock;
use bursar_core::codes::Code;
use bursar_core::time::Utc;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Outcome, Version};
use bursar_domain::settlement::Stage;
use bursar_engine::agent_api::openapi::{document, routes_of};
use bursar_engine::agent_api::{helper_of, skill_of};
use bursar_engine::edition::Edition;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, PAY_TO};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::helper_script::behavior;
use crate::helper_script::peer::{Peer, ok_reply, reply};
use crate::helper_script::python::{assets, program, run_to_end, text};

fn skill() -> String {
    skill_of(&Edition::full())
}

/// Returns the fenced blocks: language and content.
fn blocks(skill: &str) -> Vec<(String, String)> {
    let mut parts = skill.split("\n```");
    let _before = parts.next();
    let mut blocks = Vec::new();
    while let Some(block) = parts.next() {
        let (language, content) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), format!("{content}\n")));
        parts.next().expect("a block has an end");
    }
    blocks
}

/// Runs every block that is a program, in order, in one folder.
fn run_blocks(folder: &Path, url: &str, agent: &Agent, resource: &str) -> Vec<Output> {
    let mut outputs = Vec::new();
    for (number, (language, content)) in blocks(&skill()).into_iter().enumerate() {
        let (interpreter, arguments): (_, &[&str]) = match language.as_str() {
            "sh" => ("sh", &["-e"]),
            "python" => ("python3", &[]),
            _example => continue,
        };
        // The script is not in the working folder; agents' tools store it elsewhere, too.
        let scripts = folder.join("scripts");
        fs::create_dir_all(&scripts).unwrap();
        let file = scripts.join(number.to_string());
        fs::write(&file, &content).unwrap();
        let mut command = program(interpreter, url, agent);
        command.args(arguments).arg(file).current_dir(folder).env("RESOURCE_URL", resource);
        command.env_remove("PYTHONPATH").env("no_proxy", "127.0.0.1");
        let output = run_to_end(command);
        let answer = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{content}\n{answer}");
        assert!(!answer.contains(&agent.token[3..]), "{content}");
        outputs.push(output);
    }
    outputs
}

/// The one endpoint that needs a chain, which this test does not have.
async fn balances() -> String {
    json!({ "status": "ok", "balances": [] }).to_string()
}

/// Returns the settlement stage of each payment, newest first.
fn stages(engine: &TestEngine) -> Vec<Option<Stage>> {
    let reader = engine.engine.core().reader();
    let payments = reader.latest(9).unwrap();
    let stage = |seq| reader.settlement(seq).unwrap().map(|known| known.stage);
    payments.iter().map(|request| stage(request.seq)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocks_run_as_printed_in_both_modes_and_after_an_approval() {
    for (mode, policy, version) in [
        ("hmac", "--auto 5", Version::V2),
        ("hmac", "--auto 5", Version::V1),
        ("bearer", "--auto 5", Version::V2),
        ("bearer", "--auto 0", Version::V1),
    ] {
        let now = Utc::from_seconds(jiff::Timestamp::now().as_second());
        let clock = Arc::new(ManualClock::new(now));
        let engine = TestEngine::start(Setup { clock, ..Setup::default() }).await;
        engine.set_up_wallet(&format!("--day 100 --txn 10 {policy}")).await;
        let agent = engine.add_agent("reader", mode).await;

        let router =
            Router::new().route("/balances", post(balances)).fallback_service(engine.http.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
        let server = tokio::spawn(async move { axum::serve(listener, service).await });
        let shop =
            MerchantConfig::new(BASE, PAY_TO.parse().unwrap()).sell_in(version, "/report", 10_000);
        let shop = Merchant::serve(shop).await.unwrap();

        let folder = tempfile::tempdir().unwrap();
        let (home, resource) = (folder.path().to_owned(), format!("{}/report", shop.url()));
        let mut reader = spawn_blocking(move || run_blocks(&home, &url, &agent, &resource));
        let outputs = loop {
            let pause = tokio::time::sleep(std::time::Duration::from_millis(100));
            tokio::select! {
                done = &mut reader => break done.unwrap(),
                () = pause => {}
            }
            let waiting: Vec<_> = engine.engine.core().view().state.held.keys().copied().collect();
            for id in waiting {
                engine.operator().must(&format!("approve {id}")).await;
            }
        };
        server.abort();

        assert_eq!(outputs.len(), 6);
        let bought = shop.payments();
        for one in &bought {
            assert!(matches!(one.outcome, Outcome::VerifiedOnly { .. }), "{:?}", one.outcome);
        }
        assert_eq!(bought.len(), 2, "the short way once, by hand once");
        for paying in [1, 3] {
            assert!(text(&outputs[paying].stdout).contains("What you paid for at /report."));
        }
        // The merchant settles nothing, so only the block that reports by hand reports something.
        assert_eq!(stages(&engine), [Some(Stage::Submitted), None]);
    }
}

#[test]
fn the_blocks_report_the_transaction_that_the_merchant_names() {
    for bearer in [false, true] {
        let agent = behavior::agent(bearer);
        let known = agent.clone();
        let wallet = Peer::serve(move |seen, n| {
            Some(match seen.path.as_str() {
                "/health" | "/ping" => reply(200, &json!({ "status": "ready" })),
                "/sign/helper" => ok_reply(helper_of(&Edition::full())),
                "/sign" => {
                    behavior::check_proof(&known, seen);
                    behavior::signed_reply("PAYMENT-SIGNATURE", n)
                }
                _ => {
                    behavior::check_proof(&known, seen);
                    reply(200, &json!({ "status": "ok" }))
                }
            })
        });
        let folder = tempfile::tempdir().unwrap();
        run_blocks(folder.path(), &wallet.url, &agent, &behavior::shop().url);
        let reports = wallet.received().into_iter().filter(|seen| seen.path == "/callback");
        let reports: Vec<Value> = reports.map(|seen| seen.json()).collect();
        // The short way reports by itself, and the last block reports the payment that was made by hand.
        assert_eq!(reports.len(), 2);
        for report in &reports {
            assert_eq!(
                (&report["event"], &report["tx_hash"]),
                (&json!("settled"), &json!(behavior::TX))
            );
        }
        assert_ne!(reports[0]["transaction_id"], reports[1]["transaction_id"]);
    }
}

#[test]
fn the_table_of_errors_names_codes_that_exist_with_their_status() {
    let skill = skill();
    let (_, table) = skill.split_once("\n## Errors\n").unwrap();
    let mut named = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for code in cells[2].split(", ").map(|code| code.trim_matches('`')) {
            let known = Code::ALL.iter().find(|known| known.text() == code);
            let known = known.unwrap_or_else(|| panic!("{code} is no code"));
            assert_eq!(cells[1], known.http().to_string(), "{code}");
            assert!(named.insert(code), "{code} stands there twice");
        }
    }
    assert_eq!(named.len(), 61);
}

/// Returns every code that the OpenAPI document and the routes list for the lending endpoints.
fn codes_of_lending() -> BTreeSet<String> {
    let edition = Edition::full();
    let description = document(&edition);
    let result = &description["components"]["schemas"]["PositionResult"]["properties"];
    let texts = ["code", "reason_code"].map(|field| result[field]["enum"].as_array().unwrap());
    let texts = texts.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let paths = ["/venues", "/position", "/position/status/{id}"];
    let routes = routes_of(&edition).filter(|route| paths.contains(&route.path));
    let errors = routes.flat_map(|route| route.all_codes(&edition));
    let errors = errors.map(|code| code.text().to_owned());
    texts.chain(errors).collect()
}

#[test]
fn every_code_of_lending_is_in_the_text() {
    let (skill, codes) = (skill(), codes_of_lending());
    let missing: Vec<&String> =
        codes.iter().filter(|code| !skill.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(codes.len() > 40, "{codes:?}");
}

/// Source files that determine the lending endpoints' answers to agents.
const LENDING_SOURCES: &[&str] = &[
    "engine/domain/src/assess/lending.rs",
    "engine/domain/src/decide/loans.rs",
    "engine/domain/src/loan_context.rs",
    "engine/service/src/agent_api/objects.rs",
    "engine/service/src/agent_api/plan_request.rs",
    "engine/service/src/agent_api/plan_result.rs",
    "engine/service/src/agent_api/position.rs",
    "engine/service/src/agent_api/position",
    "engine/service/src/agent_api/venues.rs",
    "engine/service/src/lanes/lending",
];

/// Returns the text of a file, or of a folder's files that agents' requests reach. Forced withdrawals are left out,
/// because only the operator makes them.
fn source(path: &Path) -> String {
    if path.file_name().unwrap().to_string_lossy().starts_with("forced") {
        return String::new();
    }
    if path.is_file() {
        return fs::read_to_string(path).unwrap();
    }
    fs::read_dir(path).unwrap().map(|entry| source(&entry.unwrap().path())).collect()
}

#[test]
fn every_code_that_the_sources_of_lending_name_is_described() {
    let described = codes_of_lending();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut named = BTreeSet::new();
    for path in LENDING_SOURCES {
        let text = source(&root.join(path));
        let variants = text.split("Code::").skip(1).map(|rest| {
            rest.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap().to_owned()
        });
        named.extend(variants);
    }
    for variant in &named {
        let code = Code::ALL.iter().find(|code| format!("{code:?}") == *variant);
        let code = code.unwrap_or_else(|| panic!("{variant} is not a code"));
        assert!(described.contains(code.text()), "{code} is not described");
    }
    assert!(named.len() > 20, "{named:?}");
}

#[test]
fn the_texts_are_short_plain_and_whole() {
    let skill = skill();
    assert!((150..=290).contains(&skill.lines().count()));
    assert!(!skill.contains("jq ") && !skill.starts_with("---"));
    let languages: Vec<String> = blocks(&skill).into_iter().map(|(language, _)| language).collect();
    let programs = languages.iter().filter(|language| *language != "json").count();
    assert_eq!(programs, 6);
    assert!(languages.iter().all(|language| ["sh", "python", "json"].contains(&language.as_str())));
    let partner = fs::read_to_string(assets().join("partner.md")).unwrap();
    assert!(partner.contains("separate wallet") && partner.contains("None is configured"));
}
