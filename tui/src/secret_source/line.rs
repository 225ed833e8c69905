//! Reads a secret that is one line, and builds the faults of an unusable secret.

use std::io::{self, Read};
use std::path::Path;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::PASSWORD_BYTES_MAX;
use zeroize::Zeroizing;

/// Reads up to the first newline and no byte after it, because the next line is the next secret.
pub(super) fn first_line(input: &mut dyn Read) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut line = Zeroizing::new(Vec::with_capacity(PASSWORD_BYTES_MAX.saturating_add(1)));
    let mut byte = Zeroizing::new([0u8; 1]);
    loop {
        match input.read(byte.as_mut_slice()) {
            Ok(0) => break,
            Ok(_one) if byte.as_slice() == b"\n" => {
                line.push(b'\n');
                strip_newline(&mut line);
                break;
            }
            Ok(_one) if line.len() >= PASSWORD_BYTES_MAX => return Err(too_long()),
            Ok(_one) => line.extend_from_slice(byte.as_slice()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unusable("cannot be read").with_detail(error)),
        }
    }
    Ok(line)
}

/// Removes the newline (LF or CR LF) that editors and `echo` add at the end.
pub(super) fn strip_newline(bytes: &mut Vec<u8>) {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
}

pub(super) fn unusable(why: &str) -> Fault {
    Fault::because(Code::BadInput, format!("The given password or seed phrase {why}."))
}

pub(super) fn too_long() -> Fault {
    unusable(&format!("is longer than {PASSWORD_BYTES_MAX} bytes"))
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Fault {
    Fault::because(Code::BadInput, format!("{} cannot be read: {error}.", path.display()))
}
