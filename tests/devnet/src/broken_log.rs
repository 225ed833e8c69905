//! Standard streams that fail: the pipe, the terminal or the disk behind the log of a program.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How the log fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFault {
    /// The reader of the pipe has ended (`EPIPE`).
    ClosedPipe,
    /// The terminal was closed (`EIO`).
    ClosedTerminal,
    /// The disk is full (`ENOSPC`).
    FullDisk,
    /// The pipe is full and does not block (`EAGAIN`).
    FullPipe,
    /// Standard input, output and error are closed (`EBADF`).
    Closed,
    /// The file has reached the limit of file sizes (`EFBIG`, `SIGXFSZ`).
    FileLimit,
}

impl LogFault {
    pub const ALL: [Self; 6] = [
        Self::ClosedPipe,
        Self::ClosedTerminal,
        Self::FullDisk,
        Self::FullPipe,
        Self::Closed,
        Self::FileLimit,
    ];

    /// Returns whether a log that works can begin to fail in this way later. All other faults exist from the start.
    pub fn can_begin_later(self) -> bool {
        !matches!(self, Self::FullDisk | Self::Closed)
    }
}

/// The moment at which the log begins to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Start,
    Request,
    Stop,
}

impl Moment {
    pub const ALL: [Self; 3] = [Self::Start, Self::Request, Self::Stop];
}

/// Larger than any file that a test's program writes. It fits on any disk, because the file is sparse.
const FILE_LIMIT_BYTES: u64 = 256 << 20;

/// The output of a program, which fails from a certain moment on.
#[derive(Debug)]
pub struct BrokenLog {
    fault: LogFault,
    /// Reads what the program writes.
    reader: Option<Child>,
    /// The side of the pipe that the program writes to.
    writer: Option<File>,
    file: PathBuf,
}

impl BrokenLog {
    /// Prepares the output of a program, and returns the beginning of its command line. The log's file, if the fault
    /// has one, is created in `folder`.
    ///
    /// # Errors
    /// This machine has no such stream.
    pub fn new(fault: LogFault, program: &Path, folder: &Path) -> io::Result<(Self, Command)> {
        let mut log = Self { fault, reader: None, writer: None, file: folder.join("broken-log") };
        let script = match fault {
            LogFault::Closed => "exec \"$@\" <&- >&- 2>&-",
            // The number counts units of 512 or 1,024 bytes, depending on the shell.
            LogFault::FileLimit => "ulimit -f 262144 && exec \"$@\"",
            _other => "exec \"$@\"",
        };
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(program).stdin(Stdio::null());
        let output: OwnedFd = match fault {
            LogFault::ClosedPipe | LogFault::FullPipe => {
                let (reader, writer) = io::pipe()?;
                let writer = OwnedFd::from(writer);
                if fault == LogFault::FullPipe {
                    fcntl_setfl(&writer, OFlags::NONBLOCK)?;
                    log.writer = Some(writer.try_clone()?.into());
                }
                log.read(reader.into())?;
                writer
            }
            LogFault::ClosedTerminal => {
                let terminal =
                    openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
                grantpt(&terminal)?;
                unlockpt(&terminal)?;
                let name = ptsname(&terminal, Vec::new())?;
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                let ours = rustix::fs::open(name, flags, rustix::fs::Mode::empty())?;
                log.read(terminal)?;
                ours
            }
            LogFault::FullDisk => OpenOptions::new().write(true).open("/dev/full")?.into(),
            LogFault::Closed => File::open("/dev/null")?.into(),
            LogFault::FileLimit => {
                OpenOptions::new().append(true).create(true).open(&log.file)?.into()
            }
        };
        command.stdout(output.try_clone()?).stderr(output);
        Ok((log, command))
    }

    fn read(&mut self, from: OwnedFd) -> io::Result<()> {
        let mut reader = Command::new("cat");
        self.reader = Some(reader.stdin(from).stdout(Stdio::null()).spawn()?);
        Ok(())
    }

    /// Makes every later write fail.
    ///
    /// # Errors
    /// The fault cannot be caused.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.fault {
            LogFault::ClosedPipe | LogFault::ClosedTerminal => self.end_reader(),
            LogFault::FullPipe => {
                if let Some(reader) = &self.reader {
                    kill_process(Pid::from_child(reader), Signal::STOP)?;
                }
                let block = [b'.'; 4096];
                while self.writer.as_mut().is_some_and(|pipe| pipe.write(&block).is_ok()) {}
                // Fills the last bytes of the pipe too, because a short line could still fit there.
                while self.writer.as_mut().is_some_and(|pipe| pipe.write(b".").is_ok()) {}
                Ok(())
            }
            LogFault::FileLimit => {
                OpenOptions::new().append(true).open(&self.file)?.set_len(FILE_LIMIT_BYTES)
            }
            LogFault::FullDisk | LogFault::Closed => Ok(()),
        }
    }

    fn end_reader(&mut self) -> io::Result<()> {
        match self.reader.take() {
            Some(mut reader) => reader.kill().and_then(|()| reader.wait()).map(|_ended| ()),
            None => Ok(()),
        }
    }
}

impl Drop for BrokenLog {
    fn drop(&mut self) {
        let _ended = self.end_reader();
    }
}

/// Timeout of a wait for a program; reached only on failure.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a process answers `GET <path>` with status 200, and returns its address.
///
/// A program whose output fails cannot report its address. Works only on Linux.
///
/// # Errors
/// The process has ended, or does not answer in a minute.
pub fn answering_address(child: &mut Child, path: &str) -> io::Result<String> {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        for port in listening_ports(child.id()) {
            let address = format!("127.0.0.1:{port}");
            let head =
                format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
            if exchange(&address, head.as_bytes())?.starts_with("HTTP/1.1 200") {
                return Ok(address);
            }
        }
        if Instant::now() > end {
            return Err(io::Error::other("it does not listen"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a whole request and returns the whole answer.
///
/// # Errors
/// The connection failed.
pub fn exchange(address: &str, request: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(WAIT_TIMEOUT))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns the TCP ports on which a process listens.
fn listening_ports(pid: u32) -> Vec<u16> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let sockets: Vec<String> = files
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter_map(|target| {
            let name = target.to_str()?.strip_prefix("socket:[")?;
            Some(name.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    table
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // `0A` is the state of a listener.
            let [_number, address, _peer, "0A", ..] = words.as_slice() else { return None };
            let inode = words.get(9)?;
            let port = address.rsplit_once(':')?.1;
            let port = u16::from_str_radix(port, 16).ok()?;
            sockets.iter().any(|socket| socket == inode).then_some(port)
        })
        .collect()
}
