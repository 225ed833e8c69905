//! After a wallet is closed, its secrets are nowhere in this process's memory. The only test in its file,
//! because it searches the whole address space.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use alloy_primitives::B256;
use bursar_core::derivation::Template;
use bursar_core::ids::{AgentId, Name, SeedId};
use bursar_engine::ports::NoFailpoints;
use bursar_engine::vault::derive::{PrivateKey, private_key};
use bursar_engine::vault::file::{OpenWallet, WalletFiles};
use bursar_engine::vault::kdf::{KdfBounds, KdfParams};
use bursar_engine::vault::seed::Seed;
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::Zeroize;

const SMALL: KdfParams = KdfParams { memory_kib: 64, iterations: 1, parallelism: 1 };
const BOUNDS: KdfBounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };
/// Passes the wallet's folder to the child process.
const FOLDER: &str = "BURSAR_TEST_FOLDER";
/// The password with all bits inverted, so that the program itself does not contain it.
const INVERTED_PASSWORD: [u8; 20] = inverted(*b"correct horse staple");

const fn inverted<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let mut at = 0;
    while at < N {
        bytes[at] = !bytes[at];
        at += 1;
    }
    bytes
}

fn password() -> SecretString {
    let mut text = String::with_capacity(INVERTED_PASSWORD.len());
    text.extend(INVERTED_PASSWORD.iter().map(|byte| char::from(!byte)));
    SecretString::from(text)
}

fn main_wallet() -> Name {
    "main".parse().unwrap()
}

fn files(data: &Path) -> WalletFiles {
    WalletFiles::new(data, BOUNDS, Arc::new(NoFailpoints))
}

/// Runs in a separate process, so that the searching process gets the secrets only as a product does: sealed in
/// the file. The child prints them with all bits inverted.
#[test]
#[ignore = "started by the test below"]
fn make_a_wallet() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut wallet = files(folder.as_ref()).create(&main_wallet(), &password(), SMALL).unwrap();
    let entropy: [u8; 32] = std::array::from_fn(|i| u8::try_from(i * 37 % 251).unwrap());
    wallet.add_seed(SeedId(1), Seed::from_entropy(&entropy).unwrap()).unwrap();
    wallet.set_agent_secret("ABC123".parse::<AgentId>().unwrap(), &entropy.map(|b| b ^ 0x5a));
    wallet.save().unwrap();

    let seed = &wallet.seeds()[&SeedId(1)];
    let stretched = seed.bip39_seed(&SecretString::from("")).unwrap();
    let key = private_key(&stretched, &Template::SEEDS.path(0).unwrap()).unwrap();
    let root = private_key(&stretched, &"m".parse().unwrap()).unwrap();
    let reversed = |mut bytes: Vec<u8>| {
        bytes.reverse();
        bytes
    };
    for (what, bytes) in [
        ("entropy", entropy.to_vec()),
        ("agent_secret", entropy.map(|b| b ^ 0x5a).to_vec()),
        ("seed", stretched.expose_secret().to_vec()),
        ("phrase", seed.phrase().unwrap().as_bytes().to_vec()),
        ("key", key.expose_bytes().to_vec()),
        ("root_key", root.expose_bytes().to_vec()),
        // The limbs of a scalar as this machine stores them.
        ("key_in_limbs", reversed(key.expose_bytes().to_vec())),
        ("root_key_in_limbs", reversed(root.expose_bytes().to_vec())),
        ("seal_key", wallet.seal_key().to_vec()),
    ] {
        let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        println!("\nneedle {what} {}", hex::encode(turned));
    }
}

/// The secrets to search for, with all bits inverted.
type Needles = BTreeMap<String, Vec<u8>>;

fn needles_from_child(data: &Path) -> Needles {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["make_a_wallet", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, data)
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    let mut needles: Needles = text
        .lines()
        .filter_map(|line| line.strip_prefix("needle ")?.split_once(' '))
        .map(|(what, turned)| (what.to_owned(), hex::decode(turned).unwrap()))
        .collect();
    needles.insert("password".to_owned(), INVERTED_PASSWORD.to_vec());
    assert_eq!(needles.len(), 10, "{text}");
    needles
}

