//! Failed installations: each ends with a sentence that names the next command, and leaves no partial change.

use crate::machine::{BootEnd, Machine, Transcript};

/// Checks that a step failed with this code and sentence.
#[track_caller]
fn assert_failed(done: &Transcript, step: &str, code: i32, sentence: &str) {
    let (found, text) = done.step(step);
    assert_eq!(found, code, "{step}: {text}");
    assert!(text.contains(sentence), "{step}: {text}");
}

#[test]
fn a_wrong_password_does_not_loop_and_names_the_remedy() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
$B install-service --system --yes; furnish
printf 'not the password' > $HOME/wrong; chmod 600 $HOME/wrong
files > /tmp/a
step wrong $B install-service --system --unlock --daily 5 --yes --password-file $HOME/wrong
files > /tmp/b
step same diff /tmp/a /tmp/b
step unlock $B install-service --system --unlock --daily 5 --yes --password-file $PW
printf 'correct horse battery\nanother long password\n' > $HOME/both; printf 'another long password' > $HOME/new; chmod 600 $HOME/new
step passwd owner wallet passwd --password-stdin < $HOME/both
step restart systemctl restart bursar
sleep 7
step state systemctl show bursar --property=ActiveState,NRestarts,ExecMainStatus
step status $B service status
# A drop-in of the operator takes the credential away, so the wallet stays locked.
printf '[Service]\nLoadCredentialEncrypted=\n' > /etc/systemd/system/bursar.service.d/zz.conf
step unproven $B install-service --system --unlock --daily 5 --yes --password-file $HOME/new
rm /etc/systemd/system/bursar.service.d/zz.conf
step again $B install-service --system --unlock --daily 5 --yes --password-file $HOME/new
step opened owner status
"#,
        BootEnd::PowerCut,
    );
    assert_failed(&done, "wrong", 5, "password");
    assert_eq!(done.must("same"), "");
    done.must("unlock");
    assert!(done.must("passwd").contains("`install-service --unlock` again"), "{}", done.text());
    assert_ne!(done.step("restart").0, 0);
    assert_eq!(done.must("state"), "NRestarts=0\nExecMainStatus=5\nActiveState=failed");
    assert_failed(&done, "status", 3, "run `install-service --unlock` again");
    assert_failed(&done, "unproven", 1, "the wallet stayed locked");
    done.must("again");
    done.must("opened");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
files > /tmp/a
(python3 -m http.server 9402 --bind 127.0.0.1 >/dev/null 2>&1 &); until_ok python3 -c 'import socket; socket.create_connection(("127.0.0.1", 9402))'
step port $B install-service --system --yes
files > /tmp/b
step same-port sh -c "diff /tmp/a /tmp/b | grep '^[<>]' | grep -v -e etc/passwd -e etc/group -e etc/shadow -e etc/gshadow -e etc/.pwd -e var/lib/bursar/engine.lock; true"
step unit ls /etc/systemd/system/bursar.service
step enabled ls /etc/systemd/system/multi-user.target.wants/bursar.service
pkill -f http.server; sleep 0.2
mkdir -p /tmp/ro; cp -a /etc/systemd/system/. /tmp/ro/; mount --bind /tmp/ro /etc/systemd/system; mount -o remount,ro,bind /etc/systemd/system
step read-only $B install-service --system --yes
umount /etc/systemd/system
step home sh -c "cp $B /home/alice/bursar; /home/alice/bursar install-service --system --yes"
step fine $B install-service --system --yes; furnish
step fine-unlock $B install-service --system --unlock --daily 5 --yes --password-file $PW
# The disk goes to another machine, which has another key.
rm /var/lib/systemd/credential.secret
step moved-disk systemctl restart bursar
step moved-status $B service status
step moved-again $B install-service --system --unlock --daily 5 --yes --password-file $PW
step moved-open owner status
# A second engine, started by hand next to the service.
step by-hand owner engine
mv $B /opt/bursar2; step gone /opt/bursar2 service status; mv /opt/bursar2 $B
cp $B /opt/new; mv /opt/new $B
step upgraded $B service status
"#,
        BootEnd::PowerCut,
    );
    assert_failed(&done, "port", 1, "Nothing was installed");
    assert_eq!(done.must("same-port"), "");
    assert_ne!(done.step("unit").0, 0);
    assert_ne!(done.step("enabled").0, 0);
    assert_failed(&done, "read-only", 1, "run the command again");
    assert_failed(&done, "home", 2, "sudo install /home/alice/bursar /usr/local/bin/bursar");
    done.must("fine");
    done.must("fine-unlock");
    assert_ne!(done.step("moved-disk").0, 0);
    assert_failed(&done, "moved-status", 3, "cannot be opened on this machine");
    done.must("moved-again");
    done.must("moved-open");
    assert_failed(&done, "by-hand", 10, "Another engine");
    assert!(done.must("gone").contains("The program /opt/bursar is gone"), "{}", done.text());
    assert!(done.must("upgraded").contains("restart the service"), "{}", done.text());
}

