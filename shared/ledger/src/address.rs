//! The address at a path.

use alloy_primitives::{Address, keccak256};
use bursar_core::derivation::DerivationPath;

use crate::command::{
    AnswerFault, Command, ETHEREUM_CLASS, Fields, RequestTooLong, encode_path, instruction,
};

/// Whether the device shows the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    Silent,
    /// The device shows the address and answers when the person has confirmed or refused it.
    Confirm,
}

/// Returns the command that asks for the address at a path.
///
/// # Errors
/// [`RequestTooLong::Path`].
pub fn ask(path: &DerivationPath, display: Display) -> Result<Command, RequestTooLong> {
    let p1 = match display {
        Display::Silent => 0,
        Display::Confirm => 1,
    };
    Ok(Command::new(ETHEREUM_CLASS, instruction::ADDRESS, [p1, 0], encode_path(path)?))
}

/// Reads the data of the answer to [`ask`].
///
/// The data is the uncompressed public key and the address as 40 hex digits, which must be the address of the key.
///
/// # Errors
/// [`AnswerFault::Malformed`].
pub fn read(data: &[u8]) -> Result<Address, AnswerFault> {
    let mut fields = Fields(data);
    let key = fields.take_counted()?;
    let text = fields.take_counted()?;
    fields.end()?;
    let [0x04, point @ ..] = key else { return Err(AnswerFault::Malformed) };
    let point: &[u8; 64] = point.try_into().map_err(|_length| AnswerFault::Malformed)?;
    let address = Address::from_word(keccak256(point));
    let digits = address.to_checksum(None);
    if digits.trim_start_matches("0x").as_bytes() == text {
        Ok(address)
    } else {
        Err(AnswerFault::Malformed)
    }
}
