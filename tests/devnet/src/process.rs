//! An anvil process: started on a free port, drained so that its pipe never fills, killed with its owner.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bursar_core::networks::ChainId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::error::DevnetError;

/// Timeout of the start. Anvil answers 70 ms after its start on an idle machine; a busy machine may
/// take a hundred times longer.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks of a process that should exit.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The initial state of a chain.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// Empty, with the machine's time.
    Empty,
    /// Empty, with a clock that starts at `from_s` and blocks that start at `from_block`. Its state is written to
    /// `to` when it finishes.
    Recorded { to: PathBuf, from_s: u64, from_block: u64 },
    /// Loaded from a recording.
    Loaded(PathBuf),
}

impl Origin {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Empty => pruning_arguments(),
            Self::Recorded { to, from_s, from_block } => {
                let (from_s, from_block) = (from_s.to_string(), from_block.to_string());
                let mut arguments: Vec<OsString> = vec!["--dump-state".into(), to.into()];
                arguments.extend(["--timestamp".into(), from_s.into()]);
                arguments.extend(["--number".into(), from_block.into()]);
                arguments
            }
            Self::Loaded(from) => {
                let mut arguments = pruning_arguments();
                arguments.extend(["--load-state".into(), from.into()]);
                arguments
            }
        }
    }
}

/// Keeps the states of the newest blocks in memory. Otherwise anvil writes each older state to the home folder, a
/// megabyte per block, and leaves them there if it is killed.
fn pruning_arguments() -> Vec<OsString> {
    vec!["--prune-history".into(), "500".into()]
}

/// A running anvil process.
#[derive(Debug)]
pub(crate) struct Anvil {
    /// A mutex instead of a message: the last owner kills the child in `drop`, which cannot await.
    child: Mutex<Child>,
}

impl Anvil {
    /// Starts anvil and returns it with its URL.
    pub(crate) async fn spawn(
        binary: &Path,
        chain: ChainId,
        origin: &Origin,
    ) -> Result<(Self, String), DevnetError> {
        let (child_sender, child) = oneshot::channel();
        let (url_sender, url) = oneshot::channel();
        let (binary, origin) = (binary.to_owned(), origin.clone());
        // A dedicated thread that lives as long as anvil. The kernel sends the parent-death signal when the *thread*
        // that started the child ends, and the runtime's threads may end earlier.
        thread::Builder::new()
            .name("anvil".to_owned())
            .spawn(move || run_anvil(&binary, chain, &origin, child_sender, url_sender))
            .map_err(start_error)?;
        let child = child.await.map_err(start_error)?.map_err(start_error)?;
        let anvil = Self { child: Mutex::new(child) };
        let answer = timeout(START_TIMEOUT, url)
            .await
            .map_err(|_late| start_error("it printed no URL in time"))?;
        let url = answer.map_err(start_error)?.map_err(start_error)?;
        Ok((anvil, url))
    }

    /// Kills the process (SIGKILL) and waits until it is gone.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        // `kill` and `wait` fail only if the process is already gone.
        let _gone = child.kill();
        let _reaped = child.wait();
    }

    /// Asks the process to exit (SIGTERM), so that it writes its state, and waits until it is gone.
    pub(crate) async fn finish(&self) -> Result<(), DevnetError> {
        let process = Pid::from_child(&self.child());
        kill_process(process, Signal::TERM).map_err(start_error)?;
        let gone = async {
            loop {
                // A separate statement, so that the guard is dropped before the wait.
                let status = self.child().try_wait();
                match status {
                    Ok(None) => sleep(EXIT_POLL_INTERVAL).await,
                    other => return other,
                }
            }
        };
        let late = |_late| start_error("it did not end when asked to");
        let status = timeout(START_TIMEOUT, gone).await.map_err(late)?.map_err(start_error)?;
        match status {
            Some(status) if !status.success() => {
                Err(start_error(format!("it ended with {status}")))
            }
            _ => Ok(()),
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_error(reason: impl ToString) -> DevnetError {
    DevnetError::Start(reason.to_string())
}

/// The body of the thread: starts anvil, reports its URL, and drains its output until it ends.
fn run_anvil(
    binary: &Path,
    chain: ChainId,
    origin: &Origin,
    child_sender: oneshot::Sender<io::Result<Child>>,
    url_sender: oneshot::Sender<Result<String, String>>,
) {
    let mut output = match launch(binary, chain, origin) {
        Err(error) => return drop(child_sender.send(Err(error))),
        Ok((child, output)) => {
            // The caller has given up the start, so end anvil as well.
            if let Err(Ok(mut orphan)) = child_sender.send(Ok(child)) {
                let _gone = orphan.kill();
                let _reaped = orphan.wait();
                return;
            }
            BufReader::new(output)
        }
    };
    // The receiver may have given up; the draining continues in any case.
    let _unheard = url_sender.send(read_url(&mut output));
    let _ended = io::copy(&mut output, &mut io::sink());
}

/// Reads up to the line with the port. If the output ends early, the error contains it.
fn read_url(output: &mut impl BufRead) -> Result<String, String> {
    let mut output_so_far = String::new();
    for line in output.split(b'\n') {
        // A message in a locale with another encoding is not UTF-8.
        let line = line.map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line);
        if let Some(address) = line.trim().strip_prefix("Listening on ") {
            return Ok(format!("http://{address}"));
        }
        output_so_far.push_str(&line);
        output_so_far.push('\n');
    }
    Err(format!("it ended at once: {}", output_so_far.trim()))
}

fn launch(binary: &Path, chain: ChainId, origin: &Origin) -> io::Result<(Child, PipeReader)> {
    let (output, input) = io::pipe()?;
    let child = with_parent_death_signal(binary)
        .args(["--host", "127.0.0.1", "--port", "0", "--chain-id", &chain.to_string()])
        // The hardfork is pinned, because its default depends on the version of anvil.
        .args(["--hardfork", "prague", "--color", "never"])
        .args(origin.arguments())
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .spawn()?;
    Ok((child, output))
}

/// Runs the binary through `setpriv` if it exists. `setpriv` asks the kernel to kill the process if ours dies
/// without cleaning up. It replaces itself, so the process id is that of anvil.
fn with_parent_death_signal(binary: &Path) -> Command {
    let tie = ["--pdeathsig", "KILL", "--"];
    let setpriv = PathBuf::from("setpriv");
    let works = Command::new(&setpriv)
        .args(tie)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        return Command::new(binary);
    }
    let mut command = Command::new(setpriv);
    command.args(tie).arg(binary);
    command
}
