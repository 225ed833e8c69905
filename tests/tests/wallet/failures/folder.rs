//! An unusable data folder, a second engine on it, a port in use, and file modes.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_devnet::report_skip;
use bursar_engine::service::data_dir::DataFolder;
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::engine::lock_folder;
use bursar_tests::files::{Content, inventory, persistent_inventory};
use bursar_tests::mount::Mount;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::json;

use crate::failures::stage::{
    UsedFolder, ask, assert_unchanged, make_pipe, set_up_wallet, start_refused,
    start_refused_unchecked, text,
};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_data_folder_that_is_a_file_a_link_or_foreign_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::write(path("file"), "mine").unwrap();
    std::fs::create_dir(path("real")).unwrap();
    symlink(path("real"), path("link")).unwrap();
    symlink(path("nowhere"), path("dangling")).unwrap();
    std::fs::write(path("parent"), "mine").unwrap();
    let before = inventory(home.path());
    let other = "choose another with --data";
    for (name, texts) in [
        ("file", &[other][..]),
        ("link", &[other, "link"]),
        ("dangling", &[other]),
        ("parent/data", &[other]),
    ] {
        let output = start_refused_unchecked(&path(name), &StartOptions::default());
        output.assert_refusal(13, &[&["DATA_FOLDER", &text(&path(name))], texts].concat());
    }
    assert_unchanged(&before, &inventory(home.path()), "a refused folder");
    if is_root() {
        std::fs::create_dir(path("foreign")).unwrap();
        chown(path("foreign"), Some(1), Some(1)).unwrap();
        let output = start_refused(&path("foreign"), &StartOptions::default());
        output.assert_refusal(13, &[&text(&path("foreign")), "belongs to another account", other]);
    } else {
        report_skip("a folder of another account can only be made by root");
    }
}

#[test]
fn a_link_with_a_slash_at_its_end_is_refused_too() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("real")).unwrap();
    symlink(home.path().join("real"), home.path().join("link")).unwrap();
    let output = start_refused_unchecked(&home.path().join("link/"), &StartOptions::default());
    output.assert_refusal(13, &["links are not followed"]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused_by_name() {
    let used = UsedFolder::new().await;
    let other = "or choose another with --data";
    if is_root() {
        // Root ignores the file mode, but not a read-only mount.
        match Mount::read_only(&used.folder()) {
            Ok(_mount) => {
                let output = start_refused(&used.folder(), &StartOptions::default());
                output.assert_refusal(
                    13,
                    &["DATA_FOLDER", &text(&used.folder()), "Make its file system writable", other],
                );
            }
            Err(why) => report_skip(&format!("no read-only mount here ({why})")),
        }
    } else {
        std::fs::set_permissions(used.folder(), PermissionsExt::from_mode(0o500)).unwrap();
        let output = start_refused(&used.folder(), &StartOptions::default());
        output.assert_refusal(
            13,
            &["DATA_FOLDER", &text(&used.folder()), "Give your account the right", other],
        );
        std::fs::set_permissions(used.folder(), PermissionsExt::from_mode(0o700)).unwrap();
    }
    drop(EngineProcess::start(&used.folder(), &StartOptions::default()));
}

#[test]
fn a_lock_that_cannot_be_taken_is_reported_with_its_file() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    std::fs::create_dir_all(folder.join("engine.lock")).unwrap();
    let output = start_refused_unchecked(&folder, &StartOptions::default());
    output.assert_refusal(
        13,
        &["DATA_FOLDER", &text(&folder.join("engine.lock")), "owner and rights"],
    );
}

#[tokio::test]
async fn a_second_engine_on_the_folder_exits_10_and_the_first_keeps_running() {
    let used = UsedFolder::new().await;
    let mut first = EngineProcess::start(
        &used.folder(),
        &StartOptions { has_password: true, ..StartOptions::default() },
    );
    let before = inventory(&used.folder());
    let output = start_refused_unchecked(&used.folder(), &StartOptions::default());
    output.assert_refusal(10, &["ENGINE_RUNNING"]);
    assert_unchanged(&before, &inventory(&used.folder()), &output.output);
    let (body, answer) = &used.paid[0];
    assert_eq!(&AgentClient::for_url(&first.url).post("/sign", body).await.unwrap(), answer);
    assert_eq!(first.terminate(), Some(0));
}

#[tokio::test]
async fn a_silent_holder_of_the_lock_is_reported_with_the_folder() {
    let used = UsedFolder::new().await;
    // A one-shot command holds the lock and serves no control socket.
    let lock = lock_folder(&DataFolder::open(&used.folder()).unwrap());
    let output = start_refused(&used.folder(), &StartOptions::default());
    output.assert_refusal(10, &["ENGINE_RUNNING", &text(&used.folder()), "wait for it, or end it"]);
    drop(lock);
    drop(EngineProcess::start(&used.folder(), &StartOptions::default()));
}

