//! Commands and answers (APDUs of ISO 7816-4), and the parts that several commands share.

use bursar_core::derivation::DerivationPath;

use crate::status::Status;

/// Maximum number of bytes of data in one command.
pub const DATA_MAX: usize = 255;
/// Maximum number of steps of a path that the Ethereum app accepts.
pub const PATH_STEPS_MAX: usize = 10;

/// The class of commands to the device itself.
pub(crate) const DEVICE_CLASS: u8 = 0xB0;
/// The class of commands to the Ethereum app.
pub(crate) const ETHEREUM_CLASS: u8 = 0xE0;

/// Instructions of the Ethereum app.
pub mod instruction {
    pub const ADDRESS: u8 = 0x02;
    pub const TRANSACTION: u8 = 0x04;
    pub const CONFIGURATION: u8 = 0x06;
    pub const MESSAGE: u8 = 0x08;
    pub const TYPED_DATA: u8 = 0x0C;
    pub const TYPE: u8 = 0x1A;
    pub const VALUE: u8 = 0x1C;
}

/// One command to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    class: u8,
    instruction: u8,
    parameters: [u8; 2],
    data: Vec<u8>,
}

/// The part of a request that exceeds the protocol's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestTooLong {
    #[error("a Ledger accepts derivation paths of at most {PATH_STEPS_MAX} steps")]
    Path,
    #[error("a name in the typed data is too long for a Ledger")]
    Name,
    #[error("an array in the typed data has too many items or levels for a Ledger")]
    Array,
    #[error("a value is too long for a Ledger")]
    Value,
}

impl Command {
    pub(crate) fn new(class: u8, instruction: u8, parameters: [u8; 2], data: Vec<u8>) -> Self {
        debug_assert!(data.len() <= DATA_MAX, "the callers bound their data");
        Self { class, instruction, parameters, data }
    }

    /// Returns the class: the device itself or the Ethereum app.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// Returns the instruction; see [`instruction`].
    pub fn instruction(&self) -> u8 {
        self.instruction
    }

    /// Returns P1 and P2.
    pub fn parameters(&self) -> [u8; 2] {
        self.parameters
    }

    /// Returns the data, at most [`DATA_MAX`] bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the bytes to send: class, instruction, P1, P2, the number of bytes of data, and the data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let [p1, p2] = self.parameters;
        let length = u8::try_from(self.data.len()).unwrap_or(u8::MAX);
        [&[self.class, self.instruction, p1, p2, length], &self.data[..]].concat()
    }
}

/// Splits bytes over commands of one instruction. The first command has P1 00, each further command P1 80.
pub(crate) fn in_chunks(instruction: u8, bytes: &[u8], size: usize) -> Vec<Command> {
    let command = |(index, chunk): (usize, &[u8])| {
        let p1 = if index == 0 { 0x00 } else { 0x80 };
        Command::new(ETHEREUM_CLASS, instruction, [p1, 0], chunk.to_vec())
    };
    bytes.chunks(size.clamp(1, DATA_MAX)).enumerate().map(command).collect()
}

/// Returns a path as commands contain it: the number of steps, then each step in big-endian order.
///
/// # Errors
/// [`RequestTooLong::Path`].
pub(crate) fn encode_path(path: &DerivationPath) -> Result<Vec<u8>, RequestTooLong> {
    let steps = path.steps();
    if steps.len() > PATH_STEPS_MAX {
        return Err(RequestTooLong::Path);
    }
    let count = u8::try_from(steps.len()).map_err(|_many| RequestTooLong::Path)?;
    Ok(std::iter::once(count).chain(steps.flat_map(u32::to_be_bytes)).collect())
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    #[error(transparent)]
    Status(#[from] Status),
    #[error("the Ledger's answer does not match the request: open its Ethereum app again")]
    Malformed,
}

/// Returns the data of a successful answer.
///
/// `bytes` are the data and the status word.
///
/// # Errors
/// The status word, unless it is [`Status::OK`]; [`AnswerFault::Malformed`] for fewer than two bytes.
pub fn read_answer(bytes: &[u8]) -> Result<&[u8], AnswerFault> {
    let (data, word) = bytes.split_last_chunk::<2>().ok_or(AnswerFault::Malformed)?;
    match Status(u16::from_be_bytes(*word)) {
        Status::OK => Ok(data),
        refused => Err(refused.into()),
    }
}

/// Checks that an answer is successful and has no data.
///
/// If a request takes several commands, every answer except the last must be of this form.
///
/// # Errors
/// Those of [`read_answer`], and [`AnswerFault::Malformed`] if there is data.
pub fn read_empty(bytes: &[u8]) -> Result<(), AnswerFault> {
    if read_answer(bytes)?.is_empty() { Ok(()) } else { Err(AnswerFault::Malformed) }
}

/// Reads the fields of an answer in their order.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], AnswerFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(AnswerFault::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a field that follows its length, which is one byte.
    pub(crate) fn take_counted(&mut self) -> Result<&'a [u8], AnswerFault> {
        let [count] = *self.take()?;
        let split = self.0.split_at_checked(usize::from(count));
        let (taken, rest) = split.ok_or(AnswerFault::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Checks that no byte is left.
    pub(crate) fn end(self) -> Result<(), AnswerFault> {
        if self.0.is_empty() { Ok(()) } else { Err(AnswerFault::Malformed) }
    }
}
