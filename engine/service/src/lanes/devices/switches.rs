//! Decides when to prompt a device again after it refused data because one of its settings (a switch) is off.
//!
//! The screen of a refusal hides the settings in which the person looks for the switch. So between tries the wallet
//! only reads the configuration, which shows nothing on the device. This module reads no clock: its callers pass the
//! time.

use std::collections::BTreeMap;

use bursar_ledger::app::Configuration;

use crate::device::Switch;
use crate::journal::Terms;

/// The first pause, in milliseconds: a person needs ten seconds or more to reach a switch.
const FIRST_REST_MS: u64 = 30_000;
/// Each further pause, in milliseconds.
const REST_MS: u64 = 60_000;

/// The kind of data that a device shows. Each kind needs its own switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShownData {
    TypedData,
    /// A transaction that calls a contract.
    Call,
    /// A transaction that moves coins only.
    Coins,
    /// A personal message, which needs no switch.
    Text,
}

impl ShownData {
    pub(super) fn of(terms: &Terms) -> Self {
        match terms {
            Terms::Payment { .. } | Terms::Permit { .. } => Self::TypedData,
            Terms::Transaction(unsigned) if unsigned.call.data.is_empty() => Self::Coins,
            Terms::Transaction(_call) => Self::Call,
            Terms::Mandate(_) | Terms::Receipt(_) => Self::Text,
        }
    }
}

/// The switch for which a device refused data.
#[derive(Debug)]
pub(super) struct MissingSwitch {
    pub(super) switch: Switch,
    /// The configuration with which the device refused.
    pub(super) configuration: Configuration,
}

/// The pause after a refusal.
#[derive(Debug)]
struct Rest {
    missing: MissingSwitch,
    until_ms: u64,
}

/// The pauses of all devices, by the device's name and the kind of data.
#[derive(Debug, Default)]
pub(super) struct SwitchRests(BTreeMap<(String, ShownData), Rest>);

impl SwitchRests {
    /// Returns the missing switch if a device is to be left alone now. A changed configuration ends the pause.
    pub(super) fn missing_switch(
        &mut self,
        device: &str,
        shown: ShownData,
        configuration: &Configuration,
        now_ms: u64,
    ) -> Option<Switch> {
        let key = (device.to_owned(), shown);
        let rest = self.0.get(&key)?;
        if rest.missing.configuration != *configuration {
            self.0.remove(&key);
            return None;
        }
        (now_ms < rest.until_ms).then_some(rest.missing.switch)
    }

    /// Begins a pause after a refusal.
    pub(super) fn begin(
        &mut self,
        device: &str,
        shown: ShownData,
        missing: MissingSwitch,
        now_ms: u64,
    ) {
        let key = (device.to_owned(), shown);
        let rest_ms = if self.0.contains_key(&key) { REST_MS } else { FIRST_REST_MS };
        let until_ms = now_ms.saturating_add(rest_ms);
        self.0.insert(key, Rest { missing, until_ms });
    }

    /// Forgets the refusals of a device, because it has shown data of this kind.
    pub(super) fn end(&mut self, device: &str, shown: ShownData) {
        self.0.remove(&(device.to_owned(), shown));
    }

    /// Ends all pauses, because an operator starts a try.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets the pauses that are over, so that the next refusal is followed by a first pause. Called while the queue
    /// is empty.
    pub(super) fn forget_old(&mut self, now_ms: u64) {
        self.0.retain(|_of, rest| now_ms < rest.until_ms);
    }
}

#[cfg(test)]
mod tests {
    use bursar_ledger::app::Version;

    use super::*;

    const NAME: &str = "Ledger Flex (0001)";

    fn configuration(blind_signing: bool) -> Configuration {
        Configuration { blind_signing, version: Version { major: 1, minor: 22, patch: 0 } }
    }

    fn record_refusal(rests: &mut SwitchRests, now_ms: u64) {
        let (switch, configuration) = (Switch::BlindSigningOrRawMessages, configuration(false));
        let missing = MissingSwitch { switch, configuration };
        rests.begin(NAME, ShownData::TypedData, missing, now_ms);
    }

    fn is_resting_at(rests: &mut SwitchRests, now_ms: u64) -> bool {
        rests.missing_switch(NAME, ShownData::TypedData, &configuration(false), now_ms).is_some()
    }

    #[test]
    fn the_first_pause_is_half_a_minute_and_each_further_one_a_minute() {
        let mut rests = SwitchRests::default();
        assert!(!is_resting_at(&mut rests, 0));
        let mut now_ms = 0;
        for rest_ms in [30_000, 60_000, 60_000] {
            record_refusal(&mut rests, now_ms);
            assert!(is_resting_at(&mut rests, now_ms + rest_ms - 1));
            now_ms += rest_ms;
            assert!(!is_resting_at(&mut rests, now_ms));
        }
        rests.end(NAME, ShownData::TypedData);
        record_refusal(&mut rests, now_ms);
        assert!(!is_resting_at(&mut rests, now_ms + 30_000), "a first one again");
    }

    #[test]
    fn a_changed_configuration_or_the_operator_ends_a_pause() {
        let mut rests = SwitchRests::default();
        record_refusal(&mut rests, 0);
        let other = rests.missing_switch(NAME, ShownData::TypedData, &configuration(true), 1);
        assert_eq!(other, None);
        assert!(!is_resting_at(&mut rests, 2), "also if it is changed back");
        record_refusal(&mut rests, 0);
        rests.clear();
        assert!(!is_resting_at(&mut rests, 1));
    }

    #[test]
    fn a_pause_is_of_one_device_and_one_kind_of_data() {
        let mut rests = SwitchRests::default();
        record_refusal(&mut rests, 0);
        let of = configuration(false);
        assert_eq!(rests.missing_switch(NAME, ShownData::Call, &of, 1), None);
        assert_eq!(rests.missing_switch("Ledger Flex (0002)", ShownData::TypedData, &of, 1), None);
        rests.forget_old(29_999);
        assert!(is_resting_at(&mut rests, 1), "a new request does not disturb the person either");
        rests.forget_old(30_000);
        assert!(!is_resting_at(&mut rests, 1));
    }
}