/// Returns the names of the needles that are in the writable memory of this process.
fn needles_in_memory(needles: &Needles) -> Vec<&str> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut found = Vec::new();
    let (mut chunk, zeros) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let range = line.split(' ').next().unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [mut at, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
        while at < to {
            let length = usize::try_from(to - at).unwrap().min(chunk.len());
            // Some mappings of the kernel cannot be read, and most pages of a stack were never used.
            let read = memory.read_exact_at(&mut chunk[..length], at);
            if read.is_ok() && chunk[..length] != zeros[..length] {
                let holds = |turned: &Vec<u8>| {
                    let first = !turned[0];
                    chunk[..length].windows(turned.len()).any(|window| {
                        window[0] == first && window.iter().zip(turned).all(|(a, b)| *a == !b)
                    })
                };
                let hits = needles.iter().filter(|(_, turned)| holds(turned));
                found.extend(hits.map(|(what, _)| what.as_str()));
            }
            // Chunks overlap, so that a needle across the end of a chunk is found.
            at += u64::try_from(if length == chunk.len() { length - 256 } else { length }).unwrap();
        }
    }
    chunk.zeroize();
    found.sort_unstable();
    found.dedup();
    found
}

type Step<'a> = (&'a str, fn(&mut Option<OpenWallet>, &Path), &'a [&'a str]);

const KEPT_NEEDLES: &[&str] = &["agent_secret", "entropy"];
const KEPT_AND_RETIRED_NEEDLES: &[&str] = &["agent_secret", "entropy", "seal_key"];

/// The operations on a wallet, each with the needles that may be in memory afterwards.
const STEPS: [Step<'_>; 11] = [
    ("open", |wallet, data| *wallet = Some(open_wallet(data)), KEPT_NEEDLES),
    ("write the words", |wallet, _| drop(seed(wallet).phrase().unwrap()), KEPT_NEEDLES),
    ("stretch the seed", |wallet, _| drop(bip39_seed(wallet)), KEPT_NEEDLES),
    ("derive a key", |wallet, _| drop(key(wallet)), KEPT_NEEDLES),
    (
        "sign",
        |wallet, _| {
            key(wallet).sign_digest(&B256::repeat_byte(0x33)).unwrap();
        },
        KEPT_NEEDLES,
    ),
    ("export a key", |wallet, _| drop(key(wallet).expose_bytes()), KEPT_NEEDLES),
    ("seal the journal", |wallet, _| drop(wallet.as_ref().unwrap().seal_key()), KEPT_NEEDLES),
    (
        "verify",
        |wallet, _| wallet.as_ref().unwrap().verify_password(&password()).unwrap(),
        KEPT_NEEDLES,
    ),
    ("save", |wallet, _| wallet.as_mut().unwrap().save().unwrap(), KEPT_NEEDLES),
    (
        "change the password",
        |wallet, _| wallet.as_mut().unwrap().change_password(&password(), SMALL).unwrap(),
        KEPT_AND_RETIRED_NEEDLES,
    ),
    ("close", |wallet, _| drop(wallet.take()), &[]),
];

fn open_wallet(data: &Path) -> OpenWallet {
    files(data).open(&main_wallet(), &password()).unwrap().0
}

fn seed(wallet: &Option<OpenWallet>) -> &Seed {
    &wallet.as_ref().unwrap().seeds()[&SeedId(1)]
}

fn bip39_seed(wallet: &Option<OpenWallet>) -> SecretBox<[u8; 64]> {
    seed(wallet).bip39_seed(&SecretString::from("")).unwrap()
}

fn key(wallet: &Option<OpenWallet>) -> PrivateKey {
    private_key(&bip39_seed(wallet), &Template::SEEDS.path(0).unwrap()).unwrap()
}

/// The steps run in another thread, which waits during the search, so that everything that a step left on its stack
/// is still there.
#[test]
fn no_step_leaves_more_in_memory_than_the_open_wallet_holds() {
    let data = tempfile::tempdir().unwrap();
    let needles = needles_from_child(data.path());
    assert_eq!(needles_in_memory(&needles), Vec::<&str>::new(), "before");
    let (go, wait_for_go) = mpsc::channel();
    let (done, wait_for_done) = mpsc::channel();
    let mut left = Vec::new();
    thread::scope(|scope| {
        let data = data.path();
        scope.spawn(move || {
            let mut wallet = None;
            for (_, step, _) in STEPS {
                wait_for_go.recv().unwrap();
                step(&mut wallet, data);
                done.send(()).unwrap();
            }
            wait_for_go.recv().ok();
        });
        for (what, _, expected) in STEPS {
            go.send(()).unwrap();
            wait_for_done.recv().unwrap();
            let now = needles_in_memory(&needles);
            if now != expected {
                left.push((what, now));
            }
        }
        drop(go);
    });
    assert!(left.is_empty(), "{left:#?}");
}
