//! Transcripts of Ledger's host library from its own tests: for the same input, we send the same bytes.
//!
//! The transcripts also contain descriptors that only Ledger signs. We send none, so these commands are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, address, keccak256};
use bursar_core::derivation::DerivationPath;
use bursar_devnet::install::{Kit, packages};
use bursar_ledger::address::{self, Display};
use bursar_ledger::app;
use bursar_ledger::command::instruction::{
    ADDRESS, CONFIGURATION, MESSAGE, TRANSACTION, TYPE, TYPED_DATA, VALUE,
};
use bursar_ledger::command::{Command, read_answer};
use bursar_ledger::message;
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::transaction::{self, Unsigned};
use bursar_ledger::typed_data::{ask_full, ask_hashes};
use bursar_ledger_device::rlp::{self, Item};
use bursar_ledger_device::typed_data::TypedData;
use bursar_x402::signature::{Signature65, recover};
use serde_json::Value;

use crate::ledger::typed_json;

/// The class byte of the Ethereum app's commands.
const ETHEREUM: u8 = 0xe0;
/// The address of the emulator's own seed, with which most transcripts were recorded.
const EMULATOR: Address = address!("dad77910dbdfde764fc21fcd4e74d71bbaca6d8d");
/// Instructions of descriptors that only Ledger signs, and of other currencies.
const DESCRIPTORS: [u8; 9] = [0x0a, 0x0e, 0x10, 0x12, 0x14, 0x16, 0x18, 0x20, 0x22];

/// Ledger's host library.
pub(crate) const PACKAGES: Kit = Kit {
    package: "the packages of tests/ledger",
    manifest: include_str!("../../../ledger/package.json"),
    lock: include_str!("../../../ledger/package-lock.json"),
    proof_file: "node_modules/@ledgerhq/hw-app-eth/package.json",
};

fn tests_of_the_library() -> PathBuf {
    packages(&PACKAGES).unwrap().join("node_modules/@ledgerhq/hw-app-eth/tests")
}

/// The commands of a transcript.
fn commands_of_transcript(text: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("=>"));
    lines.map(|hex| hex::decode(hex.trim()).unwrap()).collect()
}

fn files_by_name(folder: &Path, ending: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
        Some((name, fs::read_to_string(path).unwrap()))
    });
    files.collect()
}

#[test]
fn typed_data_is_sent_as_the_host_library_sends_it() {
    let fixtures = tests_of_the_library().join("fixtures");
    let transcripts = files_by_name(&fixtures.join("apdus"), ".apdus");
    let messages = files_by_name(&fixtures.join("messages"), ".json");
    assert_eq!((transcripts.len(), messages.len()), (49, 22));
    let path: DerivationPath = "m/44'/60'/0'/0/0".parse().unwrap();
    let (mut compared, mut commands, mut hashed) = (0, 0, BTreeSet::new());
    for (name, transcript) in &transcripts {
        if name.starts_with("version") || name.starts_with("ERC20") {
            continue;
        }
        // 15-filtered-v1 is the message 15-permit, 1-filtered-empty-array-1-level-v2 the message 1-empty-array-1-level.
        let wanted = name.replace("-filtered", "");
        let wanted = wanted.trim_end_matches("-v1").trim_end_matches("-v2");
        let begins = |message: &&String| {
            **message == wanted
                || message.starts_with(&format!("{wanted}-"))
                    && wanted.parse::<u8>().is_ok_and(|number| number >= 15)
        };
        let message =
            messages.keys().find(begins).unwrap_or_else(|| panic!("no message for {name}"));
        let json: Value = serde_json::from_str(&messages[message]).unwrap();
        let ours = ask_full(&path, &typed_json::read(&json)).unwrap();
        let ours: Vec<Vec<u8>> = ours.iter().map(Command::to_bytes).collect();
        let is_ours = |command: &Vec<u8>| [TYPE, VALUE, TYPED_DATA].contains(&command[1]);
        let theirs: Vec<Vec<u8>> =
            commands_of_transcript(transcript).into_iter().filter(is_ours).collect();
        assert_eq!(ours, theirs, "{name}");
        if signer(&ours, transcript) == EMULATOR {
            hashed.insert(message);
        }
        compared += 1;
        commands += ours.len();
    }
    assert_eq!((compared, commands), (44, 1_539));
    // The simulated device computes the same hash as the real one for every message except 14bis, which has
    // the transcript of message 14.
    assert_eq!(hashed.len(), 21, "{hashed:?}");
}

