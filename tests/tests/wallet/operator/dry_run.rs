//! Dry runs: every command that changes something shows what it would change, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bursar_control::answers::{Answer, PlanAnswer};
use bursar_control::grammar::Order;
use bursar_control::wire::Asking;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, challenge, header};
use bursar_tests::operator::{Expect, Operator};

/// Returns the content of every file below a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            found.insert(path.display().to_string(), bytes);
        }
    }
    found
}

async fn head(operator: &mut Operator) -> (u64, String) {
    match operator.must("status").await {
        Answer::Status(status) => (status.journal, status.head),
        other => panic!("{other:?}"),
    }
}

/// Returns the plan of a dry run; `None` if the command only read something.
async fn plan(operator: &mut Operator, line: &str) -> Result<Option<PlanAnswer>, String> {
    operator.asking = Asking::DryRun;
    let outcome = operator.outcome(line).await;
    operator.asking = Asking::Interactive;
    assert!(outcome.prompts.is_empty() && outcome.secret.is_none(), "{line}: {outcome:?}");
    assert_eq!(outcome.file, "", "{line}");
    match outcome.reply.result {
        Ok(Answer::Plan(plan)) => Ok(Some(plan)),
        Ok(_read) => Ok(None),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Returns the plan's first change, or why there is no plan.
async fn first_change(operator: &mut Operator, line: &str) -> String {
    match plan(operator, line).await {
        Ok(Some(plan)) => plan.changes.into_iter().next().unwrap_or("no change".to_owned()),
        Ok(None) => "no plan".to_owned(),
        Err(why) => why,
    }
}

/// The commands that change something, with the beginning of their first change.
const CHANGING: &[(&str, &str)] = &[
    ("wallet open", "opens the wallet"),
    ("wallet lock", "locks the wallet"),
    ("wallet passwd", "encrypts the wallet file"),
    ("wallet backup /tmp/never-written.bursar", "writes wallet, journal"),
    ("wallet delete --confirm main", "agent suspended: bot"),
    ("seed create", "adds a new seed"),
    ("seed import", "adds the imported seed"),
    ("address create other 1", "address added"),
    ("address rename pay paid", "address renamed"),
    ("policy create q --day 5", "policy set"),
    ("policy edit p --txn 5", "p: "),
    ("policy edit p --auto 2", "p: "),
    ("policy delete spare", "policy deleted"),
    ("agent register bot2", "registers the agent bot2"),
    ("agent commission bot spare pay", "bot: policy p -> spare"),
    ("agent instructions bot --regenerate", "issues new credentials"),
    ("agent edit bot --policy spare", "bot: policy p -> spare"),
    ("agent suspend bot", "agent suspended"),
    ("server start", "starts the agent server"),
    ("server stop", "stops the agent server"),
    ("mandate create bot", "mandate issued"),
    ("payee name 0x1111111111111111111111111111111111111111 printer --network base", "payee named"),
    ("history export /tmp/never-written.csv", "writes the file"),
    ("config set server.rate_per_minute 100", "settings.toml: server.rate_per_minute 300 -> 100"),
    ("config set lock.idle 900", "setting changed: lock.idle off -> 900 s"),
    ("network disable base", "network set: Base enabled -> disabled"),
    ("network rpc base http://127.0.0.1:9", "settings.toml"),
    ("freeze", "frozen"),
    ("audit accept", "accepts the journal"),
];

/// The commands that change nothing, also without a dry run.
const READING: &[&str] = &[
    "wallet status",
    "seed list",
    "seed words",
    "address list",
    "address show",
    "address ledger list",
    "address export",
    "address balance",
    "address sends",
    "balances",
    "policy list",
    "policy show",
    "policy test",
    "agent list",
    "agent show",
    "server status",
    "requests",
    "quote",
    "allowances",
    "venues",
    "positions",
    "mandate list",
    "payee list",
    "history",
    "activity",
    "watch",
    "receipt",
    "receipt verify",
    "config get",
    "config explain",
    "config list",
    "names",
    "icons",
    "network list",
    "status",
    "doctor",
    "audit verify",
];

/// The commands that this test runs in another state, or that need a chain or a Ledger: tests of the lanes run those.
const ELSEWHERE: &[&str] = &[
    "wallet create",
    "wallet restore",
    "wallet recover",
    "address ledger add",
    "address ledger verify",
    "address send",
    "address cancel",
    "address delete",
    "agent delete",
    "agent resume",
    "agent renew",
    "approve",
    "deny",
    "venue trust",
    "venue untrust",
    "position withdraw",
    "position write-off",
    "mandate show",
    "mandate upload",
    "mandate retire",
    "mandate verify",
    "payee forget",
    "network enable",
    "thaw",
];

#[tokio::test]
async fn a_dry_run_shows_the_change_and_makes_none() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let bot = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    operator.must("policy create spare --day 1 --txn 1").await;
    operator.must("address create empty 7").await;
    let before = (head(&mut operator).await, files(&engine.folder));
    let mut wrong = Vec::new();
    for (line, begin) in CHANGING {
        let change = first_change(&mut operator, line).await;
        wrong.extend((!change.starts_with(begin)).then(|| format!("{line}: {change}")));
        let after = (head(&mut operator).await, files(&engine.folder));
        assert!(before == after, "{line} changed something");
    }
    let offer = header(&challenge(BASE, 2_000_000, "https://a.example/1"));
    let (status, answer) = engine.post("/sign", &bot.ask(engine.now_s(), &offer, None)).await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["request_id"].as_str().unwrap().to_owned();

    let before = (head(&mut operator).await, files(&engine.folder));
    let decisions = [
        (format!("approve {}", &id[..8]), "payment approved"),
        (format!("deny {} too expensive", &id[..8]), "payment denied"),
        ("deny --all".to_owned(), "payment denied"),
        ("address delete empty".to_owned(), "address deleted"),
    ];
    for (line, begin) in decisions {
        let change = first_change(&mut operator, &line).await;
        wrong.extend((!change.starts_with(begin)).then(|| format!("{line}: {change}")));
        let after = (head(&mut operator).await, files(&engine.folder));
        assert!(before == after, "{line} changed something");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!Path::new("/tmp/never-written.csv").exists());
}

#[tokio::test]
async fn a_dry_run_says_whether_the_change_loosens_and_what_would_be_asked() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    for (line, loosens) in [
        ("policy edit p --txn 20", Some(true)),
        ("policy edit p --txn 5", Some(false)),
        ("config set lock.idle 900", Some(false)),
        ("config set server.allow_lan true", Some(true)),
        ("network disable base", Some(false)),
        ("freeze", Some(false)),
        ("agent suspend bot", Some(false)),
        ("payee name 0x1111111111111111111111111111111111111111 x --network base", None),
    ] {
        let plan = plan(&mut operator, line).await.unwrap().unwrap();
        assert_eq!(plan.loosens, loosens, "{line}");
    }
    operator.must("freeze").await;
    let thaw = plan(&mut operator, "thaw").await.unwrap().unwrap();
    assert_eq!((thaw.loosens, thaw.asks), (Some(true), vec!["the wallet's password".to_owned()]));
    operator.must("thaw").await;

    let edit = plan(&mut operator, "policy edit p --txn 20").await.unwrap().unwrap();
    assert_eq!(edit.shows, ["max per payment 10.00 -> 20.00 USD"]);
    assert_eq!(edit.asks, ["Allow this for its agent, from the next request on?"]);
    let [change] = edit.changes.as_slice() else { panic!("{edit:?}") };
    assert_eq!(change, "p: max per payment 10.00 -> 20.00 USD");

    let offer = header(&challenge(BASE, 9_000_000, "https://a.example/1"));
    let (_held, answer) = engine.post("/sign", &bot.ask(engine.now_s(), &offer, None)).await;
    let id = answer["request_id"].as_str().unwrap();
    let approve = plan(&mut operator, &format!("approve {id}")).await.unwrap().unwrap();
    assert!(approve.shows.iter().any(|line| line.contains("9.000000 USDC")), "{approve:?}");
    assert!(approve.asks[0].starts_with("the amount, typed: 9"), "{approve:?}");
}

