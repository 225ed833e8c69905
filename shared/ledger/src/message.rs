//! Personal messages to sign (EIP-191).

use bursar_core::derivation::DerivationPath;

use crate::command::{Command, RequestTooLong, encode_path, in_chunks, instruction};

/// Maximum number of data bytes in a command that carries a part of a message, as in Ledger's own library.
const CHUNK_BYTES: usize = 150;

/// Returns the commands that ask for the signature of a message.
///
/// The device shows the text of the message.
///
/// # Errors
/// [`RequestTooLong::Path`]; [`RequestTooLong::Value`] for 4 GiB or more.
pub fn ask(path: &DerivationPath, message: &[u8]) -> Result<Vec<Command>, RequestTooLong> {
    let length = u32::try_from(message.len()).map_err(|_long| RequestTooLong::Value)?;
    let whole = [&encode_path(path)?[..], &length.to_be_bytes(), message].concat();
    Ok(in_chunks(instruction::MESSAGE, &whole, CHUNK_BYTES))
}
