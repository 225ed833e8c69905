//! Personal messages to sign (EIP-191).

use bursar_core::derivation::DerivationPath;

use crate::command::{Command, TooLong, encode_path, in_chunks, instruction};

/// The size of the commands that carry a message: the size that Ledger's own library uses.
const CHUNK: usize = 150;

/// Returns the commands that ask for the signature of a message.
///
/// The device shows the text of the message.
///
/// # Errors
/// [`TooLong::Path`]; [`TooLong::Value`] for 4 GiB or more.
pub fn ask(path: &DerivationPath, message: &[u8]) -> Result<Vec<Command>, TooLong> {
    let length = u32::try_from(message.len()).map_err(|_long| TooLong::Value)?;
    let whole = [&encode_path(path)?[..], &length.to_be_bytes(), message].concat();
    Ok(in_chunks(instruction::MESSAGE, &whole, CHUNK))
}
