//! The content that a build reads from a journal.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_control::answers::{Answer, AuditAnswer, HistoryRow};
use bursar_core::time::Utc;
use bursar_domain::plan::ExecutionEnd;
use bursar_domain::{Entry, Event};
use bursar_engine::journal::{RedbStore, Store, verify_chain};
use bursar_engine::ports::NoFailpoints;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;
use serde_json::{Map, Value, json};

/// Members of a history row that every build must show with the same meaning.
const HISTORY: [&str; 12] = [
    "id",
    "created",
    "lane",
    "agent_id",
    "label",
    "status",
    "amount_atomic",
    "usd",
    "asset",
    "network",
    "payee",
    "tx_hash",
];

/// The content of a journal that builds compare.
pub(crate) struct Reading {
    /// The number, the time in milliseconds, and the content of each entry, one per line.
    pub(crate) entries: String,
    /// The head, the history, and the amounts that agents may spend.
    pub(crate) shown: Value,
}

impl Reading {
    pub(crate) async fn of(opened: &TestEngine) -> Self {
        let mut entries = String::new();
        let reader = opened.engine.core().reader();
        let audited = audit(opened).await;
        verify_chain(&*reader, None, |entry| entries.push_str(&line(entry))).expect("a chain");
        assert_eq!(entries.lines().count() as u64, audited.entries);
        let answer = opened.operator().must("history --limit 500").await;
        let Answer::History(history) = answer else { panic!("{answer:?}") };
        let history: Vec<Value> = history.requests.iter().map(stable_row).collect();
        let state = &opened.engine.core().view().state;
        let wallet = state.wallet.as_ref().expect("a wallet");
        let addresses = wallet.addresses.values();
        let addresses: Map<String, Value> = addresses
            .map(|known| (known.label.to_string(), json!(known.address.to_checksum(None))))
            .collect();
        let policies: Map<String, Value> = state
            .policies
            .iter()
            .map(|(name, record)| (name.clone(), json!(record.policy)))
            .collect();
        let agents: Map<String, Value> = state
            .agents
            .values()
            .map(|agent| {
                let commission = agent.commission.as_ref();
                let shown = json!({
                    "name": agent.name,
                    "suspended": agent.suspended,
                    "reserved": agent.reserved,
                    "open": agent.open_payments,
                    "policy": commission.map(|given| &given.policy),
                    "label": commission.map(|given| &given.label),
                    "spent": commission.map(|given| &given.window.spent),
                    "operations": commission.map(|given| given.window.operations),
                });
                (agent.id.to_string(), shown)
            })
            .collect();
        let shown = json!({
            "entries": audited.entries,
            "head": audited.head,
            "history": history,
            "addresses": addresses,
            "policies": policies,
            "agents": agents,
            "settings": state.settings,
            "frozen": state.frozen,
            "held": state.held.len(),
            "executing": state.executing.len(),
            "waiting": state.waiting.len(),
            "unanswered": state.unanswered.len(),
        });
        Self { entries, shown }
    }
}

fn stable_row(row: &HistoryRow) -> Value {
    let mut row = serde_json::to_value(row).expect("JSON");
    row["amount_atomic"] = row["amount"]["atoms"].take();
    let kept = HISTORY.iter().map(|name| ((*name).to_owned(), row[*name].clone()));
    Value::Object(kept.collect())
}

/// Returns the entries of a journal that no engine has open, in the form of [`Reading::entries`].
pub(crate) fn entries_of(folder: &Path) -> String {
    let store = RedbStore::open(&folder.join("journal.redb"), Arc::new(NoFailpoints));
    let reader = store.expect("a journal").reader();
    let mut entries = String::new();
    verify_chain(&*reader, None, |entry| entries.push_str(&line(entry))).expect("a chain");
    entries
}

/// Returns a clock that shows the time of the last entry.
pub(crate) fn clock_of(entries: &str) -> Arc<ManualClock> {
    let last = entries.lines().last().expect("an entry");
    let at = last.split(' ').nth(1).expect("a time").parse().expect("milliseconds");
    Arc::new(ManualClock::new(Utc(at)))
}

