//! A damaged journal or settings file: the engine refuses to start, and names the file and the remedy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bursar_engine::journal::{RedbStore, Store};
use bursar_engine::ports::NoFailpoints;
use bursar_tests::files::persistent_inventory;
use bursar_tests::process::StartOptions;

use crate::failures::stage::{UsedFolder, start_refused, start_refused_unchecked, text};

/// The remedy in every message about a damaged journal.
const REMEDY: &str = "`bursar wallet restore <file>`";

/// Returns deterministic pseudorandom bytes.
fn pseudorandom_bytes(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_at| next()).collect()
}

#[tokio::test]
async fn an_invalid_journal_file_is_refused_by_name_and_left_unchanged() {
    let used = UsedFolder::new().await;
    let file = used.file("journal.redb");
    let whole = std::fs::read(&file).unwrap();
    let longer = [whole.as_slice(), &pseudorandom_bytes(5_000)].concat();
    for (what, bytes) in [
        ("one byte", &b"x"[..]),
        ("a text", b"this was a journal once\n"),
        ("garbage", &pseudorandom_bytes(whole.len())),
        ("zeros", &vec![0; whole.len()]),
        ("only its first bytes", &whole[..9]),
        ("only its first page", &whole[..4096]),
        ("half of it", &whole[..whole.len() / 2]),
        ("all but a page", &whole[..whole.len() - 4096]),
        ("all but a byte", &whole[..whole.len() - 1]),
        ("more than it was", &longer),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let output = start_refused(&used.folder(), &StartOptions::default());
        output.assert_refusal(13, &["JOURNAL_DAMAGED", &text(&file), REMEDY]);
        println!("{what}: {}", output.output);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    start_refused(&used.folder(), &StartOptions::default())
        .assert_refusal(13, &[&text(&file), REMEDY]);
    // The engine starts with the restored file.
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, &whole).unwrap();
    drop(bursar_tests::process::EngineProcess::start(&used.folder(), &StartOptions::default()));
}

/// Returns offset and length of each entry in the file, found by its bytes.
fn entry_positions(file: &Path) -> BTreeMap<u64, (usize, usize)> {
    let store = RedbStore::open(file, Arc::new(NoFailpoints)).unwrap();
    let head = store.head().unwrap().seq;
    let entries: BTreeMap<u64, Vec<u8>> =
        (1..=head).map(|seq| (seq, store.entry(seq).unwrap().unwrap())).collect();
    drop(store);
    let bytes = std::fs::read(file).unwrap();
    let found = |entry: &Vec<u8>| bytes.windows(entry.len()).position(|window| window == entry);
    entries.iter().map(|(seq, entry)| (*seq, (found(entry).unwrap(), entry.len()))).collect()
}

/// Flips a byte in the middle of each entry in turn, and calls `judge`: with the folder, the entry's number and the
/// last entry's number.
async fn flip_each_entry(judge: impl Fn(&UsedFolder, u64, u64)) {
    let used = UsedFolder::new().await;
    let file = used.file("journal.redb");
    let places = entry_positions(&file);
    let whole = std::fs::read(&file).unwrap();
    let last = *places.keys().max().unwrap();
    for (seq, (at, length)) in places {
        let mut bytes = whole.clone();
        // An entry whose page was rewritten is in the file twice; flip every copy.
        let entry = whole[at..at + length].to_vec();
        for copy in 0..=whole.len() - length {
            if whole[copy..copy + length] == entry {
                bytes[copy + length / 2] ^= 0x41;
            }
        }
        std::fs::write(&file, &bytes).unwrap();
        judge(&used, seq, last);
    }
}

