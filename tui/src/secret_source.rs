//! The sources of passwords and seed phrases: the terminal, a file, a descriptor, standard input or a credential of the
//! service manager. Arguments and environment variables never contain a secret, because other processes can read both.
//! The engine normalizes the text.

mod file;
mod line;

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use self::line::{first_line, unreadable, unusable};
use crate::link::Secret;

/// The source of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SecretSource {
    /// The terminal, if there is one.
    #[default]
    Terminal,
    /// A file that belongs to the user, and that no other user may read or change.
    File(PathBuf),
    /// A file that the service manager provides for this service.
    Credential(PathBuf),
    /// The first line of an open descriptor of this process.
    Descriptor(u32),
    /// Standard input: one line for each secret, in the order of the prompts.
    Stdin,
}

impl SecretSource {
    /// Returns the password source that the environment names.
    ///
    /// `variable` returns the value of one variable.
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(file) = path("BURSAR_PASSWORD_FILE") {
            return SecretSource::File(file);
        }
        match path("CREDENTIALS_DIRECTORY").map(|folder| folder.join("bursar.password")) {
            Some(file) if file.exists() => SecretSource::Credential(file),
            _none_for_us => SecretSource::Terminal,
        }
    }

    /// Reads the secret, or returns `None` if the terminal is the source.
    ///
    /// It blocks until the source delivers the secret.
    ///
    /// # Errors
    /// Fails if the source cannot be read, or if another user owns or may read its file. Also fails if the secret is
    /// empty, too long or contains a NUL byte.
    pub fn read(&self, stdin: &mut dyn Read) -> Result<Option<Secret>, Fault> {
        let bytes = match self {
            SecretSource::Terminal => return Ok(None),
            SecretSource::File(path) => file::read_whole(path, file::Owner::User)?,
            SecretSource::Credential(path) => file::read_whole(path, file::Owner::ServiceManager)?,
            SecretSource::Descriptor(number) => first_line(&mut descriptor(*number)?)?,
            SecretSource::Stdin => first_line(stdin)?,
        };
        if bytes.is_empty() {
            return Err(unusable("is empty"));
        }
        if bytes.contains(&0) {
            return Err(unusable("contains a NUL byte"));
        }
        Ok(Some(Secret(bytes)))
    }
}

/// Opens a descriptor by its path, because taking it over by its number needs `unsafe`.
///
/// A write-only descriptor is refused: a read from its pipe would wait for this program itself.
fn descriptor(number: u32) -> Result<std::fs::File, Fault> {
    let path = PathBuf::from(format!("/dev/fd/{number}"));
    if is_output(number) {
        let message =
            format!("Descriptor {number} is open for writing: give one that is open for reading.");
        return Err(Fault::because(Code::BadInput, message));
    }
    std::fs::File::open(&path).map_err(|error| unreadable(&path, &error))
}

/// Returns whether a descriptor is write-only. If the system does not show this, assumes that descriptors 1 and 2 are.
fn is_output(number: u32) -> bool {
    // proc_pid_fdinfo(5): `flags` is octal. The low two bits of its last digit are the access mode; 1 is write-only.
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    match flags {
        Some(flags) => flags.trim_end().ends_with(['1', '5']),
        None => matches!(number, 1 | 2),
    }
}

/// Standard input.
///
/// On Unix it has no buffer in which a secret could remain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stdin;

impl Read for Stdin {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(io::stdin(), buffer)?)
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use bursar_core::limits::PASSWORD_BYTES_MAX;

    use super::*;

    fn line(input: &[u8]) -> Result<Vec<u8>, Code> {
        match SecretSource::Stdin.read(&mut &*input) {
            Ok(secret) => Ok(secret.unwrap().0.to_vec()),
            Err(fault) => Err(fault.code),
        }
    }

    #[test]
    fn standard_input_gives_one_line_at_a_time() {
        let mut input: &[u8] = b"current \nnew\r\nlast";
        let mut next = || SecretSource::Stdin.read(&mut input).unwrap().unwrap().0.to_vec();
        assert_eq!([next(), next(), next()], [&b"current "[..], b"new", b"last"]);
        for (input, outcome) in [
            (&b""[..], Err(Code::BadInput)),
            (b"\n", Err(Code::BadInput)),
            (b"a\0b\n", Err(Code::BadInput)),
            (&[b'x'; PASSWORD_BYTES_MAX], Ok(vec![b'x'; PASSWORD_BYTES_MAX])),
            (&[b'x'; PASSWORD_BYTES_MAX + 1], Err(Code::BadInput)),
        ] {
            assert_eq!(line(input), outcome);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_descriptor_for_writing_is_refused_instead_of_waited_for() {
        use std::os::fd::AsRawFd;

        let (reader, writer) = std::io::pipe().unwrap();
        let read = |number: i32| {
            let source = SecretSource::Descriptor(u32::try_from(number).unwrap());
            source.read(&mut &b""[..]).map(|secret| secret.unwrap().0.to_vec())
        };
        let fault = read(writer.as_raw_fd()).unwrap_err();
        assert!(fault.message.contains("open for writing"), "{fault}");
        std::io::Write::write_all(&mut &writer, b"hunter2!\n").unwrap();
        assert_eq!(read(reader.as_raw_fd()).unwrap(), b"hunter2!");
    }

    #[test]
    fn environment_names_sources_but_never_holds_the_password() {
        let folder = tempfile::tempdir().unwrap();
        let of = |set: &[(&str, OsString)]| {
            SecretSource::of_environment(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
            })
        };
        let credentials = ("CREDENTIALS_DIRECTORY", OsString::from(folder.path()));
        assert_eq!(of(&[]), SecretSource::Terminal);
        assert_eq!(of(&[("BURSAR_PASSWORD", "hunter2!".into())]), SecretSource::Terminal);
        assert_eq!(of(std::slice::from_ref(&credentials)), SecretSource::Terminal);
        let file = folder.path().join("bursar.password");
        std::fs::write(&file, "hunter2!").unwrap();
        assert_eq!(of(std::slice::from_ref(&credentials)), SecretSource::Credential(file));
        let named = ("BURSAR_PASSWORD_FILE", OsString::from("/run/p"));
        assert_eq!(of(&[credentials, named]), SecretSource::File("/run/p".into()));
    }
}
