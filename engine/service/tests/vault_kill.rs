//! The process may die, or its disk fail, between any two steps on the wallet file. At every point a complete
//! copy opens, with the old or the new contents.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "an integration test's helpers stand outside #[test]"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bursar_core::ids::{Name, SeedId};
use bursar_engine::ports::{Failpoints, NoFailpoints};
use bursar_engine::vault::file::{OpenWallet, OpenedFrom, WalletFileError, WalletFiles};
use bursar_engine::vault::kdf::{KdfBounds, KdfParams};
use bursar_engine::vault::seed::Seed;
use secrecy::SecretString;
use tempfile::TempDir;

const TINY: KdfParams = KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 };
const BOUNDS: KdfBounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
const CURRENT: &str = "main.wallet";
const PREVIOUS: &str = "main.wallet.previous";

/// Fails at the n-th failpoint and at every later one. Keeps an image of the folder when the n-th was reached:
/// the state that a killed process leaves behind.
#[derive(Debug)]
struct StopAt {
    nth: AtomicUsize,
    reached: Mutex<Vec<&'static str>>,
    data: TempDir,
    image: TempDir,
}

impl StopAt {
    fn new(nth: usize) -> Arc<Self> {
        let (data, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (nth, reached) = (AtomicUsize::new(nth), Mutex::new(Vec::new()));
        Arc::new(Self { nth, reached, data, image })
    }

    fn reached_points(&self) -> Vec<&'static str> {
        self.reached.lock().unwrap().clone()
    }

    /// Repairs the disk: no further failpoint fails.
    fn repair(&self) {
        self.nth.store(usize::MAX, Ordering::SeqCst);
    }
}

