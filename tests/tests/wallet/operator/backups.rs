//! A backup of a wallet that another program changes.

use std::sync::mpsc;
use std::time::Duration;

use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// A backup holds wallet file and journal as of one instant: no agent is registered between the two copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_changes_the_wallet_during_a_backup() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    let (mut operator, mut other) = (engine.operator(), engine.operator());
    let (ended, registered) = mpsc::channel();
    let here = Handle::current();
    // Runs after the copy of the wallet file and before the copy of the journal.
    *engine.disk.on_next_query.lock().unwrap() = Some(Box::new(move || {
        let work = || {
            here.block_on(async {
                let registering = other.must("agent register late --auth hmac");
                timeout(Duration::from_millis(300), registering).await.is_ok()
            })
        };
        ended.send(tokio::task::block_in_place(work)).unwrap();
    }));
    let file = engine.folder.with_file_name("one.backup");
    operator.must(&format!("wallet backup {}", file.display())).await;
    assert!(!registered.recv().unwrap(), "the secret of the agent is missing in the backup");
    engine.add_agent("later", "hmac").await;
}