#[tokio::test]
async fn a_flipped_byte_in_any_entry_is_refused_with_the_entry_number() {
    flip_each_entry(|used, seq, last| {
        let output = start_refused_unchecked(&used.folder(), &StartOptions::default());
        output.assert_refusal(13, &["JOURNAL_DAMAGED", &text(&used.file("journal.redb")), REMEDY]);
        // If the changed bytes still decode as an event, the next entry reveals the change; for
        // the last entry, the head does.
        let named = [seq, seq + 1].map(|seq| format!("damaged at entry {seq}:"));
        assert!(
            named.iter().any(|name| output.output.contains(name)),
            "{seq} of {last}: {}",
            output.output
        );
    })
    .await;
}

#[tokio::test]
async fn a_journal_with_a_flipped_byte_is_left_unchanged() {
    flip_each_entry(|used, seq, _last| {
        let before = persistent_inventory(&used.folder());
        let output = start_refused_unchecked(&used.folder(), &StartOptions::default());
        assert_eq!(persistent_inventory(&used.folder()), before, "entry {seq}: {}", output.output);
    })
    .await;
}

#[tokio::test]
async fn damage_that_makes_the_store_panic_is_reported_with_the_file() {
    let used = UsedFolder::new().await;
    let file = used.file("journal.redb");
    let whole = std::fs::read(&file).unwrap();
    let copy = used.folder().with_extension("copy");
    let mut found = 0;
    for at in (0..whole.len()).filter(|at| whole[*at] != 0).step_by(23) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        std::fs::write(&copy, &bytes).unwrap();
        let returned = std::cell::Cell::new(false);
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let store = RedbStore::open(&copy, Arc::new(NoFailpoints));
            returned.set(true);
            drop(store);
        }));
        // The store notices some damage only when it closes the file, and an engine starts with such a file.
        if opened.is_ok() || returned.get() {
            continue;
        }
        found += 1;
        std::fs::write(&file, &bytes).unwrap();
        start_refused(&used.folder(), &StartOptions::default())
            .assert_refusal(13, &[&text(&file), REMEDY]);
        if found == 3 {
            break;
        }
    }
    println!("{found} places at which the store panics");
}

#[tokio::test]
async fn an_empty_or_missing_journal_next_to_a_wallet_is_refused() {
    for missing in [false, true] {
        let used = UsedFolder::new().await;
        let file = used.file("journal.redb");
        if missing {
            std::fs::remove_file(&file).unwrap();
        } else {
            std::fs::write(&file, b"").unwrap();
        }
        start_refused(&used.folder(), &StartOptions::default())
            .assert_refusal(13, &[&text(&file), "backup"]);
    }
}

#[test]
fn an_empty_journal_without_a_wallet_is_an_unfinished_first_start() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("journal.redb"), b"").unwrap();
    drop(bursar_tests::process::EngineProcess::start(&folder, &StartOptions::default()));
}

#[tokio::test]
async fn an_invalid_settings_file_is_refused_by_name_and_left_unchanged() {
    let used = UsedFolder::new().await;
    let file = used.file("settings.toml");
    for (bytes, named) in [
        (&b"[server\nlisten = 1"[..], "settings.toml"),
        (b"\xff\xfe\x00[server]", "UTF-8"),
        (b"[server]\nlissten = \"127.0.0.1:9402\"", "lissten"),
        (b"[server]\nlisten = 9402", "listen"),
        (b"[server]\nlisten = \"0.0.0.0:9402\"", "server.listen"),
        (b"[server]\nrate_per_minute = 0", "server.rate_per_minute"),
        (b"[networks.nowhere]\nrpc = []", "networks.nowhere"),
        (b"[networks.base]\nrpc = [\"no url\"]", "networks.base.rpc"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let output = start_refused(&used.folder(), &StartOptions::default());
        output.assert_refusal(
            2,
            &["BAD_INPUT", &text(&file), named, "Correct the file, or move it away"],
        );
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    start_refused(&used.folder(), &StartOptions::default())
        .assert_refusal(2, &[&text(&file), "move it away"]);
}

#[test]
fn settings_are_checked_before_any_file_is_created() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(folder.join("settings.toml"), "[server]\nlissten = 1").unwrap();
    start_refused(&folder, &StartOptions::default()).assert_refusal(2, &["lissten"]);
}
