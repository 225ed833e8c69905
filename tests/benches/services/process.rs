//! A service process whose processor time and memory are measured from outside.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A service as a process.
pub struct Process {
    child: Child,
    /// The service's host and port.
    pub address: String,
}

impl Process {
    pub fn start(program: &Path, settings: &Path) -> Self {
        let mut command = Command::new(program);
        command.arg("--config").arg(settings).env("RUST_LOG", "warn");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("READY http://").expect("ready").to_owned();
        Self { child, address }
    }

    fn read_proc_file(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("Linux")
    }

    /// Returns the processor time used so far.
    pub fn processor_time(&self) -> Duration {
        let stat = self.read_proc_file("stat");
        let fields: Vec<&str> =
            stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // The unit is 1/USER_HZ; USER_HZ is 100 on every Linux platform.
        Duration::from_millis(ticks * 10)
    }

    /// Returns the resident memory now and at its maximum, in MiB.
    pub fn memory_mib(&self) -> (f64, f64) {
        bursar_tests::process::memory_mib(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
