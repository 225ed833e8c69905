//! A service that is installed once.
//!
//! It comes back after a reboot, a kill and a stop, unlocked or locked as the operator chose. It is removed without a
//! trace.

use crate::machine::{BootEnd, Machine};

#[test]
fn the_service_survives_reboots_and_kills() {
    let Some(machine) = Machine::new() else { return };
    let first = machine.boot(
        r#"
step install $B install-service --system --yes
furnish
step secure systemd-analyze security bursar --no-pager
step locked-tier $B service status --json
step unlock $B install-service --system --unlock --daily 5 --yes --password-file $PW
step state show StatusText
step tier $B service status --json
step pay pay a 1000000
"#,
        BootEnd::PowerCut,
    );
    assert!(first.must("install").contains("no wallet yet"), "{}", first.text());
    assert!(first.must("locked-tier").contains(r#""unlock":"none""#));
    assert!(first.must("unlock").contains("unlock    host key"), "{}", first.text());
    assert_eq!(first.must("state"), "serving");
    assert!(first.must("tier").contains(r#""unlock":"host_key""#));
    assert_eq!(first.must("pay"), "200 signed");
    let exposure = first.must("secure").lines().last().unwrap();
    let figure = exposure.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    assert!(figure <= 1.5, "{exposure}");
    eprintln!("{exposure}");

    let second = machine.boot(
        r#"
step pay pay b 1000000
step uptime cut -d' ' -f1 /proc/uptime
step begin cut -d' ' -f22 /proc/1/stat
step state show StatusText
old=$(show MainPID); kill -9 $old
until_ok says serving
step back until_ok sh -c "[ \$(systemctl show bursar -p MainPID --value) != $old ] && systemctl is-active bursar"
step pay-again pay c 1000000
step restarts show NRestarts
mkdir -p /run/systemd/system/bursar.service.d
printf '[Service]\nWatchdogSec=2\n' > /run/systemd/system/bursar.service.d/quick.conf
systemctl daemon-reload; systemctl restart bursar
old=$(show MainPID); kill -STOP $old
step watched until_ok sh -c "[ \$(systemctl show bursar -p MainPID --value) != $old ] && [ \$(systemctl show bursar -p MainPID --value) != 0 ] && systemctl is-active bursar"
step pay-last pay d 1000000
step why journalctl -u bursar --no-pager
"#,
        BootEnd::Reboot,
    );
    assert_eq!(second.must("pay"), "200 signed", "{}", second.text());
    assert_eq!(second.must("state"), "serving");
    second.must("back");
    assert_eq!(second.must("pay-again"), "200 signed");
    assert_eq!(second.must("restarts"), "1");
    second.must("watched");
    assert_eq!(second.must("pay-last"), "200 signed");
    assert!(second.must("why").contains("watchdog"), "{}", second.text());
    let seconds = |step: &str| second.must(step).parse::<f64>().unwrap();
    // The start time of the first process is in hundredths of a second.
    eprintln!("boot to first payment: {:.2} s", seconds("uptime") - seconds("begin") / 100.0);

    let third = machine.boot(
        r#"
# Of five dollars a day, four are spent.
step within pay e 1000000
step over pay f 1000000
step held owner requests
step remove $B uninstall-service --yes
step remove-again $B uninstall-service --yes
step status $B service status
step left ls /etc/bursar /etc/systemd/system/bursar.service /etc/systemd/system/bursar.service.d
step wallet owner status
"#,
        BootEnd::Reboot,
    );
    assert_eq!(third.must("within"), "200 signed", "{}", third.text());
    assert_eq!(third.step("over"), (1, "202 APPROVAL_REQUIRED"), "{}", third.text());
    assert!(third.must("held").contains("1.0"), "{}", third.text());
    assert!(third.must("remove").contains("stays     wallet and journal: /var/lib/bursar"));
    assert!(third.must("remove-again").contains("nothing to remove"));
    assert_eq!(third.step("status").0, 7);
    assert_eq!(third.step("left").1.matches("No such file").count(), 3, "{}", third.text());
    assert_eq!(third.step("wallet").0, 3);
}

#[test]
fn a_lower_limit_is_in_force_before_the_wallet_opens() {
    let Some(machine) = Machine::new() else { return };
    let only = machine.boot(
        r#"
step install $B install-service --system --yes
furnish
step unlock $B install-service --system --unlock --daily 5 --yes --password-file $PW
systemctl stop bursar
step lower $B install-service --system --unlock --daily 4.5 --yes --password-file $PW
step activity owner activity --raw --json
"#,
        BootEnd::PowerCut,
    );
    only.must("unlock");
    only.must("lower");
    let last = |kind: &str| last_entry(only.must("activity"), kind);
    assert!(last("setting.changed") < last("wallet.unlocked"), "{}", only.text());
}

/// Returns the sequence number of the last entry of a kind, from the output of `activity --json`.
fn last_entry(activity: &str, kind: &str) -> u64 {
    let activity: serde_json::Value = serde_json::from_str(activity).unwrap();
    let entries = activity["data"]["entries"].as_array().unwrap().iter();
    let numbers = entries.filter(|entry| entry["kind"] == kind).map(|entry| &entry["seq"]);
    numbers.filter_map(serde_json::Value::as_u64).max().unwrap()
}

#[test]
fn without_unlock_the_wallet_is_locked_after_a_boot() {
    let Some(machine) = Machine::new() else { return };
    let first = machine.boot(
        "step install $B install-service --system --yes\nfurnish\nstep pay pay a 1000000\n",
        BootEnd::Reboot,
    );
    assert_eq!(first.must("pay"), "200 signed", "{}", first.text());
    let second = machine.boot(
        r#"
step state show StatusText
step pay pay b 1000000
step status owner status
step open owner wallet open --password-stdin < $PW
step pay-again pay b 1000000
"#,
        BootEnd::Reboot,
    );
    assert_eq!(second.must("state"), "locked: open it with `bursar wallet open`");
    assert_eq!(second.step("pay"), (1, "503 WALLET_LOCKED"));
    assert_eq!(second.step("status").0, 4);
    second.must("open");
    assert_eq!(second.must("pay-again"), "200 signed");
}
