//! The engine as a separate process, for tests of kill -9, signals and the folder lock.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bursar_control::wire::ControlFile;
use bursar_core::client::Program;
use bursar_core::edition::EditionName;
use bursar_engine::journal::Checkpoints;
use bursar_engine::service::data_dir::DataFolder;
use bursar_engine::service::instance::{ENGINE_WAIT, Instance, claim};
use bursar_tui::link::Link;

use crate::operator::{Operator, PASSWORD};
use crate::service::program_path;

/// Timeout of an engine's exit: more than twice the time that the engine allows for calls in progress.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of files that the tests of one process may open.
const OPEN_FILES: u64 = 16_384;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Raises the open-file limit of this process and its later children to at least `count` and a margin.
///
/// Other tests of the same process open files at the same time, so it takes more if the system allows it.
pub fn allow_open_files(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = count + 256;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        assert!(
            maximum.is_none_or(|most| most >= wanted),
            "this needs {wanted} open files: raise ulimit -Hn"
        );
        let current = Some(maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES)).max(wanted));
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("raised");
    }
}

/// Returns the resident memory of a process, current and peak, in MiB.
pub fn memory_mib(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
        let kib: f64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        kib / 1024.0
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// A running `bursar-test-engine`.
///
/// It has cheap key derivation, a clock that a file moves, and the test's faults.
#[derive(Debug)]
pub struct EngineProcess {
    child: Child,
    pub folder: PathBuf,
    /// The URL of the agent server.
    pub url: String,
    edition: EditionName,
}

/// The options of a process.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The edition of the engine. Each has a control socket here and reads the environment.
    pub edition: EditionName,
    /// The faults, separated by commas: `kill:<point>:<n>`, `fail:<point>:<n>` (from then on) or `once:<point>:<n>`.
    pub fault: Option<String>,
    /// Whether the process gets the password at start.
    pub has_password: bool,
    /// RPC endpoint of the local chain, used for Base.
    pub rpc: Option<String>,
    /// Further environment variables; they override those of the other fields.
    pub env: Vec<(String, String)>,
    /// File to which strace writes every connection that the process opens.
    pub trace: Option<PathBuf>,
    /// File to which strace writes the files, folders and sockets that the process creates, with their modes.
    ///
    /// Ignored if `trace` is set.
    pub creation_trace: Option<PathBuf>,
    /// The umask of the process, in octal; `None` means that of the test.
    pub umask: Option<&'static str>,
    /// When the journal moves rows to the history file; `None` means as in the product.
    pub checkpoints: Option<Checkpoints>,
    /// A file that receives the full trace log and all of standard error.
    pub log: Option<PathBuf>,
}

impl EngineProcess {
    /// Starts the engine on `folder` and waits until it prints READY.
    pub fn start(folder: &Path, start: &StartOptions) -> Self {
        Self::try_start(folder, start)
            .unwrap_or_else(|why| panic!("the engine did not start: {why}"))
    }