impl Failpoints for StopAt {
    fn hit(&self, point: &'static str) -> io::Result<()> {
        let nth = self.nth.load(Ordering::SeqCst);
        let mut reached = self.reached.lock().unwrap();
        reached.push(point);
        if reached.len() == nth {
            copy(self.data.path(), self.image.path());
        }
        if reached.len() >= nth { Err(io::Error::other("stopped by the test")) } else { Ok(()) }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            fs::set_permissions(&target, entry.metadata().unwrap().permissions()).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn name() -> Name {
    "main".parse().unwrap()
}

fn old_password() -> SecretString {
    SecretString::from("old password")
}

fn new_password() -> SecretString {
    SecretString::from("new password")
}

fn files(data: &Path, faults: Arc<dyn Failpoints>) -> WalletFiles {
    WalletFiles::new(data, BOUNDS, faults)
}

fn open(data: &Path, password: &SecretString) -> Result<(OpenWallet, OpenedFrom), WalletFileError> {
    files(data, Arc::new(NoFailpoints)).open(&name(), password)
}

fn add_seed(wallet: &mut OpenWallet) {
    let id = u16::try_from(wallet.seeds().len()).unwrap() + 1;
    wallet.add_seed(SeedId(id), Seed::from_entropy(&[7; 16]).unwrap()).unwrap();
}

/// Creates a wallet with one seed in the current save and none in the previous one.
fn two_saves(data: &Path) {
    let mut wallet =
        files(data, Arc::new(NoFailpoints)).create(&name(), &old_password(), TINY).unwrap();
    add_seed(&mut wallet);
    wallet.save().unwrap();
}

/// Returns the number of seeds in a file and the password that opens it; `None` if there is no such file. The
/// file must open without the other copy.
fn seeds_and_password(data: &Path, file: &str) -> Option<(usize, &'static str)> {
    let path = data.join("wallets").join(file);
    if !path.exists() {
        return None;
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("wallets");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(&path, folder.join(CURRENT)).unwrap();
    for (password, which) in [(old_password(), "old"), (new_password(), "new")] {
        match open(scratch.path(), &password) {
            Ok((wallet, _)) => return Some((wallet.seeds().len(), which)),
            Err(WalletFileError::WrongPassword { .. }) => {}
            Err(other) => panic!("{file}: {other}"),
        }
    }
    panic!("{file} opens with neither password");
}

/// Whether any file of the folder, whatever its name, opens with this password.
fn anything_opens(data: &Path, password: &SecretString) -> bool {
    let files = fs::read_dir(data.join("wallets")).unwrap();
    files.map(|entry| entry.unwrap().path()).any(|path| {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("wallets");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        fs::copy(path, folder.join(CURRENT)).unwrap();
        open(scratch.path(), password).is_ok()
    })
}

fn assert_no_leftovers(data: &Path) {
    for entry in fs::read_dir(data.join("wallets")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        assert!(file == CURRENT || file == PREVIOUS, "{file}");
    }
}

/// Runs `act` once for each failpoint, stopped there, and then once to its end. After each stop, `check` runs on two
/// folders: that of a killed process, and that of a process whose disk failed.
fn at_every_point(
    prepare: impl Fn(&Path),
    act: impl Fn(&WalletFiles) -> Result<(), WalletFileError>,
    check: impl Fn(&str, &Path),
) -> Vec<&'static str> {
    for nth in 1.. {
        let stop = StopAt::new(nth);
        prepare(stop.data.path());
        let done = act(&files(stop.data.path(), stop.clone()));
        let points = stop.reached_points();
        if points.len() < nth {
            done.unwrap();
            check("done", stop.data.path());
            return points;
        }
        match done {
            Err(WalletFileError::Io { source, .. }) => {
                assert_eq!(source.to_string(), "stopped by the test");
            }
            other => panic!("{other:?} at {}", points[nth - 1]),
        }
        check(points[nth - 1], stop.image.path());
        check(points[nth - 1], stop.data.path());
    }
    unreachable!()
}

fn save_with_another_seed(files: &WalletFiles) -> Result<(), WalletFileError> {
    let (mut wallet, from) = files.open(&name(), &old_password())?;
    assert_eq!(from, OpenedFrom::Current);
    add_seed(&mut wallet);
    wallet.save()
}

/// Checks the order of steps by the contents of each copy at each failpoint. The new text is flushed before
/// anything is replaced, and the previous copy is complete before the current one changes.
#[test]
fn a_save_stopped_anywhere_leaves_the_old_or_the_new_contents() {
    // Failpoint, seeds in the current copy, seeds in the previous one.
    let steps = [
        ("vault.tmp_creating", 1, 0),
        ("vault.tmp_written", 1, 0),
        ("vault.tmp_synced", 1, 0),
        ("vault.previous_creating", 1, 0),
        ("vault.previous_written", 1, 0),
        ("vault.previous_synced", 1, 0),
        ("vault.previous_renamed", 1, 1),
        ("vault.previous_dir_synced", 1, 1),
        ("vault.renamed", 2, 1),
        ("vault.dir_synced", 2, 1),
        ("done", 2, 1),
    ];
    let table: BTreeMap<&str, (usize, usize)> =
        steps.iter().map(|(point, current, previous)| (*point, (*current, *previous))).collect();
    let points = at_every_point(two_saves, save_with_another_seed, |point, data| {
        let (current, previous) = table[point];
        assert_eq!(seeds_and_password(data, CURRENT), Some((current, "old")), "{point}");
        assert_eq!(seeds_and_password(data, PREVIOUS), Some((previous, "old")), "{point}");
        let (wallet, from) = open(data, &old_password()).unwrap();
        assert_eq!((wallet.seeds().len(), from), (current, OpenedFrom::Current), "{point}");
        assert_no_leftovers(data);
    });
    let expected: Vec<&str> = steps.iter().map(|step| step.0).filter(|p| *p != "done").collect();
    assert_eq!(points, expected);
}

#[test]
fn a_failed_save_can_be_tried_again() {
    for nth in 1..=10 {
        let stop = StopAt::new(usize::MAX);
        two_saves(stop.data.path());
        let (mut wallet, _) =
            files(stop.data.path(), stop.clone()).open(&name(), &old_password()).unwrap();
        add_seed(&mut wallet);
        stop.nth.store(nth, Ordering::SeqCst);
        assert!(wallet.save().is_err());
        let attempted = wallet.generation();
        stop.repair();
        wallet.save().unwrap();
        // The number of the failed attempt may already be on disk, so it is not used again.
        assert_eq!(wallet.generation(), attempted + 1);
        assert_eq!(seeds_and_password(stop.data.path(), CURRENT), Some((2, "old")));
        assert_eq!(seeds_and_password(stop.data.path(), PREVIOUS), Some((1, "old")));
        assert_no_leftovers(stop.data.path());
    }
}

/// The current copy is damaged here. The save must not replace the good previous copy with it.
#[test]
fn a_save_after_damage_stopped_anywhere_keeps_the_good_copy() {
    let prepare = |data: &Path| {
        two_saves(data);
        let path = data.join("wallets").join(CURRENT);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 40]).unwrap();
    };
    let act = |files: &WalletFiles| {
        let (mut wallet, from) = files.open(&name(), &old_password())?;
        assert!(matches!(from, OpenedFrom::Previous { .. }));
        add_seed(&mut wallet);
        add_seed(&mut wallet);
        wallet.save()
    };
    at_every_point(prepare, act, |point, data| {
        assert_eq!(seeds_and_password(data, PREVIOUS), Some((0, "old")), "{point}");
        let renamed = ["vault.renamed", "vault.dir_synced", "done"].contains(&point);
        let (wallet, from) = open(data, &old_password()).unwrap();
        assert_eq!(wallet.seeds().len(), if renamed { 2 } else { 0 }, "{point}");
        assert_eq!(from == OpenedFrom::Current, renamed, "{point}");
    });
}

