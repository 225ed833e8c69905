//! The service of one account, the move of a data folder to the service of the machine, and repeated installations.

use crate::machine::{BootEnd, Machine};

#[test]
fn an_account_has_a_service_that_starts_with_the_machine() {
    let Some(machine) = Machine::with_accounts() else { return };
    let first = machine.boot(
        r#"
step no-manager alice $B install-service --yes
systemctl start user@1001; until_ok test -S /run/user/1001/systemd/private
# Without lingering the command offers it. No policy of this machine allows it to an account.
step install alice $B install-service --yes
step known alice $B install-service
mkdir -p /var/lib/systemd/linger; touch /var/lib/systemd/linger/alice
step again alice $B install-service
step status alice $B service status --json
step create alice $B wallet create main --password-file /home/alice/password
until_ok alice sh -c "systemctl --user show bursar -p StatusText | grep -q serving"
step says alice $B service status
step unlock alice $B install-service --unlock --daily 5 --yes --password-file /home/alice/password
step root $B install-service --user --yes
step other alice $B install-service --system --yes
"#,
        BootEnd::PowerCut,
    );
    let (code, text) = first.step("no-manager");
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("log in instead of using su"), "{text}");
    let offer = first.must("install");
    assert!(offer.contains("reboot    the engine starts when you log in"), "{offer}");
    assert!(offer.contains("run `sudo loginctl enable-linger alice`"), "{offer}");
    assert!(first.must("known").contains("To start the service with the machine"));
    assert!(first.must("again").contains("reboot    the engine starts with the machine"));
    assert!(first.must("again").contains("nothing to change"), "{}", first.text());
    assert!(first.must("status").contains(r#""running":true"#));
    first.must("create");
    assert!(first.must("says").contains("engine    serving"), "{}", first.text());
    let (code, text) = first.step("unlock");
    assert_eq!(code, 9);
    assert!(text.contains("256 or newer can): use --system"), "{text}");
    assert!(first.step("root").1.contains("must not run as root"), "{}", first.text());
    assert!(first.step("other").1.contains("needs root: run `sudo"), "{}", first.text());

    // The account's home folder is on a network share that is mounted late.
    let share = machine.path("home/alice/.local/share");
    std::fs::rename(share.join("bursar"), share.join("away")).unwrap();
    let second = machine.boot(
        r#"
# Starts logind, and with it the lingering accounts.
loginctl list-users >/dev/null
tried() { [ $(alice systemctl --user show bursar --property=NRestarts --value) -ge 1 ]; }
until_ok tried
step absent ls /home/alice/.local/share
mv /home/alice/.local/share/away /home/alice/.local/share/bursar
until_ok alice systemctl --user is-active bursar
step status alice $B service status
step wallet alice $B status
step remove alice $B uninstall-service --yes
step gone alice $B service status
step kept alice ls .local/share/bursar/wallets
"#,
        BootEnd::PowerCut,
    );
    assert_eq!(second.must("absent"), "away", "no empty folder takes the place of the wallet");
    assert!(second.must("status").contains("engine    locked: open it with"), "{}", second.text());
    assert_eq!(second.step("wallet").0, 4);
    let removed = second.must("remove");
    assert!(removed.contains("stays     wallet and journal: /home/alice/.local/share/bursar"));
    assert!(removed.contains("loginctl disable-linger"), "{removed}");
    assert_eq!(second.step("gone").0, 7);
    assert!(second.must("kept").contains("main.wallet"));
}

#[test]
fn the_operators_folder_moves_to_the_machine() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
export SUDO_USER=alice
alice $B wallet create main --password-file /home/alice/password
alice $B seed create --reveal --password-file /home/alice/password > /tmp/seed
# An engine that was started by hand holds the folder.
(alice $B engine --listen 127.0.0.1:0 >/dev/null 2>&1 &) ; until_ok test -f /home/alice/.local/share/bursar/control.json
step busy $B install-service --system --yes
step untouched test -d /home/alice/.local/share/bursar -a ! -e /etc/systemd/system/bursar.service -a ! -e /var/lib/bursar
pkill -x bursar; until_ok sh -c '! pgrep -x bursar'
# The service cannot start, so the folder moves back, with what the engine wrote.
(python3 -m http.server 9402 --bind 127.0.0.1 >/dev/null 2>&1 &); until_ok python3 -c 'import socket; socket.create_connection(("127.0.0.1", 9402))'
step fails $B install-service --system --unlock --daily 5 --yes --password-file $PW
step back sh -c 'ls -A /home/alice/.local/share; ls -d /var/lib/bursar* /etc/bursar /etc/systemd/system/bursar.service*; stat -c %U /home/alice/.local/share/bursar/journal.redb'
step usable alice $B activity
pkill -f http.server
step typo $B --data /home/alice/typo install-service --system --yes
step move $B install-service --system --unlock --daily off --yes --password-file $PW
step wallet owner status
step left ls -A /home/alice/.local/share
step again $B install-service --system --yes
# Root names no folder: the command finds that of the service, and leaves no file of root's there.
step sudo $B status
step sudo-json $B status --json --quiet
step owned sh -c "find /var/lib/bursar ! -user bursar"
step own sh -c "ls ~root/.local/share/bursar"
"#,
        BootEnd::PowerCut,
    );
    let (code, text) = done.step("busy");
    assert_eq!(code, 10, "{text}");
    done.must("untouched");
    let (code, text) = done.step("fails");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("Nothing was installed") && !text.contains("moved back"), "{text}");
    let back = done.step("back").1;
    assert!(back.starts_with("bursar\n") && back.ends_with("\nalice"), "{back}");
    assert_eq!(back.matches("No such file").count(), 3, "{back}");
    // The journal contains the entries that the service wrote before it failed.
    assert!(done.must("usable").contains("by the service, without a person"), "{}", done.text());
    let (code, text) = done.step("typo");
    assert_eq!(code, 7, "{text}");
    let moved = done.must("move");
    assert!(
        moved.contains("The data folder /home/alice/.local/share/bursar moves to /var/lib/bursar")
    );
    assert!(done.must("wallet").contains("main, unlocked, 1 seed"), "{}", done.text());
    assert_eq!(done.must("left"), "");
    let sudo = done.must("sudo");
    assert!(sudo.contains("service in /var/lib/bursar, as the account bursar"), "{sudo}");
    assert!(sudo.contains("main, unlocked, 1 seed"), "{sudo}");
    assert!(done.must("sudo-json").starts_with('{'), "{}", done.text());
    assert_eq!(done.must("owned"), "");
    assert_ne!(done.step("own").0, 0, "root got a data folder");
    assert!(done.must("again").contains("nothing to change"));
}

