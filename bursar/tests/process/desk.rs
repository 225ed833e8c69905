//! The desktop edition from outside: only its own terminal drives it. `tests/journeys/desk.sh` uses its window.

use std::path::Path;
use std::process::{Command, Output};

use crate::stage::silent;

fn desk(folder: &Path, line: &str) -> Command {
    let mut command = silent(Path::new(env!("CARGO_BIN_EXE_bursar-desk")), line);
    command.arg("--data").arg(folder);
    command
}

fn ended(mut command: Command) -> (i32, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    // With --json, a wrong argument is reported on standard output.
    let printed = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code().unwrap(), printed)
}

#[test]
fn row_a_window_needs_a_terminal_at_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (exit, err) = ended(desk(&data, ""));
    assert!(exit == 8 && err.contains("The window needs a terminal"), "{exit} {err}");
    assert!(!data.exists(), "nothing was created");
}

#[test]
fn row_nothing_outside_drives_it_by_an_argument() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for line in [
        "status",
        "engine",
        "wallet open",
        "--plain",
        "--headless",
        "--yes",
        "--json",
        "--observe",
        "--password-file /tmp/x",
        "--password-stdin",
        "completions bash",
    ] {
        let (exit, err) = ended(desk(&data, line));
        assert!(exit == 2 && err.contains("takes no commands"), "{line}: {exit} {err}");
    }
    // A shell that asks for completions gets none: the program would have to read its folder.
    let mut command = desk(&data, "");
    command.env("COMPLETE", "bash");
    assert_eq!(ended(command).0, 8);
    assert!(!data.exists(), "nothing was created");
}

/// Returns the symbols of an executable that was not stripped. The package of the linker contains `nm`.
#[cfg(target_os = "linux")]
fn symbols(program: &str) -> String {
    let listed = Command::new("nm").arg(program).output();
    let Output { status, stdout, .. } = listed.unwrap();
    assert!(status.success());
    String::from_utf8(stdout).unwrap()
}

/// The mangled name of a module contains its words, each after its length.
#[cfg(target_os = "linux")]
#[test]
fn row_nothing_outside_drives_it_by_a_control_channel() {
    let listens = |program: &str| {
        let symbols = symbols(program);
        assert!(symbols.contains("7control7session"), "the symbols are there");
        symbols.contains("7control6listen")
    };
    assert!(listens(env!("CARGO_BIN_EXE_bursar")));
    assert!(listens(env!("CARGO_BIN_EXE_bursar-pay")));
    assert!(
        !listens(env!("CARGO_BIN_EXE_bursar-desk")),
        "the sealed program contains the control channel"
    );
}
