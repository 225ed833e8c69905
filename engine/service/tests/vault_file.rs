//! The guarantees of a wallet file: its password alone opens it, an altered byte is noticed, a wrong password
//! is not reported as damage, and other accounts cannot read it.
#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::{AgentId, Name, SeedId};
use bursar_engine::ports::NoFailpoints;
use bursar_engine::vault::Vault;
use bursar_engine::vault::file::{
    Fallback, JournalNote, OpenWallet, OpenedFrom, WalletFileError, WalletFiles,
};
use bursar_engine::vault::gate::Gate;
use bursar_engine::vault::kdf::{KdfBounds, KdfError, KdfParams};
use bursar_engine::vault::seed::Seed;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

/// Parameters as weak as Argon2 allows, so that thousands of openings take seconds.
const TINY: KdfParams = KdfParams { memory_kib: 8, iterations: 1, parallelism: 1 };
const TINY_BOUNDS: KdfBounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
const NOTE: JournalNote = JournalNote { seq: 41, head: [0xab; 32] };

/// A data folder with wallet files.
struct Bench {
    data: tempfile::TempDir,
    files: WalletFiles,
}

impl Bench {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let files = WalletFiles::new(data.path(), TINY_BOUNDS, Arc::new(NoFailpoints));
        Self { data, files }
    }

    /// Creates a wallet whose current save has contents and whose previous one is empty.
    fn with_saves() -> Self {
        let bench = Self::new();
        let mut wallet = bench.files.create(&name("main"), &right_password(), TINY).unwrap();
        fill(&mut wallet);
        wallet.save().unwrap();
        bench
    }

    fn current(&self) -> PathBuf {
        self.data.path().join("wallets/main.wallet")
    }

    fn previous(&self) -> PathBuf {
        self.data.path().join("wallets/main.wallet.previous")
    }

    fn open(&self, password: &SecretString) -> Result<(OpenWallet, OpenedFrom), WalletFileError> {
        self.files.open(&name("main"), password)
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn agent(text: &str) -> AgentId {
    text.parse().unwrap()
}

fn right_password() -> SecretString {
    SecretString::from("the right password")
}

fn wrong_password() -> SecretString {
    SecretString::from("the wrong password")
}

fn fill(wallet: &mut OpenWallet) {
    wallet.add_seed(SeedId(1), Seed::from_entropy(&[0x51; 16]).unwrap()).unwrap();
    wallet.add_seed(SeedId(2), Seed::from_entropy(&[0x52; 32]).unwrap()).unwrap();
    wallet.set_agent_secret(agent("ABC123"), &[0x61; 32]);
    wallet.set_agent_secret(agent("XYZ789"), &[0x62; 32]);
    wallet.set_journal_note(NOTE);
}

fn assert_filled(wallet: &OpenWallet) {
    let seeds: Vec<(u16, &[u8])> =
        wallet.seeds().iter().map(|(id, seed)| (id.0, seed.expose_entropy())).collect();
    assert_eq!(seeds, [(1, &[0x51; 16][..]), (2, &[0x52; 32][..])]);
    let secret = |id: &str| wallet.agent_secret(&agent(id)).map(|kept| *kept.expose_secret());
    assert_eq!(secret("ABC123"), Some([0x61; 32]));
    assert_eq!(secret("XYZ789"), Some([0x62; 32]));
    assert_eq!(secret("NOT000"), None);
    assert_eq!(wallet.journal_note(), Some(NOTE));
}

/// Returns the text with a matching checksum, as an attacker would write it.
fn with_matching_checksum(text: &str) -> String {
    let (body, _old) = text.split_once("\"checksum\": \"").unwrap();
    let unsigned = format!("{body}\"checksum\": \"\"\n}}\n");
    let checksum = hex::encode(Sha256::digest(&unsigned));
    unsigned.replace("\"checksum\": \"\"", &format!("\"checksum\": \"{checksum}\""))
}

/// Returns the position of every hex digit in a field other than the checksum.
fn hex_digits(text: &str) -> Vec<usize> {
    let mut places = Vec::new();
    for field in ["\"wallet_id\": \"", "\"salt\": \"", "\"nonce\": \"", "\"ciphertext\": \""] {
        for (at, found) in text.match_indices(field) {
            let start = at + found.len();
            let length = text.split_at(start).1.find('"').unwrap();
            places.extend(start..start + length);
        }
    }
    places
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_opened_wallet_has_the_saved_contents() {
    let bench = Bench::with_saves();
    let (mut wallet, from) = bench.open(&right_password()).unwrap();
    assert_eq!((from, wallet.generation(), wallet.name()), (OpenedFrom::Current, 2, "main"));
    assert_filled(&wallet);

    assert!(wallet.add_seed(SeedId(1), Seed::from_entropy(&[9; 16]).unwrap()).is_err());
    assert!(wallet.remove_agent_secret(&agent("XYZ789")));
    assert!(!wallet.remove_agent_secret(&agent("XYZ789")));
    wallet.set_agent_secret(agent("ABC123"), &[0x77; 32]);
    assert!(!wallet.retain(|_| true, |_| true));
    assert!(wallet.retain(|id| id == SeedId(2), |_| true));
    wallet.save().unwrap();

    let (wallet, _) = bench.open(&right_password()).unwrap();
    assert_eq!(wallet.generation(), 3);
    assert_eq!(wallet.seeds().keys().copied().collect::<Vec<_>>(), [SeedId(2)]);
    assert!(wallet.agent_secret(&agent("XYZ789")).is_none());
    assert_eq!(wallet.agent_secret(&agent("ABC123")).unwrap().expose_secret(), &[0x77; 32]);
}

#[test]
fn a_wrong_password_is_always_reported_as_such() {
    let bench = Bench::with_saves();
    assert!(matches!(bench.open(&wrong_password()), Err(WalletFileError::WrongPassword { .. })));
    let (wallet, _) = bench.open(&right_password()).unwrap();
    assert!(wallet.verify_password(&right_password()).is_ok());
    let refusal = wallet.verify_password(&wrong_password()).unwrap_err();
    assert!(matches!(refusal, WalletFileError::WrongPassword { .. }));
    let told = refusal.to_string();
    assert!(told.starts_with("The password") && !told.contains('/'), "{told}");

    // If the current save is damaged, the previous one still distinguishes a right password from a wrong one.
    fs::write(bench.current(), "{").unwrap();
    assert!(matches!(bench.open(&wrong_password()), Err(WalletFileError::WrongPassword { .. })));
    fs::remove_file(bench.current()).unwrap();
    assert!(matches!(bench.open(&wrong_password()), Err(WalletFileError::WrongPassword { .. })));
    fs::remove_file(bench.previous()).unwrap();
    assert!(matches!(bench.open(&wrong_password()), Err(WalletFileError::NotFound { .. })));
}

#[test]
fn a_missing_or_damaged_save_falls_back_to_the_previous_one_with_a_reason() {
    let bench = Bench::with_saves();
    let good = fs::read_to_string(bench.current()).unwrap();
    let cases = [
        (None, Fallback::CurrentMissing),
        (Some(good.split_at(good.len() / 2).0.to_owned()), {
            Fallback::CurrentDamaged { reason: "it is not a wallet file" }
        }),
        (Some(good.replace("\"generation\": 2", "\"generation\": 3")), {
            Fallback::CurrentDamaged { reason: "its checksum does not match its content" }
        }),
        (Some(with_matching_checksum(&good.replace("\"generation\": 2", "\"generation\": 3"))), {
            Fallback::CurrentDamaged {
                reason: "the password is right, but the contents are damaged",
            }
        }),
        (Some(with_matching_checksum(&good.replace("\"iterations\": 1", "\"iterations\": 2"))), {
            Fallback::CurrentLockedOtherwise
        }),
    ];
    for (text, expected) in cases {
        fs::remove_file(bench.current()).ok();
        if let Some(text) = text {
            fs::write(bench.current(), text).unwrap();
            set_mode(&bench.current(), 0o600);
        }
        let (mut wallet, from) = bench.open(&right_password()).unwrap();
        assert_eq!(from, OpenedFrom::Previous { why: expected.clone() });
        assert!(wallet.seeds().is_empty());
        assert!(expected.to_string().contains("The previous save was opened instead"));

        // The next save repairs the current copy and keeps the previous one intact.
        fill(&mut wallet);
        wallet.save().unwrap();
        let (wallet, from) = bench.open(&right_password()).unwrap();
        assert_eq!(from, OpenedFrom::Current);
        assert_filled(&wallet);
        fs::remove_file(bench.current()).unwrap();
        assert!(bench.open(&right_password()).unwrap().0.seeds().is_empty());
        fs::write(bench.current(), &good).unwrap();
        set_mode(&bench.current(), 0o600);
    }
}

#[test]
fn two_damaged_copies_are_reported_as_damage_of_the_current_one() {
    let bench = Bench::with_saves();
    fs::write(bench.current(), "{").unwrap();
    fs::write(bench.previous(), "").unwrap();
    for password in [right_password(), wrong_password()] {
        match bench.open(&password) {
            Err(WalletFileError::Damaged { file, .. }) => assert_eq!(file, bench.current()),
            other => panic!("{other:?}"),
        }
    }
}

/// T-26: any byte on disk is altered.
#[test]
fn every_altered_byte_is_rejected_or_falls_back_to_the_previous_save() {
    let bench = Bench::with_saves();
    let good = fs::read(bench.current()).unwrap();
    let spare = fs::read(bench.previous()).unwrap();
    for with_previous in [true, false] {
        if !with_previous {
            fs::remove_file(bench.previous()).unwrap();
        }
        for place in 0..good.len() {
            for mask in [0x01, 0x20, 0x80] {
                let mut bad = good.clone();
                bad[place] ^= mask;
                fs::write(bench.current(), &bad).unwrap();
                match (bench.open(&right_password()), with_previous) {
                    (Ok((wallet, OpenedFrom::Previous { .. })), true) => {
                        assert!(wallet.seeds().is_empty());
                    }
                    // Altering the version's digit gives another version, which is not reported as damage.
                    (Err(WalletFileError::UnsupportedVersion { version: 0, .. }), _) => {}
                    (Err(WalletFileError::Damaged { .. }), false) => {}
                    (other, _) => panic!("byte {place} ^ {mask:#x}: {other:?}"),
                }
            }
        }
    }
    // A file cut off at every length, and one with a trailing byte.
    for length in 0..good.len() {
        fs::write(bench.current(), &good[..length]).unwrap();
        assert!(
            matches!(bench.open(&right_password()), Err(WalletFileError::Damaged { .. })),
            "{length}"
        );
    }
    fs::write(bench.current(), [&good[..], b"\n"].concat()).unwrap();
    assert!(matches!(bench.open(&right_password()), Err(WalletFileError::Damaged { .. })));
    fs::write(bench.current(), &spare).unwrap();
    assert!(bench.open(&right_password()).is_ok());
}

/// T-26 with the checksum corrected as well: only the tags detect the change.
#[test]
fn every_altered_digit_is_refused_even_with_the_checksum_corrected() {
    let bench = Bench::with_saves();
    fs::remove_file(bench.previous()).unwrap();
    let good = fs::read_to_string(bench.current()).unwrap();
    assert_eq!(with_matching_checksum(&good), good);
    let places = hex_digits(&good);
    let payload = good.find("\"payload\"").unwrap();
    // wallet_id, salt, two nonces, wrapped key with tag, and the payload.
    assert_eq!(places.len(), 2 * (16 + 16 + 12 + 12 + 48 + 199));
    for place in places {
        let digit = u32::from_str_radix(&good.chars().nth(place).unwrap().to_string(), 16).unwrap();
        for bit in [1, 2, 4, 8] {
            let mut bad = good.clone();
            bad.replace_range(place..=place, &format!("{:x}", digit ^ bit));
            fs::write(bench.current(), with_matching_checksum(&bad)).unwrap();
            // Each of the two tags covers its own part. The key's tag covers the part before the payload, and its
            // failure is reported as a wrong password.
            match (bench.open(&right_password()), place < payload) {
                (Err(WalletFileError::WrongPassword { .. }), true)
                | (Err(WalletFileError::Damaged { .. }), false) => {}
                (other, _) => panic!("digit {place} ^ {bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn no_field_of_the_header_can_be_exchanged() {
    let bench = Bench::with_saves();
    let good = fs::read_to_string(bench.current()).unwrap();
    let older = fs::read_to_string(bench.previous()).unwrap();
    fs::remove_file(bench.previous()).unwrap();
    let line = |text: &str, field: &str, nth: usize| -> String {
        text.lines().filter(|line| line.contains(field)).nth(nth).unwrap().to_owned()
    };
    let mut altered = vec![
        good.replace("\"format\": \"bursar-wallet\"", "\"format\": \"bursar-vallet\""),
        good.replace("\"algorithm\": \"argon2id\"", "\"algorithm\": \"argon2i\""),
        good.replace("\"memory_kib\": 8", "\"memory_kib\": 9"),
        good.replace("\"memory_kib\": 8", "\"memory_kib\": 7"),
        good.replace("\"memory_kib\": 8", "\"memory_kib\": 16"),
        good.replace("\"iterations\": 1", "\"iterations\": 0"),
        good.replace("\"iterations\": 1", "\"iterations\": 2"),
        good.replace("\"iterations\": 1", "\"iterations\": 17"),
        good.replace("\"iterations\": 1", "\"iterations\": 4294967296"),
        good.replace("\"iterations\": 1", "\"iterations\": -1"),
        good.replace("\"parallelism\": 1", "\"parallelism\": 0"),
        good.replace("\"parallelism\": 1", "\"parallelism\": 17"),
        good.replace("\"generation\": 2", "\"generation\": 1"),
        good.replace("\"generation\": 2", "\"generation\": 18446744073709551615"),
        good.replace("\"name\": \"main\"", "\"name\": \"mine\""),
        good.replace("\"version\": 1", "\"version\": 1, \"more\": 1"),
        good.replace("\"version\": 1,", "\"version\": 1,\n  \"version\": 1,"),
    ];
    // Parts of the older save, which are authentic in that save.
    for nth in [0, 1] {
        for field in ["\"nonce\"", "\"ciphertext\""] {
            altered.push(good.replace(&line(&good, field, nth), &line(&older, field, nth)));
        }
    }
    altered.push(
        good.replace(&line(&good, "\"nonce\"", 1), &line(&older, "\"nonce\"", 1))
            .replace(&line(&good, "\"ciphertext\"", 1), &line(&older, "\"ciphertext\"", 1)),
    );
    for bad in altered.iter().filter(|bad| **bad != good) {
        fs::write(bench.current(), with_matching_checksum(bad)).unwrap();
        assert!(bench.open(&right_password()).is_err(), "{bad}");
    }
    // The wrapped key's nonce and ciphertext are the same in both saves, so these two replacements change
    // nothing.
    assert_eq!(altered.iter().filter(|bad| **bad == good).count(), 2);

    fs::write(
        bench.current(),
        with_matching_checksum(&good.replace("\"version\": 1", "\"version\": 2")),
    )
    .unwrap();
    fs::write(bench.previous(), &older).unwrap();
    set_mode(&bench.previous(), 0o600);
    let refusal = bench.open(&right_password()).unwrap_err();
    assert!(matches!(refusal, WalletFileError::UnsupportedVersion { version: 2, .. }));
}

/// Returns the peak of this process's address space in KiB, if the system reports it.
fn peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmPeak"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn two_gigabytes_of_key_derivation_are_refused_before_allocation() {
    let bench = Bench::with_saves();
    let good = fs::read_to_string(bench.current()).unwrap();
    let greedy = good.replace("\"memory_kib\": 8", "\"memory_kib\": 2097152");
    fs::write(bench.current(), with_matching_checksum(&greedy)).unwrap();
    let before = peak_kib();
    for bounds in [TINY_BOUNDS, KdfBounds::PRODUCTION] {
        let files = WalletFiles::new(bench.data.path(), bounds, Arc::new(NoFailpoints));
        match files.open(&name("main"), &right_password()) {
            Err(WalletFileError::KdfOutOfBounds { file, source }) => {
                assert_eq!(file, bench.current());
                let found = KdfError::OutOfBounds {
                    parameter: "memory_kib",
                    found: 2_097_152,
                    lowest: bounds.min_memory_kib,
                    highest: 524_288,
                };
                assert_eq!(source, found);
            }
            other => panic!("{other:?}"),
        }
    }
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        assert!(after - before < 1_048_576, "{before} KiB grew to {after} KiB");
    }
}

#[test]
fn production_refuses_a_wallet_that_is_cheap_to_guess() {
    let bench = Bench::with_saves();
    let files = WalletFiles::new(bench.data.path(), KdfBounds::PRODUCTION, Arc::new(NoFailpoints));
    let refusal = files.open(&name("main"), &right_password()).unwrap_err();
    assert!(matches!(refusal, WalletFileError::KdfOutOfBounds { .. }), "{refusal}");
    let fresh = tempfile::tempdir().unwrap();
    let files = WalletFiles::new(fresh.path(), KdfBounds::PRODUCTION, Arc::new(NoFailpoints));
    let refusal = files.create(&name("main"), &right_password(), TINY).unwrap_err();
    assert!(matches!(refusal, WalletFileError::KdfOutOfBounds { .. }), "{refusal}");
    assert!(files.names().unwrap().is_empty());
}

#[test]
fn the_folder_holds_one_wallet_and_creating_never_replaces_it() {
    let bench = Bench::with_saves();
    for second in ["main", "MAIN", "other"] {
        let refusal = bench.files.create(&name(second), &right_password(), TINY).unwrap_err();
        assert!(matches!(refusal, WalletFileError::AlreadyExists { .. }), "{refusal}");
    }
    // The previous save may be the only copy of the seeds.
    fs::remove_file(bench.current()).unwrap();
    let refusal = bench.files.create(&name("main"), &right_password(), TINY).unwrap_err();
    assert!(matches!(refusal, WalletFileError::AlreadyExists { .. }), "{refusal}");
    assert_eq!(bench.files.names().unwrap(), [name("main")]);
    assert!(bench.files.open(&name("Main"), &right_password()).is_ok());
}

#[test]
fn a_name_never_leads_out_of_the_folder() {
    let bench = Bench::new();
    for bad in ["../main", "a/b", "a\\b", ".main", "main.", "a:b", "-main", "..", "x\"y"] {
        for refusal in [
            bench.files.create(&name(bad), &right_password(), TINY).unwrap_err(),
            bench.files.open(&name(bad), &right_password()).unwrap_err(),
            bench.files.delete(&name(bad)).unwrap_err(),
        ] {
            assert!(matches!(refusal, WalletFileError::BadName { .. }), "{bad}: {refusal}");
        }
    }
    assert_eq!(fs::read_dir(bench.data.path()).unwrap().count(), 0);
    assert!(bench.files.create(&name("My 2nd wallet_v1.0-b"), &right_password(), TINY).is_ok());
}

#[test]
fn a_file_under_a_foreign_name_is_not_opened() {
    let bench = Bench::with_saves();
    fs::rename(bench.current(), bench.data.path().join("wallets/other.wallet")).unwrap();
    fs::rename(bench.previous(), bench.data.path().join("wallets/other.wallet.previous")).unwrap();
    let refusal = bench.files.open(&name("other"), &right_password()).unwrap_err();
    assert!(matches!(refusal, WalletFileError::Damaged { .. }), "{refusal}");
    assert!(refusal.to_string().contains("give it back its old name"), "{refusal}");

    // The file is also refused if the name inside it is altered to match the file's name.
    let other = bench.data.path().join("wallets/other.wallet");
    let text = fs::read_to_string(&other).unwrap().replace("\"main\"", "\"other\"");
    fs::write(&other, with_matching_checksum(&text)).unwrap();
    let refusal = bench.files.open(&name("other"), &right_password()).unwrap_err();
    assert!(matches!(refusal, WalletFileError::WrongPassword { .. }), "{refusal}");
}

#[test]
fn a_world_readable_copy_is_refused_with_the_chmod_command() {
    let bench = Bench::with_saves();
    let folder = bench.data.path().join("wallets");
    for (path, mode, mended) in [
        (bench.current(), 0o644, 0o600),
        (bench.current(), 0o620, 0o600),
        (bench.previous(), 0o604, 0o600),
        (folder.clone(), 0o755, 0o700),
        (folder.clone(), 0o770, 0o700),
    ] {
        set_mode(&path, mode);
        let refusal = bench.open(&right_password()).unwrap_err();
        assert!(matches!(refusal, WalletFileError::TooOpen { .. }), "{refusal}");
        let command = format!("chmod {mended:o} '{}'", path.display());
        assert!(refusal.to_string().contains(&command), "{refusal}");
        set_mode(&path, mended);
        assert!(bench.open(&right_password()).is_ok());
    }
    fs::rename(bench.current(), folder.join("kept")).unwrap();
    symlink(folder.join("kept"), bench.current()).unwrap();
    assert!(matches!(bench.open(&right_password()), Err(WalletFileError::Io { .. })));
}

#[test]
fn each_save_uses_new_nonces_and_reveals_no_contents() {
    let bench = Bench::with_saves();
    let (mut wallet, _) = bench.open(&right_password()).unwrap();
    let mut texts = vec![fs::read_to_string(bench.current()).unwrap()];
    for _ in 0..3 {
        wallet.save().unwrap();
        assert_eq!(&fs::read_to_string(bench.previous()).unwrap(), texts.last().unwrap());
        texts.push(fs::read_to_string(bench.current()).unwrap());
    }
    let payload = |text: &String| -> Vec<String> {
        text.lines().skip_while(|line| !line.contains("payload")).map(str::to_owned).collect()
    };
    for (n, text) in texts.iter().enumerate() {
        let (nonce, ciphertext) = (payload(text)[1].clone(), payload(text)[2].clone());
        assert!(nonce.contains("nonce") && ciphertext.contains("ciphertext"));
        for other in texts.iter().skip(n + 1) {
            assert!(payload(other)[1] != nonce && payload(other)[2] != ciphertext);
        }
        for plain in ["51515151", "52525252", "61616161", "62626262", "ABC123", "abababab"] {
            assert!(!text.contains(plain), "{plain}");
        }
    }
    // Debug output shows no secret either.
    let shown = format!("{wallet:?} {wallet:#?} {:?}", wallet.seeds());
    for secret in ["51", "0x51", "[81", "97, 97", "abandon", "right password"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn a_password_change_replaces_key_and_salt_and_voids_the_old_password() {
    let bench = Bench::with_saves();
    let new = SecretString::from("a new password");
    let (mut wallet, _) = bench.open(&right_password()).unwrap();
    let before = fs::read_to_string(bench.current()).unwrap();
    let old_seal_key = wallet.seal_key();
    let stronger = KdfParams { iterations: 2, ..TINY };
    wallet.change_password(&new, stronger).unwrap();

    assert!(!bench.previous().exists());
    assert!(matches!(bench.open(&right_password()), Err(WalletFileError::WrongPassword { .. })));
    let (mut wallet, from) = bench.open(&new).unwrap();
    assert_eq!((from, wallet.generation()), (OpenedFrom::Current, 3));
    assert_filled(&wallet);
    assert!(
        wallet.verify_password(&new).is_ok() && wallet.verify_password(&right_password()).is_err()
    );
    let after = fs::read_to_string(bench.current()).unwrap();
    assert!(after.contains("\"iterations\": 2"));
    let field = |text: &str, field: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains(field)).map(str::to_owned).collect()
    };
    assert_eq!(field(&before, "wallet_id"), field(&after, "wallet_id"));
    for changed in ["salt", "nonce", "ciphertext"] {
        for line in field(&before, changed) {
            assert!(!field(&after, changed).contains(&line), "{line}");
        }
    }

    // The journal's last seal is under the old key until the caller has made a new seal.
    assert_ne!(*wallet.seal_key(), *old_seal_key);
    let retired: Vec<[u8; 32]> =
        wallet.retired_seal_keys().iter().map(|key| *key.expose_secret()).collect();
    assert_eq!(retired, [*old_seal_key]);
    wallet.forget_retired_seal_keys();
    wallet.save().unwrap();
    assert!(bench.open(&new).unwrap().0.retired_seal_keys().is_empty());
}

#[test]
fn the_seal_key_belongs_to_the_wallet_and_outlives_a_save() {
    let bench = Bench::with_saves();
    let (mut wallet, _) = bench.open(&right_password()).unwrap();
    let key = wallet.seal_key();
    wallet.save().unwrap();
    assert_eq!(*bench.open(&right_password()).unwrap().0.seal_key(), *key);
    assert_ne!(*Bench::with_saves().open(&right_password()).unwrap().0.seal_key(), *key);
}

/// Creates a vault over new files, and returns it with its wallet file.
fn vault(bench: &Bench) -> (Vault, Vec<u8>) {
    let files = WalletFiles::new(bench.data.path(), TINY_BOUNDS, Arc::new(NoFailpoints));
    let vault = Vault::new(files, TINY, Arc::new(Gate::default()));
    vault.create(&name("main"), &right_password()).unwrap();
    vault.add_seed(SeedId(1), Seed::from_entropy(&[0x51; 16]).unwrap()).unwrap();
    let saved = fs::read(bench.current()).unwrap();
    (vault, saved)
}

#[test]
fn a_backup_holds_the_last_save_and_its_password_derives_the_key() {
    let bench = Bench::new();
    let (vault, saved) = vault(&bench);
    let salt = [1; 32];
    let (held, key) = vault.for_backup(&salt).unwrap();
    assert_eq!(held, saved);
    let path = Path::new("wallet.backup");
    let opened = |password: &SecretString| {
        WalletFiles::backup_key(path, &held, password, &TINY_BOUNDS, &salt)
    };
    assert_eq!(opened(&right_password()).unwrap(), ("main".to_owned(), key));
    let refused = opened(&wrong_password()).unwrap_err();
    assert!(matches!(&refused, WalletFileError::WrongPassword { file } if file == path));
    vault.lock();
    assert_eq!(vault.for_backup(&salt).unwrap_err().code, Code::WalletLocked);
}

#[test]
fn every_backup_of_every_wallet_has_a_separate_key() {
    let (one, other) = (Bench::new(), Bench::new());
    let vaults = [vault(&one).0, vault(&other).0];
    let mut keys: Vec<[u8; 32]> = Vec::new();
    for vault in &vaults {
        keys.extend([[1; 32], [2; 32]].iter().map(|salt| *vault.for_backup(salt).unwrap().1));
        keys.push(*vault.seal_keys().unwrap()[0]);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 6);
}

#[test]
fn debug_output_of_an_open_wallet_contains_no_secret() {
    let (wallet, _) = Bench::with_saves().open(&right_password()).unwrap();
    let shown = format!("{wallet:?}");
    assert!(shown.starts_with("OpenWallet { name: \"main\", generation: 2,"), "{shown}");
    for byte in [0x51u8, 0x52, 0x61, 0x62] {
        assert!(!shown.contains(&hex::encode([byte; 4])), "{shown}");
        assert!(!shown.contains(&format!("{byte}, {byte}")), "{shown}");
    }
}

#[test]
fn deleting_removes_every_copy_and_reports_a_missing_wallet() {
    let bench = Bench::with_saves();
    let rest = format!("wallets/.main.wallet.{}.tmp", "0f".repeat(16));
    fs::copy(bench.current(), bench.data.path().join(rest)).unwrap();
    bench.files.delete(&name("MAIN")).unwrap();
    assert_eq!(fs::read_dir(bench.data.path().join("wallets")).unwrap().count(), 0);
    for refusal in [bench.files.delete(&name("main")), bench.open(&right_password()).map(drop)] {
        assert!(matches!(refusal, Err(WalletFileError::NotFound { .. })), "{refusal:?}");
    }
    assert!(bench.files.create(&name("main"), &right_password(), TINY).is_ok());
}

#[test]
fn leftovers_of_a_crash_are_swept_and_other_files_are_kept() {
    let bench = Bench::with_saves();
    let folder = bench.data.path().join("wallets");
    let rest = folder.join(format!(".main.wallet.{}.tmp", "a0".repeat(16)));
    let kept = ["notes.txt", ".main.wallet.tmp", "main.wallet.backup", ".main.wallet.zz.tmp"];
    fs::write(&rest, "half a wall").unwrap();
    for other in kept {
        fs::write(folder.join(other), "mine").unwrap();
    }
    bench.open(&right_password()).unwrap();
    assert!(!rest.exists());
    assert!(kept.iter().all(|other| folder.join(other).exists()));
}

#[test]
fn a_wallet_too_large_to_be_read_back_is_not_written() {
    let bench = Bench::with_saves();
    let before = fs::read(bench.current()).unwrap();
    let (mut wallet, _) = bench.open(&right_password()).unwrap();
    for n in 0..120_000u64 {
        let id = AgentId::from_entropy(n.to_le_bytes());
        wallet.set_agent_secret(id, &[1; 32]);
    }
    assert!(matches!(wallet.save(), Err(WalletFileError::TooLarge { .. })));
    assert_eq!(fs::read(bench.current()).unwrap(), before);
    wallet.retain(|_| true, |id| id.as_str().ends_with('7'));
    wallet.save().unwrap();
    bench.open(&right_password()).unwrap();
    fs::write(bench.current(), vec![b' '; 8 * 1024 * 1024 + 1]).unwrap();
    assert!(matches!(bench.open(&right_password()), Ok((_, OpenedFrom::Previous { .. }))));
}

/// If an older backup replaces the current save, opening it must not remove the newer previous save.
#[test]
fn opening_an_older_backup_does_not_remove_a_newer_previous_save() {
    let bench = Bench::with_saves();
    let backup = fs::read(bench.current()).unwrap();
    let new = SecretString::from("a new password");
    let (mut wallet, _) = bench.open(&right_password()).unwrap();
    wallet.change_password(&new, TINY).unwrap();
    wallet.save().unwrap();
    fs::write(bench.current(), backup).unwrap();
    let newer = fs::read(bench.previous()).unwrap();
    assert_eq!(bench.open(&right_password()).unwrap().1, OpenedFrom::Current);
    assert_eq!(fs::read(bench.previous()).unwrap(), newer);
    let (_, from) = bench.open(&new).unwrap();
    assert_eq!(from, OpenedFrom::Previous { why: Fallback::CurrentLockedOtherwise });
}

#[test]
fn every_wallet_file_error_names_the_file_and_the_remedy() {
    let bench = Bench::with_saves();
    let path = bench.current().display().to_string();
    let mut messages = vec![
        bench.open(&wrong_password()).unwrap_err().to_string(),
        bench.files.create(&name("main"), &right_password(), TINY).unwrap_err().to_string(),
    ];
    let good = fs::read_to_string(bench.current()).unwrap();
    fs::remove_file(bench.previous()).unwrap();
    for (from, to) in [("nonce", "once"), ("\"version\": 1", "\"version\": 7"), (": 8,", ": 4,")] {
        fs::write(bench.current(), with_matching_checksum(&good.replace(from, to))).unwrap();
        messages.push(bench.open(&right_password()).unwrap_err().to_string());
    }
    fs::remove_file(bench.current()).unwrap();
    messages.push(bench.open(&right_password()).unwrap_err().to_string());
    fs::create_dir(bench.current()).unwrap();
    set_mode(&bench.current(), 0o700);
    messages.push(bench.open(&right_password()).unwrap_err().to_string());
    for (nth, message) in messages.iter().enumerate() {
        println!("{message}");
        // The message about a wrong password names no file, because the file is not at fault.
        assert_eq!(message.contains(&path), nth > 0, "{message}");
        assert!(!message.contains("right password") && !message.contains("wrong password"));
    }
    let ways = ["try again", "open it", "backup", "newer", "backup", "restore", "try again"];
    for (message, way) in messages.iter().zip(ways) {
        assert!(message.contains(way), "{way}: {message}");
    }
}