/// Compares lists of all files with their digests before and after the commands.
#[test]
fn a_second_run_changes_nothing() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
step none files
$B install-service --system --yes; furnish
install="$B install-service --system --unlock --ledger --daily 5 --yes --password-file $PW"
step first $install
files > /tmp/a; pid=$(show MainPID)
step second $install
files > /tmp/b
step same diff /tmp/a /tmp/b
step running test "$pid" = "$(show MainPID)"
step modes stat -c %a /etc/bursar /etc/bursar/password.cred /var/lib/bursar /etc/systemd/system/bursar.service.d
step ledger systemctl show bursar --property=DevicePolicy,PrivateDevices
step kept $B install-service --system --yes
step without-ledger $B install-service --system --no-ledger --yes
step gone ls /etc/systemd/system/bursar.service.d
step unlocked owner status
# The power failed before the service was enabled.
rm /etc/systemd/system/multi-user.target.wants/bursar.service; systemctl daemon-reload
step disabled $B service status
step enable $B install-service --system --yes
step enabled systemctl is-enabled bursar
step no-unlock $B install-service --system --no-unlock --yes
step locked owner status
step no-file ls /etc/bursar /etc/systemd/system/bursar.service.d
$B uninstall-service --yes; files > /tmp/c
step again $B uninstall-service --yes
files > /tmp/d
step same-again diff /tmp/c /tmp/d
step created sh -c "cut -c67- /tmp/c"
"#,
        BootEnd::PowerCut,
    );
    assert!(done.must("first").contains("changed   /etc/bursar/password.cred"));
    assert!(done.must("second").contains("nothing to change"), "{}", done.text());
    assert_eq!((done.must("same"), done.must("same-again")), ("", ""));
    assert_eq!(done.must("modes"), "700\n600\n700\n755");
    done.must("running");
    assert_eq!(done.must("ledger"), "DevicePolicy=closed\nPrivateDevices=no");
    assert!(done.must("without-ledger").contains("ledger.conf (removed)"), "{}", done.text());
    assert_eq!(done.must("gone"), "unlock.conf");
    assert!(done.must("kept").contains("nothing to change"), "{}", done.text());
    done.must("unlocked");
    assert!(done.must("disabled").contains("a reboot does not start it"), "{}", done.text());
    done.must("enable");
    assert_eq!(done.must("enabled"), "enabled");
    assert!(done.must("no-unlock").contains("unlock    none"), "{}", done.text());
    assert_eq!(done.step("locked").0, 4);
    assert_eq!(done.step("no-file").1.matches("No such file").count(), 2, "{}", done.text());
    assert!(done.must("again").contains("nothing to remove"));
    let before = done.must("none");
    let known = |path: &str| before.lines().any(|line| line.ends_with(path));
    let new: Vec<&str> = done.must("created").lines().filter(|path| !known(path)).collect();
    eprintln!("after install and uninstall these files are new or changed: {new:#?}");
    for path in new {
        let ours = path == "/etc/sysusers.d/bursar.conf" || path.starts_with("/var/lib/bursar/");
        // systemd-sysusers keeps backup copies of the files that it changes.
        assert!(ours || path.starts_with("/etc/.pwd") || path.ends_with('-'), "{path}");
    }
}

#[test]
fn a_unit_that_was_edited_by_hand_stays() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
$B install-service --system --yes; furnish
echo 'Environment=MINE=1' >> /etc/systemd/system/bursar.service; files > /tmp/a
step edited $B install-service --system --unlock --daily 5 --yes --password-file $PW
files > /tmp/b
step same diff /tmp/a /tmp/b
step status $B service status
step remove $B uninstall-service --yes
step silent $B install-service --system
"#,
        BootEnd::PowerCut,
    );
    let (code, text) = done.step("edited");
    assert_eq!(code, 10, "{text}");
    assert!(text.contains("-Environment=MINE=1"), "{text}");
    assert_eq!(done.must("same"), "");
    assert!(done.must("status").contains("(changed by hand)"));
    assert!(done.must("remove").contains("Environment=MINE=1"), "it is shown");
    // Without a terminal and without --yes, nothing is written.
    assert_eq!(done.step("silent").0, 8);
}
