//! The screen of a refused request hides the open settings, as on the real device.

use bursar_ledger_device::app::{EthereumApp, word};
use bursar_ledger_device::device::Device;
use bursar_ledger_device::key::Seed;
use bursar_ledger_device::settings::Switch;

const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";

#[test]
fn a_person_begins_again_after_a_refused_request_and_a_read_configuration_disturbs_no_one() {
    let device = Device::new(EthereumApp::new(Seed::from_words(WORDS).unwrap()));
    let [configuration, beginning]: [&[u8]; 2] =
        [&[0xE0, 0x06, 0, 0, 0], b"\xE0\x1C\x00\x00\x0CEIP712Domain"];
    // Menu, settings and page.
    for _step in 0..3 {
        assert!(!device.step_towards(Switch::RawMessages));
        assert_eq!(device.exchange(configuration).unwrap().1, word::OK);
    }
    assert_eq!(device.exchange(beginning).unwrap().1, word::INVALID_DATA);
    assert_eq!(device.covered(), 1);
    // The notice, and the way again.
    for _step in 0..4 {
        assert!(!device.step_towards(Switch::RawMessages));
    }
    assert!(device.step_towards(Switch::RawMessages));
}
