//! Checks whether Ledgers can be used.

use bursar_control::answers::CheckAnswer;
use bursar_ledger::port::ConnectFault;

use crate::ports::Ports;

const CHECK: &str = "ledger";

/// The udev rule that lets the person at the machine and the service's account `bursar` use a Ledger.
const UDEV_RULE: &str = "SUBSYSTEM==\"hidraw\", ATTRS{idVendor}==\"2c97\", TAG+=\"uaccess\", \
                         GROUP=\"bursar\", MODE=\"0660\"";

/// How long the machine's USB may take to answer.
const ANSWER_MS: u64 = 5_000;

/// Looks for Ledgers; `None` in a build without support for them.
pub(super) async fn check(ports: &Ports) -> Option<CheckAnswer> {
    let devices = ports.devices.as_ref()?;
    let until = ports.clock.mono_ms().saturating_add(ANSWER_MS);
    // cancel-safe: devices that are opened too late are closed.
    let found = tokio::select! {
        biased;
        found = devices.connect() => found,
        () = ports.clock.sleep_until(until) => {
            Err(ConnectFault::Failed("USB does not answer".to_owned()))
        }
    };
    Some(judge(found.map(|all| all.iter().map(|device| device.name().to_owned()).collect())))
}

fn judge(found: Result<Vec<String>, ConnectFault>) -> CheckAnswer {
    match found {
        Ok(names) if names.is_empty() => CheckAnswer::ok(CHECK, "none is plugged in"),
        Ok(names) => CheckAnswer::ok(CHECK, format!("plugged in: {}", names.join(", "))),
        Err(ConnectFault::NoPermission) => CheckAnswer::warn(
            CHECK,
            "one is plugged in, but this account may not use it",
            format!(
                "as root, write the line {UDEV_RULE} to /etc/udev/rules.d/70-ledger.rules, run udevadm control \
                 --reload, and plug it in again"
            ),
        ),
        Err(ConnectFault::InUse) => CheckAnswer::warn(
            CHECK,
            "another program uses the one that is plugged in",
            "close that program before you use the Ledger with the wallet",
        ),
        Err(ConnectFault::Failed(why)) => CheckAnswer::warn(
            CHECK,
            format!("none can be used: {why}"),
            "plug it in again, or use another port",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::answers::CheckResult;

    #[test]
    fn a_missing_permission_names_the_udev_rule() {
        let check = judge(Err(ConnectFault::NoPermission));
        assert_eq!(check.result, CheckResult::Warn);
        let advice = check.advice.unwrap();
        assert!(advice.contains(r#"ATTRS{idVendor}=="2c97", TAG+="uaccess""#), "{advice}");
    }

    #[test]
    fn no_ledger_is_no_fault() {
        assert_eq!(judge(Ok(Vec::new())).result, CheckResult::Ok);
        let found = judge(Ok(vec!["Ledger Flex (0001)".to_owned()]));
        assert_eq!(
            (found.result, found.finding.as_str()),
            (CheckResult::Ok, "plugged in: Ledger Flex (0001)")
        );
        for fault in [ConnectFault::InUse, ConnectFault::Failed("x".to_owned())] {
            assert_eq!(judge(Err(fault)).result, CheckResult::Warn);
        }
    }
}
