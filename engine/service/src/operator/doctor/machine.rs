//! Checks the machine: boot id, open files, swap, and the address of the agent server.

use bursar_control::answers::CheckAnswer;
use bursar_core::limits::OPEN_FILES_NEEDED;
use bursar_core::money::Usd;
use bursar_core::settings::Settings;
use bursar_core::time::Moment;

pub(super) fn check(moment: &Moment) -> Vec<CheckAnswer> {
    let mut checks = vec![check_boot_id(&moment.boot_id)];
    checks.extend(check_without_engine());
    checks
}

pub(super) fn check_without_engine() -> Vec<CheckAnswer> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let mut checks = vec![check_open_files(limit)];
    // Other platforms encrypt swap or do not report it.
    checks.extend(std::fs::read_to_string("/proc/swaps").ok().map(|table| check_swap(&table)));
    checks
}

fn check_boot_id(id: &str) -> CheckAnswer {
    if id.is_empty() {
        CheckAnswer::warn(
            "boot id",
            "this machine has no boot id",
            "do not change its clock: pending requests and daily limits depend on it alone",
        )
    } else {
        CheckAnswer::ok("boot id", "known: changing the clock does not extend waiting times")
    }
}

fn check_open_files(soft: Option<u64>) -> CheckAnswer {
    match soft {
        Some(soft) if soft < OPEN_FILES_NEEDED => CheckAnswer::warn(
            "open files",
            format!("{soft} are allowed, but agents' connections may need {OPEN_FILES_NEEDED}"),
            "raise the limit: ulimit -n, or LimitNOFILE of the service",
        ),
        Some(soft) => CheckAnswer::ok("open files", format!("{soft} are allowed")),
        None => CheckAnswer::ok("open files", "no limit"),
    }
}

/// Checks `/proc/swaps`, a header and one line per swap area.
fn check_swap(table: &str) -> CheckAnswer {
    let areas: Vec<&str> =
        table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    // zram is compressed memory, not a disk.
    let disks: Vec<&str> = areas.into_iter().filter(|area| !area.contains("zram")).collect();
    if disks.is_empty() {
        return CheckAnswer::ok("swap", "none on a disk: keys stay in memory");
    }
    CheckAnswer::warn(
        "swap",
        format!("on ({}): keys of an open wallet may reach the disk", disks.join(", ")),
        "encrypt it, or turn it off: swapoff -a",
    )
}

/// Checks how the wallet opens at a start.
pub(super) fn check_unlock(with: Option<&str>, daily: Option<Usd>) -> CheckAnswer {
    match (with, daily) {
        (None, _) => {
            CheckAnswer::ok("unattended unlock", "none: the wallet is locked after a start")
        }
        (Some(with), Some(daily)) => {
            let finding = format!("{with}: agents may then spend {daily} USD a day in all");
            CheckAnswer::ok("unattended unlock", finding)
        }
        (Some(with), None) => CheckAnswer::warn(
            "unattended unlock",
            format!("{with}: only the policies limit what agents spend then"),
            "set a limit: bursar config set unattended.daily <USD>",
        ),
    }
}

pub(super) fn check_server(url: Option<&str>, alone: bool, settings: &Settings) -> CheckAnswer {
    match url {
        Some(url) => {
            let names = ["127.0.0.1", "[::1]", "localhost"].into_iter();
            let lan = settings.allow_lan.then_some("this machine's own addresses and name");
            let hosts = settings.hosts.iter().map(String::as_str);
            let names: Vec<&str> = names.chain(lan).chain(hosts).collect();
            let finding = format!("listens at {url}, accepts the host names {}", names.join(", "));
            CheckAnswer::ok("agent server", finding)
        }
        None if alone => {
            CheckAnswer::warn("agent server", "not running: it needs an engine", "bursar engine")
        }
        None => CheckAnswer::warn("agent server", "not running", "bursar server start"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bursar_control::answers::CheckResult::{Ok, Warn};

    #[test]
    fn what_weakens_the_wallet_is_warned_of() {
        assert_eq!([check_boot_id(""), check_boot_id("b")].map(|check| check.result), [Warn, Ok]);
        let limits = [Some(1024), Some(OPEN_FILES_NEEDED), None].map(check_open_files);
        assert_eq!(limits.map(|check| check.result), [Warn, Ok, Ok]);
        let head = "Filename\tType\tSize\tUsed\tPriority\n";
        let on = check_swap(&format!("{head}/dev/sda2 partition 1 0 -2\n"));
        assert_eq!(on.result, Warn);
        assert!(on.finding.contains("/dev/sda2"), "{on:?}");
        assert_eq!(check_swap(head).result, Ok);
        assert_eq!(check_swap(&format!("{head}/dev/zram0 partition 1 0 -2\n")).result, Ok);
        assert_eq!(
            [true, false].map(|alone| check_server(None, alone, &Settings::default()).result),
            [Warn; 2]
        );
        let settings = Settings { hosts: vec!["a.lan".into()], ..Settings::default() };
        let bound = check_server(Some("http://127.0.0.1:9402"), false, &settings);
        assert!(bound.result == Ok && bound.finding.contains("a.lan"), "{bound:?}");
    }
}
