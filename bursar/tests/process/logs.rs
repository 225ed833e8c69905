//! Logs that cannot be written. The engine starts, answers and stops as usual, whatever goes wrong with its output.

use std::path::Path;

use bursar_devnet::broken_log::{BrokenLog, LogFault, Moment, answering_address};
use bursar_devnet::report_skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{Engine, Home};

#[test]
fn an_engine_whose_log_fails_starts_answers_and_stops() {
    if !rustix::process::geteuid().is_root() {
        report_skip("only root sees the port of a program that forbids dumps of its memory");
        return;
    }
    let mut home = Home::new();
    home.create_wallet();
    let data = home.data();
    for fault in LogFault::ALL {
        for moment in Moment::ALL {
            if moment != Moment::Start && !fault.can_begin_later() {
                continue;
            }
            let what = format!("{fault:?} from {moment:?} on");
            let program = Path::new(env!("CARGO_BIN_EXE_bursar"));
            let (mut log, mut command) = BrokenLog::new(fault, program, home.dir.path()).unwrap();
            let plain = home.command(&data, "engine");
            command.args(plain.get_args());
            for (name, value) in plain.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            command.env("BURSAR_LOG", "trace");
            if moment == Moment::Start {
                log.begin().unwrap();
            }
            let mut engine = Engine(command.spawn().unwrap());
            let address = answering_address(&mut engine.0, "/health")
                .unwrap_or_else(|why| panic!("{what}: {why}"));
            if moment == Moment::Request {
                log.begin().unwrap();
            }
            home.ask(&address);
            if moment == Moment::Stop {
                log.begin().unwrap();
            }
            kill_process(Pid::from_child(&engine.0), Signal::TERM).unwrap();
            let status = engine.0.wait().unwrap();
            assert_eq!(status.code(), Some(0), "{what}: {status}");
            drop(log);
            let _none = std::fs::remove_file(home.dir.path().join("broken-log"));
        }
    }
}
