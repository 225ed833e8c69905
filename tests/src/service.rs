//! A service of ours as a process of its own, which ends itself at a point of the test's choice or is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;

/// What runs.
#[derive(Debug)]
pub struct ServiceProcess {
    child: Child,
    pub url: String,
}

impl ServiceProcess {
    /// Starts a program beside this test's folder with its settings; `fault` is `<point>:<n>`, where it ends
    /// itself. Its lines go to `log` beside the settings.
    pub fn start(program: &str, settings: &Path, lines: &str, fault: Option<&str>) -> Self {
        let test = std::env::current_exe().expect("a test program");
        let folder = test.parent().and_then(Path::parent).expect("target/<profile>/deps");
        let mut command = Command::new(folder.join(program));
        command.arg("--config").arg(settings);
        command.env("RUST_LOG", lines).env("BURSAR_FAULT", fault.unwrap_or_default());
        let log = settings.with_file_name("log");
        let log = std::fs::File::options().append(true).create(true).open(log).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("READY ").expect("ready").to_owned();
        Self { child, url }
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    pub fn signal(&self, signal: Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("signalled");
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child of ours")
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
