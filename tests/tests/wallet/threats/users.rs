//! Attacks by another account on the same machine.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bursar_devnet::report_skip;
use bursar_tests::offers::offer;
use bursar_tests::process::{EngineProcess, StartOptions};

use crate::threats::stage::{POLICY, add_agent, set_up_wallet};
use crate::threats::wire::KeepAlive;

/// An account that owns nothing.
const INTRUDER_UID: u32 = 65_534;

/// Tries every operation on each path and prints the results.
const INTRUDER: &str = r#"
import errno, os, socket, sys
def attempt(what, act):
    try:
        act()
        print(what, "DONE", sep="\t")
    except OSError as fault:
        print(what, errno.errorcode[fault.errno], sep="\t")
def call(path):
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
assert os.getuid() == 65534 and os.geteuid() == 65534
for path in sys.argv[1:]:
    if path.endswith("/"):
        attempt("list " + path, lambda: os.listdir(path))
        attempt("create " + path, lambda: os.open(path + "planted", os.O_CREAT | os.O_WRONLY))
    elif path.endswith(".sock"):
        attempt("call " + path, lambda: call(path))
    else:
        attempt("read " + path, lambda: os.open(path, os.O_RDONLY))
        attempt("write " + path, lambda: os.open(path, os.O_WRONLY))
        attempt("remove " + path, lambda: os.unlink(path))
"#;

/// Sends a hello to a socket and prints the length of the reply; 0 if the peer closes the connection.
const CALLER: &str = r#"
import json, socket, struct, sys
line = socket.socket(socket.AF_UNIX)
line.settimeout(20)
line.connect(sys.argv[1])
hello = b"\0" + json.dumps({"frame": "hello", "protocol": 2, "version": "1", "nonce": "c"}).encode()
try:
    line.sendall(struct.pack(">I", len(hello)) + hello)
    print(len(line.recv(4096)))
except (BrokenPipeError, ConnectionResetError):
    print(0)
"#;

