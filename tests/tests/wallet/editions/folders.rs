//! A data folder belongs to the edition that its journal names.

use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use bursar_engine::engine::Mode;
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

/// A journal of the full edition contains no entry about its edition, as before there were others.
#[tokio::test]
async fn only_other_editions_name_themselves_in_the_first_entry() {
    for (edition, entries) in [(EditionName::Full, 0), (EditionName::Payments, 1)] {
        let engine = TestEngine::start(Setup { edition, ..Setup::default() }).await;
        assert_eq!(engine.engine.core().view().head.seq, entries);
        let listed = serde_json::to_value(engine.operator().must("activity --raw").await).unwrap();
        let named = listed.to_string().contains("journal.edition_named");
        assert_eq!(named, entries == 1, "{listed}");
    }
}
