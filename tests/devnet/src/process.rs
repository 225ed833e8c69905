//! One anvil process: started on a free port, heard out so that its pipe never fills, killed with its owner.

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

/// Anvil answers 70 ms after its start on an idle machine; a busy one gets a hundred times that.
const START: Duration = Duration::from_secs(10);
/// Between two looks at a process that is to end.
const END_POLL: Duration = Duration::from_millis(5);

/// How a chain comes into being.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// Empty, at the time of the machine.
    Empty,
    /// Empty, with a clock that begins at `from_s`; what it comes to is written to `to` when it is finished.
    Recorded { to: PathBuf, from_s: u64 },
    /// As it was recorded.
    Loaded(PathBuf),
}

impl Origin {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Empty => Vec::new(),
            Self::Recorded { to, from_s } => {
                let from_s = from_s.to_string();
                vec!["--dump-state".into(), to.into(), "--timestamp".into(), from_s.into()]
            }
            Self::Loaded(from) => vec!["--load-state".into(), from.into()],
        }
    }
}

/// A running anvil.
#[derive(Debug)]
pub(crate) struct Anvil {
    /// A mutex and not a message: the last owner kills from `drop`, where nothing can be awaited.
    child: Mutex<Child>,
}

impl Anvil {
    /// Starts anvil and returns it with its URL.
    pub(crate) async fn spawn(
        binary: &Path,
        chain: ChainId,
        origin: &Origin,
    ) -> Result<(Self, String), DevnetError> {
        let (born, child) = oneshot::channel();
        let (listening, url) = oneshot::channel();
        let (binary, origin) = (binary.to_owned(), origin.clone());
        // A thread of its own, which lives as long as anvil: the kernel sends the parent-death signal
        // when the *thread* that started the child ends, and the runtime's threads come and go.
        thread::Builder::new()
            .name("anvil".to_owned())
            .spawn(move || attend(&binary, chain, &origin, born, listening))
            .map_err(failed)?;
        let child = child.await.map_err(failed)?.map_err(failed)?;
        let anvil = Self { child: Mutex::new(child) };
        let answer =
            timeout(START, url).await.map_err(|_late| failed("it said nothing in time"))?;
        let url = answer.map_err(failed)?.map_err(failed)?;
        Ok((anvil, url))
    }

    /// Ends the process at once (SIGKILL) and waits until it is gone.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        // Both fail only for a process that is gone already.
        let _gone = child.kill();
        let _reaped = child.wait();
    }

    /// Asks the process to end, so that it writes what it was told to write, and waits until it is gone.
    pub(crate) async fn finish(&self) -> Result<(), DevnetError> {
        let process = Pid::from_child(&self.child());
        kill_process(process, Signal::TERM).map_err(failed)?;
        let gone = async {
            loop {
                // A statement of its own, so that the guard is gone before the wait.
                let status = self.child().try_wait();
                match status {
                    Ok(None) => sleep(END_POLL).await,
                    other => return other,
                }
            }
        };
        let late = |_late| failed("it did not end when asked to");
        let status = timeout(START, gone).await.map_err(late)?.map_err(failed)?;
        match status {
            Some(status) if !status.success() => Err(failed(format!("it ended with {status}"))),
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

fn failed(reason: impl ToString) -> DevnetError {
    DevnetError::Start(reason.to_string())
}

/// The life of the thread: start anvil, report its URL, read on until it ends.
fn attend(
    binary: &Path,
    chain: ChainId,
    origin: &Origin,
    born: oneshot::Sender<io::Result<Child>>,
    listening: oneshot::Sender<Result<String, String>>,
) {
    let mut output = match launch(binary, chain, origin) {
        Err(error) => return drop(born.send(Err(error))),
        Ok((child, output)) => {
            // Nobody waits any more: the start was given up, and anvil with it.
            if let Err(Ok(mut orphan)) = born.send(Ok(child)) {
                let _gone = orphan.kill();
                let _reaped = orphan.wait();
                return;
            }
            BufReader::new(output)
        }
    };
    // The receiver may have given up; the reading goes on either way.
    let _unheard = listening.send(first_words(&mut output));
    let _ended = io::copy(&mut output, &mut io::sink());
}

/// Reads up to the line that tells the port; an early end is an error made of what anvil said.
fn first_words(output: &mut impl BufRead) -> Result<String, String> {
    let mut said = String::new();
    for line in output.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some(address) = line.trim().strip_prefix("Listening on ") {
            return Ok(format!("http://{address}"));
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(format!("it ended at once: {}", said.trim()))
}

fn launch(binary: &Path, chain: ChainId, origin: &Origin) -> io::Result<(Child, PipeReader)> {
    let (output, input) = io::pipe()?;
    let child = tied_to_us(binary)
        .args(["--host", "127.0.0.1", "--port", "0", "--chain-id", &chain.to_string()])
        // Fixed, or "the newest rules" would move with the version of anvil.
        .args(["--hardfork", "prague", "--color", "never"])
        .args(origin.arguments())
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input)
        .spawn()?;
    Ok((child, output))
}

/// Runs the binary through `setpriv`, where there is one, which asks the kernel to kill it when this
/// process dies without a chance to clean up. It replaces itself: the process id is anvil's.
fn tied_to_us(binary: &Path) -> Command {
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