/// T-28, at each failpoint of the change.
#[test]
fn a_password_change_stopped_anywhere_loses_nothing_and_finished_leaves_no_old_copy() {
    let act = |files: &WalletFiles| {
        let (mut wallet, _) = files.open(&name(), &old_password())?;
        wallet.change_password(&new_password(), TINY)
    };
    let steps = [
        ("vault.tmp_creating", "old", Some((0, "old"))),
        ("vault.tmp_written", "old", Some((0, "old"))),
        ("vault.tmp_synced", "old", Some((0, "old"))),
        ("vault.previous_creating", "old", Some((0, "old"))),
        ("vault.previous_written", "old", Some((0, "old"))),
        ("vault.previous_synced", "old", Some((0, "old"))),
        // From here on either password opens the newest contents, until the old one opens nothing.
        ("vault.previous_renamed", "old", Some((1, "old"))),
        ("vault.previous_dir_synced", "old", Some((1, "old"))),
        ("vault.renamed", "new", Some((1, "old"))),
        ("vault.dir_synced", "new", Some((1, "old"))),
        ("vault.previous_removing", "new", Some((1, "old"))),
        ("vault.previous_removed", "new", None),
        ("vault.removal_synced", "new", None),
        ("done", "new", None),
    ];
    let points = at_every_point(two_saves, act, |point, data| {
        let step = steps.iter().find(|step| step.0 == point).unwrap();
        assert_eq!(seeds_and_password(data, CURRENT), Some((1, step.1)), "{point}");
        assert_eq!(seeds_and_password(data, PREVIOUS), step.2, "{point}");
        if point == "done" {
            assert!(!anything_opens(data, &old_password()));
        }

        // Whichever password the operator tries first after the crash completes or undoes the change.
        let again = tempfile::tempdir().unwrap();
        copy(data, again.path());
        if let Ok((wallet, from)) = open(data, &new_password()) {
            assert_eq!((wallet.seeds().len(), from), (1, OpenedFrom::Current), "{point}");
            assert!(!anything_opens(data, &old_password()), "{point}");
            assert!(wallet.retired_seal_keys().len() == 1);
        } else {
            assert_eq!(step.1, "old");
        }
        if let Ok((mut wallet, from)) = open(again.path(), &old_password()) {
            assert_eq!(from == OpenedFrom::Current, step.1 == "old", "{point}");
            wallet.save().unwrap();
            assert!(!anything_opens(again.path(), &new_password()), "{point}");
        } else {
            assert_eq!((step.1, step.2), ("new", None));
        }
    });
    let expected: Vec<&str> = steps.iter().map(|step| step.0).filter(|p| *p != "done").collect();
    assert_eq!(points, expected);
}

