use std::path::PathBuf;

use alloy_primitives::address;
use bursar_chain::tx_driver::SignOutcome;
use bursar_core::networks::ChainId;
use bursar_outbox::service::Signer;
use bursar_submit::OutboxKey;
use bursar_x402::signature::recover;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::keys::ring::KeyRing;

/// The published test vectors of Web3 Secret Storage: password, key, and one file per key derivation.
const PASSWORD: &str = "testpassword";
const SECRET: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
const OWNER: Address = address!("0x008AeEda4D805471dF9b2A5B0f38A0C3bCBA786b");

fn published_pbkdf2() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": "6087dab2f9fdbbfaddc31a909735c1e6" },
            "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
            "kdf": "pbkdf2",
            "kdfparams": {
                "c": 262_144, "dklen": 32, "prf": "hmac-sha256",
                "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"
            },
            "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

fn published_scrypt() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": "83dbcc02d8ccb40e466191a123791e0e" },
            "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
            "kdf": "scrypt",
            "kdfparams": {
                "dklen": 32, "n": 262_144, "p": 8, "r": 1,
                "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"
            },
            "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

/// A folder of key files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        set_mode(&path, mode);
        path
    }

    fn json(&self, content: &Value) -> PathBuf {
        self.write("key.json", content.to_string().as_bytes(), 0o600)
    }

    fn password(&self, password: &str) -> PathBuf {
        self.write("password", password.as_bytes(), 0o600)
    }

    /// Creates a keystore that opens quickly.
    fn quick_keystore(&self, name: &str) -> (PathBuf, SigningKey) {
        let path = self.0.path().join(name);
        (path.clone(), create(&path).unwrap())
    }
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn create(path: &Path) -> Result<SigningKey, KeyFault> {
    SigningKey::create(path, &SecretString::from(PASSWORD), |salt| Kdf::scrypt(2, salt))
}

fn refusal(file: &Path, password: Option<&Path>) -> String {
    let fault = SigningKey::load(file, password).unwrap_err();
    let text = format!("{fault} {fault:?}");
    assert!(!text.contains(PASSWORD) && !text.contains(SECRET), "{text}");
    assert!(text.contains(file.to_str().unwrap()) || text.contains("password"), "{text}");
    fault.to_string()
}

#[test]
fn the_published_keystores_open_to_the_published_key() {
    let folder = Folder::new();
    let password = folder.password(PASSWORD);
    for content in [published_pbkdf2(), published_scrypt()] {
        let key = SigningKey::load(&folder.json(&content), Some(&password)).unwrap();
        assert_eq!(key.address(), OWNER);
        assert_eq!(hex::encode(key.secret.expose_secret()), SECRET);
    }
}

#[test]
fn a_bare_key_is_read_with_or_without_prefix_and_newline() {
    let folder = Folder::new();
    for content in [
        SECRET.to_owned(),
        format!("0x{SECRET}"),
        format!("{SECRET}\n"),
        format!("0x{}\r\n", SECRET.to_uppercase()),
    ] {
        let file = folder.write("bare", content.as_bytes(), 0o600);
        assert_eq!(SigningKey::load(&file, None).unwrap().address(), OWNER, "{content:?}");
    }
    let file = folder.write("read-only", SECRET.as_bytes(), 0o400);
    assert!(SigningKey::load(&file, None).is_ok());
}

#[test]
fn accessible_bare_key_is_rejected_with_a_chmod_hint() {
    let folder = Folder::new();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o440] {
        let file = folder.write(&format!("{mode:o}"), SECRET.as_bytes(), mode);
        let text = refusal(&file, None);
        assert!(text.contains(&format!("mode {mode:03o}")), "{text}");
        assert!(text.contains(&format!("`chmod 600 {}`", file.display())), "{text}");
    }
}

#[test]
fn a_password_that_others_may_read_is_refused_and_a_keystore_may_be_read() {
    let folder = Folder::new();
    let (keystore, _key) = folder.quick_keystore("key.json");
    set_mode(&keystore, 0o644);
    let password = folder.password(PASSWORD);
    assert!(SigningKey::load(&keystore, Some(&password)).is_ok());
    for mode in [0o640, 0o604, 0o444, 0o460, 0o644] {
        set_mode(&password, mode);
        assert!(refusal(&keystore, Some(&password)).contains("chmod 600"), "{mode:o}");
    }
    // systemd mounts credentials with this mode, and Kubernetes mounts secrets with it.
    set_mode(&password, 0o440);
    assert!(SigningKey::load(&keystore, Some(&password)).is_ok());
}

