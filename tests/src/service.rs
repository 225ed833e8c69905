//! A service as a separate process that a test can kill, directly or at a fault point.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;

/// A running service.
#[derive(Debug)]
pub struct ServiceProcess {
    child: Child,
    pub url: String,
}

impl ServiceProcess {
    /// Starts a program of this package with its settings and waits until it is ready.
    ///
    /// It kills itself at `fault`, written `<point>:<n>`. Its log, filtered by `log_filter`, goes to the file `log`
    /// next to the settings.
    pub fn start(program: &str, settings: &Path, log_filter: &str, fault: Option<&str>) -> Self {
        Self::spawn(Command::new(program_path(program)), settings, log_filter, fault)
    }

    /// Starts a program with the open-file limits `soft` and `hard`.
    pub fn start_with_file_limits(program: &str, settings: &Path, soft: u32, hard: u32) -> Self {
        let mut command = Command::new("sh");
        let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$@\"");
        command.args(["-c", &limits, "sh"]).arg(program_path(program));
        Self::spawn(command, settings, "warn", None)
    }

    fn spawn(mut command: Command, settings: &Path, log_filter: &str, fault: Option<&str>) -> Self {
        command.arg("--config").arg(settings);
        command.env("RUST_LOG", log_filter).env("BURSAR_FAULT", fault.unwrap_or_default());
        let log = settings.with_file_name("log");
        let log = std::fs::File::options().append(true).create(true).open(log).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("READY ").expect("ready").to_owned();
        Self { child, url }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process has exited.
    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("signalled");
    }

    /// Waits for the process to exit.
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

/// Returns the path of a program of this package. Cargo builds programs into the folder above the tests.
pub fn program_path(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test program");
    let folder = test.parent().and_then(Path::parent).expect("target/<profile>/deps");
    folder.join(program)
}