#[test]
fn after_a_failed_password_change_the_old_password_stays_in_use() {
    for nth in 1..=8 {
        let stop = StopAt::new(usize::MAX);
        let data = stop.data.path();
        two_saves(data);
        let (mut wallet, _) = files(data, stop.clone()).open(&name(), &old_password()).unwrap();
        let seal_key = wallet.seal_key();
        stop.nth.store(nth, Ordering::SeqCst);
        assert!(wallet.change_password(&new_password(), TINY).is_err());
        stop.repair();
        assert!(*wallet.seal_key() == *seal_key && wallet.retired_seal_keys().is_empty());
        assert!(
            wallet.verify_password(&old_password()).is_ok()
                && wallet.verify_password(&new_password()).is_err()
        );
        wallet.save().unwrap();
        assert_eq!(seeds_and_password(data, CURRENT), Some((1, "old")));
        assert_eq!(seeds_and_password(data, PREVIOUS), Some((1, "old")));
        assert!(!anything_opens(data, &new_password()));
        // A second attempt succeeds.
        wallet.change_password(&new_password(), TINY).unwrap();
        assert!(!anything_opens(data, &old_password()));
        assert_eq!(open(data, &new_password()).unwrap().0.retired_seal_keys().len(), 1);
    }
}

/// A file left by an earlier crash is also a copy under the old password, so the change must remove it.
#[test]
fn a_password_change_also_removes_leftovers_of_an_earlier_crash() {
    let data = tempfile::tempdir().unwrap();
    two_saves(data.path());
    let (mut wallet, _) = open(data.path(), &old_password()).unwrap();
    let rest = format!("wallets/.main.wallet.{}.tmp", "7".repeat(32));
    fs::copy(data.path().join("wallets").join(CURRENT), data.path().join(rest)).unwrap();
    assert!(anything_opens(data.path(), &old_password()));
    wallet.change_password(&new_password(), TINY).unwrap();
    assert!(!anything_opens(data.path(), &old_password()));
    assert_no_leftovers(data.path());
}

#[test]
fn a_creation_stopped_anywhere_leaves_a_whole_wallet_or_none() {
    let act = |files: &WalletFiles| files.create(&name(), &old_password(), TINY).map(drop);
    let points = at_every_point(
        |_data| {},
        act,
        |point, data| {
            let there = ["vault.renamed", "vault.dir_synced", "done"].contains(&point);
            match open(data, &old_password()) {
                Ok((wallet, OpenedFrom::Current)) if there => assert!(wallet.seeds().is_empty()),
                Err(WalletFileError::NotFound { .. }) if !there => {
                    let files = files(data, Arc::new(NoFailpoints));
                    assert!(files.names().unwrap().is_empty());
                    files.create(&name(), &old_password(), TINY).unwrap();
                    open(data, &old_password()).unwrap();
                }
                other => panic!("{point}: {other:?}"),
            }
            assert_no_leftovers(data);
        },
    );
    let expected = [
        "vault.folder_creating",
        "vault.folder_created",
        "vault.tmp_creating",
        "vault.tmp_written",
        "vault.tmp_synced",
        "vault.renamed",
        "vault.dir_synced",
    ];
    assert_eq!(points, expected);
}

#[test]
fn a_deletion_stopped_anywhere_leaves_the_whole_wallet_or_none() {
    let act = |files: &WalletFiles| files.delete(&name());
    at_every_point(two_saves, act, |point, data| {
        let gone = ["vault.current_removed", "vault.deletion_synced", "done"].contains(&point);
        match open(data, &old_password()) {
            Ok((wallet, OpenedFrom::Current)) if !gone => assert_eq!(wallet.seeds().len(), 1),
            Err(WalletFileError::NotFound { .. }) if gone => {
                assert_eq!(fs::read_dir(data.join("wallets")).unwrap().count(), 0);
            }
            other => panic!("{point}: {other:?}"),
        }
    });
}