/// Copies the wallet and journal of a data folder with modes for the owner only, because version control keeps no
/// modes.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else if target.extension().is_some_and(|kind| kind == "redb" || kind == "wallet") {
            std::fs::copy(entry.path(), &target).expect("copied");
            std::fs::set_permissions(&target, Permissions::from_mode(0o600)).expect("set");
        }
    }
    std::fs::set_permissions(to, Permissions::from_mode(0o700)).expect("set");
}

/// Opens the journal and the wallet in a folder at the time of the clock.
pub(crate) async fn open(folder: &Path, clock: Arc<ManualClock>) -> TestEngine {
    let setup = Setup { clock, ..Setup::default() };
    let opened = TestEngine::open(folder.to_owned(), setup).await;
    let reply = opened.operator().outcome("wallet open").await.reply;
    reply.result.unwrap_or_else(|fault| panic!("{}: {fault}", folder.display()));
    // Without a warning, the journal matches the wallet and nothing was lost.
    assert_eq!(reply.warnings, [], "{}", folder.display());
    opened
}

pub(crate) async fn stop(opened: TestEngine) {
    drop(opened.http);
    opened.engine.stop().await;
}

/// Verifies the whole chain of entries, which must match the wallet.
pub(crate) async fn audit(opened: &TestEngine) -> AuditAnswer {
    let reply = opened.operator().outcome("audit verify").await.reply;
    assert_eq!(reply.warnings, []);
    let Ok(Answer::Audit(audit)) = reply.result else { panic!("{:?}", reply.result) };
    assert!(audit.sealed && audit.untrusted.is_none(), "{audit:?}");
    audit
}

/// Asserts that `now` has every member of `then` with the same value. A later build may show additional members.
pub(crate) fn assert_contains(now: &Value, then: &Value, place: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for (name, value) in then {
                let place = format!("{place}: {name}");
                let found = now.get(name).unwrap_or_else(|| panic!("{place} is missing"));
                assert_contains(found, value, &place);
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{place}");
            for (at, (now, then)) in now.iter().zip(then).enumerate() {
                assert_contains(now, then, &format!("{place}[{at}]"));
            }
        }
        (now, then) => assert_eq!(now, then, "{place}"),
    }
}

fn line(entry: &Entry) -> String {
    let mut line = String::new();
    // The `Debug` form begins with the name of the variant.
    let variant =
        |debug: String| debug.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
    let kind = variant(format!("{:?}", entry.event));
    let detail = match &entry.event {
        Event::RequestHeld { reason, .. } => reason.text().to_owned(),
        Event::RequestRefused { refusal, .. } | Event::RequestRejected { refusal, .. } => {
            refusal.code.text().to_owned()
        }
        Event::ExecutionStarted { draft: asked, .. } => asked.ask.lane().text().to_owned(),
        Event::PaymentAuthorized { draft: asked, .. } => asked.ask.amount_text(),
        Event::StepOpened { purpose, .. } => purpose.text().to_owned(),
        Event::StepEnded { outcome, .. } => variant(format!("{outcome:?}")),
        Event::ExecutionEnded { end, .. } => {
            let code = match end {
                ExecutionEnd::Executed { .. } => "",
                ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. } => {
                    refusal.code.text()
                }
            };
            format!("{} {code}", variant(format!("{end:?}"))).trim_end().to_owned()
        }
        Event::Outbox { event, .. } => variant(format!("{event:?}")),
        Event::SettlementReported { settlement, .. } => settlement.stage.text().to_owned(),
        Event::SettlementChecked { found, .. } => variant(format!("{found:?}")),
        Event::SettingChanged { to, .. } => format!("{to:?}"),
        Event::DeviceWaitEnded { end, .. } => format!("{end:?}"),
        Event::WalletLocked { cause, .. } => format!("{cause:?}"),
        Event::PaymentApproved { by, .. } | Event::RequestDenied { by, .. } => format!("{by:?}"),
        Event::AgentRegistered { name, credential, .. } => {
            format!("{name} {}", credential.mode().text())
        }
        _other => String::new(),
    };
    let _infallible =
        writeln!(line, "{}", format!("{} {} {kind} {detail}", entry.seq, entry.at.0).trim_end());
    line
}
