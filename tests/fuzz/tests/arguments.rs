//! The fuzzer refuses arguments that would run nothing.

use std::process::Command;

#[test]
fn unknown_arguments_and_targets_are_refused() {
    for arguments in
        [&["--target", "nothing"][..], &["--sed", "1"], &["--seed"], &["--from", "2", "--to", "1"]]
    {
        let program = env!("CARGO_BIN_EXE_bursar-fuzz");
        let output = Command::new(program).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
