//! Opens the files that settings and arguments name. Only regular files can be opened, and pipes only by functions
//! whose names say so. Opening any other named pipe could block a starting program, which does not handle signals
//! yet, and reading a device might never end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// It cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a regular file as `options` say.
///
/// On Unix it sets the custom flags of `options`.
///
/// # Errors
/// It cannot be opened, or is not a regular file.
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = open_without_waiting(options, path)?;
    // Check the open file, not the path: the path may lead to another file by now.
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// How long [`open_or_pipe`] waits for a program that writes to the pipe, in seconds.
#[cfg(unix)]
const WRITER_TIMEOUT_S: i64 = 5;

/// Opens a regular file, or a pipe to which a program writes, as a shell's `<(command)` gives it.
///
/// It waits up to five seconds for the first bytes of a pipe. Later reads of the pipe block until its writer writes or
/// closes it.
///
/// # Errors
/// The path cannot be opened, leads to neither a regular file nor a pipe, or leads to a pipe to which no program
/// writes (`TimedOut`).
pub fn open_or_pipe(path: &Path) -> io::Result<File> {
    let file = open_without_waiting(OpenOptions::new().read(true), path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_fifo(&kind) {
        wait_for_writer(&file)?;
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags.difference(rustix::fs::OFlags::NONBLOCK))?;
        return Ok(file);
    }
    Err(not_regular())
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, is not a regular file, or is longer (`FileTooLarge`).
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_to_end(open(path)?, most)
}

/// Reads a regular file of at most `most` bytes as UTF-8.
///
/// # Errors
/// Those of [`read`], or `InvalidData`.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text_of(read(path, most)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    let not_text = |_bytes| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes).map_err(not_text)
}

fn read_to_end(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read <= most) {
        Ok(bytes)
    } else {
        Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {most} bytes")))
    }
}

/// Waits until a pipe has bytes, or its writer has closed it. A read before a writer opens the pipe would report the
/// end of the file.
#[cfg(unix)]
fn wait_for_writer(pipe: &File) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let limit = Timespec { tv_sec: WRITER_TIMEOUT_S, tv_nsec: 0 };
    // `poll` always reports a hang-up, but only after a writer has opened the pipe.
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&limit))? {
        0 => Err(io::Error::new(ErrorKind::TimedOut, "it is a pipe to which no program writes")),
        _ready => Ok(()),
    }
}

/// Reads a file, or a pipe to which a program writes, of at most `most` bytes of UTF-8.
///
/// # Errors
/// Those of [`open_or_pipe`] and [`read_text`].
pub fn read_text_or_pipe(path: &Path, most: u64) -> io::Result<String> {
    text_of(read_to_end(open_or_pipe(path)?, most)?)
}

/// Opens without waiting for the other end of a pipe, or for a device.
fn open_without_waiting(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.bits().cast_signed());
    }
    options.open(path)
}

/// Checks that a path leads to a regular file or does not exist.
///
/// It is for a library that opens the path itself.
///
/// # Errors
/// The path leads to something else.
pub fn check_regular(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(not_regular()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_read_up_to_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
        let missing = folder.path().join("missing");
        assert_eq!(read(&missing, 4).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn pipes_devices_and_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let error = open(path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file", "{}", path.display());
            assert!(check_regular(path).is_err(), "{}", path.display());
        }
        assert!(open_or_pipe(Path::new("/dev/zero")).is_err());
        assert_eq!(open_or_pipe(&pipe).unwrap_err().kind(), ErrorKind::TimedOut);
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::write(pipe, "four").unwrap()
        });
        assert_eq!(read_text_or_pipe(&pipe, 4).unwrap(), "four");
        writer.join().unwrap();
    }
}
