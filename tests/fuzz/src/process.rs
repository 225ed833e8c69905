//! Programs as processes: services that run until they are stopped, and commands that end by themselves.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Timeout of a start or stop of a service; reached only if something hangs.
const SERVICE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a command.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    /// The address after READY.
    pub(crate) address: SocketAddr,
    log: PathBuf,
}

impl Service {
    /// Starts a service and waits until it prints READY. Its standard error goes to the file `log`.
    ///
    /// # Errors
    /// The service ends or hangs before it is ready. The text has its exit status and log.
    pub(crate) fn start(command: Command, log: &Path) -> Result<Self, String> {
        let name = format!("{command:?}");
        Self::try_start(command, log).map_err(|ended| {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            format!("{name} is not ready: {:?}: {said}", ended.status)
        })
    }

    /// Like [`Self::start`], but returns how a service ended that did not become ready.
    pub(crate) fn try_start(mut command: Command, log: &Path) -> Result<Self, ProgramEnd> {
        let out_file = log.with_extension("out");
        let file = |path: &Path| File::create(path).expect("a file for output");
        command.stdin(Stdio::null()).stdout(file(&out_file)).stderr(file(log));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let end = Instant::now() + SERVICE_TIMEOUT;
        loop {
            let status = child.try_wait().expect("a child of ours");
            let out = std::fs::read(&out_file).unwrap_or_default();
            if let Some(address) = ready_address(&String::from_utf8_lossy(&out)) {
                return Ok(Self { child, address, log: log.to_owned() });
            }
            if status.is_some() || Instant::now() > end {
                let _ended = child.kill();
                let _reaped = child.wait();
                let err = std::fs::read(log).unwrap_or_default();
                return Err(ProgramEnd { status, was_ready: false, stdout: out, stderr: err });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the reason for which the service is not healthy: it has ended, or its log has a panic.
    pub(crate) fn health_fault(&mut self) -> Option<String> {
        let log = std::fs::read(&self.log).unwrap_or_default();
        if let Some(status) = self.child.try_wait().expect("a child of ours") {
            return Some(format!("the service ended: {status}; {}", last_lines(&log)));
        }
        panic_text(&log).map(|text| format!("a panic on standard error: {text}"))
    }

    /// Waits up to five seconds for the service to end. Returns whether it ended with this code and without a panic.
    pub(crate) fn has_ended_by(&mut self, code: i32) -> bool {
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                let log = std::fs::read(&self.log).unwrap_or_default();
                return status.code() == Some(code) && panic_text(&log).is_none();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Resident memory in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        bursar_tests::process::memory_mib(self.child.id()).0
    }

    /// The number of open file descriptors.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// Stops the service with SIGTERM and returns its end.
    pub(crate) fn stop(mut self) -> ProgramEnd {
        signal(&self.child, Signal::TERM);
        let end = Instant::now() + SERVICE_TIMEOUT;
        let status = loop {
            let status = self.child.try_wait().expect("a child of ours");
            if status.is_some() || Instant::now() > end {
                break status;
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let err = std::fs::read(&self.log).unwrap_or_default();
        ProgramEnd { status, was_ready: true, stdout: Vec::new(), stderr: err }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    /// The exit status; `None` if the command reached the time limit.
    pub(crate) status: Option<ExitStatus>,
    /// Whether the process printed READY and was stopped by SIGTERM.
    pub(crate) was_ready: bool,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl ProgramEnd {
    /// Returns the exit code.
    ///
    /// # Errors
    /// The command did not end in time, or a signal ended it.
    pub(crate) fn code(&self) -> Result<i32, String> {
        let limit = COMMAND_TIMEOUT.as_secs();
        let status = self.status.ok_or(format!("it did not end within {limit} s"))?;
        status.code().ok_or_else(|| format!("signal {:?} ended it", status.signal()))
    }
}

/// Runs a command until it exits. Stops a service with SIGTERM once it is ready.
pub(crate) fn run(mut command: Command, folder: &Path, input: &[u8]) -> ProgramEnd {
    let (out, err) = (folder.join("command.out"), folder.join("command.err"));
    let file = |path: &Path| File::create(path).expect("a file for output");
    command.stdin(Stdio::piped()).stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    if let Some(mut stdin) = child.stdin.take() {
        // The program may exit without reading its input.
        let _unread = stdin.write_all(input);
    }
    let end = Instant::now() + COMMAND_TIMEOUT;
    let mut was_ready = false;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break Some(status);
        }
        if Instant::now() > end {
            let _ended = child.kill();
            let _reaped = child.wait();
            break None;
        }
        if !was_ready {
            let text = std::fs::read(&out).unwrap_or_default();
            let marks = [&b"READY "[..], b"{\"v\":1,\"ok\":true,\"command\":\"engine\""];
            if text.contains(&b'\n') && marks.iter().any(|mark| text.starts_with(mark)) {
                was_ready = true;
                signal(&child, Signal::TERM);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    ProgramEnd { status, was_ready, stdout: read(&out), stderr: read(&err) }
}

/// Returns the line of a panic in a program's standard error.
pub(crate) fn panic_text(log: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(log);
    let at = ["panicked at", "RUST_BACKTRACE", "fatal runtime error", "has overflowed its stack"]
        .iter()
        .find_map(|mark| text.find(mark))?;
    Some(text[at..].chars().take(400).collect())
}

fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let skip = text.chars().count().saturating_sub(600);
    text.chars().skip(skip).collect()
}

fn ready_address(text: &str) -> Option<SocketAddr> {
    let line = text.lines().next().filter(|_| text.contains('\n'))?;
    line.strip_prefix("READY http://")?.trim().parse().ok()
}

fn signal(child: &Child, signal: Signal) {
    let _ended_already = rustix::process::kill_process(Pid::from_child(child), signal);
}