/// Recovers the signer of a transcript's signature, over the hash that the simulated device
/// computes from the commands.
fn signer(commands: &[Vec<u8>], transcript: &str) -> Address {
    let mut typed = TypedData::default();
    for command in commands {
        let data = &command[5..];
        match (command[1], command[2], command[3]) {
            (TYPE, _, 0x00) => typed.define(data).unwrap(),
            (TYPE, _, _field) => typed.add_field(data).unwrap(),
            (VALUE, _, 0x00) => drop(typed.begin(data).unwrap()),
            (VALUE, _, 0x0f) => typed.add_items(data).unwrap(),
            (VALUE, more, _value) => typed.add_value(data, more == 0).unwrap(),
            _sign => {}
        }
    }
    let hashes = typed.finish().unwrap_or_else(|| panic!("{typed:?}"));
    let digest = keccak256([&[0x19, 0x01], &hashes.domain[..], &hashes.message[..]].concat());
    let answers: Vec<&str> =
        transcript.lines().filter_map(|line| line.trim().strip_prefix("<=")).collect();
    let answer = hex::decode(answers.last().unwrap().trim()).unwrap();
    let signature = DeviceSignature::read(read_answer(&answer).unwrap()).unwrap();
    let signature = Signature65::new(signature.r, signature.s, signature.v).unwrap();
    recover(digest, &signature).unwrap()
}

/// Splits the commands of a recording into requests: a command that continues another belongs to it.
fn requests(commands: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    for command in commands {
        let continues = matches!(command[1], TRANSACTION | MESSAGE) && command[2] == 0x80;
        match requests.last_mut() {
            Some(last) if continues => last.push(command),
            _first => requests.push(vec![command]),
        }
    }
    requests
}

/// Takes a path from the beginning of the data of a request.
fn take_path(data: &[u8]) -> (DerivationPath, &[u8]) {
    let (steps, rest) = data[1..].split_at(usize::from(data[0]) * 4);
    let step = |bytes: &[u8]| {
        let number = u32::from_be_bytes(bytes.try_into().unwrap());
        let mark = if number & (1 << 31) == 0 { "" } else { "'" };
        format!("/{}{mark}", number & !(1 << 31))
    };
    let text: String = steps.chunks(4).map(step).collect();
    (format!("m{text}").parse().unwrap(), rest)
}

/// Returns the number of bytes of a legacy transaction's last three items.
fn tail_of(bytes: &[u8]) -> usize {
    let (Item::List(items), []) = rlp::read(bytes).unwrap() else { panic!("a list") };
    let size = |item: &Item| match item.bytes().unwrap() {
        [] | [0..=0x7f] => 1,
        bytes => 1 + bytes.len(),
    };
    items.iter().skip(6).map(size).sum()
}

/// Returns the commands that we send for the same input, or `None` for a request that we never make.
fn our_commands(request: &[Vec<u8>]) -> Option<Vec<Command>> {
    let first = &request[0];
    if first[0] != 0xe0 {
        return None;
    }
    let data: Vec<u8> = request.iter().flat_map(|command| command[5..].to_vec()).collect();
    match (first[1], first[2], first[3]) {
        (CONFIGURATION, 0, 0) => Some(vec![app::ask_configuration()]),
        (ADDRESS, shown @ (0 | 1), 0) => {
            let (path, rest) = take_path(&data);
            let display = if shown == 0 { Display::Silent } else { Display::Confirm };
            rest.is_empty().then(|| vec![address::ask(&path, display).unwrap()])
        }
        (TRANSACTION, 0, 0) => {
            let (path, rest) = take_path(&data);
            let unsigned = match rest[0] {
                1 | 2 => Unsigned::Typed(rest),
                _legacy => Unsigned::Legacy { rlp: rest, tail: tail_of(rest) },
            };
            Some(transaction::ask(&path, unsigned).unwrap())
        }
        (MESSAGE, 0, 0) => {
            let (path, rest) = take_path(&data);
            Some(message::ask(&path, &rest[4..]).unwrap())
        }
        (TYPED_DATA, 0, 0) => {
            let (path, rest) = take_path(&data);
            let (domain, message) = rest.split_at(32);
            let hash = |bytes: &[u8]| bytes.try_into().unwrap();
            Some(vec![ask_hashes(&path, hash(domain), hash(message)).unwrap()])
        }
        _other => None,
    }
}

#[test]
fn other_requests_are_sent_as_the_host_library_sends_them() {
    let tests = fs::read_to_string(tests_of_the_library().join("Eth.unit.test.ts")).unwrap();
    let recordings: Vec<&str> = tests.split("RecordStore.fromString(").skip(1).collect();
    assert_eq!(recordings.len(), 50);
    let mut equal = BTreeMap::new();
    for recording in recordings {
        let end = recording.find(");").unwrap_or(recording.len());
        for request in requests(commands_of_transcript(&recording[..end])) {
            let instruction = request[0][1];
            match our_commands(&request) {
                None => {
                    let is_foreign =
                        request[0][0] != ETHEREUM || DESCRIPTORS.contains(&instruction);
                    // We never send foreign requests, or address requests with a chain code or a chain id.
                    assert!(is_foreign || instruction == ADDRESS, "{request:02x?}");
                }
                Some(ours) => {
                    let ours: Vec<Vec<u8>> = ours.iter().map(Command::to_bytes).collect();
                    assert_eq!(ours, request);
                    *equal.entry(instruction).or_insert(0) += 1;
                }
            }
        }
    }
    let expected =
        [(ADDRESS, 1), (TRANSACTION, 29), (CONFIGURATION, 1), (MESSAGE, 1), (TYPED_DATA, 1)];
    assert_eq!(equal, BTreeMap::from(expected));
}
