//! Answers that no honest device gives: truncated, over-long, foreign or mixed up. All are rejected without a panic.
#![expect(clippy::unwrap_used, reason = "the helpers of a test stand outside #[test]")]

use bursar_core::derivation::DerivationPath;
use bursar_ledger::address::{self, Display};
use bursar_ledger::app;
use bursar_ledger::command::{AnswerFault, RequestTooLong, read_answer, read_empty};
use bursar_ledger::signature::DeviceSignature;
use bursar_ledger::status::Status;
use proptest::prelude::*;

const ADDRESS: &str = "410437b0bb7a8288d38ed49a524b5dc98cff3eb5ca824c9f9dc0dfdb3d9cd600f299a6179912b7451c09896c4098eca7ce6b2e58330672795e847c4d6af44e02423028393835384566464432333242343033334534376439303030334434314543333445636145646139349000";
const APP: &str = "0108457468657265756d0a312e32322e302d64657601009000";
const CONFIGURATION: &str = "020116009000";
const SIGNATURE: &str = "1bfc0a8adde11053e69a9c40ea320eb3a76be3dfc8674f64065769678e6be1aa2c26119aea33f39dcdd99368267cee8588744d7a95368d5a32aa30f39c009c64a49000";

/// Whether the data of an answer can be read.
type AnswerReader = fn(&[u8]) -> bool;

/// An answer of each kind, with its reader.
fn readers() -> Vec<(&'static str, AnswerReader)> {
    vec![
        (ADDRESS, |data| address::read(data).is_ok()),
        (APP, |data| app::read_app(data).is_ok()),
        (CONFIGURATION, |data| app::read_configuration(data).is_ok()),
        (SIGNATURE, |data| DeviceSignature::read(data).is_ok()),
    ]
}

fn data_of(answer: &str) -> Vec<u8> {
    read_answer(&hex::decode(answer).unwrap()).unwrap().to_vec()
}

#[test]
fn each_answer_is_read_by_its_own_reader_only() {
    for (answer, _its_reader) in readers() {
        for (other, reads) in readers() {
            assert_eq!(reads(&data_of(answer)), answer == other, "{answer} as {other}");
        }
        assert_eq!(read_empty(&hex::decode(answer).unwrap()), Err(AnswerFault::Malformed));
    }
    assert_eq!(read_empty(&[0x90, 0x00]), Ok(()));
}

#[test]
fn a_truncated_or_longer_answer_is_not_read() {
    for (answer, reads) in readers() {
        let data = data_of(answer);
        for length in 0..data.len() {
            // The flags of an app are optional.
            let without_flags = answer == APP && length + 2 == data.len();
            assert_eq!(reads(&data[..length]), without_flags, "{answer} to {length}");
        }
        assert!(!reads(&[&data[..], &[0]].concat()), "{answer} and a byte more");
    }
    assert_eq!(read_answer(&[]), Err(AnswerFault::Malformed));
    assert_eq!(read_answer(&[0x90]), Err(AnswerFault::Malformed));
}

#[test]
fn an_address_must_be_that_of_the_key() {
    let mut data = data_of(ADDRESS);
    let last = data.len() - 1;
    data[last] = b'5';
    assert_eq!(address::read(&data), Err(AnswerFault::Malformed));
    let mut data = data_of(ADDRESS);
    data[5] ^= 1;
    assert_eq!(address::read(&data), Err(AnswerFault::Malformed));
}

#[test]
fn names_of_apps_cannot_act_on_a_terminal() {
    let name = b"\x1b[2J\x07Eth\xff\n";
    let version = b"1\x1b]0;x";
    let data = [&[1, 10][..], name, &[6], version, &[1, 0]].concat();
    let app = app::read_app(&data).unwrap();
    assert_eq!((app.name.as_str(), app.version.as_str()), ("?[2J?Eth??", "1?]0;x"));
}

#[test]
fn every_status_word_has_a_name_and_a_sentence() {
    for word in 0..=u16::MAX {
        let (name, sentence) = Status(word).text();
        assert!(!name.is_empty() && sentence.ends_with('.'), "{word:04x}");
        assert!(Status(word).to_string().contains(&format!("0x{word:04X}")));
    }
}

#[test]
fn a_path_has_at_most_ten_steps() {
    let path = |steps: usize| format!("m{}", "/1".repeat(steps)).parse::<DerivationPath>().unwrap();
    assert!(address::ask(&path(10), Display::Silent).is_ok());
    assert_eq!(address::ask(&path(11), Display::Confirm), Err(RequestTooLong::Path));
}

proptest! {
    #[test]
    fn no_answer_makes_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(data) = read_answer(&bytes) {
            for (_answer, reads) in readers() {
                reads(data);
            }
        }
        for (_answer, reads) in readers() {
            reads(&bytes);
        }
    }
}