/// Data folders with unusual characters, read by systemd's own parser.
#[test]
fn unusual_paths_are_escaped_or_refused() {
    let Some(machine) = Machine::with_accounts() else { return };
    let done = machine.boot(
        r#"
loginctl enable-linger alice; until_ok test -S /run/user/1001/systemd/private
odd='/home/alice/a b 100% $HOME #;ä'
step odd alice $B --data "$odd" install-service --yes
step runs alice systemctl --user show bursar --property=ActiveState
step where alice $B --data "$odd" status
step moves alice $B --data /home/alice/other install-service --yes
alice $B uninstall-service --yes
step newline alice $B --data "/home/alice/a
b" install-service --yes
step quote alice $B --data '/home/alice/a"b' install-service --yes
step none ls /home/alice/.config/systemd/user
"#,
        BootEnd::PowerCut,
    );
    done.must("odd");
    assert_eq!(done.must("runs"), "ActiveState=active");
    assert!(done.step("where").1.contains("engine    running"), "{}", done.text());
    assert!(done.must("moves").contains("The service will use another data folder"));
    assert_failed(&done, "newline", 2, "line break");
    assert_failed(&done, "quote", 2, "has the character \"");
    assert_eq!(done.must("none"), "");
}

/// A substitute for systemctl reports versions that this machine's systemd does not have.
#[test]
fn old_managers_and_missing_ones_are_named() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.boot(
        r#"
$B install-service --system --yes; furnish
mkdir -p /opt/old; printf '#!/bin/sh\n[ "$1" = --version ] && { echo "systemd 247 (247.3-7)"; exit; }\nexec /usr/bin/systemctl "$@"\n' > /opt/old/systemctl; chmod 755 /opt/old/systemctl
step old env PATH=/opt/old:$PATH $B install-service --system --unlock --daily 5 --yes --password-file $PW
step old-none env PATH=/opt/old:$PATH $B install-service --system --yes
mkdir -p /opt/few; for tool in sh env getent; do ln -sf $(command -v $tool) /opt/few/; done
step no-systemctl env PATH=/opt/few $B install-service --system --yes
step no-runtime runuser -u alice -- env -u XDG_RUNTIME_DIR HOME=/home/alice $B install-service --yes
step disk sh -c "mount -t tmpfs -o size=64k,mode=0700 none /etc/bursar 2>/dev/null || { mkdir -p /etc/bursar; mount -t tmpfs -o size=64k,mode=0700 none /etc/bursar; }; head -c 60000 /dev/zero > /etc/bursar/full 2>/dev/null; head -c 60000 /dev/zero >> /etc/bursar/full 2>/dev/null; $B install-service --system --unlock --daily 5 --yes --password-file $PW"
step still owner status
"#,
        BootEnd::PowerCut,
    );
    assert_failed(&done, "old", 9, "systemd 247 cannot encrypt a password");
    done.must("old-none");
    assert_failed(&done, "no-systemctl", 9, "systemctl is missing");
    assert_failed(&done, "no-runtime", 9, "XDG_RUNTIME_DIR is not set");
    assert_failed(&done, "disk", 1, "password.cred cannot be written");
    assert_ne!(done.step("still").0, 3, "the engine still runs: {}", done.text());
}
