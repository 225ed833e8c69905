//! Enforces one engine per data folder with a lock that the kernel releases when the process ends. Publishes the
//! control file through which other programs reach the engine.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use bursar_control::wire::ControlFile;
use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;
use serde::{Deserialize, Serialize};

use super::data_dir::{DataFolder, wrong_edition};

const LOCK_FILE: &str = "engine.lock";
const CONTROL_FILE: &str = "control.json";

/// How long a command waits for a folder whose holder cannot be reached.
///
/// Other commands may run before it, one after the other.
pub const COMMAND_WAIT: Duration = Duration::from_secs(60);
/// How long an engine waits for a folder whose holder cannot be reached.
///
/// The holder is one command, or an engine that starts or stops.
pub const ENGINE_WAIT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Whether a data folder is in use.
#[derive(Debug)]
pub enum Instance {
    /// An engine runs, and programs reach it through this socket and token.
    Running(ControlFile),
    /// The folder was free and is now locked by this process.
    Free(InstanceLock),
}

/// The lock of a data folder, held until drop.
#[derive(Debug)]
pub struct InstanceLock {
    // The file is never unlocked explicitly and never deleted. The kernel releases the lock with the process, so
    // there is no stale lock and no race over a new file.
    file: File,
    is_named: bool,
}

/// The holder of a lock that no other program can reach, as the lock's file names it.
#[derive(Debug, Serialize, Deserialize)]
struct SealedHolder {
    pid: u32,
    edition: EditionName,
}

impl InstanceLock {
    /// Names this process in the lock's file, for a program without a control channel: another one then refuses the
    /// folder at once, and says who holds it.
    ///
    /// # Errors
    /// `DATA_FOLDER` or `DISK_FULL` if the file cannot be written.
    pub fn name_holder(&mut self, folder: &DataFolder, edition: EditionName) -> Result<(), Fault> {
        let holder = SealedHolder { pid: std::process::id(), edition };
        self.is_named = true;
        let mut write = || -> std::io::Result<()> {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(serde_json::to_string(&holder)?.as_bytes())
        };
        write().map_err(|error| unusable_fault(&folder.file(LOCK_FILE), &error))
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        if self.is_named
            && let Err(error) = self.file.set_len(0)
        {
            tracing::debug!(%error, "the lock still names its holder");
        }
    }
}

/// Maximum size of a control file in bytes, far above the size of a real one.
const CONTROL_BYTES_MAX: u64 = 64 << 10;