#[tokio::test]
async fn a_dry_run_is_refused_as_the_command_would_be() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 100 --txn 10").await;
    engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    for (line, why) in [
        ("wallet create other", "already"),
        ("policy delete p", "use"),
        ("policy edit nosuch --txn 1", "no policy"),
        ("agent resume nosuch", "no agent"),
        ("approve 01234567", "request"),
        ("config set server.rate_per_minute many", "server.rate_per_minute"),
    ] {
        let refused = plan(&mut operator, line).await.unwrap_err();
        assert!(refused.contains(why), "{line}: {refused}");
    }
    operator.must("wallet lock").await;
    let refused = plan(&mut operator, "policy edit p --txn 20").await;
    assert!(refused.is_err() || refused.as_ref().is_ok_and(Option::is_some), "{refused:?}");
}

/// A new command fails this test until it is added to one of the lists.
#[test]
fn every_command_is_listed() {
    fn leaves(tree: &clap::Command, above: &str, found: &mut BTreeSet<String>) {
        for command in tree.get_subcommands().filter(|command| command.get_name() != "help") {
            let name = format!("{above}{}", command.get_name());
            if !command.is_subcommand_required_set() {
                found.insert(name.clone());
            }
            leaves(command, &format!("{name} "), found);
        }
    }
    let mut commands = BTreeSet::new();
    leaves(&Order::tree(), "", &mut commands);
    let listed = |command: &str| {
        let changing = CHANGING
            .iter()
            .any(|(line, _begin)| *line == command || line.starts_with(&format!("{command} ")));
        changing || READING.contains(&command) || ELSEWHERE.contains(&command)
    };
    let missing: Vec<&String> = commands.iter().filter(|command| !listed(command)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
