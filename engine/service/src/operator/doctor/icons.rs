//! Reports whether icons are fetched, and what came of it.

use bursar_control::answers::CheckAnswer;

use crate::funds::KnownIcons;

const CHECK: &str = "icons";

/// Describes the icons of a running engine. Fetches nothing.
pub(super) fn check(on: bool, known: &KnownIcons) -> CheckAnswer {
    if !on {
        return CheckAnswer::ok(CHECK, "off: nothing is fetched");
    }
    let read = known.read.len();
    match known.failed.first() {
        None => CheckAnswer::ok(CHECK, format!("on: {read} read, {} being fetched", known.running)),
        Some((_key, why)) => {
            let finding = format!("on: {read} read, {} failed ({why})", known.failed.len());
            CheckAnswer::warn(
                CHECK,
                finding,
                "a console asks for them again after ten minutes; to turn them off: bursar config set icons false",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;
    use bursar_core::networks::ChainId;

    use super::*;

    #[test]
    fn a_failed_icon_is_a_warning_that_names_the_setting() {
        assert_eq!(check(false, &KnownIcons::default()).finding, "off: nothing is fetched");
        let mut known = KnownIcons { running: 2, ..KnownIcons::default() };
        assert_eq!(check(true, &known).finding, "on: 0 read, 2 being fetched");
        known.failed.push(((ChainId(1), Address::ZERO), "no answer in time".to_owned()));
        let failed = check(true, &known);
        assert_eq!(failed.finding, "on: 0 read, 1 failed (no answer in time)");
        assert!(failed.advice.unwrap_or_default().contains("config set icons false"));
    }
}