/// Returns every path of the data folder; folders end with a slash.
fn paths(folder: &Path) -> Vec<String> {
    let mut found = vec![format!("{}/", folder.display())];
    for entry in std::fs::read_dir(folder).expect("ours") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(paths(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Runs the attempts as the other account; returns each attempt with its result.
fn run_intruder(paths: &[String]) -> Vec<(String, String)> {
    let mut command = Command::new("python3");
    command.args(["-c", INTRUDER]).args(paths).uid(INTRUDER_UID).gid(INTRUDER_UID).current_dir("/");
    let output = command.output().unwrap_or_else(|error| panic!("python3 is missing: {error}"));
    let answer = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = answer.lines().map(|line| line.split_once('\t').expect("two columns"));
    lines.map(|(what, end)| (what.to_owned(), end.to_owned())).collect()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
}

/// Returns the mode argument at the end of a strace line.
fn mode_of(line: &str) -> Option<u32> {
    let digits = line.rsplit_once(", 0")?.1.split([')', ' ']).next()?;
    u32::from_str_radix(digits, 8).ok()
}

/// Returns call, path and new mode of a strace line that creates or changes a path in `folder`.
fn created_or_changed<'a>(
    line: &'a str,
    folder: &str,
    before: &[&'a str],
) -> Option<(&'a str, &'a str, u32)> {
    let (call, arguments) = line.split_once(' ')?.1.trim_start().split_once('(')?;
    let path = arguments.split(['"', '<', '>']).find(|part| part.starts_with(folder))?;
    let mode = match call {
        "openat" | "open" if arguments.contains("O_CREAT") => mode_of(line),
        "mkdir" | "mkdirat" | "mknod" | "mknodat" | "creat" => mode_of(line),
        "chmod" | "fchmod" | "fchmodat" | "fchmodat2" => mode_of(line),
        // A socket has the mode of an `fchmod` before `bind`, else 0777, because the umask is 0.
        "bind" => {
            let given = format!("fchmod({}, ", arguments.split(", ").next()?);
            let given = before.iter().rev().find(|line| line.contains(&given));
            Some(given.and_then(|line| mode_of(line)).unwrap_or(0o777))
        }
        _looks => return None,
    };
    Some((call, path, mode.unwrap_or_else(|| panic!("not understood: {line}"))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_25_no_file_is_accessible_to_others_even_for_a_moment() {
    let home = tempfile::tempdir().unwrap();
    let (folder, creation_trace) = (home.path().join("data"), home.path().join("creation_trace"));
    let start = StartOptions {
        umask: Some("000"),
        creation_trace: Some(creation_trace.clone()),
        ..StartOptions::default()
    };
    let mut engine = EngineProcess::start(&folder, &start);
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, POLICY).await;
    add_agent(&mut operator, "bot", "hmac").await;
    drop(operator);
    assert_eq!(engine.terminate(), Some(0));
    let text = std::fs::read_to_string(&creation_trace).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let folder = folder.to_str().unwrap();
    let mut born = BTreeSet::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((call, path, mode)) = created_or_changed(line, folder, &lines[..at]) else {
            continue;
        };
        // Opening an existing file again does not create it.
        if born.insert(path) || !call.starts_with("open") {
            assert_eq!(mode & 0o077, 0, "{line}");
        }
    }
    for name in ["/data", "control.json", "control.sock", "engine.lock", "journal.redb", ".wallet"]
    {
        assert!(born.iter().any(|path| path.contains(name)), "{name} was not seen: {born:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_25_another_account_cannot_read_write_or_connect() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can be another account for a moment");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    // The mode of the data folder itself must keep other accounts out, not the mode of its parent.
    set_mode(home.path(), 0o755);
    let folder = home.path().join("data");
    // With umask 000, a file is private only if its mode is set at creation.
    let start = StartOptions { umask: Some("000"), ..StartOptions::default() };
    let engine = EngineProcess::start(&folder, &start);
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, POLICY).await;
    let agent = add_agent(&mut operator, "bot", "hmac").await;
    // Saves a second time, so that the previous copy exists.
    add_agent(&mut operator, "other", "hmac").await;
    let body = agent.ask(jiff::Timestamp::now().as_second(), &offer(1_000, 1), None);
    let paid = KeepAlive::open(&engine.url).ask("POST", "/sign", body.to_string().as_bytes());
    assert_eq!(paid.0, 200);

    let all = paths(&folder);
    for name in
        ["journal.redb", "main.wallet", "main.wallet.previous", "control.json", "control.sock"]
    {
        assert!(all.iter().any(|path| path.ends_with(name)), "{name} is not in {all:?}");
    }
    for (what, end) in run_intruder(&all) {
        assert_eq!(end, "EACCES", "{what}");
    }
    // Even with open folders, each file and the socket are protected by their own modes.
    for path in all.iter().filter(|path| path.ends_with('/')) {
        set_mode(Path::new(path), 0o755);
    }
    let attempts = run_intruder(&all);
    assert!(attempts.len() >= 12, "{attempts:?}");
    for (what, end) in &attempts {
        let wanted = if what.starts_with("list ") { "DONE" } else { "EACCES" };
        assert_eq!(end, wanted, "{what}");
    }
    for path in &all {
        let meta = std::fs::symlink_metadata(path.trim_end_matches('/')).unwrap();
        let kind = meta.file_type();
        if kind.is_file() || kind.is_socket() {
            assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{path}");
        }
    }
    // The next start restores the folder's mode.
    drop((operator, engine));
    let _engine = EngineProcess::start(&folder, &start);
    let mode = std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    for (what, end) in run_intruder(&all) {
        assert_eq!(end, "EACCES", "{what}");
    }
}

/// The kernel reports the peer's account, whatever the socket's mode.
#[test]
fn t_25_the_socket_rejects_other_accounts_whatever_its_mode() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can be another account for a moment");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("data");
    let _engine = EngineProcess::start(&folder, &StartOptions::default());
    let socket = folder.join("control.sock");
    for (path, mode) in [(home.path(), 0o755), (&folder, 0o755), (&socket, 0o777)] {
        set_mode(path, mode);
    }
    let call = |account: u32| {
        let mut command = Command::new("python3");
        command.args(["-c", CALLER]).arg(&socket).uid(account).gid(account).current_dir("/");
        let output = command.output().expect("python3");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer = String::from_utf8(output.stdout).expect("text");
        answer.trim().parse::<usize>().expect("a number")
    };
    assert_eq!(call(INTRUDER_UID), 0, "another account gets no answer");
    assert!(call(0) > 0, "our own account is answered");
}
