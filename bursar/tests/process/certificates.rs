//! The certificate files that a command reads before it opens a connection.

use std::process::Command;

use crate::stage::bursar;
use bursar_devnet::report_skip;

/// The value of `BURSAR_TEST_SKIP` that skips the tests with strace. Without it, a missing strace fails them.
const SKIP_VALUE: &str = "strace";

fn can_trace() -> bool {
    match Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output() {
        // A sandbox may forbid the tracing of another process.
        Ok(tried) => tried.status.success(),
        Err(_missing) => {
            let skip = std::env::var("BURSAR_TEST_SKIP").unwrap_or_default();
            assert!(skip.split(',').any(|what| what == SKIP_VALUE), "strace is missing");
            false
        }
    }
}

#[test]
fn a_command_that_calls_nothing_opens_no_certificate_file() {
    if !can_trace() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        report_skip("only root can trace a program that forbids dumps of its memory");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    for line in ["status", "network list", "config list"] {
        let trace = home.path().join("trace");
        // Uses the default endpoints, which are https.
        let traced = bursar(&home.path().join("data"), line);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=/open,connect", "-o"]).arg(&trace);
        command.arg(traced.get_program()).args(traced.get_args());
        for (name, value) in traced.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().unwrap();
        assert!(output.status.code().is_some(), "{line}: {output:?}");
        let calls = std::fs::read_to_string(&trace).unwrap();
        assert!(calls.contains("journal.redb"), "{line}: the trace shows files\n{calls}");
        for call in calls.lines() {
            let certificate =
                [".pem", ".crt", "/certs", "/ssl/"].iter().any(|part| call.contains(part));
            assert!(!certificate, "{line}: {call}");
            assert!(!call.contains("AF_INET"), "{line}: {call}");
        }
    }
}