#[test]
fn invalid_key_file_is_rejected_without_quoting_it() {
    let folder = Folder::new();
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let (zero, long, short) =
        ("0".repeat(64), format!("{SECRET}0"), SECRET.trim_start_matches('7'));
    let twice = format!("0x0x{SECRET}");
    for content in ["", "\n", order, &zero, &long, short, &twice, "no such key", "[]", "0x"] {
        let file = folder.write("bare", content.as_bytes(), 0o600);
        let text = refusal(&file, None);
        assert!(
            text.contains("neither a keystore nor a key of 64 hex digits"),
            "{content}: {text}"
        );
        assert!(content.len() < 5 || !text.contains(content), "{text}");
    }
    let long = folder.write("long", &[b'0'; 16 * 1024 + 1], 0o600);
    assert!(refusal(&long, None).contains("too long"));
    assert!(refusal(&folder.0.path().join("gone"), None).contains("cannot be read"));
    assert!(refusal(folder.0.path(), None).contains("not a regular file"));
}

#[test]
fn a_new_keystore_opens_with_its_password_and_shows_no_key() {
    let folder = Folder::new();
    let (file, made) = folder.quick_keystore("new.json");
    for written in [PASSWORD.to_owned(), format!("{PASSWORD}\n"), format!("{PASSWORD}\r\n")] {
        let read = SigningKey::load(&file, Some(&folder.password(&written))).unwrap();
        assert_eq!(read.address(), made.address());
        assert_eq!(read.secret.expose_secret(), made.secret.expose_secret());
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&hex::encode(made.secret.expose_secret())) && !text.contains(PASSWORD));
    let content: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(content["version"], 3);
    assert_eq!(content["address"], hex::encode(made.address()));
    assert_eq!(content["crypto"]["kdf"], "scrypt");
    assert_eq!(content["id"].as_str().unwrap().as_bytes()[14], b'4');
    let (_, another) = folder.quick_keystore("another.json");
    assert_ne!(another.address(), made.address());
}

/// Apart from the published keystores, only this test uses a keystore of full strength.
#[test]
fn new_keystore_is_as_strong_as_the_published_example() {
    let folder = Folder::new();
    let path = folder.0.path().join("strong.json");
    let made = SigningKey::create_keystore(&path, &SecretString::from(PASSWORD)).unwrap();
    let content: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let kdf = &content["crypto"]["kdfparams"];
    assert_eq!((&kdf["n"], &kdf["r"], &kdf["p"]), (&json!(262_144), &json!(8), &json!(1)));
    let read = SigningKey::load(&path, Some(&folder.password(PASSWORD))).unwrap();
    assert_eq!(read.address(), made.address());
}