    /// Like [`Self::start`], but returns the exit status and standard error of a failed start.
    pub fn try_start(folder: &Path, start: &StartOptions) -> Result<Self, String> {
        let mut child = Self::command(folder, start).spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line).map(|_bytes| line);
            let _gone = sender.send(read);
        });
        let Ok(line) = receiver.recv_timeout(TIMEOUT) else {
            child.kill().map_err(|error| error.to_string())?;
            child.wait().map_err(|error| error.to_string())?;
            return Err("it neither printed READY nor exited".to_owned());
        };
        match line.map_err(|error| error.to_string())?.trim().strip_prefix("READY ") {
            Some(url) => {
                let (folder, url) = (folder.to_owned(), url.to_owned());
                Ok(Self { child, folder, url, edition: start.edition })
            }
            None => {
                let output = child.wait_with_output().map_err(|error| error.to_string())?;
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(format!("{} {stderr}", output.status))
            }
        }
    }

    /// Starts an engine again and attaches; `None` if a planned kill ends it before it accepts commands.
    pub async fn restart(folder: &Path, start: &StartOptions) -> Option<(Self, Operator)> {
        let engine = match Self::try_start(folder, start) {
            Ok(engine) => engine,
            Err(why) if why.starts_with("signal: 9") => return None,
            Err(why) => panic!("the engine did not start: {why}"),
        };
        let operator = engine.try_operator().await?;
        Some((engine, operator))
    }

    fn command(folder: &Path, start: &StartOptions) -> Command {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(mask) = start.umask {
            let script = "umask \"$1\" && shift && exec \"$@\"";
            line.extend(["sh", "-c", script, "sh", mask].map(OsString::from));
        }
        let traced = [
            (&start.trace, "trace=connect,sendto,sendmsg,sendmmsg"),
            (&start.creation_trace, "trace=/open,creat,/mkdir,/mknod,/chmod,bind"),
        ];
        let wanted = traced.iter().find_map(|(file, calls)| Some((file.as_ref()?, *calls)));
        if let Some((file, calls)) = wanted {
            // `-D` runs the tracer as a detached process, so that the engine is our direct child.
            line.extend(["strace", "-D", "-f", "-qq", "-y", "-e", calls, "-o"].map(OsString::from));
            line.push(file.into());
        }
        line.extend([program_path("bursar-test-engine").into(), folder.into()]);
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .env("BURSAR_TEST_CLOCK", Self::clock_file(folder))
            .env("BURSAR_SERVER_LISTEN", "127.0.0.1:0")
            .env("BURSAR_SERVER_RATE_PER_MINUTE", "1000000")
            // No server listens on port 9, so a test's engine does not connect to other machines.
            .env("BURSAR_NETWORKS_8453_RPC", "http://127.0.0.1:9")
            .env("BURSAR_NETWORKS_4663_RPC", "http://127.0.0.1:9")
            .env("BURSAR_NETWORKS_8453_EXPLORER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(fault) = &start.fault {
            command.env("BURSAR_TEST_FAULT", fault);
        }
        if let Some(Checkpoints { after_bytes, in_background }) = start.checkpoints {
            let how = if in_background { "beside" } else { "inline" };
            command.env("BURSAR_TEST_CARRY", format!("{how}:{after_bytes}"));
        }
        if let Ok(serde_json::Value::String(name)) = serde_json::to_value(start.edition) {
            command.env("BURSAR_TEST_EDITION", name);
        }
        if start.has_password {
            command.env("BURSAR_TEST_PASSWORD", PASSWORD);
        }
        if let Some(log) = &start.log {
            let opened = std::fs::OpenOptions::new().create(true).append(true).open(log);
            command.stderr(opened.expect("a file for the log")).env("BURSAR_LOG", "trace");
        }
        if let Some(rpc) = &start.rpc {
            command.env("BURSAR_NETWORKS_8453_RPC", rpc);
        }
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn clock_file(folder: &Path) -> PathBuf {
        folder.with_extension("clock")
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sets the offset of the engine's clock from the real one.
    pub fn set_clock_offset(&self, ms: i64) {
        std::fs::write(Self::clock_file(&self.folder), ms.to_string()).expect("written");
    }

    /// Returns the engine clock's time in Unix seconds.
    pub fn now_s(&self) -> i64 {
        let skew = std::fs::read_to_string(Self::clock_file(&self.folder)).unwrap_or_default();
        let skew: i64 = skew.trim().parse().unwrap_or(0);
        jiff::Timestamp::now().as_second() + skew / 1000
    }

    /// Pauses the process with SIGSTOP.
    pub fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Resumes the process with SIGCONT.
    pub fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("signalled");
    }

    /// Sends SIGKILL and waits for the exit.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Waits for the exit. Returns whether SIGKILL ended the process.
    pub fn wait_killed(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.wait_status().signal() == Some(9)
    }

    /// Returns whether the process has exited.
    pub fn has_exited(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    /// Sends SIGTERM and returns the exit code; `None` if a signal ended the process.
    pub fn terminate(&mut self) -> Option<i32> {
        self.request_stop();
        self.wait_end()
    }

    /// Sends SIGTERM without waiting for the exit.
    pub fn request_stop(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Waits for the exit. Returns the exit code; `None` if a signal ended the process.
    pub fn wait_end(&mut self) -> Option<i32> {
        self.wait_status().code()
    }

    fn wait_status(&mut self) -> ExitStatus {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(Instant::now() < end, "the engine does not end");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Connects an operator to the control socket.
    pub async fn operator(&self) -> Operator {
        let link =
            Link::connect(&self.control(), Program::Command).await.expect("the engine lets us in");
        Operator::new(link, PASSWORD)
    }

    /// Connects an operator to the control socket; `None` if the engine ends first.
    pub async fn try_operator(&self) -> Option<Operator> {
        let folder = DataFolder::open(&self.folder).expect("the folder");
        let Ok(Instance::Running(control)) = claim(&folder, self.edition, ENGINE_WAIT) else {
            return None;
        };
        let link = Link::connect(&control, Program::Command).await.ok()?;
        Some(Operator::new(link, PASSWORD))
    }

    /// Reads the control file of the running engine.
    pub fn control(&self) -> ControlFile {
        let folder = DataFolder::open(&self.folder).expect("the folder");
        match claim(&folder, self.edition, ENGINE_WAIT).expect("the lock") {
            Instance::Running(control) => control,
            Instance::Free(_) => panic!("no process holds the folder"),
        }
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
