//! The password of an unattended unlock is stored nowhere except, encrypted, in the credential.

use crate::machine::{BootEnd, Machine, PASSWORD};

#[test]
fn a_boot_leaves_the_password_nowhere() {
    let Some(machine) = Machine::new() else { return };
    machine.write("opt/search.py", SEARCH_SCRIPT);
    let first = machine.boot(
        r#"
$B install-service --system --yes; furnish
# Every program that the installation starts is seen by its arguments and its environment.
mkdir -p /opt/watched; for tool in systemd-creds setpriv systemctl getent systemd-sysusers; do
  printf '#!/bin/sh\ntr "\\0" "\\n" < /proc/$$/cmdline >> /opt/seen; env >> /opt/seen\nexec %s "$@"\n' $(command -v $tool) > /opt/watched/$tool
done; chmod 755 /opt/watched/*
step unlock env PATH=/opt/watched:$PATH $B install-service --system --unlock --daily 5 --yes --password-file $PW
step started sh -c "grep -c 'bin/' /opt/seen; grep -c systemd-creds /opt/seen"
step seen grep -c 'correct[ ]horse' /opt/seen
"#,
        BootEnd::Reboot,
    );
    first.must("unlock");
    first.must("started");
    assert_eq!(first.step("seen").1, "0", "{}", first.text());
    let second = machine.boot(
        r#"
step state show StatusText
# The canary's own copy is in the file that the operator gave.
rm $PW
# In brackets, so that no command line contains what is searched.
wanted='correct[ ]horse'
# A process may end while its files are read.
step arguments sh -c "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -c '$wanted'"
step environments sh -c "cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -c '$wanted'"
step journal sh -c "journalctl --no-pager | grep -c '$wanted'"
step unit sh -c "systemctl show bursar | grep -c '$wanted'"
rm /home/alice/password
step disk grep -rlE --binary-files=text --exclude=script.sh --exclude=script.out "$wanted" /etc /var /root /home /opt
step memory python3 /opt/search.py $(show MainPID)
step core sh -c "kill -ABRT $(show MainPID); sleep 1; find / -xdev -name 'core*' -type f -newer /opt/script.sh 2>/dev/null | grep -v -e ^/usr -e ^/proc -e ^/sys"
"#,
        BootEnd::PowerCut,
    );
    assert_eq!(second.must("state"), "serving");
    for place in ["arguments", "environments", "journal", "unit"] {
        assert_eq!(second.step(place).1, "0", "{place}: {}", second.text());
    }
    assert_eq!(second.step("disk").1, "", "{}", second.text());
    let memory = second.must("memory");
    assert!(memory.ends_with("found 0"), "{memory}");
    assert_eq!(second.step("core").1, "", "{}", second.text());
    // Searches the container's disk from outside.
    let root = machine.path("");
    let found = std::process::Command::new("grep")
        .args(["-rl", "--binary-files=text", "--exclude=script.sh", PASSWORD])
        .args([root.join("etc"), root.join("var")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
}

/// Searches the whole memory of a process, as a core dump would contain it.
const SEARCH_SCRIPT: &str = r#"
import sys
pid, found, read = sys.argv[1], 0, 0
needle = b'correct ' + b'horse battery'
with open(f'/proc/{pid}/maps') as maps, open(f'/proc/{pid}/mem', 'rb') as memory:
    for line in maps:
        span, rights = line.split()[:2]
        start, end = (int(one, 16) for one in span.split('-'))
        if 'r' not in rights or '[v' in line:
            continue
        try:
            memory.seek(start)
            text = memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
        read += len(text)
        found += text.count(needle)
print('read', read, 'found', found)
"#;