#[test]
fn new_keystore_is_private_and_never_replaces_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (file, _key) = folder.quick_keystore("new.json");
    let before = std::fs::read(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(create(&file), Err(KeyFault::Exists { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), before);

    let (link, target) = (folder.0.path().join("link"), folder.0.path().join("target"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(matches!(create(&link), Err(KeyFault::Exists { .. })));
    assert!(!target.exists());

    let nowhere = folder.0.path().join("nowhere").join("new.json");
    assert!(matches!(create(&nowhere), Err(KeyFault::Unwritable { .. })));
    let empty = SigningKey::create_keystore(&target, &SecretString::from(""));
    assert!(matches!(empty, Err(KeyFault::EmptyPassword)) && !target.exists());
}

#[test]
fn an_encrypted_key_asks_for_its_password() {
    let folder = Folder::new();
    let (file, _key) = folder.quick_keystore("key.json");
    assert!(refusal(&file, None).contains("password_file"));
    assert!(refusal(&file, Some(&folder.password("\n"))).contains("not empty"));
    assert!(refusal(&file, Some(&folder.0.path().join("no password"))).contains("cannot be read"));
}

#[test]
fn wrong_password_and_damaged_keystore_give_the_same_error() {
    let folder = Folder::new();
    let (file, _key) = folder.quick_keystore("key.json");
    let right = folder.password(PASSWORD);
    let content: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let wrong = folder.write("wrong", b"testpassworD", 0o600);
    let expected = refusal(&file, Some(&wrong));
    assert!(expected.contains("wrong password, or damaged"), "{expected}");

    for place in ["/crypto/ciphertext", "/crypto/mac", "/crypto/kdfparams/salt", "/address"] {
        let mut damaged = content.clone();
        let value = damaged.pointer_mut(place).unwrap();
        let text = value.as_str().unwrap();
        let (first, rest) = (text.starts_with('0'), text.chars().skip(1).collect::<String>());
        *value = json!(format!("{}{rest}", if first { '1' } else { '0' }));
        assert_eq!(refusal(&folder.json(&damaged), Some(&right)), expected, "{place}");
    }
    let mut stronger = content.clone();
    stronger["crypto"]["kdfparams"]["n"] = json!(4);
    assert_eq!(refusal(&folder.json(&stronger), Some(&right)), expected);
    // The MAC does not cover the counter, so the address reveals the change.
    let mut moved = content.clone();
    moved["crypto"]["cipherparams"]["iv"] = json!("00000000000000000000000000000000");
    assert_eq!(refusal(&folder.json(&moved), Some(&right)), expected);
}

#[test]
fn a_keystore_of_another_kind_is_refused_before_any_work() {
    let folder = Folder::new();
    let password = folder.password(PASSWORD);
    let (file, _key) = folder.quick_keystore("quick.json");
    let content: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    for (place, value) in [
        ("/version", json!(1)),
        ("/version", json!("3")),
        ("/crypto/cipher", json!("aes-128-cbc")),
        ("/crypto/kdf", json!("argon2id")),
        ("/crypto/kdf", json!("pbkdf2")),
        ("/crypto/kdfparams/n", json!(1_u64 << 40)),
        ("/crypto/kdfparams/n", json!(3)),
        ("/crypto/kdfparams/n", json!(-2)),
        ("/crypto/kdfparams/r", json!(u32::MAX)),
        ("/crypto/kdfparams/p", json!(u32::MAX)),
        ("/crypto/kdfparams/p", json!(0)),
        ("/crypto/kdfparams/dklen", json!(64)),
        ("/crypto/kdfparams/salt", json!("zz")),
        ("/crypto/cipherparams/iv", json!("00")),
        ("/crypto/mac", json!("")),
        ("/crypto/ciphertext", json!("00")),
    ] {
        let mut other = content.clone();
        *other.pointer_mut(place).unwrap() = value;
        let text = refusal(&folder.json(&other), Some(&password));
        assert!(text.contains("an unsupported keystore"), "{place}: {text}");
    }
    for text in ["{", "{}", "{\"version\":3}", "{\"crypto\":\"testpassword\",\"version\":3}"] {
        let file = folder.write("cut.json", text.as_bytes(), 0o600);
        assert!(refusal(&file, Some(&password)).contains("unsupported keystore"), "{text}");
    }
}

#[test]
fn keystores_of_other_programs_open() {
    let folder = Folder::new();
    let password = folder.password(PASSWORD);
    let (file, key) = folder.quick_keystore("key.json");
    let content: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let old = json!({ "Crypto": content["crypto"], "version": 3, "name": "till", "x-ethers": {} });
    let mut prefixed = content.clone();
    prefixed["address"] = json!(key.address().to_checksum(None));
    for content in [old, prefixed] {
        let read = SigningKey::load(&folder.json(&content), Some(&password)).unwrap();
        assert_eq!(read.address(), key.address());
    }
}

#[test]
fn a_key_and_a_ring_never_show_a_secret() {
    let key = SigningKey::from_bytes(&[0x11; 32]).unwrap();
    assert_eq!(format!("{key:?} {key:#?}"), "SigningKey([redacted]) SigningKey([redacted])");
    let address = key.address();
    let ring: KeyRing = [key].into_iter().collect();
    assert_eq!(format!("{ring:?}"), format!("{{{address:?}}}"));
}

proptest! {
    /// k256 is an independent implementation of RFC 6979 with low s, so its bytes must be the same.
    #[test]
    fn signatures_equal_those_of_k256_and_recover_the_signer(
        secret in any::<[u8; 32]>(), digest in any::<[u8; 32]>(),
    ) {
        let digest = B256::new(digest);
        let Ok(key) = SigningKey::from_bytes(&secret) else { return Ok(()) };
        let signature = key.sign(digest).unwrap();
        prop_assert_eq!(recover(digest, &signature), Ok(key.address()));
        prop_assert_eq!(key.sign(digest), Ok(signature));
        let theirs = k256::ecdsa::SigningKey::from_slice(&secret).unwrap();
        let (scalars, _id) = theirs.sign_prehash_recoverable(digest.as_slice()).unwrap();
        let (r, s) = scalars.split_bytes();
        prop_assert_eq!((signature.r().0, signature.s().0), (r.into(), s.into()));
    }

    #[test]
    fn any_key_file_is_read_or_rejected_without_panic(content in "\\{?\\PC{0,200}") {
        let folder = Folder::new();
        let file = folder.write("any", content.as_bytes(), 0o600);
        let _either = SigningKey::load(&file, Some(&folder.password(PASSWORD)));
    }
}

fn outbox(signer: Address) -> OutboxKey {
    OutboxKey { chain: ChainId(8453), signer }
}

#[tokio::test]
async fn key_ring_signs_for_its_own_addresses_only() {
    let folder = Folder::new();
    let (first, one) = folder.quick_keystore("one.json");
    let second = folder.write("two", SECRET.as_bytes(), 0o600);
    let files = [first, second];
    let ring = KeyRing::load(&files, &[], Some(&folder.password(PASSWORD))).unwrap();
    let expected = [one.address(), OWNER];
    assert_eq!(ring.addresses().collect::<Vec<_>>(), expected);
    let [first, second] = files.clone();
    let swapped = [second.clone(), first.clone()];
    let ring = KeyRing::load(&swapped, &[], Some(&folder.password(PASSWORD))).unwrap();
    let reversed = [OWNER, one.address()];
    assert_eq!(ring.addresses().collect::<Vec<_>>(), reversed, "in the order of the settings");
    // A retired key signs, and is not among the active ones.
    let ring = KeyRing::load(&[first], &[second], Some(&folder.password(PASSWORD))).unwrap();
    assert_eq!(ring.addresses().collect::<Vec<_>>(), [one.address()]);
    assert_eq!(ring.retired().collect::<Vec<_>>(), [OWNER]);

    let digest = keccak256("a transaction");
    for address in expected {
        let SignOutcome::Signed(signature) = ring.sign(outbox(address), digest).await else {
            panic!("declined for {address}");
        };
        assert_eq!(recover(digest, &signature), Ok(address));
    }
    let stranger = SigningKey::from_bytes(&[7; 32]).unwrap().address();
    assert_eq!(ring.sign(outbox(stranger), digest).await, SignOutcome::Declined);
    assert_eq!(KeyRing::default().sign(outbox(OWNER), digest).await, SignOutcome::Declined);
}

#[tokio::test]
async fn authorizer_is_no_signer_and_signs_no_transactions() {
    let folder = Folder::new();
    let (first, one) = folder.quick_keystore("one.json");
    let second = folder.write("two", SECRET.as_bytes(), 0o600);
    let password = folder.password(PASSWORD);
    let load = |retired: &[PathBuf]| {
        KeyRing::load(std::slice::from_ref(&first), retired, Some(&password)).unwrap()
    };
    let ring = load(&[]).with_authorizer(&second, Some(&password)).unwrap();
    assert_eq!(ring.authorizer().unwrap().address(), OWNER);
    assert_eq!(ring.addresses().collect::<Vec<_>>(), [one.address()]);
    let digest = keccak256("a transaction");
    assert_eq!(ring.sign(outbox(OWNER), digest).await, SignOutcome::Declined);
    for (ring, file) in [(load(&[]), &first), (load(std::slice::from_ref(&second)), &second)] {
        let text = ring.with_authorizer(file, Some(&password)).unwrap_err().to_string();
        assert!(text.contains("also pays gas"), "{text}");
    }
}

#[test]
fn key_listed_in_two_files_is_rejected() {
    let folder = Folder::new();
    let files = ["one", "two"].map(|name| folder.write(name, SECRET.as_bytes(), 0o600));
    let (active, retired) = files.split_at(1);
    for (active, retired) in [(&files[..], &[][..]), (active, retired)] {
        let text = KeyRing::load(active, retired, None).unwrap_err().to_string();
        assert!(text.contains("two contains") && text.contains(&OWNER.to_string()), "{text}");
    }
    assert_eq!(KeyRing::load(&[], &[], None).unwrap().addresses().count(), 0);
}
