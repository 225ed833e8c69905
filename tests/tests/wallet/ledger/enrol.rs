//! `address ledger`: the operator's side, with a simulated device.

use std::sync::Arc;

use bursar_control::answers::{AddressAnswer, Answer, CheckResult, LedgerAddressesAnswer};
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_device::emulator::Emulators;
use bursar_ledger_device::device::{Decision, Lie};
use bursar_ledger_device::key::Seed;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;

use super::support::{OTHER_WORDS, SEED_WORDS, plug_in};

async fn engine(addresses: Vec<std::net::SocketAddr>) -> TestEngine {
    engine_of(EditionName::Full, addresses).await
}

async fn engine_of(edition: EditionName, addresses: Vec<std::net::SocketAddr>) -> TestEngine {
    let devices = Some(Arc::new(Emulators::new(addresses)) as _);
    let engine = TestEngine::start(Setup { devices, edition, ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
    engine
}

async fn list_addresses(engine: &TestEngine, line: &str) -> LedgerAddressesAnswer {
    match engine.operator().must(line).await {
        Answer::LedgerAddresses(listed) => listed,
        other => panic!("{other:?}"),
    }
}

async fn address(engine: &TestEngine, line: &str) -> AddressAnswer {
    match engine.operator().must(line).await {
        Answer::Address(address) => address,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_ledger_an_index_gives_the_same_address_in_every_edition() {
    for edition in EditionName::ALL {
        let (_device, at) = plug_in(SEED_WORDS);
        let engine = engine_of(edition, vec![at]).await;
        let added = address(&engine, "address ledger add 7 cold").await;
        assert_eq!(added.address, "0x8BAE832C68d7c90C11bCA5EB8Bd0f14d49bd9e8F", "{edition:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_every_layout_are_listed_and_added() {
    let (_device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    // Addresses that were recorded from the real app.
    for (options, path, expected) in [
        ("--start 7", "m/44'/60'/7'/0/0", "0x8BAE832C68d7c90C11bCA5EB8Bd0f14d49bd9e8F"),
        (
            "--layout bip44 --start 7",
            "m/44'/60'/0'/0/7",
            "0x593814d3309e2dF31D112824F0bb5aa7Cb0D7d47",
        ),
        (
            "--layout legacy --start 7",
            "m/44'/60'/0'/7",
            "0xE2a7467606Ce6B9270E9b2234C806A9548EbDA62",
        ),
        (
            "--layout custom --path \"m/44'/60'/3'/1/{}\" --start 9",
            "m/44'/60'/3'/1/9",
            "0x3a1DBb8A6ad007Aa58F31343231F0d7401559CF4",
        ),
    ] {
        let listed =
            list_addresses(&engine, &format!("address ledger list {options} --count 1")).await;
        let [only] = &listed.addresses[..] else { panic!("{listed:?}") };
        assert_eq!((only.path.as_str(), only.address.as_str()), (path, expected));
        assert_eq!(only.label, None);
    }
    let mut operator = engine.operator();
    operator.must("address ledger add 0 safe").await;
    let Answer::Addresses { addresses } = operator.must("address ledger add 1,2 reserve").await
    else {
        panic!("two addresses")
    };
    let labels: Vec<&str> = addresses.iter().map(|address| address.label.as_str()).collect();
    assert_eq!(labels, ["reserve-1", "reserve-2"]);
    assert!(addresses.iter().all(|address| address.backing == "Ledger (live)"));
    let all = list_addresses(&engine, "address ledger list").await;
    let labels: Vec<_> = all.addresses.iter().map(|address| address.label.as_deref()).collect();
    assert_eq!(labels, [Some("safe"), Some("reserve-1"), Some("reserve-2"), None, None]);
    assert!(all.device.starts_with("Ledger Flex"));
    assert_eq!(operator.run_refused("address ledger add 0 again").await.code, Code::NameTaken);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_and_index_give_the_same_address_in_software() {
    let (_device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    let mut operator = engine.operator();
    operator.phrase = SEED_WORDS.to_owned();
    operator.must("seed import").await;
    let software = address(&engine, "address create soft 7 --seed S002").await;
    let listed =
        list_addresses(&engine, "address ledger list --layout bip44 --start 7 --count 1").await;
    assert_eq!(listed.addresses[0].address, software.address);
    assert_eq!(listed.addresses[0].path, software.path);
    assert_eq!(listed.addresses[0].label.as_deref(), Some("soft"));
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_succeeds_only_if_the_person_confirms_on_the_device() {
    let (device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    address(&engine, "address ledger add 3 safe").await;
    for (decision, expected) in
        [(Decision::Press, None), (Decision::Refuse, Some(Code::LedgerRejected))]
    {
        device.decide_itself(Some(decision));
        let mut operator = engine.operator();
        let reply = operator.outcome("address ledger verify safe").await.reply.result;
        assert_eq!(reply.as_ref().err().map(|fault| fault.code), expected, "{reply:?}");
        assert_eq!(expected.map(Code::exit), reply.err().map(|_fault| 12));
    }
    let log = device.log();
    let shown = log.iter().filter(|line| line.contains("asked: Verify address")).count();
    assert_eq!(shown, 2, "both were shown: {log:?}");
    let mut operator = engine.operator();
    assert_eq!(operator.run_refused("address ledger verify pay").await.code, Code::BadInput);
    assert_eq!(operator.run_refused("address ledger verify none").await.code, Code::NothingFound);
    // A device with another seed is noticed before anything is shown.
    device.change(|app| app.seed = Seed::from_words(OTHER_WORDS).unwrap());
    assert_eq!(operator.run_refused("address ledger verify safe").await.code, Code::LedgerError);
    assert_eq!(device.log().iter().filter(|line| line.contains("asked:")).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_of_a_device_says_what_to_do() {
    let (device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    let mut operator = engine.operator();
    let mut says = async |code: Code, part: &str| {
        let fault = operator.run_refused("address ledger list").await;
        assert_eq!(fault.code, code, "{fault:?}");
        assert!(fault.message.contains(part), "{part}: {}", fault.message);
    };
    device.set_locked(true);
    says(Code::LedgerDisconnected, "enter its PIN").await;
    device.set_locked(false);
    device.open(Some(("BOLOS".to_owned(), "1.4.0".to_owned())));
    says(Code::LedgerDisconnected, "no app is open: open its Ethereum app").await;
    device.open(Some(("\u{1b}[2JBitcoin".to_owned(), "2.0".to_owned())));
    says(Code::LedgerDisconnected, "the app ?[2JBitcoin is open").await;
    device.open(None);
    device.set_plugged(false);
    says(Code::LedgerDisconnected, "plug it in").await;
    device.set_plugged(true);
    for lie in [Lie::Truncated, Lie::Longer, Lie::Earlier] {
        device.set_lie(0, Some(lie));
        says(Code::LedgerError, "open its Ethereum app again").await;
    }
    device.set_lie(0, None);
    let fault =
        engine.operator().run_refused("address ledger list --layout custom --path m/{}/1").await;
    assert_eq!(fault.code, Code::BadInput, "{fault:?}");
    assert!(fault.message.contains("m/44'/60'"), "{}", fault.message);
    engine.operator().must("address ledger list").await;
    engine.operator().must("wallet lock").await;
    assert_eq!(engine.operator().run_refused("address ledger list").await.code, Code::WalletLocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_other_commands_are_never_used() {
    let (device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    let mut operator = engine.operator();
    // Simulates another program or late answers: after `honest` right answers, each answer
    // belongs to the previous command.
    for honest in 1..=4 {
        for line in ["address ledger list --count 3", "address ledger add 0,1,2"] {
            device.set_lie(honest, Some(Lie::Earlier));
            let fault = operator.run_refused(line).await;
            assert_eq!(fault.code, Code::LedgerError, "{line} after {honest}: {fault:?}");
        }
    }
    device.set_lie(0, None);
    let listed = list_addresses(&engine, "address ledger list").await;
    assert!(listed.addresses.iter().all(|address| address.label.is_none()), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_addresses_are_added_together_or_not_at_all() {
    let (_device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    let mut operator = engine.operator();
    operator.must("address ledger add 1").await;
    assert_eq!(operator.run_refused("address ledger add 0,1,2 more").await.code, Code::NameTaken);
    assert_eq!(operator.run_refused("address ledger add 3,3").await.code, Code::BadInput);
    let listed = list_addresses(&engine, "address ledger list --count 3").await;
    let labels: Vec<_> = listed.addresses.iter().map(|address| address.label.as_deref()).collect();
    assert_eq!(labels, [None, Some("ledger-1"), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_of_a_ledger_is_exported_and_a_rename_keeps_the_address() {
    let (_device, at) = plug_in(SEED_WORDS);
    let engine = engine(vec![at]).await;
    let mut operator = engine.operator();
    operator.must("address ledger add 0 safe").await;
    let fault = operator.run_refused("address export safe").await;
    assert_eq!(fault.code, Code::LedgerSignNotAvailable, "{fault:?}");
    operator.must("address rename safe vault").await;
    operator.must("wallet lock").await;
    operator.must("wallet open").await;
    let kept = operator.must("address list").await;
    let Answer::Addresses { addresses } = kept else { panic!("{kept:?}") };
    assert!(addresses.iter().any(|kept| kept.label == "vault" && kept.backing == "Ledger (live)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_support_or_with_two_devices_nothing_is_guessed() {
    let engine_without = TestEngine::start(Setup::default()).await;
    engine_without.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
    let fault = engine_without.operator().run_refused("address ledger list").await;
    assert_eq!((fault.code, fault.code.exit()), (Code::LedgerSignNotAvailable, 9));

    let ((_one, at), (_other, other_at)) = (plug_in(SEED_WORDS), plug_in(OTHER_WORDS));
    let engine = engine(vec![at, other_at]).await;
    let mut operator = engine.operator();
    assert_eq!(operator.run_refused("address ledger list").await.code, Code::Ambiguous);
    let Answer::Doctor { checks } = operator.must("doctor").await else { panic!("checks") };
    let ledger = checks.iter().find(|check| check.check == "ledger").unwrap();
    assert_eq!(ledger.result, CheckResult::Ok);
    assert_eq!(ledger.finding.matches("Ledger Flex").count(), 2);
}
