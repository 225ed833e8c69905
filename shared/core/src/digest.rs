//! SHA-256 of streams that are too long to hold in memory.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of everything that `from` yields.
///
/// # Errors
/// Any error of the reader except `Interrupted`, which is retried.
pub fn sha256(mut from: impl Read) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(digest.finalize().into()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        digest.update(buffer.get(..count).unwrap_or_default());
    }
}
