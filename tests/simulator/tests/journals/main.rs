//! Journals that earlier builds wrote. Every build must open them and read the same content as the build that wrote
//! them.
//!
//! `tests/vectors/journals` has a folder for each recording build. It has a packed data folder for each journal, with
//! `entries.txt` (one line for each entry) and `shown.json` (history and spending). Never change these files. Before a
//! release that writes entries of a new form, record the next set:
//! `BURSAR_RECORD=NAME cargo test -p bursar-simulator --test journals -- --ignored record`.

mod reading;
mod recorder;

use std::path::{Path, PathBuf};

use bursar_tests::operator::Expect;
use flate2::read::GzDecoder;
use tempfile::TempDir;

use crate::reading::{Reading, assert_contains};

/// Kinds of entries and outcomes that the recorded journals must contain: those of all lanes, of a Ledger, of
/// unattended days, and of plans that ended in each way.
const MUST_CONTAIN: &[&str] = &[
    "PaymentAuthorized",
    "PaymentSigned",
    "PaymentApproved",
    "RequestHeld above_threshold",
    "RequestHeld manual_only",
    "RequestRefused",
    "RequestDenied",
    "RequestExpired",
    "RequestRejected",
    "SettlementReported",
    "SettlementChecked",
    "ExecutionStarted trade",
    "ExecutionStarted loan",
    "ExecutionApproved",
    "PermitOrdered",
    "PermitSigned",
    "StepOpened token approval",
    "StepOpened swap",
    "StepOpened supply",
    "StepOpened withdrawal",
    "StepOpened revocation of the token approval",
    "StepEnded Succeeded",
    "StepEnded Reverted",
    "StepEnded Dropped",
    "ExecutionEnded Executed",
    "ExecutionEnded Rejected",
    "ExecutionEnded Failed",
    "PlanClosed",
    "Outbox Signed",
    "Outbox Included",
    "DeviceAwaited",
    "DeviceAwaitApproved",
    "PaymentPrompted",
    "PromptFailed",
    "SignedOnDevice",
    "DeviceWaitEnded",
    "PaymentLapsed",
    "WalletOpenedUnattended",
    "UnattendedDayStarted",
    "AllowanceRenewed",
    "SettingChanged",
    "PolicySet",
    "NetworkSet",
    "AddressRenamed",
    "AgentDeleted",
    "CredentialReplaced",
    "WalletLocked",
    "PasswordChanged",
    "PasswordRefused",
    "EngineStarted",
    "Frozen",
    "Thawed",
];

fn sets_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/journals")
}

/// Returns the paths in a folder, sorted by name.
fn folder_entries(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).expect("a folder").flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A recorded journal, unpacked.
struct RecordedJournal {
    name: String,
    home: TempDir,
}

impl RecordedJournal {
    fn all() -> Vec<Self> {
        let files: Vec<PathBuf> =
            folder_entries(&sets_folder()).iter().flat_map(|set| folder_entries(set)).collect();
        assert!(files.len() >= 11, "journals are missing: {files:?}");
        files.iter().map(|file| Self::unpack(file)).collect()
    }

    fn unpack(file: &Path) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let packed = GzDecoder::new(std::fs::File::open(file).expect("a file"));
        tar::Archive::new(packed).unpack(home.path().join("recorded")).expect("unpacked");
        Self { name: file.display().to_string(), home }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("recorded")
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).expect("a text")
    }
}

#[tokio::test]
async fn journals_of_earlier_builds_open_and_the_audit_agrees() {
    for journal in RecordedJournal::all() {
        let folder = journal.home.path().join("data");
        reading::copy(&journal.folder(), &folder);
        let clock = reading::clock_of(&journal.text("entries.txt"));
        let opened = reading::open(&folder, clock).await;
        let reading = Reading::of(&opened).await;
        assert_eq!(reading.entries, journal.text("entries.txt"), "{}", journal.name);
        let shown = serde_json::from_str(&journal.text("shown.json")).unwrap();
        assert_contains(&reading.shown, &shown, &journal.name);

        // The build appends to the journal, and its next start replays the old and the new part.
        opened.operator().must("freeze").await;
        let entries = reading::audit(&opened).await.entries;
        let clock = std::sync::Arc::clone(&opened.clock);
        reading::stop(opened).await;
        let again = reading::open(&folder, clock).await;
        assert!(reading::audit(&again).await.entries > entries, "{}", journal.name);
        reading::stop(again).await;
    }
}

#[test]
fn the_recorded_journals_cover_all_lanes_and_ends() {
    let journals = RecordedJournal::all();
    let texts: String = journals.iter().map(|journal| journal.text("entries.txt")).collect();
    let missing = recorder::missing_kinds(MUST_CONTAIN, &texts);
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
#[ignore = "writes a new set of recorded journals"]
async fn record() {
    let name = std::env::var("BURSAR_RECORD").expect("BURSAR_RECORD names the new set");
    let set = sets_folder().join(name);
    assert!(!set.exists(), "{} exists: never overwrite recorded journals", set.display());
    recorder::write(&set, MUST_CONTAIN).await;
}
