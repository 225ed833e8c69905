//! The service files that `install-service --dry-run` prints, read by independent programs.
//!
//! Also the commands on a machine that was not booted with systemd.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::stage::{Home, run};
use bursar_devnet::report_skip;

/// Runs a Python program with a file as its argument. Returns what it prints.
fn python(program: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, text).unwrap();
    let Output { status, stdout, stderr } =
        Command::new("python3").args(["-c", program]).arg(&file).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().trim().to_owned()
}

fn dry_run_output(home: &Home, data: &Path, options: &str) -> String {
    let output = home.command(data, &format!("install-service --dry-run {options}")).output();
    let Output { status, stdout, stderr } = output.unwrap();
    assert!(status.success(), "{options}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn plistlib_reads_the_launch_agent() {
    let home = Home::new();
    let data = home.dir.path().join("a & <b>");
    let program = r"
import plistlib, sys
with open(sys.argv[1], 'rb') as file:
    agent = plistlib.load(file)
assert agent['Label'] == 'bursar.engine' and agent['RunAtLoad'] is True
assert agent['KeepAlive'] == {'SuccessfulExit': False} and agent['ProcessType'] == 'Background'
assert agent['Umask'] == 0o077 and agent['HardResourceLimits'] == {'Core': 0}
program, option, data, engine = agent['ProgramArguments']
assert (option, engine) == ('--data', 'engine') and program.endswith('bursar')
print(data)
";
    let found = python(program, &dry_run_output(&home, &data, "--platform macos"));
    assert_eq!(found, data.display().to_string());
    assert!(!data.exists(), "a dry run changes nothing");
}

#[test]
fn element_tree_reads_the_task() {
    let home = Home::new();
    let data = home.dir.path().join("a & <b>");
    let program = r"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
space = {'t': 'http://schemas.microsoft.com/windows/2004/02/mit/task'}
of = lambda path: root.find(path, space)
assert of('t:Principals/t:Principal/t:RunLevel').text == 'LeastPrivilege'
assert of('t:Settings/t:RestartOnFailure/t:Count').text == '5'
assert of('t:RegistrationInfo/t:SecurityDescriptor').text == 'D:P(A;;FA;;;OW)'
kinds = [child.tag.split('}')[1] for child in of('t:Triggers')]
print(kinds, of('t:Principals/t:Principal/t:LogonType').text, of('t:Actions/t:Exec/t:Arguments').text)
";
    let of = |options: &str| python(program, &dry_run_output(&home, &data, options));
    let arguments = format!("--data \"{}\" engine", data.display());
    let user = of("--platform windows");
    assert_eq!(user, format!("['LogonTrigger'] InteractiveToken {arguments}"));
    assert_eq!(of("--platform windows --system"), format!("['BootTrigger'] S4U {arguments}"));
}

/// systemd's own checker knows every directive and reports no problem.
#[test]
fn systemd_analyze_verifies_every_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        report_skip("systemd-analyze is missing (apt-get install -y systemd)");
        return;
    }
    let home = Home::new();
    for scope in ["--user", "--system"] {
        for options in ["", " --unlock --daily 5", " --ledger", " --unlock --daily 5 --ledger"] {
            let text =
                dry_run_output(&home, &home.data(), &format!("--platform linux {scope}{options}"));
            let folder = tempfile::tempdir().unwrap();
            // The printed text separates the files by comments with their names.
            for part in text.split("\n# ") {
                let part = part.trim_start_matches("# ");
                let (path, text) = part.split_once('\n').unwrap();
                let folder_of_units = |name: &str| path.find(name).map(|at| at + name.len());
                let start = folder_of_units("systemd/system/").or(folder_of_units("systemd/user/"));
                let name = start.and_then(|start| path.get(start..)).unwrap_or(path);
                if !name.starts_with("bursar.service") {
                    continue;
                }
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let mut verify = Command::new("systemd-analyze");
            verify.args(["verify", "--man=no", "--recursive-errors=no", scope]);
            verify.env("XDG_RUNTIME_DIR", folder.path());
            let output = verify.arg(folder.path().join("bursar.service")).output().unwrap();
            let found = String::from_utf8_lossy(&output.stderr);
            let about_us: Vec<&str> =
                found.lines().filter(|line| line.contains("bursar.service")).collect();
            assert!(output.status.success() && about_us.is_empty(), "{scope}{options}: {found}");
        }
    }
}

#[test]
fn a_machine_without_systemd_is_named_and_stays_as_it_is() {
    if Path::new("/run/systemd/system").exists() {
        report_skip("this machine was booted with systemd");
        return;
    }
    let home = Home::new();
    // The command refuses root before it asks, so the test runs it as an unprivileged account.
    let own = home.command(&home.data(), "install-service --yes");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(own.get_program()).args(own.get_args());
        command.env("BURSAR_DATA_DIR", home.data());
        command
    } else {
        own
    };
    let Output { status, stdout, stderr } = command.env("HOME", home.dir.path()).output().unwrap();
    let report = String::from_utf8_lossy(&stderr);
    assert_eq!((status.code(), &stdout[..]), (Some(9), &b""[..]), "{report}");
    assert!(report.contains("not booted with systemd: start `bursar engine`"), "{report}");
    let (code, out, _err) = run(&home.data(), "service status --json");
    assert_eq!(code, 7, "{out}");
    assert!(out.contains(r#""code":"NOTHING_FOUND""#), "{out}");
    assert!(!home.data().exists());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let home = Home::new();
    for line in [
        "install-service --user --system",
        "install-service --platform macos",
        "install-service --daily 5",
        "install-service --dry-run --platform plan9",
        "uninstall-service --user --system",
    ] {
        assert_eq!(run(&home.data(), line).0, 2, "{line}");
    }
}
