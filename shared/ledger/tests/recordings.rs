//! Compares us with recordings of Ledger's Ethereum app and Ledger's own host library: we send the same commands, byte
//! by byte, and read the same results from the answers.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test stand outside #[test]"
)]

use alloy_primitives::{Address, B256, U256, eip191_hash_message, keccak256};
use bursar_core::derivation::DerivationPath;
use bursar_core::networks::ChainId;
use bursar_core::networks::by_chain;
use bursar_ledger::address::{self, Display};
use bursar_ledger::app::{self, TypedDataForm};
use bursar_ledger::command::{AnswerFault, Command, read_answer, read_empty};
use bursar_ledger::message;
use bursar_ledger::payment;
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::status::{Meaning, Status};
use bursar_ledger::transaction::{self, Unsigned};
use bursar_ledger::typed_data;
use bursar_x402::authorization::Authorization;
use bursar_x402::typed_data::TokenDomain;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Recordings {
    counts: Counts,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Counts {
    cases: usize,
    exchanges: usize,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    path: Option<String>,
    unsigned: Option<String>,
    message: Option<Value>,
    apdus: Vec<String>,
    result: Value,
}

/// The path at which most cases sign, and its address.
const PATH: &str = "m/44'/60'/0'/0/0";
const SIGNER: &str = "0x9858EfFD232B4033E47d90003D41EC34EcaEda94";

fn recordings() -> Recordings {
    serde_json::from_str(include_str!("vectors/ledger-ethereum.json")).unwrap()
}

fn path(text: &str) -> DerivationPath {
    text.parse().unwrap()
}

impl Case {
    /// The bytes of each line that begins with `mark`.
    fn lines(&self, mark: &str) -> Vec<Vec<u8>> {
        let of =
            |line: &String| line.strip_prefix(mark).map(|hex| hex::decode(hex.trim()).unwrap());
        self.apdus.iter().filter_map(of).collect()
    }

    fn unsigned(&self) -> Vec<u8> {
        hex::decode(self.unsigned.as_ref().unwrap()).unwrap()
    }

    /// The payment of a case with typed data.
    fn payment(&self) -> (TokenDomain, Authorization) {
        let message = self.message.as_ref().map(|typed| &typed["message"]);
        let value = |name: &str| message.map_or("", |message| message[name].as_str().unwrap());
        let usdc = TokenDomain::of_stablecoin(by_chain(ChainId(8453)).unwrap());
        if message.is_none() {
            // The refused case has the same message as the signed case.
            let cases = recordings().cases;
            return cases.iter().find(|case| case.message.is_some()).unwrap().payment();
        }
        let terms = Authorization {
            from: value("from").parse().unwrap(),
            to: value("to").parse().unwrap(),
            value: value("value").parse().unwrap(),
            valid_after: value("validAfter").parse().unwrap(),
            valid_before: value("validBefore").parse().unwrap(),
            nonce: value("nonce").parse().unwrap(),
        };
        (usdc, terms)
    }

    /// The commands that we send for this case.
    fn commands(&self) -> Vec<Command> {
        let (one, two) = (B256::repeat_byte(0x11), B256::repeat_byte(0x22));
        match self.name.as_str() {
            "get app name" => vec![app::ask_app()],
            name if name.starts_with("configuration") => vec![app::ask_configuration()],
            "address root m" => vec![address::ask(&path("m"), Display::Silent).unwrap()],
            "address 44 outside" => {
                vec![address::ask(&path("m/0'/1/2"), Display::Silent).unwrap()]
            }
            name if name.starts_with("address") => {
                let path = path(self.path.as_ref().unwrap());
                vec![address::ask(&path, Display::Silent).unwrap()]
            }
            name if name.starts_with("712 hashed") => {
                vec![typed_data::ask_hashes(&path(PATH), one, two).unwrap()]
            }
            name if name.starts_with("712 full") => {
                let (token, terms) = self.payment();
                let typed = payment::typed_data(&token, &terms);
                let typed = typed_data::ask_full(&path(PATH), &typed).unwrap();
                [vec![app::ask_app()], typed].concat()
            }
            name if name.starts_with("1559") => {
                transaction::ask(&path(PATH), Unsigned::Typed(&self.unsigned())).unwrap()
            }
            "legacy EIP-155 coin" => {
                let rlp = self.unsigned();
                // The last three items take five bytes: `82 2105` is the chain id 0x2105, and each zero is `80`.
                transaction::ask(&path(PATH), Unsigned::Legacy { rlp: &rlp, tail: 5 }).unwrap()
            }
            "personal message" => message::ask(&path(PATH), br#"{"a":1}"#).unwrap(),
            other => panic!("no commands for the case {other}"),
        }
    }

    /// The digest that the device signs in this case.
    fn digest(&self) -> B256 {
        match self.name.as_str() {
            "712 hashed" => keccak256([&[0x19, 0x01], &[0x11; 32][..], &[0x22; 32]].concat()),
            name if name.starts_with("712 full") => {
                let (token, terms) = self.payment();
                token.digest(&terms)
            }
            "personal message" => eip191_hash_message(br#"{"a":1}"#),
            _transaction => keccak256(self.unsigned()),
        }
    }
}

#[test]
fn every_command_is_the_one_that_was_recorded() {
    let recordings = recordings();
    let mut exchanges = 0;
    for case in &recordings.cases {
        let ours: Vec<Vec<u8>> = case.commands().iter().map(Command::to_bytes).collect();
        assert_eq!(ours, case.lines("=>"), "{}", case.name);
        assert_eq!(case.lines("<=").len(), ours.len(), "{}", case.name);
        exchanges += ours.len();
    }
    assert_eq!(recordings.cases.len(), recordings.counts.cases);
    assert_eq!(exchanges, recordings.counts.exchanges);
    assert_eq!((recordings.counts.cases, exchanges), (26, 79));
}

#[test]
fn every_answer_is_read_as_the_recorded_host_read_it() {
    let (mut addresses, mut signatures, mut refusals) = (0, 0, 0);
    for case in recordings().cases {
        let answers = case.lines("<=");
        let (last, before) = answers.split_last().unwrap();
        // The recorded host asked for the app before it sent typed data in full.
        let before = if case.name.starts_with("712 full") { &before[1..] } else { before };
        assert!(before.iter().all(|answer| read_empty(answer).is_ok()), "{}", case.name);
        let name = case.name.as_str();
        match read_answer(last) {
            Err(AnswerFault::Status(Status(word))) => {
                assert_eq!(case.result["sw"], format!("{word:04x}"), "{name}");
                refusals += 1;
            }
            Err(other) => panic!("{name}: {other}"),
            Ok(data) if name == "get app name" => {
                let app = app::read_app(data).unwrap();
                assert_eq!(app.name, app::ETHEREUM_NAME);
                assert_eq!(app.version, "1.22.0-dev");
            }
            Ok(data) if name.starts_with("configuration") => {
                let read = app::read_configuration(data).unwrap();
                assert_eq!(read.blind_signing, case.result["arbitraryDataEnabled"] == 1);
                let version = read.version;
                let version = format!("{}.{}.{}", version.major, version.minor, version.patch);
                assert_eq!(case.result["version"], version);
                assert_eq!(read.typed_data(), Some(TypedDataForm::Full));
            }
            Ok(data) if name.starts_with("address") => {
                let read = address::read(data).unwrap();
                assert_eq!(case.result["address"], read.to_checksum(None), "{name}");
                addresses += 1;
            }
            Ok(data) => {
                let read = DeviceSignature::read(data).unwrap();
                assert_eq!(case.result["r"], hex::encode(read.r), "{name}");
                assert_eq!(case.result["s"], hex::encode(read.s), "{name}");
                let signer: Address = SIGNER.parse().unwrap();
                let signature = read.verify(signer, case.digest()).unwrap();
                assert_eq!((signature.r(), signature.s()), (read.r, read.s));
                assert!(read.verify(signer, B256::repeat_byte(9)).is_err());
                assert!(read.verify(Address::repeat_byte(1), case.digest()).is_err());
                if let Some(v) = case.result["v"].as_u64() {
                    assert_eq!(u64::from(signature.v()), v, "{name}");
                }
                signatures += 1;
            }
        }
    }
    assert_eq!((addresses, signatures, refusals), (9, 9, 5));
}

#[test]
fn status_words_that_were_recorded_have_their_meaning() {
    for (word, meaning) in [
        (0x9000, Meaning::Success),
        (0x6985, Meaning::Refused),
        (0x6a80, Meaning::SwitchOff),
        (0x6a15, Meaning::PathRefused),
    ] {
        assert_eq!(Status(word).meaning(), meaning);
    }
}

#[test]
fn both_words_for_a_refused_path_say_the_same() {
    let (other, recorded) = (Status(0x6a12), Status(0x6a15));
    assert_eq!(other.meaning(), recorded.meaning());
    assert_eq!(other.text(), recorded.text());
    assert!(other.to_string().contains("m/44'/60'"), "{other}");
}

#[test]
fn a_number_of_zero_is_one_byte() {
    assert_eq!(typed_data::Value::number(U256::ZERO), typed_data::Value::Atom(vec![0]));
    assert_eq!(typed_data::Value::number(U256::from(256)), typed_data::Value::Atom(vec![1, 0]));
}
