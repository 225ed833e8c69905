//! A data folder belongs to the edition that its journal names.

use std::path::Path;
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::engine::Mode;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{Instance, claim};
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;

/// Starts and stops a wallet of an edition in `folder`.
async fn begin(folder: &Path, edition: EditionName) {
    let engine = TestEngine::open(folder.to_owned(), Setup { edition, ..Setup::default() }).await;
    engine.set_up_wallet("--day 10").await;
    engine.engine.stop().await;
}

/// Asserts that `program` refused what belongs to `owner`.
fn assert_refused(fault: &Fault, owner: EditionName, program: EditionName) {
    assert_eq!((fault.code, fault.code.exit()), (Code::WrongEdition, 10), "{fault}");
    for part in [owner.text(), program.text(), "seed import"] {
        assert!(fault.message.contains(part), "{}", fault.message);
    }
}

#[tokio::test]
async fn every_edition_refuses_the_folders_of_the_others() {
    for owner in EditionName::ALL {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        begin(&folder, owner).await;
        let journal = || std::fs::read(folder.join("journal.redb")).unwrap();
        for program in EditionName::ALL {
            let before = journal();
            let setup = Setup { edition: program, mode: Mode::Maintenance, ..Setup::default() };
            match TestEngine::try_open(folder.clone(), setup).await {
                Ok(engine) => {
                    assert_eq!(program, owner);
                    engine.engine.stop().await;
                }
                Err(fault) => {
                    assert_ne!(program, owner, "{fault}");
                    assert_refused(&fault, owner, program);
                    assert!(journal() == before, "a refused folder keeps its journal");
                }
            }
        }
    }
}

/// No program can connect to a sealed one, so it names itself in the folder's lock.
#[test]
fn row_a_second_instance_refuses_and_names_the_folder() {
    let home = tempfile::tempdir().unwrap();
    let folder = DataFolder::open(&home.path().join("data")).unwrap();
    let shown = folder.path().display().to_string();
    let claimed = |edition| claim(&folder, edition, Duration::ZERO);
    let Ok(Instance::Free(mut lock)) = claimed(EditionName::Desktop) else { panic!("it is free") };
    lock.name_holder(&folder, EditionName::Desktop).unwrap();
    let second = claimed(EditionName::Desktop).unwrap_err();
    assert_eq!((second.code, second.code.exit()), (Code::EngineRunning, 10));
    let process = format!("process {}", std::process::id());
    assert!(second.message.contains(&shown) && second.message.contains(&process), "{second}");
    for other in [EditionName::Full, EditionName::Payments] {
        let refused = claimed(other).unwrap_err();
        assert_refused(&refused, EditionName::Desktop, other);
        assert!(refused.message.contains(&shown), "{refused}");
    }
    drop(lock);
    // A name that a killed holder left is removed by the next one.
    std::fs::write(folder.file("engine.lock"), r#"{"pid":1,"edition":"desktop"}"#).unwrap();
    let Ok(Instance::Free(_lock)) = claimed(EditionName::Full) else { panic!("it is free") };
    let plain = claimed(EditionName::Full).unwrap_err();
    assert!(plain.message.contains("does not answer"), "{plain}");
}

/// A journal of the full edition contains no entry about its edition, as before there were others.
#[tokio::test]
async fn only_other_editions_name_themselves_in_the_first_entry() {
    for (edition, entries) in
        [(EditionName::Full, 0), (EditionName::Payments, 1), (EditionName::Desktop, 1)]
    {
        let engine = TestEngine::start(Setup { edition, ..Setup::default() }).await;
        assert_eq!(engine.engine.core().view().head.seq, entries);
        let listed = serde_json::to_value(engine.operator().must("activity --raw").await).unwrap();
        let named = listed.to_string().contains("journal.edition_named");
        assert_eq!(named, entries == 1, "{listed}");
    }
}