/// After a restart the path leads to another journal or to none, so a payment answered now
/// would be made a second time.
#[tokio::test]
async fn an_engine_whose_journal_was_removed_refuses_to_decide() {
    for moved in [false, true] {
        let used = UsedFolder::new().await;
        let start = StartOptions { has_password: true, ..StartOptions::default() };
        let mut engine = EngineProcess::start(&used.folder(), &start);
        let caller = AgentClient::for_url(&engine.url);
        let (mut operator, aside) = (engine.operator().await, used.folder().with_extension("old"));
        if moved {
            std::fs::rename(used.folder(), &aside).unwrap();
        } else {
            std::fs::remove_dir_all(used.folder()).unwrap();
        }
        let unanswered = ask(&used.agent, 7);
        let (status, bytes) = caller.post("/sign", &unanswered).await.unwrap();
        let answer = json_or_null(&bytes);
        assert_eq!((status, &answer["code"]), (503, &json!("JOURNAL_FAILED")), "{answer}");
        assert!(answer["header_value"].is_null() && answer["transaction_id"].is_null());
        let fault = operator.run_refused("freeze").await;
        assert_eq!(fault.code, Code::JournalFailed);
        assert!(fault.message.contains(&text(&used.file("journal.redb"))), "{fault}");
        engine.kill();
        if moved {
            std::fs::rename(&aside, used.folder()).unwrap();
            let mut engine = EngineProcess::start(&used.folder(), &start);
            let caller = AgentClient::for_url(&engine.url);
            for (body, answered) in &used.paid {
                assert_eq!(&caller.post("/sign", body).await.unwrap(), answered);
            }
            assert_eq!(caller.post("/sign", &unanswered).await.unwrap().0, 200);
            assert_eq!(engine.terminate(), Some(0));
        }
    }
}

#[test]
fn of_several_engines_started_at_once_exactly_one_runs() {
    for _round in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        let start = || EngineProcess::try_start(&folder, &StartOptions::default());
        let ends: Vec<_> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_engine| scope.spawn(start)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let (running, others): (Vec<_>, Vec<_>) = ends.into_iter().partition(Result::is_ok);
        assert_eq!(running.len(), 1, "{others:?}");
        for other in others {
            let why = other.unwrap_err();
            assert!(why.starts_with("exit status: 10 "), "{why}");
        }
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported_with_its_setting() {
    let used = UsedFolder::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let env = vec![("BURSAR_SERVER_LISTEN".to_owned(), address.clone())];
    let start = StartOptions { env, ..StartOptions::default() };
    let wallets = inventory(&used.file("wallets"));
    let output = start_refused_unchecked(&used.folder(), &start);
    output.assert_refusal(10, &["IN_USE", &address, "bursar config set server.listen 127.0.0.1:"]);
    assert_unchanged(&wallets, &inventory(&used.file("wallets")), &output.output);
    // Once the port is free, the engine uses it.
    drop(taken);
    let mut engine = EngineProcess::start(&used.folder(), &start);
    assert_eq!(engine.url, format!("http://{address}"));
    let Answer::Audit(audit) = engine.operator().await.must("audit verify").await else { panic!() };
    assert_eq!(audit.untrusted, None);
    assert_eq!(engine.terminate(), Some(0));
}

/// Asserts that only the owner has access to everything in the folder.
fn assert_closed(folder: &Path) {
    for (path, item) in inventory(folder) {
        let wanted = if item.content == Content::Folder { 0o700 } else { 0o600 };
        assert_eq!(item.mode, wanted, "{} has mode {:o}", path.display(), item.mode);
    }
}

#[tokio::test]
async fn under_any_umask_only_the_owner_has_access() {
    for umask in ["000", "022", "077"] {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        let start = StartOptions { umask: Some(umask), ..StartOptions::default() };
        let mut engine = EngineProcess::start(&folder, &start);
        let mut operator = engine.operator().await;
        assert_closed(&folder);
        let agent = set_up_wallet(&mut operator).await;
        let caller = AgentClient::for_url(&engine.url);
        assert_eq!(caller.post("/sign", &ask(&agent, 1)).await.unwrap().0, 200);
        operator.must("wallet lock").await;
        operator.must("wallet open").await;
        assert_closed(&folder);
        let names: Vec<_> = inventory(&folder).into_keys().collect();
        for name in ["control.sock", "control.json", "engine.lock", "journal.redb"] {
            assert!(names.iter().any(|path| path == Path::new(name)), "{name}: {names:?}");
        }
        engine.kill();
        // The next engine restores the modes of the files that a killed engine left.
        let mut engine =
            EngineProcess::start(&folder, &StartOptions { has_password: true, ..start });
        assert_closed(&folder);
        assert_eq!(engine.terminate(), Some(0));
        assert_closed(&folder);
    }
}

#[tokio::test]
async fn a_data_folder_open_to_others_is_made_private() {
    let used = UsedFolder::new().await;
    std::fs::set_permissions(used.folder(), PermissionsExt::from_mode(0o777)).unwrap();
    let before = persistent_inventory(&used.folder());
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    assert_closed(&used.folder());
    drop(engine);
    assert_eq!(before.len(), persistent_inventory(&used.folder()).len());
}

/// Opening a named pipe would block until a program writes to it, and signals would not end the start.
#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
    let used = UsedFolder::new().await;
    for (name, exit) in [("settings.toml", 2), ("engine.lock", 13), ("journal.redb", 13)] {
        let path = used.file(name);
        let kept = std::fs::read(&path).ok();
        let _gone = std::fs::remove_file(&path);
        make_pipe(&path);
        start_refused_unchecked(&used.folder(), &StartOptions::default())
            .assert_refusal(exit, &[&text(&path)]);
        std::fs::remove_file(&path).unwrap();
        if let Some(kept) = kept {
            std::fs::write(&path, kept).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        }
    }
    for name in ["main.wallet", "main.wallet.previous"] {
        let path = used.file("wallets").join(name);
        std::fs::remove_file(&path).unwrap();
        make_pipe(&path);
    }
    let engine = EngineProcess::start(&used.folder(), &StartOptions::default());
    let mut operator = engine.operator().await;
    let fault = operator.run_refused("wallet open").await;
    assert!(fault.message.contains("it is not a regular file"), "{fault}");
}
