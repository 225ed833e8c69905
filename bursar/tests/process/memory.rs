//! The memory of a running engine: which processes can read it, and how many arenas the allocator uses.
#![cfg(target_os = "linux")]

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::stage::{Engine, bursar, copy_program};

/// An unprivileged account for tests that run as root, because root may read everything.
const UNPRIVILEGED_ACCOUNT: u32 = 65_534;

/// Returns whether a process of `account` can open a file of another process of that account.
fn can_open_file_of(account: u32, pid: u32, file: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3< \"$0\"", &format!("/proc/{pid}/{file}")]);
    command.uid(account).gid(account).current_dir("/").stderr(Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn t_37_the_same_account_cannot_read_the_memory_of_an_engine() {
    let ours = rustix::process::geteuid();
    let account = if ours.is_root() { UNPRIVILEGED_ACCOUNT } else { ours.as_raw() };
    let home = tempfile::tempdir().unwrap();
    // Copies the program so that the account can read it. Otherwise the kernel would protect the process by itself.
    let (program, data) = (home.path().join("bursar"), home.path().join("data"));
    copy_program(&program);
    std::fs::create_dir(&data).unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        if ours.is_root() {
            chown(path, Some(account), Some(account)).unwrap();
        }
    };
    open(home.path(), 0o755);
    open(&program, 0o755);
    open(&data, 0o700);
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.uid(account).gid(account).current_dir("/").stdin(Stdio::null());
        command
    };
    // Finds the files of an ordinary process that the account may open. On some machines they do not include its
    // memory.
    let mut other = command(Path::new("sleep")).arg("600").spawn().unwrap();
    let may_open: Vec<&str> = ["maps", "environ", "mem"]
        .into_iter()
        .filter(|file| can_open_file_of(account, other.id(), file))
        .collect();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(may_open.contains(&"maps"), "{may_open:?}");
    let mut engine = command(&program);
    engine.args(["engine", "--no-server"]).env("BURSAR_DATA_DIR", &data).env_remove("BURSAR_LOG");
    let (engine, line) = Engine::spawn(engine);
    assert_eq!(line, "READY\n");
    for file in may_open {
        assert!(!can_open_file_of(account, engine.0.id(), file), "{file}");
    }
}

/// The address space that glibc reserves for each arena except the first, which is also the alignment of its start.
const ARENA_BYTES: u64 = 64 << 20;

/// Returns the number of arenas in the mappings of a process.
fn arena_count(maps: &str) -> usize {
    let parts = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        Some((address(start)?, address(end)?, rest.starts_with("rw-p")))
    });
    let parts: Vec<_> = parts.collect();
    let pairs = parts.windows(2);
    pairs
        .filter(|pair| {
            matches!(pair, [(start, used, true), (free, end, false)]
        if start % ARENA_BYTES == 0 && used == free && end - start == ARENA_BYTES)
        })
        .count()
}

#[test]
fn an_engine_allocates_from_one_arena() {
    let data = tempfile::tempdir().unwrap();
    let mut engine = bursar(data.path(), "engine --no-server");
    engine.env_remove("MALLOC_ARENA_MAX");
    let (engine, line) = Engine::spawn(engine);
    assert_eq!(line, "READY\n");
    match std::fs::read_to_string(format!("/proc/{}/maps", engine.0.id())) {
        Ok(maps) => assert_eq!(arena_count(&maps), 0, "{maps}"),
        // Only root can read this file.
        Err(fault) => eprintln!("not tested: {fault}"),
    }
}