/// Locks the folder, or returns how to reach the engine that holds it.
///
/// It blocks the thread for at most about `wait`.
///
/// # Errors
/// `WRONG_EDITION` if an engine of another edition than `edition` runs there, `ENGINE_RUNNING` if another program
/// holds the folder and cannot be reached, or has no control channel, `DATA_FOLDER` if a file is unusable.
pub fn claim(folder: &DataFolder, edition: EditionName, wait: Duration) -> Result<Instance, Fault> {
    let path = folder.file(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let opened = bursar_files::open_with(&mut options, &path);
    let mut file = opened.map_err(|error| unusable_fault(&path, &error))?;
    let pauses = wait.as_millis().checked_div(RETRY_PAUSE.as_millis()).unwrap_or(0);
    for _try in 0..=pauses {
        match file.try_lock() {
            Ok(()) => {
                // A killed holder left its name. If that cannot be removed, its process is gone all the same.
                if file.metadata().is_ok_and(|found| found.len() > 0) {
                    let _named = file.set_len(0);
                }
                return Ok(Instance::Free(InstanceLock { file, is_named: false }));
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(unusable_fault(&path, &error)),
        }
        if let Some(control) = running(folder)? {
            if control.edition != edition {
                return Err(wrong_edition(folder.path(), control.edition, edition));
            }
            return Ok(Instance::Running(control));
        }
        if let Some(holder) = sealed_holder(&mut file) {
            return Err(sealed_fault(folder, &holder, edition));
        }
        // The holder is starting or stopping, or is a command that runs its own engine.
        std::thread::sleep(RETRY_PAUSE);
    }
    Err(Fault::because(
        Code::EngineRunning,
        format!(
            "Another program is using the data folder {} and does not answer: wait for it, or end \
             it.",
            folder.path().display()
        ),
    ))
}

/// Publishes how to reach this engine.
///
/// The file grants control over the engine, so it has mode 0600 from its creation and appears by a rename.
///
/// # Errors
/// `DATA_FOLDER` if the file cannot be written.
pub fn publish_control(folder: &DataFolder, control: &ControlFile) -> Result<(), Fault> {
    let path = folder.file(CONTROL_FILE);
    let fresh = folder.file(&format!(".{CONTROL_FILE}.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        if fresh.exists() {
            fs::remove_file(&fresh)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(serde_json::to_string(control)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    };
    write().map_err(|error| unusable_fault(&path, &error))
}

/// Removes the control file before the engine ends, and returns whether it did.
///
/// A file of another engine stays: if this engine's folder was moved, another one may run at its former place.
pub fn withdraw_control(folder: &DataFolder) -> bool {
    let path = folder.file(CONTROL_FILE);
    let is_ours = read_control(&path).is_some_and(|control| control.pid == std::process::id());
    if is_ours && let Err(error) = fs::remove_file(&path) {
        tracing::debug!(%error, "no control file to remove");
    }
    is_ours
}

/// Reads a control file; `None` if it is missing or damaged.
fn read_control(path: &Path) -> Option<ControlFile> {
    serde_json::from_str(&bursar_files::read_text(path, CONTROL_BYTES_MAX).ok()?).ok()
}

/// Returns how to reach the engine that runs on the folder, if there is one.
///
/// It does not lock the folder.
///
/// # Errors
/// `DATA_FOLDER` if the control file belongs to another account, is open to others, or is not a regular file, or if the
/// folder was moved while its engine ran.
pub fn running(folder: &DataFolder) -> Result<Option<ControlFile>, Fault> {
    running_at(folder.path())
}

/// Like [`running`], for a folder that is not opened, so that nothing there is created or changed.
///
/// # Errors
/// Those of [`running`].
pub fn running_at(folder: &Path) -> Result<Option<ControlFile>, Fault> {
    let path = folder.join(CONTROL_FILE);
    let Ok(found) = fs::symlink_metadata(&path) else { return Ok(None) };
    let ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.mode() & 0o077 != 0 {
        return Err(Fault::because(
            Code::DataFolder,
            format!(
                "{} belongs to another account, or others can open it: delete it and restart the engine.",
                path.display()
            ),
        ));
    }
    // A killed engine leaves its file behind, and the new holder of the lock may not have replaced it yet.
    let control = read_control(&path).filter(|control| is_alive(control.pid));
    let Some(control) = control else { return Ok(None) };
    let former = Path::new(&control.socket);
    let here = former.file_name().map(|name| folder.join(name));
    if here.is_some_and(|here| here != former && !former.exists() && here.exists()) {
        return Err(Fault::because(
            Code::DataFolder,
            format!(
                "The data folder {} was moved here from {} while its engine ran: end that engine (process {}), then run \
                 the command again.",
                folder.display(),
                former.parent().unwrap_or(former).display(),
                control.pid
            ),
        ));
    }
    Ok(Some(control))
}

/// Returns the holder that the lock's file names, if it is alive.
fn sealed_holder(file: &mut File) -> Option<SealedHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(CONTROL_BYTES_MAX).read_to_string(&mut text).ok()?;
    let holder: SealedHolder = serde_json::from_str(&text).ok()?;
    is_alive(holder.pid).then_some(holder)
}

fn sealed_fault(folder: &DataFolder, holder: &SealedHolder, edition: EditionName) -> Fault {
    if holder.edition != edition {
        return wrong_edition(folder.path(), holder.edition, edition);
    }
    Fault::because(
        Code::EngineRunning,
        format!(
            "{} (process {}) already uses the data folder {}: go to its window, or close it first.",
            edition.program(),
            holder.pid,
            folder.path().display()
        ),
    )
}

fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

fn unusable_fault(path: &Path, error: &std::io::Error) -> Fault {
    let code = Code::of_disk(error);
    let remedy = match code {
        Code::DiskFull => "Free some space.",
        _other => "Check the folder's owner and rights.",
    };
    Fault::because(code, format!("{} cannot be used: {error}. {remedy}", path.display()))
}
